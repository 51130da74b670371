"""A probe changes nothing: whatever a forward writes to is as before, on success and on error."""

from __future__ import annotations

import functools
import itertools
import random
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

from nansense_widgets.probe.footprint import SandboxError
from nansense_widgets.probe.sandbox import Sandbox
from tests.driver import TIMEOUT_S
from tests.probe.conftest import Paused, classified, pictures

SEEN: list[Any] = []
CALLS = 0


@dataclass
class Memory:
    values: list[float] = field(default_factory=list)
    last: torch.Tensor | None = None


class Busy(nn.Module):
    """Writes to all that it can reach."""

    running: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.tied = self.fc
        self.register_buffer("running", torch.zeros(4))
        self.plain = torch.zeros(4)
        self.counts = {"calls": 0, "inner": {"deep": []}}
        self.queue: deque[int] = deque(maxlen=2)
        self.seen: set[int] = set()
        self.memory = Memory()
        self.space = SimpleNamespace(steps=0)
        self.array = np.zeros(2)
        self.generator = torch.Generator().manual_seed(3)
        self.numbers = random.Random(4)
        self.ids = itertools.count()
        self.hidden = [nn.BatchNorm1d(4)]  # no submodule, as far as torch knows
        self.view = self.running[:2]
        self.fails = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        global CALLS  # noqa: PLW0603
        CALLS += 1
        SEEN.append(float(x.detach().sum()))
        with torch.no_grad():
            self.running += 1
            self.plain.mul_(2).add_(1)
            self.fc.weight.mul_(0.9)
            self.fc.bias.data.add_(torch.rand(4))
        self.counts["calls"] += 1  # type: ignore[operator]
        self.counts["inner"]["deep"].append(1)  # type: ignore[index]
        self.queue.append(next(self.ids))
        self.seen.add(len(self.seen))
        self.memory.values.append(1.0)
        self.memory.last = x
        self.space.steps += 1
        self.array += 1
        torch.rand(1, generator=self.generator)
        self.numbers.random(), random.random(), np.random.rand()
        self.added = x
        self.training = not self.training
        assert torch.equal(self.view, self.running[:2])  # still a view of it
        if self.fails:
            raise RuntimeError("in the middle")
        return self.hidden[0](self.fc(x))


def state(model: Busy) -> dict[str, Any]:
    tensors = {
        **dict(model.named_parameters()),
        **{f"grad {name}": p.grad for name, p in model.named_parameters()},
        **dict(model.named_buffers()),
        **{f"hidden {name}": b for name, b in model.hidden[0].named_buffers()},
        "plain": model.plain,
    }
    return {
        "ids": {name: id(tensor) for name, tensor in tensors.items()},
        "versions": {name: None if t is None else t._version for name, t in tensors.items()},
        "values": {
            name: None if t is None else t.detach().clone().numpy().tobytes() for name, t in tensors.items()
        },
        "counts": repr(model.counts),
        "queue": list(model.queue),
        "seen": set(model.seen),
        "memory": (list(model.memory.values), id(model.memory.last), id(model.memory)),
        "space": model.space.steps,
        "array": model.array.tolist(),
        "generator": model.generator.get_state().tolist(),
        "numbers": model.numbers.getstate(),
        "ids left": repr(model.ids),
        "keys": list(model.__dict__),
        "training": [module.training for module in model.modules()],
        "global": (list(SEEN), CALLS),
    }


@pytest.mark.parametrize("fails", [False, True])
def test_all_that_a_forward_writes_to_is_as_before(fails: bool) -> None:
    model = Busy()
    model(torch.randn(3, 4)).sum().backward()
    model.fails = fails
    before = state(model)
    outer = [torch.get_rng_state().tolist(), random.getstate(), repr(np.random.get_state())]
    del outer
    for _ in range(2):
        with Sandbox(model):
            try:
                model(torch.randn(3, 4)).sum().backward()
            except RuntimeError:
                assert fails
            else:
                assert not fails
            assert model.counts["calls"] == 2  # it did write
        assert state(model) == before


def test_the_same_numbers_come_of_it() -> None:
    model = Busy()
    torch.manual_seed(5)
    with Sandbox(model):
        first = model(torch.ones(3, 4))
    torch.manual_seed(5)
    with Sandbox(model):
        second = model(torch.ones(3, 4))
    torch.manual_seed(5)
    assert torch.equal(first, second)
    assert torch.equal(first, model(torch.ones(3, 4)))


def spectral() -> nn.Module:
    return nn.utils.spectral_norm(nn.Linear(64, 3))


def new_spectral() -> nn.Module:
    return parametrizations.spectral_norm(nn.Linear(64, 3))


def weight_normed() -> nn.Module:
    return nn.utils.weight_norm(nn.Linear(64, 3))


def pruned() -> nn.Module:
    return prune.random_unstructured(nn.Linear(64, 3), "weight", 0.5)


def recurrent() -> nn.Module:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.out = nn.LSTM(8, 5, num_layers=2, dropout=0.3), nn.Linear(5, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.out(self.rnn(x.reshape(-1, 8, 8).transpose(0, 1))[0][-1])

    return Last()


def normed() -> nn.Module:
    return nn.Sequential(nn.BatchNorm1d(64), nn.Dropout(0.5), nn.Linear(64, 3))


def scripted() -> nn.Module:
    return torch.jit.script(normed())


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "make",
    [spectral, new_spectral, weight_normed, pruned, recurrent, normed, scripted],
    ids=lambda f: f.__name__,
)
def test_norms_hooks_flags_and_vectors(paused: Paused, make: Callable[[], nn.Module]) -> None:
    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.inner = make()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x.flatten(1))

    model = Whole()
    session = paused(model, pictures())

    def everything() -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            # TorchScript's tensors cannot be replaced: what was written to is copied back.
            version = 0 if make is scripted else tensor._version
            found[name] = (id(tensor), version, tensor.detach().numpy().tobytes())
            found[f"grad {name}"] = None if tensor.grad is None else tensor.grad.numpy().tobytes()
        for name, module in model.named_modules():
            found[f"training {name}"] = module.training
            if not isinstance(module, torch.jit.ScriptModule):
                hooks = (*module._forward_hooks.items(), *module._forward_pre_hooks.items())
                found[f"hooks {name}"] = [(key, id(hook)) for key, hook in hooks]
                found[f"keys {name}"] = list(module.__dict__)
        found["random"] = torch.get_rng_state().numpy().tobytes()
        found["numpy"] = repr(np.random.get_state(legacy=False))
        found["python"] = random.getstate()
        return found

    before = everything()
    for mode in ("train", "eval", "unchanged"):
        session.set_probe_mode(mode)
        session.pin_current_batch()
        session.add_perturbation(noise=0.1)
        result = session.wait_for_probe(TIMEOUT_S)
        assert result is not None
        assert result.error == ""
        assert everything() == before, mode
    session.add_perturbation(values=float("nan"))
    assert session.wait_for_probe(TIMEOUT_S) is not None
    assert everything() == before


def test_hooks_of_the_users_run_and_note_nothing(paused: Paused) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    norms: list[float] = []
    count = 0

    class Recorder:
        def __init__(self) -> None:
            self.shapes: list[Any] = []

        def note(self, _module: nn.Module, _args: Any, out: torch.Tensor) -> torch.Tensor:
            self.shapes.append(tuple(out.shape))
            return out * 2

    def counted(_module: nn.Module, _args: Any, out: torch.Tensor) -> None:
        nonlocal count
        count += 1
        norms.append(float(out.detach().norm()))

    recorder = Recorder()
    model[1].register_forward_hook(recorder.note)
    model[1].register_forward_hook(counted)
    overall = nn.modules.module.register_module_forward_hook(counted)
    try:
        session = paused(model, pictures())
        before = (list(norms), count, list(recorder.shapes))
        session.pin_current_batch()
        result = session.wait_for_probe(TIMEOUT_S)
    finally:
        overall.remove()
    assert result is not None
    assert result.error == ""
    assert (norms, count, recorder.shapes) == before
    with torch.no_grad():
        weight, bias = model.state_dict().values()
        expected = nn.functional.linear(pictures()[0][0].flatten(1), weight, bias) * 2
    assert torch.allclose(result.output[""], expected, atol=1e-6)  # the hook is a part of the model


def test_what_cannot_be_put_back_is_not_probed(paused: Paused) -> None:
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(64, 3)
            self.noise = (0.1 * i for i in range(100))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(x.flatten(1)) + next(self.noise)

    model = Noisy()
    session = paused(model, pictures())
    session.pin_current_batch()
    result = session.wait_for_probe(TIMEOUT_S)
    assert result is not None
    assert "reads from a generator, which cannot be put back where it is" in result.error
    assert next(model.noise) == pytest.approx(0.1)
    with pytest.raises(SandboxError), Sandbox(model):
        pass
    assert set(vars(model)) >= {"noise", "_parameters"}


def test_autocast_and_its_cache_are_left_alone(paused: Paused) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))

    def loss(model: nn.Module, item: Any) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return classified(model, item)

    session = paused(model, pictures(), loss=loss)
    assert not torch.is_autocast_enabled("cpu")
    session.set_probe_mode("eval")
    session.pin_current_batch()
    result = session.wait_for_probe(TIMEOUT_S)
    assert result is not None
    assert result.output[""].dtype is torch.bfloat16
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        assert torch.equal(result.output[""], model(pictures()[0][0]))
    assert torch.is_autocast_cache_enabled()


class Pair(NamedTuple):
    values: torch.Tensor
    names: list[str]


TOTAL = torch.zeros(2)
AVERAGE = 0.0
NOTES: dict[str, list[int]] = defaultdict(list)
STEP = [0]


class Reaching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(4, 3))
        self.pair = Pair(torch.zeros(2), [])
        self.raw = bytearray(2)
        self.many = list(range(20_000))
        shared = np.ones(4, np.float32)
        self.register_buffer("short", torch.from_numpy(shared[:2]))
        self.register_buffer("long", torch.from_numpy(shared))

    @functools.lru_cache  # noqa: B019  what users write
    def weight(self, step: int) -> torch.Tensor:
        return self.w * 1

    def forward(self, x: torch.Tensor) -> Any:
        global AVERAGE  # noqa: PLW0603
        AVERAGE = AVERAGE * 0.9 + 1
        TOTAL.add_(1)
        NOTES["calls"].append(len(NOTES["calls"]))
        self.pair.values.add_(1)
        self.pair.names.append("x")
        self.raw[0] += 1
        self.many.append(0)
        return x.flatten(1)[:, :4] @ self.weight(STEP[0]) + self.get_buffer("long").sum()


def test_what_users_have_written_elsewhere(paused: Paused) -> None:
    model = Reaching()
    session = paused(model, pictures())

    def written() -> list[Any]:
        held = [model.pair.values.tolist(), list(model.pair.names), bytes(model.raw), len(model.many)]
        return [*held, TOTAL.tolist(), AVERAGE, dict(NOTES), [len(notes) for notes in NOTES.values()]]

    before = written()
    STEP[0] += 1
    session.pin_current_batch()
    result = session.wait_for_probe(TIMEOUT_S)
    assert result is not None
    assert result.error == ""
    assert written() == before
    with torch.no_grad():
        expected = pictures()[0][0].flatten(1)[:, :4] @ model.w + 4
    assert torch.allclose(result.output[""], expected)
    assert model.weight(STEP[0]).grad_fn is not None  # nothing of the probe's is in the cache
    model.weight(STEP[0]).sum().backward()
    assert model.w.grad is not None


def test_a_hook_that_removes_itself_is_there_for_training(paused: Paused) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    session = paused(model, pictures())
    got: list[Any] = []

    def once(_module: nn.Module, _args: Any, out: torch.Tensor) -> None:
        got.append(out.shape)
        handle.remove()

    handle = model[1].register_forward_hook(once)
    session.pin_current_batch()
    assert session.wait_for_probe(TIMEOUT_S) is not None
    assert got == []
    pauses = session.pause_count
    session.step_batch()
    assert session.wait_until_paused(after_pauses=pauses, timeout=TIMEOUT_S)
    assert len(got) == 1
    assert not model[1]._forward_hooks


def test_a_lazy_module_that_only_a_probe_reaches(paused: Paused) -> None:
    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.now, self.late = nn.Linear(64, 3), nn.LazyLinear(3)

        def forward(self, x: torch.Tensor) -> Any:
            return (self.now if self.training else self.late)(x.flatten(1))

    model = Late()
    session = paused(model, pictures())
    session.set_probe_mode("eval")
    session.pin_current_batch()
    result = session.wait_for_probe(TIMEOUT_S)
    assert result is not None
    assert result.error == ""
    assert type(model.late) is nn.LazyLinear
    assert model.late.has_uninitialized_params()
    assert len(model.late._forward_pre_hooks) == 1


def test_two_sessions_share_a_module() -> None:
    shared = nn.Linear(64, 8)
    weight = shared.weight

    class Slow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shared, self.head = shared, nn.Linear(8, 3)

        def forward(self, x: torch.Tensor) -> Any:
            time.sleep(0.05)
            return self.head(self.shared(x.flatten(1)))

    def probe(model: nn.Module) -> None:
        for _ in range(5):
            with Sandbox(model):
                model(torch.zeros(2, 64))

    threads = [threading.Thread(target=probe, args=(Slow(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert shared.weight is weight


def test_a_model_that_exits_in_a_probe_ends_no_training(paused: Paused) -> None:
    class Exits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(64, 3)

        def forward(self, x: torch.Tensor) -> Any:
            if x.amax() > 90:
                raise SystemExit("too bright")
            return self.fc(x.flatten(1))

    session = paused(Exits(), pictures(3))
    session.add_perturbation(sample=0, values=99.0)
    result = session.wait_for_probe(TIMEOUT_S)
    assert result is not None
    assert result.error == "SystemExit: too bright"
    session.clear_perturbations()
    session.detach()
    assert session.wait(TIMEOUT_S)
