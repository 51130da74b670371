"""The examples of the guide on custom metrics and tensors, as written."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

import nansense_widgets
from nansense_widgets import Session

EXAMPLES = """
@session.watch_metric("sparsity")                      # one point per batch
def sparsity(ctx: nansense_widgets.LayerContext) -> float:
    return float((ctx.activation > 0).float().mean())

@session.watch_metric("grad_rms", on="epoch", reduce="mean")  # one point per epoch
def grad_rms(ctx: nansense_widgets.LayerContext) -> float | None:
    if ctx.gradient is None:                           # e.g. no-grad val forwards
        return None                                    # skip this layer/batch
    return float(ctx.gradient.square().mean().sqrt())

@session.watch_layer_tensor("zscore")
def zscore(ctx: nansense_widgets.LayerContext) -> torch.Tensor:
    a = ctx.activation
    return (a - a.mean()) / (a.std() + 1e-6)

@session.watch_weight_tensor("adam_dir")
def adam_dir(ctx: nansense_widgets.WeightContext) -> torch.Tensor | None:
    state = ctx.optimizer_state                        # this parameter's entries
    if "exp_avg" not in state:
        return None                                    # Adam state is lazy
    return state["exp_avg"] / (state["exp_avg_sq"].sqrt() + 1e-8)
"""
"""The four code blocks of `custom-metrics.txt`, with this package's name."""


def test_the_examples_run_as_written() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 2))
    optimizer = torch.optim.Adam(model.parameters())
    session: Session = nansense_widgets.start(model, optimizer=optimizer)
    session.watch("0", "1", "3")
    session.set_update_frequency(unit="batch")
    session.step_run()
    exec(EXAMPLES, {"session": session, "nansense_widgets": nansense_widgets, "torch": torch})
    sparsity, rms = [], []
    x = torch.zeros(0)
    for epoch in range(2):
        norms = []
        for _ in session.batches(range(3), phase="train", epoch=epoch):
            optimizer.zero_grad()
            hidden = F.relu(model[0](x := torch.randn(4, 1, 8, 8)))
            sparsity.append(float((hidden > 0).float().mean()))
            out = model(x)
            out.retain_grad()
            F.cross_entropy(out, torch.ones(4, dtype=torch.long)).backward()
            assert out.grad is not None
            norms.append(float(out.grad.square().mean().sqrt()))
            optimizer.step()
        rms.append(sum(norms) / 3)
        with torch.no_grad():
            for _ in session.batches(range(2), phase="val", epoch=epoch):
                model(x)
    plots = session.watch_metrics_snapshot().plots
    assert plots("1", "train")["sparsity"][""].values.tolist() == sparsity
    torch.testing.assert_close(plots("3", "train")["grad_rms"][""].values.tolist(), rms)
    assert list(plots("3", "val")) == ["sparsity"]  # there are no gradients
    snapshot = session.snapshot
    assert snapshot is not None
    a = snapshot.activations["0"]
    torch.testing.assert_close(snapshot.custom_activations["0"]["zscore"], (a - a.mean()) / (a.std() + 1e-6))
    state = snapshot.optimizer_state["3.weight"]
    expected = state["exp_avg"] / (state["exp_avg_sq"].sqrt() + 1e-8)
    torch.testing.assert_close(snapshot.custom_weight_tensors["3.weight"]["adam_dir"], expected)
    assert session.instrument_errors == {}
    session.close()
