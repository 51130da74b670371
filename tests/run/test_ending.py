"""A process that ends while threads of ours compute ends well."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import itertools, torch
from torch import nn
import nansense_widgets

model = nn.Sequential(nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 400))
session = nansense_widgets.start(model)
session.watch("*")
session.set_stats_scope("all")
session.set_update_frequency(unit="batch")

def loop():
    for _ in session.batches(itertools.count(), phase="train"):
        model(torch.randn(256, 400)).sum().backward()

session.step_run()
session.launch(loop)
dashboard = session.dashboard()
cards = [
    {"layer": layer, "call": 1, "leaf": 0, "view": "strips", "options": {
        "sample": 0, "average": False, "transform": "none", "part": "magnitude",
        "first": 0, "count": 400, "px": 56, "depth": 0,
    }}
    for layer in ("0", "1", "2")
]
dashboard.send = lambda message, buffers=None: message["type"] == "cards" and dashboard.handle(
    {"type": "ack", "view": "v", "seq": message["seq"]}
)
dashboard.handle({"type": "want", "view": "v", "cards": cards})
import time
time.sleep(0.3)
print("the end")
"""


def test_threads_inside_torch_do_not_abort_the_end_of_the_process() -> None:
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "the end" in done.stdout
        assert "terminate called" not in done.stderr


THREADS = """
import torch
from torch import nn
import nansense_widgets

torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval()
x = torch.randn(2, 5, 8)
with torch.no_grad():
    here = model(x)

def loop():
    with torch.no_grad():
        return [torch.equal(here, model(x)) for _ in session.batches(range(3), phase="val")]

session = nansense_widgets.start(model)
session.detach()
session.launch(loop)
session.wait()
print(session.result)
"""


def test_the_worker_computes_with_the_number_of_threads_of_the_caller() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", THREADS],
        capture_output=True, text=True, timeout=60, check=False, env=environment,
    )  # fmt: skip
    assert done.stdout.strip() == "[True, True, True]", done.stdout + done.stderr
