"""Models that are not plain Python any more: compiled, scripted, traced, exported."""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.kinds.program import Program, Walk, classify, images, kind, mlp


def compilable() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Dropout(0.2), nn.GELU(), nn.Linear(8, 5))


@kind
def compiled_before_start() -> Program:
    model = torch.compile(compilable(), backend="eager")
    return classify(model)


@kind
def compiled_after_start() -> Program:
    model = compilable()
    program = classify(model)
    optimizer = program.optimizers[0]

    def loop(walk: Walk) -> list[torch.Tensor]:
        losses = []
        fast = torch.compile(model, backend="aot_eager")
        for _ in walk.epochs(2):
            for x, y in walk.batches(program.batches, phase="train"):
                optimizer.zero_grad()
                loss = F.cross_entropy(fast(x), y)
                loss.backward()
                optimizer.step()
                losses.append(loss.detach())
        return losses

    program.loop = loop
    return program


@kind
def parts_compiled_in_place() -> Program:
    class Blocks(nn.Module):
        """One block is compiled, and a plain function of its own; what is around them is not."""

        def __init__(self) -> None:
            super().__init__()
            self.stem, self.head = nn.Linear(64, 8), nn.Linear(8, 5)
            self.block = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
            self.block.compile(backend="eager")
            self.mix = torch.compile(self._mix, backend="eager")

        def _mix(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y.sigmoid() * x

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x.flatten(1))
            return self.head(self.mix(x, self.block(x)))

    return classify(Blocks())


@kind
def a_compiled_training_step() -> Program:
    model = compilable()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @torch.compile(backend="eager")
    def losses(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(x), y)

    def train(item: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = losses(*item)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Program(model, [optimizer], images(), train)


@kind
def a_graph_break_and_a_disabled_part() -> Program:
    class Breaks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(64, 8), nn.Linear(8, 5)
            self.seen: list[float] = []

        @torch.compiler.disable
        def note(self, x: torch.Tensor) -> None:
            self.seen.append(float(x.detach().mean()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.a(x.flatten(1)).relu()
            self.note(x)
            torch._dynamo.graph_break()  # noqa: SLF001  where users break a graph
            return self.b(x)

    model = Breaks()
    program = classify(torch.compile(model, backend="eager"))
    program.also = lambda: model.seen
    return program


@kind
def scripted_and_traced_parts() -> Program:
    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.sum() > 0:
                x = x * 2
            return torch.relu(self.fc(x))

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.head = nn.Linear(64, 8), nn.Linear(8, 5)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # deprecated, and still in use
                self.scripted = torch.jit.script(Part())
                self.traced = torch.jit.trace(nn.Sequential(nn.Linear(8, 8), nn.Tanh()), torch.randn(2, 8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.traced(self.scripted(self.stem(x.flatten(1)))))

    return classify(Mixed())


@kind
def a_script_module_as_the_model() -> Program:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return classify(torch.jit.script(mlp()))


@kind
def an_fx_graph_module() -> Program:
    class Traceable(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.fc = nn.Conv2d(1, 4, 3), nn.Linear(4, 5)
            self.scale = nn.Parameter(torch.ones(4, 1, 1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = F.relu(self.conv(x), inplace=True)
            x = x + x * self.scale
            return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))

    graph = torch.fx.symbolic_trace(Traceable())
    for node in graph.graph.nodes:
        if node.target is F.relu:
            node.target = F.silu
    graph.recompile()
    return classify(graph)


@kind
def an_exported_module() -> Program:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 5))
    exported = torch.export.export(model, (torch.randn(6, 1, 8, 8),)).module()
    optimizer = torch.optim.SGD(exported.parameters(), lr=0.1)

    def train(item: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(exported(item[0]), item[1])
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Program(exported, [optimizer], images(), train)


@kind
def control_flow_operators() -> Program:
    class Conditional(nn.Module):
        """`torch.cond` runs its branches through Dynamo even where nothing is compiled."""

        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.out = nn.Linear(64, 8), nn.Linear(64, 8), nn.Linear(8, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.flatten(1)

            def warm(x: torch.Tensor) -> torch.Tensor:
                return self.a(x).sin()

            def cold(x: torch.Tensor) -> torch.Tensor:
                return self.b(x).cos()

            return self.out(torch.cond(x.mean() > 0, warm, cold, (x,)))

    program = classify(Conditional())
    program.batches, program.validate = images(2), None  # each costs a trace by Dynamo
    return program
