"""Shapes: where batch, time and channels lie, and tensors with one, few or no elements."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.kinds.program import Program, classify, fit, images, kind, tokens


@kind
def time_first_recurrent_layers() -> Program:
    class Speech(nn.Module):
        """(B, C, L) convolutions into (T, B, C) recurrent layers into a CTC loss."""

        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv1d(3, 6, 3, padding=1), nn.BatchNorm1d(6)
            self.gru, self.rnn = nn.GRU(6, 4, bidirectional=True), nn.RNN(8, 6, nonlinearity="relu")
            self.out = nn.Linear(6, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = F.relu(self.norm(self.conv(x))).permute(2, 0, 1)
            x, state = self.gru(x)
            x, _ = self.rnn(x, state.new_zeros(1, x.shape[1], 6))
            return self.out(x).log_softmax(-1)

    def loss(model: nn.Module, item: Any) -> torch.Tensor:
        x, y = item
        return F.ctc_loss(model(x), y, torch.full((3,), 9), torch.tensor([4, 3, 2]))

    batches = [(torch.randn(3, 3, 9), torch.randint(1, 5, (3, 4))) for _ in range(3)]
    return fit(Speech(), loss, batches)


@kind
def a_model_that_returns_its_loss_as_a_number() -> Program:
    class Energy(nn.Module):
        """Everything after the sum has no dimensions, parameters included."""

        def __init__(self) -> None:
            super().__init__()
            self.fc, self.log_scale = nn.Linear(64, 4), nn.Parameter(torch.tensor(0.1))
            self.register_buffer("steps", torch.tensor(0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.steps.add_(1)
            energy = self.fc(x.flatten(1)).square().sum()
            return (energy.log() * self.log_scale.exp() + energy.sqrt().sin()) / self.steps

    return fit(Energy(), lambda model, item: model(item[0]), images())


@kind
def empty_tensors() -> Program:
    class Sparse(nn.Module):
        """Each branch gets the rows that are its own, and there may be none."""

        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 2, 3)
            self.branches = nn.ModuleList([nn.Linear(72, 5) for _ in range(4)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.conv(x).flatten(1)
            chosen = (y[:, 0] > 0).long() + 2 * (y[:, 0] > 1e9).long()
            out = torch.cat([branch(y[chosen == i]) for i, branch in enumerate(self.branches)])
            nothing = self.conv(x[:0])
            return out + nothing.sum() + y[:, :0].sum(1, keepdim=True)

    return classify(Sparse())


@kind
def batches_of_one_and_a_short_last_one() -> Program:
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(144, 5)
    )
    program = classify(model)
    x, y = torch.randn(7, 1, 8, 8), torch.randint(0, 5, (7,))
    program.batches = [
        *DataLoader(TensorDataset(x, y), batch_size=3, shuffle=True),  # 3, 3, 1
        (x[:1], y[:1]),
    ]
    return program


@kind
def no_batch_dimension() -> Program:
    class Single(nn.Module):
        """One sample at a time: (C, H, W), (T, C) and (C,)."""

        def __init__(self) -> None:
            super().__init__()
            self.conv, self.pool = nn.Conv2d(1, 4, 3), nn.MaxPool2d(2)
            self.lstm, self.attention = nn.LSTM(9, 6), nn.MultiheadAttention(6, 2)
            self.fc = nn.Linear(6, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.pool(F.relu(self.conv(x))).flatten(1)
            x, (_, cell) = self.lstm(x)
            x, _ = self.attention(x, x, x)
            return self.fc(x.mean(0) + cell[0])

    return fit(
        Single(),
        lambda model, item: F.cross_entropy(model(item[0][0]), item[1][0]),
        images(),
    )


@kind
def channels_last_memory() -> Program:
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(True), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(36, 5)
    ).to(memory_format=torch.channels_last)
    program = classify(model)
    program.batches = [(x.to(memory_format=torch.channels_last), y) for x, y in images(channels=2)]
    return program


@kind
def volumes_over_time() -> Program:
    class Video(nn.Module):
        """(B, C, T, H, W), with space and time convolved apart, and a pooling that gives its indices."""

        def __init__(self) -> None:
            super().__init__()
            self.space, self.time = nn.Conv3d(1, 4, (1, 3, 3)), nn.Conv3d(4, 4, (3, 1, 1), padding=(1, 0, 0))
            self.pool = nn.MaxPool3d((1, 2, 2), return_indices=True)
            self.unpool, self.fc = nn.MaxUnpool3d((1, 2, 2)), nn.Linear(4, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = F.relu(self.time(F.relu(self.space(x))))
            pooled, indices = self.pool(x)
            x = x - self.unpool(pooled * 0.5, indices, output_size=x.shape)
            return self.fc(F.adaptive_avg_pool3d(x, 1)[:, :, 0, 0, 0])

    program = classify(Video())
    program.batches = [(torch.randn(2, 1, 4, 6, 6), torch.randint(0, 5, (2,))) for _ in range(3)]
    return program


@kind
def overlapping_windows_and_expanded_views() -> Program:
    class Views(nn.Module):
        """Tensors whose elements share memory: unfold, expand, as_strided, flips and diagonals."""

        def __init__(self) -> None:
            super().__init__()
            self.embed, self.fc = nn.Embedding(11, 4), nn.Linear(12, 11)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            x = self.embed(ids)
            windows = x.unfold(1, 3, 1)  # (B, T - 2, C, 3), each value in up to three windows
            mean = x.mean(1, keepdim=True).expand(-1, windows.shape[1], -1)
            diagonal = torch.as_strided(x, (len(x), 4), (x.stride(0), 5))
            y = self.fc((windows - mean[..., None]).flatten(2)).mean(1)
            return y + F.pad(diagonal, (0, 7)).flip(1)

    return fit(Views(), lambda model, ids: F.cross_entropy(model(ids), ids[:, 0]), tokens())
