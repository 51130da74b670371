"""Small models, one for each kind of input, for the tests of the input pane."""

from __future__ import annotations

__all__ = ["INPUT_LOOP", "NETS"]

HEAD = """
import threading, time, torch
import torch.nn.functional as F
from torch import nn
import nansense_widgets

torch.set_num_threads(1)
torch.manual_seed(0)
"""

INPUT_LOOP = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

def train(epochs=3):
    for epoch in session.epochs(epochs):
        for *inputs, y in session.batches(data, phase="train"):
            optimizer.zero_grad()
            out = model(*inputs)
            loss = F.mse_loss(out, y) if y.is_floating_point() else F.cross_entropy(out, y)
            loss.backward()
            optimizer.step()
"""

RINGS = """
def rings(count, channels, size):
    y, x = torch.meshgrid(torch.linspace(0, 1, size), torch.linspace(0, 1, size), indexing="ij")
    found = torch.zeros(count, channels, size, size)
    for sample in range(count):
        for channel in range(channels):
            for _ in range(2):
                cy, cx, r = 0.3 + 0.4 * torch.rand(3)
                away = ((x - cx) ** 2 + (y - cy) ** 2).sqrt() - r / 2
                found[sample, channel] = found[sample, channel].maximum(torch.exp(-(away**2) / 0.001))
    return found
"""

CONV = """
class Net(nn.Module):
    def __init__(self, channels={channels}):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 8, 3, padding=1)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1, stride=2)
        self.fc = nn.Linear(8, 10)

    def forward(self, image):
        x = self.conv2(self.relu(self.conv1(image)))
        return self.fc(F.relu(x).mean((2, 3)))

model = Net()
data = [(rings({count}, {channels}, {size}), torch.randint(0, 10, ({count},))) for _ in range(6)]
"""

FLAT = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(13, 16)
        self.relu = nn.ReLU()
        self.fc2 = nn.Linear(16, 1)

    def forward(self, table):
        return self.fc2(self.relu(self.fc1(table)))

model = Net()
data = [(torch.randn(16, 13), torch.randn(16, 1)) for _ in range(6)]
"""

TOKENS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 12)
        self.mix = nn.Linear(12, 12)
        self.head = nn.Linear(12, 4)

    def forward(self, ids, attention_mask):
        x = F.relu(self.mix(self.embedding(ids))) * attention_mask[..., None]
        return self.head(x.mean(1))

model = Net()
data = [(torch.randint(0, 50, (8, 16)), torch.ones(8, 16), torch.randint(0, 4, (8,))) for _ in range(6)]
"""

SIGNAL = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 6, 5, padding=2)
        self.head = nn.Linear(6, 4)

    def forward(self, wave):
        return self.head(F.relu(self.conv(wave)).mean(2))

model = Net()
data = [(torch.randn(8, 3, 200).cumsum(2) / 8, torch.randint(0, 4, (8,))) for _ in range(6)]
"""

TWO = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3, padding=1)
        self.fc = nn.Linear(40, 6)
        self.head = nn.Linear(12, 4)

    def forward(self, image, meta):
        return self.head(torch.cat([F.relu(self.conv(image)).mean((2, 3)), F.relu(self.fc(meta))], 1))

model = Net()
data = [(rings(8, 1, 20), torch.randn(8, 40), torch.randint(0, 4, (8,))) for _ in range(6)]
"""

NETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "image": (HEAD + RINGS + CONV.format(channels=1, count=40, size=28), ("conv1", "conv2", "fc")),
    "colour": (HEAD + RINGS + CONV.format(channels=3, count=8, size=32), ("conv1", "conv2", "fc")),
    "flat": (HEAD + FLAT, ("fc1", "fc2")),
    "tokens": (HEAD + TOKENS, ("embedding", "mix", "head")),
    "signal": (HEAD + SIGNAL, ("conv", "head")),
    "two": (HEAD + RINGS + TWO, ("conv", "fc", "head")),
}
"""The model and its data as code of a notebook, and what to watch."""
