"""Attention weights formed beside the forward equal those that a forward which forms them itself gives."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from nansense_widgets.capture import attention
from tests.capture.test_capture import capture

MAPS = attention.MAPS


class Attends(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(8, 2, dropout=0.5, **options)

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **masks: Any) -> torch.Tensor:
        return self.attn(q, k, v, need_weights=False, **masks)[0]


def maps(snapshot: Any, layer: str) -> torch.Tensor:
    (call,) = snapshot.layers[layer]
    leaf = next(leaf for leaf in call.leaves if leaf.path == MAPS)
    assert leaf.activation is not None, leaf.activation_reason
    assert leaf.activation_note == "formed beside the forward, before dropout"
    result: torch.Tensor = leaf.activation
    return result


CASES: dict[str, dict[str, Any]] = {
    "batch first": {"batch_first": True},
    "time first": {},
    "other sizes": {"batch_first": True, "kdim": 6, "vdim": 4},
    "bias and zero": {"batch_first": True, "add_bias_kv": True, "add_zero_attn": True},
    "no bias": {"batch_first": True, "bias": False},
}


@pytest.mark.parametrize("masked", [False, True], ids=["bare", "masked"])
@pytest.mark.parametrize("name", CASES)
def test_of_a_module(name: str, masked: bool) -> None:
    torch.manual_seed(0)
    options = CASES[name]
    model = Attends(**options)
    q, k, v = (
        torch.randn(3, 5, 8),
        torch.randn(3, 7, options.get("kdim", 8)),
        torch.randn(3, 7, options.get("vdim", 8)),
    )
    if not options.get("batch_first"):
        q, k, v = q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1)
    masks: dict[str, Any] = {}
    if masked:
        padding = torch.zeros(3, 7, dtype=torch.bool)
        padding[1, 4:] = True
        masks = {"key_padding_mask": padding, "attn_mask": torch.rand(6, 5, 7).log()}
        masks["key_padding_mask"] = torch.zeros(3, 7).masked_fill(padding, -math.inf)
    state = torch.get_rng_state()
    before = copy.deepcopy(model)
    _, snapshot = capture(model, lambda: model(q, k, v, **masks).sum().backward(), attention=["attn"])
    torch.set_rng_state(state)
    plain = before(q, k, v, **masks)  # what the forward gave is what it gives unwatched
    assert torch.equal(snapshot.layers["attn"][0].leaves[0].activation, plain)  # type: ignore[arg-type]
    before.eval()
    _, expected = before.attn(q, k, v, need_weights=True, average_attn_weights=False, **masks)
    found = maps(snapshot, "attn")
    assert found.shape == expected.shape
    assert torch.allclose(found, expected, atol=1e-6)


def test_of_a_module_without_batch_and_under_autocast() -> None:
    torch.manual_seed(0)
    model = Attends()
    x = torch.randn(4, 8)
    reference = copy.deepcopy(model).eval()

    def step() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            model(x, x, x).float().sum().backward()

    _, snapshot = capture(model, step, attention=["attn"])
    _, expected = reference.attn(x, x, x, average_attn_weights=False)
    assert torch.allclose(maps(snapshot, "attn")[0], expected, atol=1e-6)
    assert model.attn.in_proj_weight.grad is not None


@pytest.mark.parametrize(
    "options",
    [{}, {"is_causal": True}, {"scale": 0.3}, {"mask": "bool"}, {"mask": "float"}, {"gqa": True}],
    ids=str,
)
def test_of_the_op(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    heads = 4
    mask = {"bool": torch.rand(5, 5) > 0.3, "float": torch.randn(2, 1, 5, 5)}.get(options.get("mask", ""))
    if mask is not None and mask.dtype is torch.bool:
        mask[:, 0] = True

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
            rest = {key: value for key, value in options.items() if key in ("is_causal", "scale")}
            gqa = {"enable_gqa": True} if options.get("gqa") else {}
            return F.scaled_dot_product_attention(self.q(x), self.k(kv), kv, mask, 0.0, **rest, **gqa)

    model = Attention()
    x = torch.randn(2, heads, 5, 3)
    kv = torch.randn(2, 2 if options.get("gqa") else heads, 5, 3)
    op = "scaled_dot_product_attention"
    engine, snapshot = capture(model, lambda: model(x, kv).sum().backward(), attention=[op], batches=2)
    found = maps(snapshot, op)
    values = kv.repeat_interleave(2, 1) if options.get("gqa") else kv
    given = snapshot.layers[op][0].leaves[0].activation
    assert given is not None
    assert torch.allclose(found @ values, given, atol=1e-5)  # the weights are those that made the output
    assert torch.allclose(found.sum(-1), torch.ones(2, heads, 5))
    assert engine.architecture.axes(op, MAPS, 4) is not None


def test_maps_are_bounded_and_their_failure_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "TENSOR_BYTES", 2 * 2 * 5 * 5 * 4)
    model = Attends(batch_first=True)
    x = torch.randn(3, 5, 8)
    _, snapshot = capture(model, lambda: model(x, x, x), attention=["attn"])
    leaf = snapshot.layers["attn"][0].leaves[-1]
    assert leaf.part == "first 2 of 3 samples"
    assert leaf.activation is not None
    assert leaf.activation.shape == (2, 2, 5, 5)

    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no memory")

    monkeypatch.setattr(attention, "_of_module", fail)
    _, snapshot = capture(model, lambda: model(x, x, x), attention=["attn"])
    reason = snapshot.layers["attn"][0].leaves[-1].activation_reason
    assert reason == "attention weights could not be formed: RuntimeError: no memory"


def test_parametrized_projections_are_not_computed_a_second_time() -> None:
    model = Attends(batch_first=True)
    nn.utils.parametrizations.spectral_norm(model.attn.out_proj)
    x = torch.randn(3, 5, 8)
    before = copy.deepcopy(model)
    before(x, x, x)
    _, snapshot = capture(model, lambda: model(x, x, x), attention=["attn"])
    assert "parametrized" in snapshot.layers["attn"][0].leaves[-1].activation_reason
    for (name, a), b in zip(model.state_dict().items(), before.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


def test_hooks_of_the_users_own_on_an_attention_module_are_one_call() -> None:
    model = Attends(batch_first=True)
    model.attn.register_forward_hook(lambda module, args, out: (out[0] * 2, out[1]))
    x = torch.randn(3, 5, 8)
    _, snapshot = capture(model, lambda: model(x, x, x), attention=["attn"])
    (call,) = snapshot.layers["attn"]
    assert [leaf.path for leaf in call.leaves] == ["[0]", MAPS]


def test_a_query_that_may_attend_to_nothing_has_zeros() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attn = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
            mask = ~padding[:, None, None, :]
            y = F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], mask)
            return self.attn(x, x, x, padding, need_weights=False)[0] + y[:, 0]

    model = Masked()
    padding = torch.tensor([[False] * 5, [True] * 5])
    op = "scaled_dot_product_attention"
    _, snapshot = capture(
        model, lambda: model(torch.randn(2, 5, 8), padding), attention=["attn", op], batches=2
    )
    for layer in ("attn", op):
        found = maps(snapshot, layer)
        assert found.isfinite().all()
        assert (found[1] == 0).all()
        assert torch.allclose(found[0].sum(-1), torch.tensor(1.0))


def test_a_subclass_with_a_forward_of_its_own_gives_no_maps() -> None:
    class Rotary(nn.MultiheadAttention):
        def forward(self, query: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            return super().forward(query.roll(1, -1), *args, **kwargs)

    assert attention.gives_attention(nn.MultiheadAttention(8, 2), "")
    assert not attention.gives_attention(Rotary(8, 2), "")
