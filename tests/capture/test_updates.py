"""What a snapshot says of parameters beyond their values: updates, owners, ties, buffers, roles of axes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler

from nansense_widgets.capture.model_tensors import ModelTensors
from tests.capture.test_capture import capture

SKIPPED = "no update: the step was skipped, because GradScaler found Inf or NaN in a gradient"
NO_STEP = "no update: no optimizer stepped with it in this batch"


def two_layers(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3, dtype=dtype), nn.Tanh(), nn.Linear(3, 2, dtype=dtype))


def inputs(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(5, 4, dtype=dtype)


def values(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_an_update_is_the_value_after_minus_the_value_before(make: Any, dtype: torch.dtype) -> None:
    model, x = two_layers(dtype), inputs(dtype)
    optimizer = make(model.parameters(), lr=0.1)
    before = values(model)

    def step() -> None:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()  # after the step

    _, snapshot = capture(model, step, optimizers=[optimizer])
    wide = torch.float32 if dtype is torch.bfloat16 else dtype
    assert snapshot.weight_updates.keys() == before.keys()
    for name, parameter in model.named_parameters():
        assert torch.equal(snapshot.weight_updates[name], parameter.detach().to(wide) - before[name].to(wide))
        assert snapshot.weight_updates[name].dtype is wide
        assert torch.equal(snapshot.weights[name], parameter.detach())
    assert snapshot.weight_update_reasons == {}


def test_steps_of_a_batch_add_up_and_what_the_loop_does_between_them_does_not_count() -> None:
    model, x = two_layers(), inputs()
    first = torch.optim.SGD(model.parameters(), lr=0.1)
    second = torch.optim.SGD(model[2].parameters(), lr=0.3)
    changes: list[dict[str, torch.Tensor]] = []

    def step() -> None:
        for optimizer in (first, second, first):
            model.zero_grad()
            model(x).square().mean().backward()
            before = values(model)
            optimizer.step()
            after = values(model)
            changes.append({name: after[name] - before[name] for name in after})
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.clamp_(-0.2, 0.2)

    _, snapshot = capture(model, step, optimizers=[first, second])
    for name, update in snapshot.weight_updates.items():
        torch.testing.assert_close(update, sum((change[name] for change in changes), torch.zeros(())))
    assert [one.label for one in snapshot.parameters["0.weight"].optimizers] == ["SGD 1"]
    assert [(one.label, one.optimizer, one.group) for one in snapshot.parameters["2.weight"].optimizers] == [
        ("SGD 1", 0, 0),
        ("SGD 2", 1, 0),
    ]


def test_only_watched_layers_are_measured() -> None:
    model, x = two_layers(), inputs()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        model(x).square().mean().backward()
        optimizer.step()

    _, snapshot = capture(model, step, ["2"], [optimizer])
    assert snapshot.weight_updates.keys() == {"2.weight", "2.bias"}
    assert "0.weight" not in snapshot.weight_update_reasons


def test_a_batch_without_a_step_says_so() -> None:
    model, x = two_layers(), inputs()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model[0].requires_grad_(False)
    _, snapshot = capture(model, lambda: model(x).square().mean().backward(), optimizers=[optimizer])
    assert snapshot.weight_updates == {}
    assert snapshot.weight_update_reasons["2.weight"] == NO_STEP
    assert snapshot.weight_update_reasons["0.weight"] == "no update: frozen (requires_grad is False)"
    assert (snapshot.parameters["0.weight"].trainable, snapshot.parameters["2.weight"].trainable) == (
        False,
        True,
    )


def test_a_loop_that_updates_by_hand_is_no_optimizer() -> None:
    model, x = two_layers(), inputs()

    def step() -> None:
        model(x).square().mean().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                assert parameter.grad is not None
                parameter.sub_(parameter.grad, alpha=0.1)

    _, snapshot = capture(model, step)
    assert snapshot.weight_update_reasons["0.weight"] == NO_STEP
    assert snapshot.parameters["0.weight"].optimizers == ()


@pytest.mark.parametrize("fused", [False, True])
def test_a_step_that_a_scaler_skips_is_no_update(fused: bool) -> None:
    model, x = two_layers(), inputs()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=fused)
    scaler = GradScaler("cpu", init_scale=4.0)

    def step(bad: float) -> None:
        optimizer.zero_grad()
        scaler.scale(model(x * bad).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()

    _, snapshot = capture(model, lambda: step(float("inf")), optimizers=[optimizer])
    assert snapshot.weight_updates == {}
    assert set(snapshot.weight_update_reasons.values()) == {SKIPPED}
    before = values(model)
    _, snapshot = capture(model, lambda: step(1.0), optimizers=[optimizer])
    for name, parameter in model.named_parameters():
        assert torch.equal(snapshot.weight_updates[name], parameter.detach() - before[name])


def test_a_closure_is_part_of_its_step() -> None:
    model, x = two_layers(), inputs()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    before = values(model)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    _, snapshot = capture(model, lambda: optimizer.step(closure), optimizers=[optimizer])
    for name, parameter in model.named_parameters():
        assert torch.equal(snapshot.weight_updates[name], parameter.detach() - before[name])


def test_accumulation_updates_only_where_a_step_is() -> None:
    model, x = two_layers(), inputs()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = iter(range(2))

    def step() -> None:
        model(x).square().mean().backward()
        if next(batches):
            optimizer.step()

    engine, snapshot = capture(model, step, optimizers=[optimizer], batches=2)
    assert engine.snapshot is snapshot
    assert snapshot.weight_updates.keys() == values(model).keys()


class Shell(torch.optim.Optimizer):
    """Steps another optimizer inside its own step, and moves halfway back."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        super().__init__(inner.param_groups, {})
        self.inner = inner

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        before = [p.detach().clone() for group in self.param_groups for p in group["params"]]
        self.inner.step()
        with torch.no_grad():
            parameters = [p for group in self.param_groups for p in group["params"]]
            for parameter, old in zip(parameters, before, strict=True):
                parameter.lerp_(old, 0.5)


def test_an_optimizer_inside_another_is_not_counted_twice() -> None:
    model, x = two_layers(), inputs()
    optimizer = Shell(torch.optim.SGD(model.parameters(), lr=0.1))
    before = values(model)

    def step() -> None:
        model(x).square().mean().backward()
        optimizer.step()

    _, snapshot = capture(model, step, optimizers=[optimizer])
    for name, parameter in model.named_parameters():
        assert torch.equal(snapshot.weight_updates[name], parameter.detach() - before[name])


def test_a_step_that_raises_leaves_nothing_behind() -> None:
    model, x = two_layers(), inputs()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        def bad() -> torch.Tensor:
            raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            optimizer.step(bad)
        with torch.no_grad():
            model[0].get_parameter("weight").add_(1)
        model(x).square().mean().backward()
        before.update(values(model))
        optimizer.step()

    before: dict[str, torch.Tensor] = {}
    _, snapshot = capture(model, step, optimizers=[optimizer])
    for name, parameter in model.named_parameters():
        assert torch.equal(snapshot.weight_updates[name], parameter.detach() - before[name])


def test_training_is_the_same_with_and_without_it() -> None:
    model, x = two_layers(), inputs()
    reference = copy.deepcopy(model)
    for watched in (reference, model):
        optimizer = torch.optim.Adam(watched.parameters(), lr=0.1)

        def step(watched: Any = watched, optimizer: Any = optimizer) -> None:
            optimizer.zero_grad()
            watched(x).square().mean().backward()
            optimizer.step()

        if watched is model:
            capture(model, step, optimizers=[optimizer], batches=3)
        else:
            for _ in range(3):
                step()
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, dict(reference.named_parameters())[name])


# ------------------------------------------------------------------ names, owners, buffers


def test_tied_parameters_know_their_names_and_are_found_under_each() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(6, 4)
            self.head = nn.Linear(4, 6, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.head(self.embedding(ids))
            return out

    model = Tied()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        model(torch.tensor([1, 2])).sum().backward()
        optimizer.step()

    engine, snapshot = capture(model, step, ["head"], [optimizer])
    assert engine.architecture.tensors_of("head") == (["head.weight"], [])
    assert snapshot.tied == {"head.weight": "embedding.weight"}
    assert snapshot.parameters["embedding.weight"].names == ("embedding.weight", "head.weight")
    assert "embedding.weight" in snapshot.weight_updates


def test_settings_and_state_are_those_of_each_group() -> None:
    model, x = two_layers(), inputs()
    groups: list[dict[str, Any]] = [
        {"params": model[0].parameters(), "lr": 0.5},
        {"params": model[2].parameters()},
    ]
    optimizer = torch.optim.Adam(groups, lr=0.1)

    def step() -> None:
        model(x).square().mean().backward()
        optimizer.step()

    _, snapshot = capture(model, step, optimizers=[optimizer])
    [first] = snapshot.parameters["0.weight"].optimizers
    [second] = snapshot.parameters["2.bias"].optimizers
    assert (first.label, first.group, first.settings["lr"]) == ("Adam, group 1", 0, 0.5)
    assert (second.group, second.settings["lr"], second.settings["betas"]) == (1, 0.1, (0.9, 0.999))
    assert str(second.settings["amsgrad"]) == "False"
    state = optimizer.state[model[2].get_parameter("bias")]
    assert first.state.keys() == {"step", "exp_avg", "exp_avg_sq"}
    assert torch.equal(second.state["exp_avg_sq"], state["exp_avg_sq"])
    assert snapshot.optimizer_hyperparams["2.bias"]["lr"] == 0.1  # as before
    assert snapshot.optimizer_hyperparams["2.bias"]["amsgrad"] == 0.0


def test_buffers_are_copied() -> None:
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2))
    _, snapshot = capture(model, lambda: model(inputs()))
    for name, buffer in model.named_buffers():
        assert torch.equal(snapshot.buffers[name], buffer)
        assert snapshot.buffers[name] is not buffer
    assert snapshot.buffers["0.num_batches_tracked"].dtype is torch.int64
    model[0].register_buffer("ghost", torch.empty(3, device="meta"))
    _, snapshot = capture(model, lambda: model(inputs()))
    assert "0.ghost" not in snapshot.buffers
    assert snapshot.buffer_reasons["0.ghost"] == "not captured: a meta tensor has a shape but no values"


def test_a_shared_module_has_its_parameters_under_each_name() -> None:
    shared = nn.Linear(4, 4)
    model = nn.Sequential(nn.Sequential(shared, nn.Tanh()), nn.Sequential(shared, nn.BatchNorm1d(4)))
    engine, _ = capture(model, lambda: model(inputs()))
    assert engine.architecture.tensors_of("0")[0] == ["0.0.weight", "0.0.bias"]
    parameters, buffers = engine.architecture.tensors_of("1")
    assert parameters == ["1.0.weight", "1.0.bias", "1.1.weight", "1.1.bias"]
    assert buffers == ["1.1.running_mean", "1.1.running_var", "1.1.num_batches_tracked"]
    assert engine.architecture.role_of("1.0.weight").axes == ("out", "in")
    chosen = ModelTensors.chosen(model, ["1"], engine.architecture)
    assert chosen.watched == {"0.0.weight", "0.0.bias", "1.1.weight", "1.1.bias"}


def test_a_bare_module_is_a_layer_with_its_parameters() -> None:
    model = nn.BatchNorm1d(4)
    engine, snapshot = capture(model, lambda: model(inputs()))
    assert engine.architecture.tensors_of("batchnorm1d")[0] == ["weight", "bias"]
    assert "running_mean" in engine.architecture.tensors_of("batchnorm1d")[1]
    assert snapshot.buffers.keys() == {"running_mean", "running_var", "num_batches_tracked"}


# ------------------------------------------------------------------ roles


class Attention(nn.Module):
    def __init__(self, num_heads: int = 2, **layers: nn.Module) -> None:
        super().__init__()
        self.num_heads = num_heads
        for name, layer in layers.items():
            self.add_module(name, layer)


def test_axes_of_parameters_have_names_and_parts() -> None:
    grouped = Attention(4, q_proj=nn.Linear(8, 8), k_proj=nn.Linear(8, 4), head=nn.Linear(8, 8))
    grouped.head_dim = 2  # type: ignore[assignment]
    model = nn.ModuleDict(
        {
            "conv": nn.Conv2d(3, 4, 3),
            "up": nn.ConvTranspose1d(3, 4, 3),
            "attention": nn.MultiheadAttention(6, 2),
            "lstm": nn.LSTM(3, 5),
            "gru": nn.GRUCell(3, 5),
            "embedding": nn.Embedding(7, 3),
            "own": Attention(2, qkv=nn.Linear(6, 18), query_key_value=nn.Linear(6, 18)),
            "grouped": grouped,
        }
    )
    engine, _ = capture(model, lambda: None)
    role = engine.architecture.role_of
    assert role("conv.weight").axes == ("out", "in", "row", "column")
    assert role("up.weight").axes == ("in", "out", "column")
    in_proj = role("attention.in_proj_weight")
    assert (in_proj.split, in_proj.presumed) == (0, "")
    assert in_proj.parts == ("q head 0", "q head 1", "k head 0", "k head 1", "v head 0", "v head 1")
    assert role("attention.in_proj_bias").parts == in_proj.parts
    out = role("attention.out_proj.weight")
    assert (out.axes, out.split, out.parts) == (("out", "in"), 1, ("head 0", "head 1"))
    assert role("lstm.weight_hh_l0").axes == ("unit", "hidden")
    assert role("lstm.weight_hh_l0").parts == ("i", "f", "g", "o")
    assert role("gru.bias_ih").parts == ("r", "z", "n")
    assert role("embedding.weight").axes == ("token", "feature")
    assert role("own.qkv.weight").parts == in_proj.parts
    assert "presumed" in role("own.qkv.weight").presumed
    assert role("own.query_key_value.bias").parts[:3] == ("head 0 q", "head 0 k", "head 0 v")
    assert role("grouped.k_proj.weight").parts == ("k head 0", "k head 1")
    assert role("grouped.head.weight").parts == ()
    assert role("nothing").axes == ()
