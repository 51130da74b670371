"""The structure of inputs and outputs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import rnn

from tests.kinds.program import Program, classify, fit, images, kind, tokens


class Output(NamedTuple):
    logits: torch.Tensor
    features: dict[str, torch.Tensor]


@kind
def nested_outputs_and_keyword_inputs() -> Program:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(64, 5)

        def forward(self, *, hidden: torch.Tensor, scale: float, mask: torch.Tensor | None = None) -> Output:
            y = self.fc(hidden) * scale
            return Output(y if mask is None else y * mask, {"hidden": hidden})

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, batch: dict[str, Any]) -> torch.Tensor:
            return self.inner(hidden=batch["image"][0].flatten(1), scale=2.0, mask=None).logits

    model = Outer()
    program = classify(model)
    program.batches = [({"image": [x], "id": 3}, y) for x, y in images()]
    return program


class ModelOutput(OrderedDict[str, Any]):
    """Like the outputs of transformers: a dict, a dataclass and, by index, a tuple in one."""

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if value is not None:
                super().__setitem__(entry.name, value)

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) if isinstance(key, str) else tuple(self.values())[key]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)


@dataclass
class ClassifierOutput(ModelOutput):
    loss: torch.Tensor | None = None
    logits: torch.Tensor | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None
    cache: Any = None


@kind
def model_output_with_the_loss_inside() -> Program:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(16, 16)

        def forward(self, hidden: torch.Tensor) -> tuple[torch.Tensor]:
            return (hidden + torch.relu(self.fc(hidden)),)

    class Labelled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.fc = nn.Linear(64, 16), nn.Linear(16, 5)
            self.layers = nn.ModuleList([Layer(), Layer()])

        def forward(
            self, pixels: torch.Tensor, labels: torch.Tensor | None = None, return_dict: bool = True
        ) -> Any:
            hidden = [self.stem(pixels.flatten(1))]
            for layer in self.layers:
                hidden.append(layer(hidden[-1])[0])
            logits = self.fc(hidden[-1])
            loss = None if labels is None else F.cross_entropy(logits, labels)
            return ClassifierOutput(loss, logits, tuple(hidden)) if return_dict else (loss, logits)

    def loss(model: nn.Module, item: Any) -> torch.Tensor:
        out = model(pixels=item[0], labels=item[1])
        out.logits = out.logits * 1.0  # users write into outputs
        assert out["logits"] is out[1] is out.logits
        return out.loss + 0.01 * out.hidden_states[1].square().mean()

    return fit(Labelled(), loss, images())


class Graph:
    """A plain object with tensors as attributes, as graph libraries give batches."""

    def __init__(self, x: torch.Tensor, edge_index: torch.Tensor, y: torch.Tensor) -> None:
        self.x, self.edge_index, self.y = x, edge_index, y
        self.name = "molecule"

    @property
    def expensive(self) -> torch.Tensor:
        raise AssertionError("nobody asked for this attribute")


@kind
def plain_objects_with_tensor_attributes() -> Program:
    class Convolve(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own, self.near, self.out = nn.Linear(4, 8), nn.Linear(4, 8), nn.Linear(8, 3)

        def forward(self, graph: Graph) -> Graph:
            source, target = graph.edge_index
            mean = torch.zeros_like(graph.x).index_add_(0, target, graph.x[source])
            degree = torch.zeros(len(graph.x)).scatter_add_(0, target, torch.ones(len(target)))
            near = self.near(mean / degree.clamp(min=1)[:, None])
            return Graph(self.out(F.relu(self.own(graph.x) + near)), graph.edge_index, graph.y)

    graphs = [
        Graph(torch.randn(n, 4), torch.randint(0, n, (2, 3 * n)), torch.randint(0, 3, (n,)))
        for n in (5, 9, 4)
    ]
    return fit(Convolve(), lambda model, graph: F.cross_entropy(model(graph).x, graph.y), graphs)


@kind
def packed_sequences() -> Program:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(11, 6, padding_idx=0)
            self.rnn = nn.LSTM(6, 5, bidirectional=True, proj_size=3)
            self.fc = nn.Linear(6, 11)

        def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            packed = rnn.pack_padded_sequence(self.embed(ids).transpose(0, 1), lengths, enforce_sorted=False)
            out, _state = self.rnn(packed)
            padded, _ = rnn.pad_packed_sequence(out)
            return self.fc(padded[0])

    def loss(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(ids, torch.tensor([7, 2, 5, 3])), ids[:, 0])

    return fit(Packed(), loss, tokens())


@dataclass(frozen=True)
class Detection:
    boxes: torch.Tensor
    scores: torch.Tensor
    masks: torch.Tensor | None = None
    label: str = "cat"
    extra: dict[str, Any] = field(default_factory=dict)


@kind
def lists_of_images_and_targets_in_losses_out() -> Program:
    class Detector(nn.Module):
        """In training it returns its losses, in eval its detections; a part of the items is not tensors."""

        def __init__(self) -> None:
            super().__init__()
            self.backbone = nn.Conv2d(1, 4, 3, stride=2, padding=1)
            self.box, self.score = nn.Linear(4, 4), nn.Linear(4, 1)

        def forward(self, images: list[torch.Tensor], targets: list[dict[str, Any]] | None = None) -> Any:
            features = [F.relu(self.backbone(image[None])).mean((2, 3)) for image in images]
            found = [
                Detection(self.box(f), self.score(f).sigmoid(), extra={"from": [f, None, 3]})
                for f in features
            ]
            if targets is None:
                return found
            pairs = list(zip(found, targets, strict=True))
            return {
                "box": torch.stack([F.smooth_l1_loss(d.boxes[0], t["boxes"]) for d, t in pairs]).mean(),
                "score": torch.stack([(d.scores - t["score"]).square().sum() for d, t in pairs]).mean(),
                "none": None,
            }

    model = Detector()
    sizes = [(8, 8), (6, 9), (10, 5)]
    batches = [
        (
            [torch.randn(1, h, w) for h, w in sizes],
            [{"boxes": torch.rand(4), "score": 0.5, "id": f"image {i}"} for i in range(3)],
        )
        for _ in range(3)
    ]

    def loss(model: nn.Module, item: Any) -> torch.Tensor:
        return sum(value for value in model(*item).values() if value is not None)

    program = fit(model, loss, batches)

    def validate(item: Any) -> torch.Tensor:
        model.eval()
        with torch.no_grad():
            found = model(item[0])
        model.train()
        return torch.cat([d.scores for d in found])

    program.validate = validate
    return program


@kind
def variadic_and_keyword_only_inputs() -> Program:
    class Fusion(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleDict({name: nn.Linear(64, 5) for name in ("left", "right", "extra")})

        def forward(
            self, *views: torch.Tensor, scale: float = 1.0, bias: torch.Tensor | None = None, **more: Any
        ) -> torch.Tensor:
            total = sum(
                part(view) for part, view in zip(self.parts.values(), (*views, more["extra"]), strict=True)
            )
            return total * scale if bias is None else total * scale + bias

    def loss(model: nn.Module, item: Any) -> torch.Tensor:
        x, y = item[0].flatten(1), item[1]
        out = model(x, x.flip(1), extra=x.tanh(), scale=0.5, note="ignored")
        return F.cross_entropy(out + model(x, x, bias=torch.ones(5), extra=x), y)

    return fit(Fusion(), loss, images())


@kind
def a_generator_as_output() -> Program:
    class Stream(nn.Module):
        """What a call returns has not run yet: the layers run when the loop takes from it."""

        def __init__(self) -> None:
            super().__init__()
            self.stages = nn.ModuleList([nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 5)])

        def forward(self, x: torch.Tensor) -> Iterator[torch.Tensor]:
            x = x.flatten(1)
            for stage in self.stages:
                x = torch.tanh(stage(x))
                yield x

    def loss(model: nn.Module, item: Any) -> torch.Tensor:
        first, *_, last = model(item[0])
        return F.cross_entropy(last, item[1]) + first.square().mean()

    return fit(Stream(), loss, images())


@kind
def call_overridden_and_default_arguments() -> Program:
    class Timed(nn.Module):
        """Its `__call__` is the user's own: it counts, and calls the real one twice now and then."""

        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner, self.count = inner, 0

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            self.count += 1
            out = super().__call__(*args, **kwargs)
            return out if self.count % 2 else (out + super().__call__(*args, **kwargs)) / 2

        def forward(
            self, x: torch.Tensor, temperature: float = 2.0, mask: torch.Tensor | None = None
        ) -> torch.Tensor:
            out = self.inner(x) / temperature
            return out if mask is None else out.masked_fill(mask, -1e9)

    model = Timed(nn.Sequential(nn.Flatten(), Timed(nn.Linear(64, 8)), nn.Dropout(0.1), nn.Linear(8, 5)))
    program = classify(model)
    program.also = lambda: [model.count, model.inner[1].count]
    return program
