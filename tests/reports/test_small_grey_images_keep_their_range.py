"""LeNet on 1x28x28: one channel, and values in a range of their own, not three channels in 0 to 1.

That a deep dream starts from this shape and range belongs here once there are deep dreams; the shape and
range that it has to start from are what the input's card shows.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.reports.training import watched


class LeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(256, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.conv1(image)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        out: torch.Tensor = self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))
        return out


def test_small_grey_images_keep_their_range() -> None:
    torch.manual_seed(0)
    model = LeNet()
    image = torch.rand(4, 1, 28, 28) * 3.2 - 0.42  # as MNIST is after its mean and deviation
    with watched(model, lambda _: F.cross_entropy(model(image), torch.arange(4)).backward()) as run:
        node = run.session.architecture.nodes["image"]
        assert node.output_shapes == ((4, 1, 28, 28),)
        assert torch.equal(run.snapshot.activations["image"], image)
        strip = run.card("image", sample=3)["by_kind"]["activations"]
        assert (strip["layout"], strip["channels"], strip["samples"]) == ("tiles", 1, 4)
        assert strip["full"] == (28, 28)
        assert strip["scale"] == pytest.approx(image[3].abs().max().item())
        assert run.draws("image", image[3], sample=3)
        shapes = {n: node.output_shapes for n, node in run.session.architecture.nodes.items()}
        assert shapes["conv1"] == ((4, 6, 24, 24),)
        assert shapes["conv2"] == ((4, 16, 8, 8),)
        assert shapes["fc3"] == ((4, 10),)
