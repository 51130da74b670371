"""Statistics of a whole run equal those of the values that plain hooks saw, in every way to run."""

from __future__ import annotations

import gc
import weakref
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint

import nansense_widgets
from nansense_widgets import Session, StatsScope, histogram_edges
from tests.driver import TIMEOUT_S, small_data, small_model


def train(session: Session | None, model: nn.Module, epochs: int = 3) -> None:
    data = small_data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(epochs) if session is None else session.epochs(epochs):
        for x, y in data if session is None else session.batches(data, phase="train"):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            for x, _y in data[:2] if session is None else session.batches(data[:2], phase="val"):
                model(x)


def seen_by_hooks(layer: str) -> dict[tuple[str, int, str], torch.Tensor]:
    """All values and gradients of a layer by phase, epoch and kind."""
    model = small_model()
    found: dict[Any, list[torch.Tensor]] = defaultdict(list)
    module = model.get_submodule(layer)
    module.register_forward_hook(lambda m, args, out: values.append(out.detach().clone()))
    module.register_full_backward_hook(lambda m, gi, go: gradients.append(go[0].clone()))  # type: ignore[index]
    values: list[torch.Tensor] = []
    gradients: list[torch.Tensor] = []
    train(None, model)
    for i, value in enumerate(values):  # 5 training and 2 validation batches an epoch
        epoch, batch = divmod(i, 7)
        found[("train" if batch < 5 else "val", epoch, "activations")].append(value)
    for i, gradient in enumerate(gradients):
        found[("train", i // 5, "gradients")].append(gradient)
    return {key: torch.cat(tensors) for key, tensors in found.items()}


@pytest.mark.parametrize("scope", [StatsScope.WATCHED, StatsScope.ALL], ids=str)
@pytest.mark.parametrize("mode", ["step_batch", "step_epoch", "detach"])
def test_every_batch_is_folded_whatever_the_mode(mode: str, scope: StatsScope) -> None:
    model = small_model()
    session = nansense_widgets.start(model)
    session.set_stats_scope(scope)
    session.watch("1", "2")
    session.launch(train, session, model)
    pauses = 0
    while session.wait_until_paused(after_pauses=pauses, timeout=TIMEOUT_S):
        pauses = session.pause_count
        getattr(session, mode)()
    assert session.wait(TIMEOUT_S)
    stats = session.watch_snapshot()
    for layer in ("1", "2"):
        for (phase, epoch, kind), expected in seen_by_hooks(layer).items():
            bucket = stats.stats[(layer, phase, epoch)]
            found = getattr(bucket, kind)
            assert bucket.batches == (5 if phase == "train" else 2)
            assert found.n == expected.numel(), (layer, phase, epoch, kind)
            assert found.mean == pytest.approx(float(expected.double().mean()), rel=1e-6, abs=1e-9)
            assert found.std == pytest.approx(float(expected.double().std(correction=0)), rel=1e-6)
            assert (found.min, found.max) == (float(expected.min()), float(expected.max()))
            dead = int((expected == 0).all(0).sum())
            assert found.dead_channel_count == dead
            assert (found.hist is None) == (epoch == 0)  # of the oldest epoch scalars are left
            if found.hist is not None:
                assert int(found.hist.sum()) == expected.numel()
    assert ("input" in {layer for layer, _, _ in stats.stats}) == (scope is StatsScope.ALL)
    history = stats.phase_history("1", "train")
    assert [bucket.epoch for bucket in history] == [0, 1, 2]
    assert set(stats.latest_per_phase("1")) == {"train", "val"}
    assert stats.latest_per_phase("1")["val"].gradients.n == 0
    session.close()


def test_none_collects_nothing_and_keeps_what_there_is() -> None:
    model = small_model()
    session = nansense_widgets.start(model)
    session.set_stats_scope("watched")
    session.watch("1")

    def loop() -> None:
        for _ in session.batches(range(6), phase="train"):
            model(torch.ones(2, 1, 4, 4))

    session.launch(loop)
    assert session.wait_until_paused(timeout=TIMEOUT_S)
    session.set_stats_scope("none")
    session.detach()
    assert session.wait(TIMEOUT_S)
    assert session.stats_scope is StatsScope.NONE
    (bucket,) = session.watch_snapshot().stats.values()
    assert bucket.batches == 1
    with pytest.raises(ValueError, match="scope='some' must be one of 'none', 'watched', 'all'"):
        session.set_stats_scope("some")
    session.close()


def test_what_cannot_be_folded_says_so_and_training_goes_on() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(x).to_sparse().to_dense() + self.fc(x)

    model = Odd()
    session = nansense_widgets.start(model)
    session.set_stats_scope("all")

    def loop() -> None:
        for _ in session.batches(range(3), phase="train"):
            model(torch.ones(1, 2)).sum().backward()

    session.launch(loop)
    assert session.wait_until_paused(timeout=TIMEOUT_S)
    session.detach()
    assert session.wait(TIMEOUT_S)
    stats = session.watch_snapshot().stats
    assert stats[("to_sparse", "train", 0)].note == "not collected: a sparse tensor"
    assert stats[("fc", "train", 0)].activations.n == 3 * 2 * 2  # both calls
    assert stats[("fc", "train", 0)].gradients.n == 3 * 2 * 2
    assert session.notice == ""
    session.close()


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradients_of_scaled_losses_and_of_checkpoints_are_folded_once(reentrant: bool) -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.block, x, use_reentrant=reentrant)

    model = Checkpointed()
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    session = nansense_widgets.start(model)
    session.set_stats_scope("watched")
    session.watch("block")

    def loop() -> None:
        for _ in session.batches(range(4), phase="train"):
            x = torch.ones(2, 3, requires_grad=True)
            scaler.scale(model(x).sum()).backward()

    session.launch(loop)
    assert session.wait_until_paused(timeout=TIMEOUT_S)
    session.detach()
    assert session.wait(TIMEOUT_S)
    (bucket,) = session.watch_snapshot().stats.values()
    assert bucket.activations.n == bucket.gradients.n == 4 * 6
    assert (bucket.gradients.min, bucket.gradients.max) == (1.0, 1.0)
    session.close()


def test_nothing_is_installed_where_nothing_is_collected() -> None:
    model = small_model()
    session = nansense_widgets.start(model)
    session.set_stats_scope("watched")
    hooks: list[int] = []

    def loop() -> None:
        for _ in session.batches(range(4), phase="train"):
            hooks.append(len(nn.modules.module._global_forward_hooks))  # noqa: SLF001
            model(torch.ones(1, 1, 4, 4))

    session.detach()
    session.launch(loop)
    assert session.wait(TIMEOUT_S)
    assert hooks == [0, 0, 0, 0]
    session.close()


def test_an_in_place_layer_has_its_own_statistics_in_inference_mode() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace=True))
    session = nansense_widgets.start(model)
    session.set_stats_scope("watched")
    session.watch("0", "1")
    session.detach()

    def loop() -> None:
        for x in session.batches([torch.randn(32, 8) for _ in range(3)], phase="val"):
            with torch.inference_mode():
                model(x)

    session.launch(loop)
    assert session.wait(TIMEOUT_S)
    stats = session.watch_snapshot().stats
    assert stats[("0", "val", 0)].activations.min < 0
    assert stats[("1", "val", 0)].activations.min == 0
    session.close()


def test_another_run_begins_anew_and_an_old_epoch_may_come_again() -> None:
    model = small_model()
    session = nansense_widgets.start(model)
    session.set_stats_scope("watched")
    session.watch("1")
    session.detach()
    for _ in range(2):
        session.launch(train, session, model)
        assert session.wait(TIMEOUT_S)
        stats = session.watch_snapshot().stats
        assert {key[2] for key in stats} == {0, 1, 2}
        assert {bucket.batches for (_, phase, _), bucket in stats.items() if phase == "train"} == {5}

    def again() -> None:
        for epoch in (5, 6, 7, 2, 5):
            for x, _y in session.batches(small_data(), phase="again", epoch=epoch):
                model(x)

    session.launch(again)
    assert session.wait(TIMEOUT_S)
    stats = session.watch_snapshot().stats
    whole = {epoch for (_, _, epoch), bucket in stats.items() if bucket.activations.hist is not None}
    assert whole == {2, 5}  # those begun last
    assert all(bucket.batches == 5 for bucket in stats.values())
    session.close()


def test_one_layer_called_very_often_costs_little_memory() -> None:
    model = nn.GRUCell(4, 4)
    session = nansense_widgets.start(model)
    session.set_stats_scope("watched")
    session.watch("grucell")
    session.detach()
    sizes: list[int] = []

    def loop() -> None:
        for _ in session.batches(range(2), phase="train"):
            h = torch.zeros(2, 4)
            for _ in range(300):
                h = model(torch.ones(2, 4), h)
            sizes.append(
                sum(o.numel() * o.element_size() for o in gc.get_objects() if type(o) is torch.Tensor)
            )
            h.sum().backward()

    session.launch(loop)
    assert session.wait(TIMEOUT_S)
    assert max(sizes) < 20_000_000
    assert next(iter(session.watch_snapshot().stats.values())).activations.n == 2 * 300 * 8
    session.close()


def test_an_error_of_ours_in_a_batch_that_is_only_folded_does_not_end_the_loop() -> None:
    class Odd(torch.Tensor):
        """Knows hardly any operator."""

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return super().__torch_function__(func, types, args, kwargs or {})

    class Fakes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with FakeTensorMode():
                return torch.empty(3, 4)

    model = nn.Sequential(Fakes())
    session = nansense_widgets.start(model)
    session.set_stats_scope("watched")
    session.watch("0")
    session.detach()

    def loop() -> None:
        for _ in session.batches(range(3), phase="train"):
            model(torch.ones(1).as_subclass(Odd))

    session.launch(loop)
    assert session.wait(TIMEOUT_S)
    (bucket,) = session.watch_snapshot().stats.values()
    assert bucket.note == "not captured: a fake tensor has a shape but no values"
    session.close()


def test_a_module_that_is_replaced_in_a_detached_run_is_followed() -> None:
    model = small_model()
    session = nansense_widgets.start(model)
    session.set_stats_scope("watched")
    session.watch("2")
    session.detach()

    def loop() -> None:
        for i, (x, _y) in enumerate(session.batches(small_data(), phase="train")):
            if i == 2:
                model.register_module("2", nn.GELU())
            model(x)

    session.launch(loop)
    assert session.wait(TIMEOUT_S)
    (bucket,) = session.watch_snapshot().stats.values()
    assert bucket.batches == 4  # all but the one in which it was replaced
    assert bucket.activations.min < 0  # a GELU's; a ReLU has none
    session.close()


def test_a_large_expanded_tensor_is_folded_in_parts() -> None:
    from nansense_widgets.stats.accumulate import TensorStats

    stats = TensorStats(1)
    stats.fold((torch.arange(64 * 64) % 3 == 0).view(1, 1, 64, 64).expand(64, 16, 64, 64))
    found = stats.snapshot()
    assert found.n == 64 * 16 * 64 * 64
    assert found.mean == pytest.approx(1366 / 4096)


def test_a_default_device_of_the_users_is_not_ours() -> None:
    model = small_model()
    session = nansense_widgets.start(model)
    session.watch("1")
    session.launch(train, session, model, 1)
    session.wait_until_paused(timeout=TIMEOUT_S)
    session.detach()
    assert session.wait(TIMEOUT_S)
    with torch.device("meta"):
        stats = session.watch_snapshot().stats[("1", "train", 0)].activations
        assert stats.hist is not None
        assert stats.median == stats.quantile(0.5)
        assert histogram_edges().device.type == stats.hist.device.type == "cpu"
        assert stats.channel_hists is not None
        assert int(stats.channel_hists.sum()) == stats.n
    session.close()


def test_the_first_batch_with_a_value_that_is_not_finite_is_known() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    session = nansense_widgets.start(model)
    session.watch("0", "1")
    session.detach()

    def loop() -> None:
        for i in session.batches(range(6), phase="train"):
            x = torch.ones(3, 2)
            if i in (2, 4):
                x[1, 0] = float("nan")
            model(x)

    session.launch(loop)
    assert session.wait(TIMEOUT_S)
    for layer in ("0", "1"):
        stats = session.watch_snapshot().stats[(layer, "train", 0)]
        assert (stats.activations.nan, stats.activations.first_nonfinite) == (4, 2)
        assert stats.gradients.first_nonfinite is None
    session.close()


def test_inputs_that_require_gradients_live_no_longer_for_it() -> None:
    model = small_model()
    session = nansense_widgets.start(model)
    session.watch("1")
    session.set_stats_scope("all")
    session.request_snapshot()
    session.detach()
    alive: list[int] = []

    def loop() -> None:
        for _ in session.batches(range(2), phase="train"):
            references = []
            for _ in range(5):
                x = torch.randn(2, 1, 4, 4, requires_grad=True)
                references.append(weakref.ref(x))
                model(x).sum().backward()
                del x
            alive.append(sum(reference() is not None for reference in references))

    session.launch(loop)
    assert session.wait(TIMEOUT_S)
    assert session.failure is None
    assert alive[1] == 0  # the first batch is captured, and its inputs are kept for the patches
    assert session.watch_snapshot().stats[("1", "train", 0)].gradients.n > 0
    session.close()


class Wrapped(torch.Tensor):
    """Holds its values in another tensor, as sharded and quantised ones do."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> Any:
        made = torch.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype)  # noqa: SLF001
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        plain = [arg.held if isinstance(arg, Wrapped) else arg for arg in args]
        return func(*plain, **(kwargs or {}))


def freed(x: torch.Tensor) -> torch.Tensor:
    y = x.detach().clone()
    y.untyped_storage().resize_(0)
    return y


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda x: Wrapped(x.detach()), "a Wrapped holds its values in other tensors"),
        (lambda x: torch.masked.masked_tensor(x.detach(), x.detach() > 0), "a MaskedTensor holds its values"),
        (freed, "its memory has been freed"),
    ],
    ids=["wrapper", "masked", "freed"],
)
def test_values_that_have_no_memory_of_their_own_are_passed_over(
    make: Callable[[torch.Tensor], torch.Tensor], why: str
) -> None:
    class Aside(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return make(x)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.aside = nn.Linear(4, 4), Aside()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.aside(x)
            return self.fc(x)

    model = Net()
    session = nansense_widgets.start(model)
    session.set_stats_scope("all")
    session.watch("aside", "fc")
    session.request_snapshot()
    session.detach()

    def loop() -> None:
        for x in session.batches([torch.randn(3, 4) for _ in range(3)], phase="train"):
            model(x).sum().backward()

    session.launch(loop)
    assert session.wait(TIMEOUT_S)
    assert session.failure is None
    stats = session.watch_snapshot().stats
    assert why in stats[("aside", "train", 0)].note
    assert stats[("fc", "train", 0)].activations.n == 36
    session.close()
