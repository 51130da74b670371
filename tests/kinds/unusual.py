"""Architectures that fit no other theme: made weights, loops over time, equilibria, graphs, subclasses."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.kinds.program import Program, classify, fit, images, kind, tokens


@kind
def spiking_neurons_over_time() -> Program:
    class Spike(torch.autograd.Function):
        """A step whose gradient is that of a soft one."""

        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return (x > 0).float()

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return gradient / (1 + 10 * x.abs()).square()

    class Leaky(nn.Module):
        def __init__(self, n: int, m: int) -> None:
            super().__init__()
            self.fc, self.decay = nn.Linear(n, m), nn.Parameter(torch.tensor(0.9))
            self.charge: torch.Tensor | None = None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            charge = self.fc(x) + (0 if self.charge is None else self.charge * self.decay)
            spikes = Spike.apply(charge - 0.5)
            self.charge = charge - 0.5 * spikes.detach()
            return spikes

    class Spiking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hidden, self.out = Leaky(64, 16), Leaky(16, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.hidden.charge = self.out.charge = None
            counts = torch.zeros(len(x), 5)
            for _ in range(6):
                counts = counts + self.out(self.hidden((x.flatten(1) > torch.rand(64)).float()))
            return counts

    return classify(Spiking())


@kind
def graph_attention_by_scatter() -> Program:
    class Attend(nn.Module):
        def __init__(self, n: int, m: int) -> None:
            super().__init__()
            self.fc, self.score = nn.Linear(n, m), nn.Linear(2 * m, 1)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            x = self.fc(x)
            source, target = edges
            score = F.leaky_relu(self.score(torch.cat([x[source], x[target]], 1)).squeeze(1), 0.2)
            top = torch.full((len(x),), -torch.inf).scatter_reduce(0, target, score, "amax")
            weight = (score - top[target]).exp()
            total = torch.zeros(len(x)).index_add(0, target, weight)
            weight = weight / total[target].clamp(min=1e-9)
            return torch.zeros_like(x).index_add_(0, target, x[source] * weight[:, None])

    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = Attend(4, 6), Attend(6, 3)

        def forward(self, x: torch.Tensor, edges: torch.Tensor, graph: torch.Tensor) -> torch.Tensor:
            x = self.two(F.elu(self.one(x, edges)), edges)
            return torch.zeros(2, 3).scatter_add(0, graph[:, None].expand(-1, 3), x)

    def loss(model: nn.Module, item: Any) -> torch.Tensor:
        return F.cross_entropy(model(*item), torch.tensor([0, 2]))

    def batch() -> Any:
        loops = torch.arange(8).repeat(2, 1)
        return (
            torch.randn(8, 4),
            torch.cat([torch.randint(0, 8, (2, 12)), loops], 1),
            torch.tensor([0] * 5 + [1] * 3),
        )

    return fit(Graph(), loss, [batch() for _ in range(3)])


@kind
def weights_made_by_another_network() -> Program:
    class Hyper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.task, self.make = nn.Embedding(3, 4), nn.Linear(4, 64 * 5 + 5)
            self.main = nn.Linear(64, 5).requires_grad_(False)
            self.filters = nn.Linear(4, 9)

        def forward(self, x: torch.Tensor, task: int) -> torch.Tensor:
            code = self.task(torch.tensor(task))
            x = F.conv2d(x, self.filters(code).view(1, 1, 3, 3), padding=1)
            weight, bias = self.make(code).split([320, 5])
            made = {"weight": weight.view(5, 64) * 0.1, "bias": bias}
            return torch.func.functional_call(self.main, made, (x.flatten(1),))

    def loss(model: nn.Module, item: Any) -> torch.Tensor:
        outs = [model(item[0], task) for task in range(3)]
        return torch.stack([F.cross_entropy(out, (item[1] + i) % 5) for i, out in enumerate(outs)]).sum()

    return fit(Hyper(), loss, images())


@kind
def differential_equation_by_runge_kutta() -> Program:
    class Field(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc2, self.calls = nn.Linear(9, 8), nn.Linear(8, 8), 0

        def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return self.fc2(torch.tanh(self.fc1(torch.cat([y, t.expand(len(y), 1)], 1))))

    class Ode(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.field, self.out = nn.Linear(64, 8), Field(), nn.Linear(8, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            """The size of a step follows from the error of the one before."""
            y, t, h = self.stem(x.flatten(1)), torch.zeros(()), 0.5
            f = self.field
            while t < 1:
                h = min(h, 1 - float(t))
                k1 = f(t, y)
                k2 = f(t + h / 2, y + h / 2 * k1)
                k3 = f(t + h, y - h * k1 + 2 * h * k2)
                error = float((h / 6 * (k1 - 2 * k2 + k3)).abs().max().detach())
                y, t = y + h / 6 * (k1 + 4 * k2 + k3), t + h
                h *= min(2.0, max(0.3, 0.1 / (error + 1e-9)))
            return self.out(y)

    model = Ode()
    program = classify(model)
    program.also = lambda: model.field.calls
    return program


@kind
def equilibrium_whose_gradient_is_solved_in_a_hook() -> Program:
    class Equilibrium(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inject, self.again, self.out = nn.Linear(64, 6), nn.Linear(6, 6), nn.Linear(6, 5)

        def step(self, z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(0.5 * self.again(z) + x)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.inject(x.flatten(1))
            with torch.no_grad():
                z = torch.zeros_like(x)
                for _ in range(8):
                    z = self.step(z, x)
            z = self.step(z, x)
            if self.training:
                z0 = z.detach().requires_grad_()
                f0 = self.step(z0, x)

                def solve(gradient: torch.Tensor) -> torch.Tensor:
                    g = gradient
                    for _ in range(8):
                        g = torch.autograd.grad(f0, z0, g, retain_graph=True)[0] + gradient
                    return g

                z.register_hook(solve)
            return self.out(z)

    return classify(Equilibrium())


class ReversibleSum(torch.autograd.Function):
    """Keeps only its outputs: backward computes the inputs back from them, and runs both parts again."""

    @staticmethod
    def forward(ctx: Any, f: Any, g: Any, x: torch.Tensor, y: torch.Tensor, *_parameters: Any) -> Any:
        with torch.no_grad():
            y1 = x + f(y)
            y2 = y + g(y1)
        ctx.parts = f, g
        ctx.save_for_backward(y1, y2)
        return y1, y2

    @staticmethod
    def backward(ctx: Any, d1: torch.Tensor, d2: torch.Tensor) -> Any:
        (y1, y2), (f, g) = ctx.saved_tensors, ctx.parts
        with torch.enable_grad():
            y1 = y1.detach().requires_grad_()
            out = g(y1)
        from_g = torch.autograd.grad(out, [y1, *g.parameters()], d2)
        x2 = (y2 - out).detach().requires_grad_()
        d1 = d1 + from_g[0]
        with torch.enable_grad():
            out = f(x2)
        from_f = torch.autograd.grad(out, [x2, *f.parameters()], d1)
        return (None, None, d1, d2 + from_f[0], *from_f[1:], *from_g[1:])


@kind
def reversible_blocks_that_save_memory() -> Program:
    class Reversible(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
            self.g = nn.Sequential(nn.Linear(8, 8), nn.Tanh())

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            return ReversibleSum.apply(self.f, self.g, x, y, *self.f.parameters(), *self.g.parameters())

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.blocks = nn.Linear(64, 16), nn.ModuleList([Reversible(), Reversible()])
            self.head = nn.Linear(16, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            halves = self.stem(x.flatten(1)).chunk(2, 1)
            for block in self.blocks:
                halves = block(*halves)
            return self.head(torch.cat(halves, 1))

    return classify(Model())


@kind
def parameters_in_lists_and_dicts_shared_by_layers() -> Program:
    class Shared(nn.Module):
        """No submodule has a weight of its own; one matrix is used transposed, and one in every layer."""

        def __init__(self) -> None:
            super().__init__()
            self.weights = nn.ParameterList([nn.Parameter(torch.randn(64, 8) * 0.1)])
            self.weights.append(torch.randn(8, 8) * 0.3)
            self.named = nn.ParameterDict({"out": torch.randn(8, 5) * 0.3, "gain": torch.ones(8)})
            self.activations = nn.ModuleDict({"a": nn.SELU(), "b": nn.Softshrink(0.01)})

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.flatten(1) @ self.weights[0]
            for activation in self.activations.values():
                x = activation(x @ self.weights[1]) * self.named["gain"]
            back = x @ self.weights[0].T
            return (x + back @ self.weights[0]) @ self.named["out"]

    return classify(Shared())


@kind
def capsules_that_agree_by_routing() -> Program:
    class Capsules(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 8, 4, stride=2)
            self.weight = nn.Parameter(torch.randn(18, 5, 4, 3) * 0.1)

        @staticmethod
        def squash(x: torch.Tensor) -> torch.Tensor:
            square = x.square().sum(-1, keepdim=True)
            return square / (1 + square) * x / (square + 1e-8).sqrt()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            capsules = self.squash(self.conv(x).flatten(1).unflatten(1, (18, 4)))
            votes = torch.einsum("bic,ijcd->bijd", capsules, self.weight)
            logits = torch.zeros(votes.shape[:3])
            for _ in range(2):
                out = self.squash((logits.softmax(2)[..., None] * votes.detach()).sum(1))
                logits = logits + (votes.detach() * out[:, None]).sum(-1)
            return self.squash((logits.softmax(2)[..., None] * votes).sum(1)).norm(dim=-1)

    return classify(Capsules())


@kind
def memory_written_by_the_model() -> Program:
    class Machine(nn.Module):
        """A memory that each token reads by attention and writes, in place, into a clone of."""

        def __init__(self) -> None:
            super().__init__()
            self.embed, self.key, self.out = nn.Embedding(11, 6), nn.Linear(6, 6), nn.Linear(12, 11)
            self.start = nn.Parameter(torch.randn(4, 6) * 0.1)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            memory, outs = self.start.expand(len(ids), -1, -1).clone(), []
            for x in self.embed(ids).unbind(1):
                at = torch.einsum("bsc,bc->bs", memory, self.key(x)).softmax(1)
                outs.append(self.out(torch.cat([x, torch.einsum("bs,bsc->bc", at, memory)], 1)))
                memory = memory.clone()
                memory[torch.arange(len(ids)), at.argmax(1)] += x
            return torch.stack(outs, 1)

    def loss(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())

    return fit(Machine(), loss, tokens())


@kind
def low_rank_adapters_on_a_frozen_model() -> Program:
    class Adapter(nn.Module):
        def __init__(self, base: nn.Linear) -> None:
            super().__init__()
            self.base = base.requires_grad_(False)
            self.down = nn.Linear(base.in_features, 2, bias=False)
            self.up = nn.Linear(2, base.out_features, bias=False)
            nn.init.zeros_(self.up.weight)
            self.merged = False

        def train(self, mode: bool = True) -> Adapter:
            """In eval the adapter is added to the frozen weight, and taken out again for training."""
            if self.merged == mode:
                with torch.no_grad():
                    change = self.up.weight @ self.down.weight
                    self.base.weight.add_(change if not mode else -change)
                self.merged = not mode
            return super().train(mode)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out = self.base(x)
            return out if self.merged else out + self.up(F.dropout(self.down(x), 0.1, self.training))

    model = nn.Sequential(nn.Flatten(), Adapter(nn.Linear(64, 8)), nn.GELU(), Adapter(nn.Linear(8, 5)))
    trained = [p for p in model.parameters() if p.requires_grad]
    return classify(model, torch.optim.AdamW(trained, lr=0.05))


class Tagged(torch.Tensor):
    """A tensor that carries a note and hands it on."""

    note: str = ""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = super().__torch_function__(func, types, args, kwargs or {})
        notes = [a.note for a in args if isinstance(a, Tagged)]
        if isinstance(out, Tagged) and notes:
            out.note = notes[0] + "."
            CALLS.append(getattr(func, "__name__", ""))
        return out


CALLS: list[str] = []


@kind
def tensor_subclasses_as_inputs() -> Program:
    CALLS.clear()

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(64, 8), nn.Linear(8, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert isinstance(x, Tagged)
            y = self.fc1(x.flatten(1)).relu()
            assert y.note.startswith("first"), y.note
            return self.fc2(y).as_subclass(torch.Tensor)

    program = classify(Plain())
    program.batches = [(x.as_subclass(Tagged), y) for x, y in program.batches]
    for x, _y in program.batches:
        x.note = "first"
    program.also = lambda: CALLS
    return program


class Scaled(torch.Tensor):
    """A parameter that counts twice in every linear layer."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.linear:
            x, weight = args[:2]
            with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001  as torch's documentation does
                return torch.matmul(x, weight.t() * 2) + (args[2] if len(args) > 2 else kwargs["bias"])
        return super().__torch_function__(func, types, args, kwargs or {})


@kind
def tensor_subclasses_as_parameters() -> Program:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 5))
    model[1].weight = nn.Parameter(model[1].weight.detach().as_subclass(Scaled))
    return classify(model)
