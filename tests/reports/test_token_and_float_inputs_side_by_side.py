"""Token ids for an embedding and dense floats as two inputs, a dict as output, and an input nothing uses.

That attributions end at the embedding, since ids have no gradient, and that one of the unused input says so,
belongs here once there are attributions. What they will need is here: values, gradients and data flow.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.reports.training import watched


class Wide(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.dense, self.out = nn.Embedding(50, 4), nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, ids: torch.Tensor, floats: torch.Tensor, spare: torch.Tensor) -> dict[str, Any]:
        return {"logits": self.out(self.embed(ids).mean(1) + self.dense(floats))}


def test_token_and_float_inputs_side_by_side() -> None:
    torch.manual_seed(0)
    model = Wide()
    ids, floats = torch.randint(0, 50, (5, 6)), torch.randn(5, 3, requires_grad=True)
    spare = torch.randn(5, 2, requires_grad=True)
    with watched(
        model, lambda _: model(ids, floats, spare)["logits"].square().sum().backward(), batches=4
    ) as run:
        run.again()
        shown = run.snapshot
        assert torch.equal(shown.activations["ids"], ids)
        assert torch.equal(shown.activations["floats"], floats)
        assert torch.equal(shown.activations["spare"], spare)

        embedded = model.embed(ids)
        out = model.out(embedded.mean(1) + model.dense(floats)).square().sum()
        of_embedding, of_floats = torch.autograd.grad(out, [embedded, floats])
        assert torch.allclose(shown.activation_gradients["embed"], of_embedding)
        assert torch.allclose(shown.activation_gradients["floats"], of_floats)
        assert run.leaf("ids").gradient_reason == "no gradient: int64 values have none"
        reason = run.leaf("spare").gradient_reason
        assert reason == "no gradient: backward did not reach this value in this batch"
        strip = run.card("ids", sample=3)["by_kind"]["activations"]
        assert strip["dtype"] == "int64"
        assert strip["tokens"]["ids"] == ids[3].tolist()

        edges = run.session.architecture.edges
        assert {("ids", "embed"), ("floats", "dense")} <= edges
        assert not any(source == "spare" for source, _ in edges)
