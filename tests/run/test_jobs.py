"""Jobs run between batches, on the training thread, and never harm the loop."""

from __future__ import annotations

import threading
import time

from nansense_widgets import Session
from nansense_widgets.run.jobs import Jobs
from tests.driver import TIMEOUT_S, Driver, start_small


def jobs_of(session: Session) -> Jobs:
    return session._run.loop.jobs  # noqa: SLF001


def test_without_a_loop_a_job_runs_at_once() -> None:
    done: list[int] = []
    jobs = Jobs(lambda: None)
    jobs.submit("first", lambda: done.append(1))
    assert (done, jobs.waiting) == ([1], [])
    jobs.between()
    jobs.submit("of the loop's own thread, between batches", lambda: done.append(2))
    jobs.enter()
    jobs.submit("of the loop's own thread, in a batch", lambda: done.append(3))
    assert (done, jobs.waiting) == ([1, 2], ["of the loop's own thread, in a batch"])
    jobs.leave()
    assert done == [1, 2, 3]


def test_jobs_of_other_threads_wait_for_the_end_of_the_batch() -> None:
    session, _ = start_small()
    inside, go_on = threading.Event(), threading.Event()
    where: list[tuple[int, str]] = []

    def loop() -> None:
        for _ in session.batches(range(2), phase="train"):
            inside.set()
            go_on.wait(TIMEOUT_S)

    session.detach()
    session.launch(loop)
    assert inside.wait(TIMEOUT_S)
    jobs = jobs_of(session)
    jobs.submit("where", lambda: where.append((threading.get_ident(), session.standing)))
    assert session.pending == ["where"]
    time.sleep(0.05)
    assert where == []
    go_on.set()
    assert session.wait(TIMEOUT_S)
    [(thread, standing)] = where
    assert thread != threading.get_ident()
    assert standing == "in"  # at its end: nothing is open any more
    session.close()


def test_a_pause_does_jobs_at_once_and_their_errors_are_told() -> None:
    session, loop = start_small()
    driver = Driver(session, loop)
    done = threading.Event()
    jobs_of(session).submit("well", done.set)
    assert done.wait(TIMEOUT_S)
    assert session.status.word == "paused"

    tried = threading.Event()

    def broken() -> None:
        tried.set()
        raise ZeroDivisionError("no")

    jobs_of(session).submit("broken", broken)
    assert tried.wait(TIMEOUT_S)
    driver.do("step_batch")
    assert session.notice == "broken failed: ZeroDivisionError: no"
    assert driver.finish() == "trained"
    session.close()
