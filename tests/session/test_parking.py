"""`park`: the thread that a session without a loop needs."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import nansense_widgets
from nansense_widgets import Session, SessionStateError
from tests.driver import TIMEOUT_S, start_small
from tests.history.programs import AT, Program, Training


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("moments") / "a.moment"
    program = Program()
    program.watched = ("0",)
    training = Training(program)
    training.session.watch("0")
    training.session.detach()
    training.session.freeze_moment(path, **AT)
    training.loop()
    return path


def load(path: Path) -> Session:
    return nansense_widgets.load_moment(Program().model(), path, replay=Program().loss)


def parked(session: Session) -> threading.Thread:
    thread = threading.Thread(target=session.park, daemon=True)
    before = session.pause_count
    thread.start()
    assert session.wait_until_paused(after_pauses=before, timeout=TIMEOUT_S)
    return thread


def test_it_stays_until_the_session_is_closed(path: Path) -> None:
    session = load(path)
    thread = parked(session)
    for command in ("step_batch", "step_run", "detach", "stop"):
        getattr(session, command)()
        time.sleep(0.02)
        assert session.status.word == "paused"
        assert session.wait_until_paused(timeout=0)
    assert thread.is_alive()
    session.close()
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()


def test_its_thread_does_what_touches_the_model(path: Path) -> None:
    threads: list[threading.Thread] = []

    class Noting(Program):
        def loss(self, model: object, batch: object) -> object:  # type: ignore[override]
            threads.append(threading.current_thread())
            return Program.loss(self, model, batch)  # type: ignore[arg-type]

    session = nansense_widgets.load_moment(Program().model(), path, replay=Noting().loss)  # type: ignore[arg-type]
    thread = parked(session)
    session.watch("4")
    deadline = time.monotonic() + TIMEOUT_S
    while len(threads) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threads == [threading.current_thread(), thread]
    while session.snapshot is not None and "4" not in session.snapshot.layers and time.monotonic() < deadline:
        time.sleep(0.01)
    assert session.snapshot is not None
    assert "4" in session.snapshot.layers
    session.close()


def test_a_session_whose_loop_goes_on_is_not_parked() -> None:
    session, loop = start_small()
    session.launch(loop)
    with pytest.raises(SessionStateError, match="has not ended"):
        session.park()
    session.detach()
    session.wait(TIMEOUT_S)
    thread = parked(session)  # but after it
    assert session.status.word == "paused"
    session.close()
    thread.join(TIMEOUT_S)
    session.park()  # returns at once


SCRIPT = """
import sys
import nansense_widgets
from tests.history.programs import Program
session = nansense_widgets.load_moment(Program().model(), sys.argv[1], replay=Program().loss)
session.lock()
print("parks", flush=True)
try:
    session.park()
except KeyboardInterrupt:
    print(session.status.word, flush=True)
"""


def test_a_script_stays_there_and_can_be_interrupted(path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "parks\n"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.0)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert out == "paused\n"
    assert err == ""
