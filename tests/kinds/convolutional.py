"""Convolutional networks."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.kinds.program import Program, classify, head, kind


class Residual(nn.Module):
    def __init__(self, channels: int, inplace: bool = False) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += x
        return self.relu(y)


@kind
def residual_network() -> Program:
    return classify(nn.Sequential(nn.Conv2d(1, 4, 3), Residual(4), Residual(4), *head(4)))


@kind
def residual_network_in_place() -> Program:
    return classify(nn.Sequential(nn.Conv2d(1, 4, 3), Residual(4, True), Residual(4, True), *head(4)))


@kind
def dropout_and_batchnorm() -> Program:
    return classify(
        nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Dropout2d(0.3), nn.ELU(inplace=True), *head(4)
        )
    )


@kind
def unet() -> Program:
    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down1 = nn.Conv2d(1, 4, 3, padding=1)
            self.down2 = nn.Conv2d(4, 8, 3, padding=1)
            self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
            self.out = nn.Conv2d(8, 5, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            a = torch.relu(self.down1(x))
            b = torch.relu(self.down2(F.max_pool2d(a, 2)))
            return self.out(torch.cat([self.up(b), a], dim=1)).mean((2, 3))

    return classify(UNet())


@kind
def densenet() -> Program:
    class Dense(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convs = nn.ModuleList([nn.Conv2d(1 + 2 * i, 2, 3, padding=1) for i in range(3)])
            self.fc = nn.Linear(7, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            features = [x]
            for conv in self.convs:
                features.append(F.relu_(conv(torch.cat(features, 1))))
            return self.fc(torch.cat(features, 1).mean((2, 3)))

    return classify(Dense())


@kind
def three_dimensional() -> Program:
    model = nn.Sequential(
        nn.Conv3d(1, 3, 3), nn.GELU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(3, 5)
    )
    program = classify(model)
    program.batches = [(torch.randn(2, 1, 5, 5, 5), torch.randint(0, 5, (2,))) for _ in range(4)]
    return program


@kind
def one_dimensional() -> Program:
    model = nn.Sequential(nn.Conv1d(2, 4, 3), nn.ReLU(), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(16, 5))
    program = classify(model)
    program.batches = [(torch.randn(3, 2, 10), torch.randint(0, 5, (3,))) for _ in range(4)]
    return program
