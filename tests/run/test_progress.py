"""The time left, which must not be led astray by a slow first batch."""

from __future__ import annotations

import pytest

from nansense_widgets.run.progress import Pace
from nansense_widgets.run.schedule import Schedule


def average(*seconds: float) -> float | None:
    pace = Pace()
    for took in seconds:
        pace.count(took)
    return pace.progress(Schedule()).batch_s


def test_no_batch_no_pace() -> None:
    assert average() is None


def test_the_second_batch_takes_the_place_of_the_first() -> None:
    assert average(5.0) == 5.0
    assert average(5.0, 0.1) == pytest.approx(0.1)
    assert average(5.0, 0.1, 0.3) == pytest.approx(0.2)
    assert average(5.0, 0.1, 0.2, 0.3, 0.4) == pytest.approx(0.25)


def test_late_batches_count_most() -> None:
    settled = average(*[0.1] * 100, *[0.2] * 60)
    assert settled is not None
    assert 0.19 < settled < 0.2
