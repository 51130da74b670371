"""Nothing of the user's is kept alive by a session that is over."""

from __future__ import annotations

import gc
import weakref

import nansense_widgets
from tests.driver import TIMEOUT_S, Driver, small_model, start_small


def test_a_replaced_session_lets_model_and_tensors_go() -> None:
    session, loop = start_small()
    driver = Driver(session, loop)
    dashboard = session.dashboard()
    session.watch("*")
    driver.do("step_batch")
    activation = weakref.ref(driver.snapshot.activations["1"])
    model = weakref.ref(session._capture.model)  # type: ignore[union-attr]  # noqa: SLF001
    started = nansense_widgets.start(model())  # type: ignore[arg-type]
    started.close()
    assert session.status.detail.startswith("replaced by a newer session")
    assert session._hub.painter.wait_idle(TIMEOUT_S)  # noqa: SLF001
    del loop, driver, started
    gc.collect()
    assert model() is None
    assert activation() is None
    assert session.snapshot is None
    assert session.architecture.nodes["1"].ran  # what was learned stays to be looked at
    session._hub.publisher.pump()  # noqa: SLF001
    dashboard.refresh()
    assert dashboard.state["status"] == "closed"
    assert len(dashboard.still["data"]) > 0


def test_twenty_sessions_over_one_model_leave_one_open() -> None:
    model = small_model()
    sessions = []
    for _ in range(20):
        session = nansense_widgets.start(model)
        session.dashboard()
        sessions.append(session)
    assert [s.status.word for s in sessions].count("waiting") == 1
