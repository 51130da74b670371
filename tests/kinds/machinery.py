"""What torch does to modules and graphs."""

from __future__ import annotations

import copy
import functools
import io
import threading
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.utils import parametrize, prune
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)
from torch.utils.flop_counter import FlopCounterMode

from tests.kinds.program import Program, classify, fit, images, kind, mlp


class Clamp(torch.autograd.Function):
    """A straight-through estimator: its backward is not the derivative of its forward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clamp(-0.5, 0.5)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2


@kind
def custom_autograd_function() -> Program:
    class Custom(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(64, 8), nn.Linear(8, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc2(Clamp.apply(self.fc1(x.flatten(1))))

    return classify(Custom())


def _checkpointed(reentrant: bool) -> Program:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(1, 4, 3)
            self.block = nn.Sequential(nn.Conv2d(4, 4, 3), nn.Dropout(0.2), nn.ReLU(inplace=True))
            self.fc = nn.Linear(4, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = checkpoint(self.block, self.stem(x), use_reentrant=reentrant)
            return self.fc(y.mean((2, 3)))

    return classify(Checkpointed())


@kind
def activation_checkpointing_reentrant() -> Program:
    return _checkpointed(True)


@kind
def activation_checkpointing() -> Program:
    return _checkpointed(False)


@kind
def normed_parametrized_and_pruned() -> Program:
    model = nn.Sequential(
        nn.Flatten(),
        nn.utils.parametrizations.weight_norm(nn.Linear(64, 16)),
        nn.ReLU(),
        nn.utils.parametrizations.spectral_norm(nn.Linear(16, 16)),
        nn.utils.spectral_norm(nn.Linear(16, 8)),
        nn.Linear(8, 5),
    )
    prune.l1_unstructured(model[5], "weight", amount=0.3)
    return classify(model)


@kind
def lazy_modules() -> Program:
    model = nn.Sequential(nn.LazyConv2d(4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(5))
    model(torch.zeros(1, 1, 8, 8))
    return classify(model)


@kind
def module_replaced_while_training() -> Program:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    count = 0

    def train(item: Any) -> torch.Tensor:
        nonlocal count
        count += 1
        if count == 3:
            model[2] = nn.GELU()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(item[0]), item[1])
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Program(model, [optimizer], images(5), train)


@kind
def selective_and_nested_checkpointing() -> Program:
    class Selective(nn.Module):
        """One block saves its matrix products only; another is a checkpoint within a checkpoint."""

        def __init__(self) -> None:
            super().__init__()
            self.stem, self.head = nn.Linear(64, 8), nn.Linear(8, 5)
            self.one = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8))
            self.two = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.2), nn.Tanh(), nn.Linear(8, 8))

        def policy(self, ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
            save = op in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
            return CheckpointPolicy.MUST_SAVE if save else CheckpointPolicy.PREFER_RECOMPUTE

        def inner(self, x: torch.Tensor) -> torch.Tensor:
            return x + checkpoint(self.two, x, use_reentrant=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x.flatten(1))
            contexts = functools.partial(create_selective_checkpoint_contexts, self.policy)
            x = x + checkpoint(self.one, x, use_reentrant=False, context_fn=contexts)
            return self.head(checkpoint(self.inner, x, use_reentrant=False, preserve_rng_state=True))

    return classify(Selective())


@kind
def checkpointed_in_segments() -> Program:
    class Segments(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.ReLU(True)) for _ in range(5)])
            self.head = nn.Linear(64, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(checkpoint_sequential(self.layers, 2, x.flatten(1), use_reentrant=False))

    return classify(Segments())


@kind
def saved_tensors_packed_and_unpacked() -> Program:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Softplus(), nn.Linear(16, 5))
    program = classify(model)
    step, packed = program.train, [0]

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed[0] += 1
        return tensor.bfloat16() if tensor.is_floating_point() else tensor

    def unpack(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.float() if tensor.is_floating_point() else tensor

    def train(item: Any) -> torch.Tensor:
        """Activations are kept in half the bits for backward, and how many is counted."""
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            return step(item)

    program.train, program.also = train, lambda: packed
    return program


@kind
def data_parallel_on_the_processor() -> Program:
    return classify(nn.DataParallel(mlp()))


@kind
def old_weight_norm_and_iterative_pruning() -> Program:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated, and still in use
        normed = nn.utils.weight_norm(nn.Linear(64, 16), dim=None)
    model = nn.Sequential(nn.Flatten(), normed, nn.ReLU(), nn.Linear(16, 16), nn.Linear(16, 5))
    program = classify(model)
    step, count = program.train, 0

    def train(item: Any) -> torch.Tensor:
        """Prunes between steps, which turns a parameter into a buffer, a mask and a new parameter."""
        nonlocal count
        count += 1
        loss = step(item)
        if count in (2, 4):
            prune.random_unstructured(model[3], "weight", amount=0.2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
            program.optimizers[0].param_groups[:] = optimizer.param_groups
        if count == 6:
            prune.remove(model[3], "weight")
            program.optimizers[0].param_groups[0]["params"] = list(model.parameters())
        return loss

    program.train = train
    return program


@kind
def parametrizations_cached_and_of_ones_own() -> Program:
    class Symmetric(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.triu() + x.triu(1).mT

        def right_inverse(self, x: torch.Tensor) -> torch.Tensor:
            return x.triu()

    model = nn.Sequential(
        nn.Flatten(),
        nn.utils.parametrizations.orthogonal(nn.Linear(64, 8)),
        nn.Linear(8, 8),
        nn.utils.parametrizations.orthogonal(nn.Linear(8, 8), orthogonal_map="cayley"),
        nn.Linear(8, 5),
    )
    parametrize.register_parametrization(model[2], "weight", Symmetric())
    parametrize.register_parametrization(model[2], "weight", nn.Softsign(), unsafe=True)

    def loss(model: nn.Module, item: Any) -> torch.Tensor:
        with parametrize.cached():
            return F.cross_entropy(model(item[0]), item[1]) + F.cross_entropy(model(-item[0]), item[1])

    return fit(model, loss, images())


@kind
def modules_added_and_removed_while_training() -> Program:
    class Growing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.layers, self.head = nn.Linear(64, 8), nn.ModuleList(), nn.Linear(8, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x.flatten(1))
            for layer in self.layers:
                x = x + torch.tanh(layer(x))
            return self.head(x)

    model = Growing()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    program = classify(model, optimizer)
    step, count = program.train, 0

    def train(item: Any) -> torch.Tensor:
        nonlocal count
        count += 1
        if count in (2, 3):
            layer = nn.Linear(8, 8)
            model.layers.append(layer)
            optimizer.add_param_group({"params": layer.parameters()})
        if count == 5:
            del model.layers[0]
            model.register_parameter("unused", nn.Parameter(torch.zeros(2)))
        return step(item)

    program.train = train
    return program


@kind
def hooks_of_all_sorts() -> Program:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(16, 16)

        def forward(self, x: torch.Tensor, *, scale: float = 1.0) -> torch.Tensor:
            return torch.tanh(self.fc(x)) * scale

    class Hooked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = nn.Linear(64, 16), Scaled(), nn.Linear(16, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.a(x.flatten(1))
            if x.requires_grad:
                x.register_hook(lambda g: g * 2)
                x.retain_grad()
                self.kept = x
            return self.c(self.b(x, scale=0.5))

    model = Hooked()
    seen: dict[str, Any] = {"norms": [], "calls": 0}

    def note(module: nn.Module, *args: Any) -> None:
        seen["calls"] += 1

    def measure(module: nn.Module, grad_input: Any, grad_output: Any) -> None:
        seen["norms"].append(grad_output[0].norm())

    def louder(module: nn.Module, args: Any, kwargs: Any) -> Any:
        return (args[0] + 0.1,), {**kwargs, "scale": kwargs.get("scale", 1.0) * 1.5}

    def clamp(parameter: torch.Tensor) -> None:
        parameter.grad.clamp_(-0.1, 0.1)

    model.b.register_forward_pre_hook(louder, with_kwargs=True)
    model.b.register_forward_hook(lambda m, args, kwargs, out: out * kwargs["scale"], with_kwargs=True)
    model.b.register_forward_hook(lambda m, args, out: out + 1, prepend=True)
    model.c.register_forward_hook(note, always_call=True)
    model.a.register_full_backward_hook(measure)
    model.c.register_full_backward_pre_hook(lambda m, grad_output: (grad_output[0] * 0.5,))
    model.c.weight.register_post_accumulate_grad_hook(clamp)
    program = classify(model)
    step = program.train

    def train(item: Any) -> torch.Tensor:
        handle = nn.modules.module.register_module_forward_hook(note)
        try:
            loss = step(item)
        finally:
            handle.remove()
        seen["norms"].append(model.kept.grad.norm())
        return loss

    program.train, program.also = train, lambda: seen
    return program


@kind
def hooks_that_come_and_go_within_a_batch() -> Program:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 5))
    features: dict[str, torch.Tensor] = {}

    def loss(model: nn.Module, item: Any) -> torch.Tensor:
        """A feature extractor of the user's own, and a hook that takes itself away."""
        handles = [
            module.register_forward_hook(lambda m, args, out, name=name: features.update({name: out}))
            for name, module in model.named_children()
        ]

        def leave(module: nn.Module, args: Any) -> Any:
            once.remove()
            return (args[0] * 2,)

        once = model[2].register_forward_pre_hook(leave)
        out = model(item[0])
        for handle in handles:
            handle.remove()
        return F.cross_entropy(out + model(item[0]), item[1]) + features["2"].mean()

    program = fit(model, loss, images())
    program.also = lambda: features
    return program


@kind
def a_model_that_cannot_be_copied_or_pickled() -> Program:
    class Stubborn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(64, 8), nn.Linear(8, 5)
            self.activation = lambda x: x.clamp(min=-0.1)
            self.lock = threading.RLock()
            self.noise = (0.1 * i for i in range(1000))
            self.file = Path(__file__).open()  # noqa: SIM115  open for as long as the model lives
            weakref.finalize(self, self.file.close)

        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("this model cannot be copied")

        def __reduce_ex__(self, protocol: Any) -> Any:
            raise TypeError("this model cannot be pickled")

        def __repr__(self) -> str:
            raise TypeError("this model cannot even be printed")

        def extra_repr(self) -> str:
            raise TypeError("nor can its details")

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with self.lock:
                return self.fc2(self.activation(self.fc1(x.flatten(1))) + next(self.noise))

    return classify(Stubborn())


@kind
def copied_and_pickled_while_training() -> Program:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Dropout(0.1), nn.Linear(8, 5))
    program = classify(model)
    step, copies = program.train, []

    def train(item: Any) -> torch.Tensor:
        """A copy of the model is made in the batch, and is another model from then on."""
        loss = step(item)
        buffer = io.BytesIO()
        torch.save(model, buffer)
        buffer.seek(0)
        for other in (copy.deepcopy(model), torch.load(buffer, weights_only=False)):
            loss = loss + other(item[0]).square().mean()
            loss.backward() if loss.requires_grad else None
            copies.append({name: p.grad for name, p in other.named_parameters()})
            loss = loss.detach()
        return loss

    program.train, program.also = train, lambda: copies
    return program


@kind
def moved_to_double_after_start() -> Program:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 5))
    program = classify(model)
    count = 0
    step = program.train

    def train(item: Any) -> torch.Tensor:
        nonlocal count
        count += 1
        if count == 2:
            model.double()
            program.optimizers[0].state.clear()
        return step((item[0].double() if count >= 2 else item[0], item[1])).float()

    def validate(item: Any) -> torch.Tensor:
        with torch.no_grad():
            return model(item[0].double()).sum().float()

    program.train, program.validate = train, validate
    return program


class Halves(torch.autograd.Function):
    """Both styles' other half: `setup_context`, two outputs of which one has no gradient."""

    @staticmethod
    def forward(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x @ weight
        return y.clamp(min=0), y > 0

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs, output[1])
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Any, _mask: Any) -> Any:
        x, weight, mask = ctx.saved_tensors
        passed = gradient * mask
        return passed @ weight.T, x.T @ passed


class AddInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        return x.add_(y)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return gradient, gradient * 0.5


@kind
def autograd_functions_of_all_styles() -> Program:
    class Custom(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.weight = nn.Linear(64, 8), nn.Parameter(torch.randn(8, 8) * 0.3)
            self.out = nn.Linear(8, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.fc(x.flatten(1))
            y, mask = Halves.apply(x, self.weight)
            y = AddInPlace.apply(y * 1, x)
            return self.out(y * mask.float().mean())

    return classify(Custom())


@torch.library.custom_op("nansense_tests::smooth", mutates_args=())
def smooth(x: torch.Tensor, amount: float) -> torch.Tensor:
    return torch.from_numpy(np.tanh(x.detach().numpy() * amount))


@smooth.register_fake
def _smooth_fake(x: torch.Tensor, amount: float) -> torch.Tensor:
    return torch.empty_like(x)


def _smooth_context(ctx: Any, inputs: Any, output: torch.Tensor) -> None:
    ctx.amount = inputs[1]
    ctx.save_for_backward(output)


def _smooth_backward(ctx: Any, gradient: torch.Tensor) -> Any:
    return gradient * (1 - ctx.saved_tensors[0].square()) * ctx.amount, None


smooth.register_autograd(_smooth_backward, setup_context=_smooth_context)


@kind
def an_operator_registered_by_the_user() -> Program:
    class Smooth(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(64, 8), nn.Linear(8, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = smooth(self.fc1(x.flatten(1)), 0.7)
            return self.fc2(torch.ops.nansense_tests.smooth(x, 1.5))

    return classify(Smooth())


@kind
def modes_of_the_users_own() -> Program:
    seen: dict[str, Any] = {"functions": 0, "operators": 0}

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen["functions"] += 1
            return func(*args, **(kwargs or {}))

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen["operators"] += 1
            return func(*args, **(kwargs or {}))

    class Inside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(64, 8), nn.Linear(8, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with Functions():
                x = self.fc1(x.flatten(1)).relu()
            return self.fc2(x)

    program = classify(Inside())
    step = program.train

    def train(item: Any) -> torch.Tensor:
        with Functions(), Operators(), FlopCounterMode(display=False) as flops:
            loss = step(item)
        seen["flops"] = flops.get_total_flops()
        return loss

    program.train, program.also = train, lambda: seen
    return program


@kind
def anomaly_detection_and_profiler() -> Program:
    program = classify(nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Sigmoid(), nn.Linear(8, 5)))
    step = program.train

    def train(item: Any) -> torch.Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that anomaly detection is slow
            with torch.autograd.detect_anomaly(), torch.autograd.profiler.record_function("step"):
                return step(item)

    program.train = train
    return program


@kind
def parts_in_threads_of_the_loops_own() -> Program:
    class Towers(nn.Module):
        """Two towers run at the same time, in threads that the forward starts; a third on this one."""

        def __init__(self) -> None:
            super().__init__()
            self.towers = nn.ModuleList([nn.Linear(64, 8) for _ in range(3)])
            self.out = nn.Linear(24, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.flatten(1)
            with ThreadPoolExecutor(2) as pool:
                others = [pool.submit(tower, x) for tower in list(self.towers)[:2]]
                own = self.towers[2](x)
            return self.out(torch.cat([own, *(other.result() for other in others)], 1))

    def loss(model: nn.Module, item: Any) -> torch.Tensor:
        return F.cross_entropy(model(item[0]), item[1])

    return fit(Towers(), loss, images())


class Barrier(torch.autograd.Function):
    """Returns its input as it is, of which autograd makes a view on the way out."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 0.5


@kind
def functions_that_return_their_input() -> Program:
    class Through(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(64, 8), nn.Linear(8, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = Barrier.apply(self.fc1(x.flatten(1)))
            if x.requires_grad:
                x.register_hook(lambda gradient: gradient.clamp(-0.02, 0.02))
            return self.fc2(x)

    return classify(Through())
