"""The schedule: declared and lazy, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from nansense_widgets import BatchPosition, Schedule


def test_lazy_learns_lengths_and_flags() -> None:
    schedule = Schedule(epochs=2)
    first = [schedule.advance("train", 0) for _ in range(2)]
    assert first[1] == BatchPosition("train", 0, 1)
    schedule.record_phase_length("train", 0)
    schedule.advance("val", 0)
    schedule.record_phase_length("val", 0)
    assert schedule.phases == {"train": 2, "val": 1}
    assert schedule.phase_order == ["train", "val"]
    assert schedule.advance("train", 1) == BatchPosition("train", 1, 0)
    assert schedule.advance("train", 1) == BatchPosition("train", 1, 1, is_last_in_phase=True)
    assert schedule.advance("val", 1) == BatchPosition("val", 1, 0, True, True, True)


def test_declared_is_exact_from_the_first_batch() -> None:
    schedule = Schedule(epochs=1, phases={"train": 1, "val": 1})
    assert schedule.advance("train", 0) == BatchPosition("train", 0, 0, is_last_in_phase=True)
    assert schedule.advance("val", 0) == BatchPosition("val", 0, 0, True, True, True)
    with pytest.raises(ValueError, match="more than its declared 1 batches"):
        schedule.advance("val", 0)
    with pytest.raises(ValueError, match=r"phase='test' is not in the declared schedule \('train', 'val'\)"):
        schedule.advance("test", 0)


def test_a_loader_that_gives_more_than_it_says_makes_the_length_unknown() -> None:
    schedule = Schedule()
    schedule.expect("train", 1)
    assert schedule.advance("train", 0).is_last_in_phase
    assert not schedule.advance("train", 0).is_last_in_phase
    assert schedule.phase_count("train") is None
    schedule.record_phase_length("train", 0)
    assert schedule.phase_count("train") == 2


def test_update_keeps_counters() -> None:
    schedule = Schedule(epochs=5)
    schedule.advance("train", 0)
    schedule.update(phases={"train": 2})
    assert schedule.advance("train", 0) == BatchPosition(
        "train", 0, 1, is_last_in_phase=True, is_last_in_epoch=True
    )
    schedule.update(epochs=1)
    assert schedule.epochs == 1
    assert schedule.phases == {"train": 2}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"epochs": -1}, ValueError, "epochs=-1 must not be negative"),
        ({"epochs": "3"}, TypeError, "epochs='3' must be an int or None"),
        ({"epochs": True}, TypeError, "epochs=True must be an int or None"),
        ({"phases": {"train": 0}}, ValueError, "the batches of 'train' must be at least 1"),
        ({"phases": {}}, ValueError, "must name at least one phase"),
        ({"phases": {3: 1}}, TypeError, "the phase name 3 must be a non-empty string"),
        ({"phases": ["train"]}, TypeError, "must be a dict of phase name to batches"),
    ],
)
def test_refuses_what_is_no_schedule(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Schedule(**arguments)
