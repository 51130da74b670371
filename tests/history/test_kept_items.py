"""What is kept of items is what they were, whoever writes to their memory, and lies as they lay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from nansense_widgets import TimeTravelError
from nansense_widgets.history.items import ItemNotKeptError, KeptItem
from nansense_widgets.history.layout import kept_apart, kept_bytes, with_own_memory
from tests.history.test_step_back import plain_step, run_over, small_run, weights

CPU = torch.device("cpu")


@pytest.fixture
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nansense_widgets.history.items.COPIED", 0)


def kept(item: Any) -> KeptItem:
    return KeptItem(item, copies=False, room=2**20)


@pytest.mark.usefixtures("all_are_large")
def test_an_array_that_is_filled_anew_for_each_batch() -> None:
    array = np.zeros((3, 2), np.float32)

    def items() -> Any:
        for number in range(8):
            array[:] = number
            yield torch.from_numpy(array)

    seen: list[float] = []
    session, driver = run_over(items(), lambda x: seen.append(x[0, 0].item()))
    for _ in range(5):
        driver.do("step_batch")
    driver.do("step_back", 3)
    driver.finish()
    assert seen == [0, 1, 2, 3, 4, 5, 2, 3, 4, 5, 6, 7]
    session.close()


@pytest.mark.usefixtures("all_are_large")
def test_a_loop_that_writes_through_numpy_gets_its_items_as_they_were_or_hears_why_not() -> None:
    def body(x: torch.Tensor, y: torch.Tensor, model: Any, optimizer: Any) -> None:
        x.numpy()[:] *= 2
        plain_step(x, y, model, optimizer)

    session, model, driver = small_run(body)
    with pytest.raises(TimeTravelError, match="written to the item of this batch"):
        session.rewind(phase="train", epoch=0, batch_idx=0)
    for _ in range(5):
        driver.do("step_batch")
    after = weights(model)
    with pytest.raises(TimeTravelError, match=r"states in memory lead back to batch 2 "):
        session.rewind(phase="train", epoch=0, batch_idx=0)
    driver.do("step_back", 3)
    for _ in range(3):
        driver.do("step_batch")
    assert all(map(torch.equal, after, weights(model)))
    assert not session.history.parted
    driver.finish()
    session.close()


@pytest.mark.usefixtures("all_are_large")
def test_large_items_that_nobody_writes_to_stay_shared() -> None:
    session, _, driver = small_run(plain_step)
    for _ in range(3):
        driver.do("step_batch")
    assert session.way_back(3).batches == 1
    driver.do("step_back", 3)
    driver.finish()
    session.close()


@pytest.mark.usefixtures("all_are_large")
@pytest.mark.parametrize(
    "expose",
    [lambda x: x.numpy(), lambda x: np.asarray(x[0]), lambda x: x.add_(1), lambda x: x.numpy(force=True)],
)
def test_what_may_have_been_written_to_counts_as_such(expose: Callable[[torch.Tensor], Any]) -> None:
    x = torch.ones(4, 4)
    one, copied = kept(x), kept(torch.from_numpy(np.ones(3)))
    found = [one.is_intact]
    expose(x)
    assert [*found, one.is_intact] == [True, False]
    expose(copied.serve().reshape(1, 3))
    assert copied.is_intact


@dataclass
class Noted:
    x: torch.Tensor

    def __post_init__(self) -> None:
        self.meta: dict[str, Any] = {"n": 0}


def test_attributes_of_a_dataclass_that_are_no_fields_are_kept_too() -> None:
    item = Noted(torch.ones(2))
    one = kept(item)
    item.meta["n"] += 1
    one.serve().meta["n"] += 1
    assert one.serve().meta == {"n": 0}
    item.meta["file"] = object()
    with pytest.raises(ItemNotKeptError, match=r"an item holds a builtins\.object"):
        kept(item)


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "dense": lambda x: x,
    "window": lambda x: x[:, 3:20],
    "from an odd place": lambda x: x.reshape(-1)[5:55],
    "transposed window": lambda x: x[1:, 3:20].T,
    "every other": lambda x: x[::2, ::3],
    "expanded": lambda x: x[:, :1].expand(60, 7),
    "overlapping": lambda x: x.unfold(1, 8, 2),
    "nothing": lambda x: x[:0],
    "scalar": lambda x: x[3, 4],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_copies_lie_as_the_originals_do(layout: str) -> None:
    tensor = LAYOUTS[layout](torch.randn(60, 40, generator=torch.Generator().manual_seed(0)))
    own = kept_apart(tensor)
    served = with_own_memory(own, CPU)
    for copy in (own, served):
        assert torch.equal(copy, tensor)
        assert copy.stride() == tensor.stride()
        assert not tensor.numel() or copy.data_ptr() % 64 == tensor.data_ptr() % 64
        assert not copy._is_view()  # noqa: SLF001
    if tensor.numel():
        addresses = {one.untyped_storage().data_ptr() for one in (tensor, own, served)}
        assert len(addresses) == 3
    assert torch.equal(served.sum(), tensor.sum())


def test_large_gaps_are_not_kept() -> None:
    column = torch.arange(200_000.0).reshape(2000, 100)[:, 3]
    own = kept_apart(column)
    assert torch.equal(own, column)
    assert own.untyped_storage().nbytes() == kept_bytes(column) == 8000


def test_windows_of_a_longer_series_are_repeatable() -> None:
    series = torch.randn(60, 40, generator=torch.Generator().manual_seed(1))
    found: dict[int, list[float]] = {}
    items = [(at, series[:, at : at + 17]) for at in range(20)]

    def body(item: tuple[int, torch.Tensor]) -> None:
        at, x = item
        found.setdefault(at, []).append((((x - x.mean()) / x.std()).sum() + x.std()).item())

    session, driver = run_over(items, body)
    for _ in range(18):
        driver.do("step_batch")
    driver.do("step_back", 17)
    driver.finish()
    assert all(len(set(values)) == 1 for values in found.values())
    assert len(found[10]) == 2
    session.close()
