"""Kinds of number."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.kinds.program import Program, classify, fit, images, kind, language, mlp


@kind
def sparse_embedding() -> Program:
    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(11, 8, sparse=True)
            self.fc = nn.Linear(8, 11)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.fc(self.embed(ids).mean(1))

    model = Bag()
    program = language(model, lambda m, ids: F.cross_entropy(m(ids), ids[:, 0]))
    optimizers = [
        torch.optim.SparseAdam([model.embed.weight], lr=0.01),
        torch.optim.SGD(model.fc.parameters(), lr=0.1),
    ]

    def train(ids: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(model(ids), ids[:, 0])
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    program.optimizers, program.train = list(optimizers), train
    return program


@kind
def double_precision_and_complex() -> Program:
    class Spectral(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8, 5, dtype=torch.complex128) * 0.1)
            self.fc = nn.Linear(40, 5, dtype=torch.float64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            spectrum = torch.fft.rfft2(x[:, 0].double()) * self.weight
            return self.fc(torch.fft.irfft2(spectrum, s=(8, 5)).flatten(1)).float()

    return classify(Spectral())


@kind
def half_precision() -> Program:
    model = mlp().to(torch.bfloat16)
    program = classify(model)
    program.batches = [(x.bfloat16(), y) for x, y in images()]
    return program


@kind
def half_precision_float16() -> Program:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.LayerNorm(144), nn.Linear(144, 5))
    program = classify(model.half())
    program.batches = [(x.half(), y) for x, y in images(3)]
    return program


@kind
def autocast_around_the_whole_step() -> Program:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.SiLU(), nn.Flatten(), nn.Linear(144, 5))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def train(item: Any) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(item[0]), item[1])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    @torch.no_grad()
    def validate(item: Any) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            return model(item[0]).float().logsumexp(1).mean()

    return Program(model, [optimizer], images(3), train, validate)


class ComplexLinear(nn.Module):
    def __init__(self, n: int, m: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(m, n, dtype=torch.complex64) * 0.2)
        self.bias = nn.Parameter(torch.zeros(m, dtype=torch.complex64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias)


class ModReLU(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.full((n,), -0.1))

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return torch.polar(F.relu(z.abs() + self.bias), z.angle())


@kind
def complex_layers() -> Program:
    class Phases(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(ComplexLinear(8, 6), ModReLU(6), ComplexLinear(6, 5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            z = self.layers(torch.fft.fft(x[:, 0], norm="ortho"))
            return (z * z.conj()).real.mean(1) + z[:, 0].imag

    return classify(Phases())


@kind
def integers_and_booleans_on_the_way() -> Program:
    class Bytes(nn.Module):
        """Pictures come as bytes; a part of the features is counted, compared and packed into bits."""

        def __init__(self) -> None:
            super().__init__()
            self.fc, self.code = nn.Linear(64, 8), nn.Embedding(16, 5)
            self.register_buffer("seen", torch.zeros(16, dtype=torch.int64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.fc(x.flatten(1).float().div(255).sub(0.5))
            bits = (y[:, :4] > 0) ^ (y[:, 4:] < 0)
            code = (bits.to(torch.uint8) << torch.arange(4, dtype=torch.uint8)).sum(1)
            self.seen += F.one_hot(code, 16).sum(0)
            order = y.argsort(1).to(torch.int32)
            return self.code(code) + y.gather(1, order[:, :5].long()) * bits.any(1, keepdim=True)

    program = classify(Bytes())
    program.batches = [((x * 60 + 128).clamp(0, 255).byte(), y) for x, y in images(3)]
    return program


class Rounded(torch.autograd.Function):
    """Through real quantized tensors, with the gradient passed straight through."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.quantize_per_tensor(x, 0.05, 64, torch.quint8).dequantize()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


@kind
def quantized_tensors_inside() -> Program:
    class Quantized(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(64, 8), nn.Linear(8, 5)
            self.pack = Pack()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = Rounded.apply(self.fc1(x.flatten(1)))
            with torch.no_grad():
                error = y - self.pack(y).dequantize()
            return self.fc2(y - error)

    class Pack(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.quantize_per_channel(
                x, torch.full((8,), 0.1), torch.zeros(8, dtype=torch.int64), 1, torch.qint8
            )

    return classify(Quantized())


@kind
def fake_quantization_with_observers() -> Program:
    class Observed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(64, 8), nn.Linear(8, 5)
            self.register_buffer("low", torch.tensor(0.0))
            self.register_buffer("high", torch.tensor(0.0))
            self.log_scale = nn.Parameter(torch.tensor([0.02]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.fc1(x.flatten(1))
            if self.training:
                self.low.copy_(torch.minimum(self.low, y.detach().min()))
                self.high.copy_(torch.maximum(self.high, y.detach().max()))
            scale = ((self.high - self.low) / 255).item()
            zero = min(255, max(0, round(-self.low.item() / scale)))
            y = torch.fake_quantize_per_tensor_affine(y, scale, zero, 0, 255)
            weight = torch._fake_quantize_learnable_per_tensor_affine(  # noqa: SLF001  torch has no other
                self.fc2.weight, self.log_scale, torch.zeros(1), -128, 127, 0.1
            )
            return F.linear(y, weight, self.fc2.bias)

    return classify(Observed())


@kind
def parameters_on_the_meta_device() -> Program:
    class Partly(nn.Module):
        """A part of the model was never loaded, and is never called."""

        def __init__(self) -> None:
            super().__init__()
            self.used = mlp()
            self.offloaded = nn.Sequential(
                nn.Linear(64, 64, device="meta"), nn.BatchNorm1d(64, device="meta")
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.used(x)

    return classify(Partly())


@kind
def lazy_modules_made_by_the_first_batch() -> Program:
    model = nn.Sequential(
        nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(5)
    )
    return classify(model)


@kind
def nested_tensors() -> Program:
    class Ragged(nn.Module):
        """Sentences of different lengths without padding."""

        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 11)

        def forward(self, parts: list[torch.Tensor]) -> torch.Tensor:
            x = torch.nested.nested_tensor(parts, layout=torch.jagged)
            y = self.down(F.gelu(self.up(x)))
            return torch.stack([part.mean(0) for part in y.unbind()])

    batches = [[torch.randn(n, 4) for n in (2, 5, 3)] for _ in range(3)]
    return fit(Ragged(), lambda model, parts: F.cross_entropy(model(parts), torch.tensor([1, 4, 7])), batches)


@kind
def sparse_matrices() -> Program:
    class Adjacency(nn.Module):
        """Sparse in two layouts: a coordinate matrix that needs a gradient, and compressed rows."""

        def __init__(self) -> None:
            super().__init__()
            self.values, self.fc = nn.Parameter(torch.rand(12)), nn.Linear(4, 5)
            self.register_buffer("index", torch.randint(0, 6, (2, 12)))
            self.register_buffer("fixed", torch.eye(6).to_sparse_csr())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            adjacency = torch.sparse_coo_tensor(self.index, self.values, (6, 6))
            return self.fc(torch.sparse.mm(adjacency, x[:, 0, 0, :4]) + self.fixed @ x[:, 0, 1, :4])

    return classify(Adjacency())
