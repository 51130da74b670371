"""What is shown is what ran: values, gradients, weights and reasons, against independent computations."""

from __future__ import annotations

import copy
import functools
import gc
import io
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode

from nansense_widgets import BatchPosition, BatchSnapshot
from nansense_widgets.capture.engine import CaptureEngine
from tests import kinds


def capture(
    model: Any,
    step: Callable[[], Any],
    watch: Sequence[str] = ("*",),
    optimizers: Sequence[torch.optim.Optimizer] = (),
    batches: int = 1,
    attention: Sequence[str] = (),
) -> tuple[CaptureEngine, BatchSnapshot]:
    """Run `step` as `batches` captured batches; ops are known, and watched, from the second one on."""
    engine = CaptureEngine(model, list(optimizers), lambda snapshot: None)
    for index in range(batches):
        engine.watch([name for pattern in watch for name in engine.architecture.select(pattern) or [pattern]])
        engine.watch_attention(attention)
        position = BatchPosition("train", 0, index)
        engine.begin(position, pauses=True)
        complete = False
        try:
            step()
            complete = True
        finally:  # a step that fails leaves nothing behind for the next test
            engine.end(position, complete=complete)
        assert engine.error == ""
    assert engine.snapshot is not None
    return engine, engine.snapshot


class Same(torch.autograd.Function):
    """Returns its input as it is."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


def test_value_before_an_op_in_place_is_the_one_that_was_there() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
    reference = copy.deepcopy(model)
    x = torch.randn(1, 3, 5, 5)
    weight = torch.randn(1, 4, 3, 3)
    _, snapshot = capture(model, lambda: (model(x) * weight).sum().backward())

    conv = reference[0](x).detach().requires_grad_()
    norm = reference[1](conv)
    norm.retain_grad()
    relu = torch.relu(norm)
    (relu * weight).sum().backward()
    assert torch.equal(snapshot.activations["0"], conv)
    assert torch.equal(snapshot.activations["1"], norm)
    assert (snapshot.activations["1"] < 0).any()
    assert torch.equal(snapshot.activations["2"], relu)
    assert torch.equal(snapshot.activation_gradients["0"], conv.grad)
    assert torch.equal(snapshot.activation_gradients["1"], norm.grad)
    assert torch.equal(snapshot.activation_gradients["2"], weight)


def test_residual_sum_in_place_keeps_both_values() -> None:
    torch.manual_seed(0)
    model = kinds.Residual(2, inplace=True)
    reference = copy.deepcopy(model)
    x = torch.randn(2, 2, 4, 4)
    _, snapshot = capture(model, lambda: model(x).square().sum().backward(), batches=1)
    y = reference.relu(reference.bn1(reference.conv1(x)))
    before = reference.bn2(reference.conv2(y))
    assert torch.equal(snapshot.activations["bn2"], before)
    engine, snapshot = capture(model, lambda: model(x).square().sum().backward(), batches=2)
    assert "add_" in engine.architecture.nodes
    total = snapshot.activations["add_"]
    assert torch.allclose(total, snapshot.activations["bn2"] + x)
    relu_calls = snapshot.layers["relu"]
    assert [call.call for call in relu_calls] == [1, 2]
    assert torch.equal(relu_calls[1].leaves[0].activation, total.relu())  # type: ignore[arg-type]


def test_snapshot_does_not_change_with_what_it_was_taken_from() -> None:
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    x = torch.ones(1, 3)

    def step() -> None:
        model(x).sum().backward()
        optimizer.step()

    _, snapshot = capture(model, step, optimizers=[optimizer])
    kept = {name: tensor.clone() for name, tensor in snapshot.weights.items()}
    value = snapshot.activations["linear"].clone()
    step()
    x.zero_()
    assert all(torch.equal(snapshot.weights[name], kept[name]) for name in kept)
    assert torch.equal(snapshot.activations["linear"], value)


@pytest.mark.parametrize("set_to_none", [True, False])
def test_gradients_survive_zero_grad_after_the_step(set_to_none: bool) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(3, 4)

    def step() -> None:
        model(x).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=set_to_none)

    expected = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
    for optimizers in ([optimizer], []):
        before = copy.deepcopy(model.state_dict())
        _, snapshot = capture(model, step, optimizers=optimizers)
        model.load_state_dict(before)
        assert torch.equal(snapshot.weight_gradients["weight"], expected[0])
        assert torch.equal(snapshot.weight_gradients["bias"], expected[1])


def test_gradients_are_those_after_clipping_and_accumulate_over_batches() -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    x = torch.randn(3, 4)

    def clipped() -> None:
        optimizer.zero_grad()
        model(x).square().sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        optimizer.step()

    _, snapshot = capture(model, clipped, optimizers=[optimizer])
    norm = torch.stack([g.norm() for g in snapshot.weight_gradients.values()]).norm()
    assert norm == pytest.approx(0.01, rel=1e-3)

    model.zero_grad()
    _, snapshot = capture(model, lambda: model(x).sum().backward(), optimizers=[optimizer], batches=3)
    once = torch.autograd.grad(model(x).sum(), model.weight)[0]
    assert torch.allclose(snapshot.weight_gradients["weight"], 3 * once)


def test_optimizer_state_of_two_optimizers() -> None:
    model = nn.ModuleDict({"g": nn.Linear(2, 2), "d": nn.Linear(2, 1)})
    for_g = torch.optim.Adam(model["g"].parameters(), lr=0.01)
    for_d = torch.optim.SGD(model["d"].parameters(), lr=0.5, momentum=0.9)

    def step() -> None:
        for optimizer in (for_g, for_d):
            optimizer.zero_grad()
            model["d"](model["g"](torch.ones(1, 2))).sum().backward()
            optimizer.step()

    _, snapshot = capture(model, step, optimizers=[for_g, for_d])
    assert set(snapshot.optimizer_state["g.weight"]) == {"step", "exp_avg", "exp_avg_sq"}
    assert snapshot.optimizer_state["g.weight"]["step"].ndim == 0
    assert set(snapshot.optimizer_state["d.weight"]) == {"momentum_buffer"}
    assert snapshot.optimizer_hyperparams["g.weight"]["lr"] == 0.01
    assert snapshot.optimizer_hyperparams["d.weight"]["momentum"] == 0.9
    assert set(snapshot.activation_gradients) == {"g", "d"}


def test_closure_shows_the_gradients_of_its_last_evaluation() -> None:
    program = kinds.lbfgs_closure()
    model = program.model
    _, snapshot = capture(model, lambda: program.train(program.batches[0]), optimizers=program.optimizers)
    current = {name: p.grad for name, p in model.named_parameters()}
    assert all(torch.equal(snapshot.weight_gradients[name], g) for name, g in current.items())  # type: ignore[arg-type]
    assert len(snapshot.layers["1"]) > 1  # one batch, several forwards


def test_a_module_called_twice_has_two_calls_of_their_own_shapes() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode = nn.Linear(5, 3)

        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return self.encode(a).sum() + self.encode(b).square().sum()

    model = Two()
    a, b = torch.randn(1, 50, 5), torch.randn(1, 71, 5)
    engine, snapshot = capture(model, lambda: model(a, b).backward())
    first, second = snapshot.layers["encode"]
    assert first.leaves[0].activation is not None
    assert torch.equal(first.leaves[0].activation, model.encode(a))
    assert torch.equal(first.leaves[0].gradient, torch.ones(1, 50, 3))  # type: ignore[arg-type]
    assert torch.equal(second.leaves[0].gradient, 2 * model.encode(b))  # type: ignore[arg-type]
    assert engine.architecture.nodes["encode"].calls == 2
    assert torch.equal(snapshot.activations["a"], a)
    assert torch.equal(snapshot.activations["b"], b)


def test_nested_outputs_have_named_leaves() -> None:
    program = kinds.nested_outputs_and_keyword_inputs()
    _, snapshot = capture(program.model, lambda: program.train(program.batches[0]))
    (call,) = snapshot.layers["inner"]
    assert [leaf.path for leaf in call.leaves] == [".logits", ".features.hidden"]
    assert call.leaves[0].gradient is not None
    assert call.leaves[1].gradient is None
    assert call.leaves[1].gradient_reason == "no gradient: nothing that needs one leads to this value"
    (batch,) = snapshot.layers["batch"]
    assert [leaf.path for leaf in batch.leaves] == [".image[0]"]

    lstm = nn.Sequential(nn.LSTM(3, 4))
    _, snapshot = capture(lstm, lambda: lstm(torch.randn(2, 1, 3)))
    assert [leaf.path for leaf in snapshot.layers["0"][0].leaves] == ["[0]", "[1][0]", "[1][1]"]


def test_reasons_why_something_is_missing() -> None:
    class Partly(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused, self.dead_end = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)
            self.attention = nn.MultiheadAttention(2, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.dead_end(x)
            return self.used(x) + self.attention(x, x, x)[0]

    model = Partly()
    x = torch.randn(3, 2)
    engine, snapshot = capture(model, lambda: model(x).sum().backward())
    assert snapshot.missing["unused"] == "never ran"
    assert "the attention around it uses its weights" in snapshot.missing["attention.out_proj"]
    assert "attention.out_proj.weight" in snapshot.weight_gradients
    leaf = snapshot.layers["dead_end"][0].leaves[0]
    assert leaf.gradient_reason == "no gradient: backward did not reach this value in this batch"

    with torch.no_grad():
        _, snapshot = capture(model, lambda: model(x))
    assert "without grad (torch.no_grad)" in snapshot.layers["used"][0].leaves[0].gradient_reason
    with torch.inference_mode():
        _, snapshot = capture(model, lambda: model(x))
    assert "inference mode" in snapshot.layers["used"][0].leaves[0].gradient_reason

    engine.begin(BatchPosition("train", 0, 1), pauses=True)
    engine.end(BatchPosition("train", 0, 1), complete=True)
    assert engine.snapshot is not None
    assert engine.snapshot.missing["used"].startswith("did not run in this batch")
    assert engine.snapshot.activations == {}


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputation_is_not_a_second_call(reentrant: bool) -> None:
    program = kinds.activation_checkpointing_reentrant() if reentrant else kinds.activation_checkpointing()
    engine, snapshot = capture(program.model, lambda: program.train(program.batches[0]))
    assert [call.call for call in snapshot.layers["block.0"]] == [1]
    assert engine.architecture.nodes["block.0"].calls == 1
    if not reentrant:
        assert "block.0" in snapshot.activation_gradients


def test_what_a_fused_encoder_computes_in_one_go_says_so() -> None:
    program = kinds.torch_transformer_encoder()
    engine, _ = capture(program.model, lambda: program.train(program.batches[0]))
    position = BatchPosition("val", 0, 0)
    engine.begin(position, pauses=True)
    assert program.validate is not None
    program.validate(program.batches[0])
    engine.end(position, complete=True)
    assert engine.snapshot is not None
    assert "encoder" in engine.snapshot.activations
    assert engine.snapshot.missing["encoder.layers.0.linear1"].startswith("not executed (fused)")


def test_several_backward_calls_add_up() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    x = torch.randn(1, 2)

    def step() -> None:
        out = model(x)
        out.sum().backward(retain_graph=True)
        (out * 3).sum().backward()

    _, snapshot = capture(model, step)
    assert torch.equal(snapshot.activation_gradients["0"], torch.full((1, 2), 4.0))


def test_sparse_gradients_and_complex_values_are_kept() -> None:
    program = kinds.sparse_embedding()
    _, snapshot = capture(
        program.model, lambda: program.train(program.batches[0]), optimizers=program.optimizers
    )
    assert snapshot.weight_gradients["embed.weight"].is_sparse
    program = kinds.double_precision_and_complex()
    _, snapshot = capture(program.model, lambda: program.train(program.batches[0]), batches=2)
    assert snapshot.activations["fft_rfft2"].dtype == torch.complex128


def test_values_inside_a_torch_func_transform_say_so() -> None:
    program = kinds.per_sample_gradients_by_vmap()
    _, snapshot = capture(program.model, lambda: program.train(program.batches[0]))
    assert "torch.func transform" in snapshot.layers["1"][0].leaves[0].activation_reason


def test_of_a_very_large_tensor_the_first_samples_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nansense_widgets.capture.values.TENSOR_BYTES", 4 * 10 * 3)
    model = nn.Sequential(nn.Linear(4, 10))
    x = torch.randn(8, 4)
    _, snapshot = capture(model, lambda: model(x).sum().backward())
    leaf = snapshot.layers["0"][0].leaves[0]
    assert leaf.part == "first 3 of 8 samples"
    assert leaf.activation is not None
    assert torch.equal(leaf.activation, model(x)[:3])


def test_above_the_limit_only_watched_layers_weights_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nansense_widgets.capture.model_tensors.ALL_BYTES", 10)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    _, snapshot = capture(model, lambda: model(torch.ones(1, 4)).sum().backward(), watch=["1"])
    assert set(snapshot.weights) == {"1.weight", "1.bias"}
    assert snapshot.weights_part == "parameters of the 1 watched layers only: 2 of 4"


def test_compiled_model_is_captured_and_keeps_its_compiled_code_otherwise() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    graphs = 0

    def backend(graph: Any, _inputs: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return graph.forward

    compiled = torch.compile(model, backend=backend)
    x = torch.randn(3, 4)
    compiled(x)
    assert graphs == 1
    engine, snapshot = capture(compiled, lambda: compiled(x).sum().backward())
    assert torch.equal(snapshot.activations["1"], torch.relu(model[0](x)))
    assert list(engine.architecture.nodes) == ["input", "0", "1", "2"]
    compiled(x)
    assert graphs == 1  # nothing was compiled anew


def test_a_failing_capture_is_reported_and_training_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("no more memory")

    model = nn.Sequential(nn.Linear(2, 2))
    monkeypatch.setattr("nansense_widgets.capture.collect.keep", fail)
    _, snapshot = capture(model, lambda: model(torch.ones(1, 2)).sum().backward())
    assert snapshot.missing["0"] == "not captured: RuntimeError: no more memory"
    assert model[0].weight.grad is not None


def test_nothing_is_left_on_the_model_after_a_batch() -> None:
    model = kinds.GPT()
    ids = torch.randint(0, 11, (2, 5))
    counts = [sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())]  # noqa: SLF001
    for _ in range(5):
        capture(model, lambda: F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward())
        counts.append(sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()))  # noqa: SLF001
    assert set(counts) == {0}
    assert torch.overrides._get_current_function_mode_stack() == []  # noqa: SLF001
    assert all(not p._post_accumulate_grad_hooks for p in model.parameters())  # noqa: SLF001


def test_a_copy_or_a_pickle_of_the_model_taken_during_the_batch_holds_nothing_of_ours() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    taken: list[Any] = []

    def step() -> None:
        taken.append(copy.deepcopy(model))
        buffer = io.BytesIO()
        torch.save(model, buffer)
        assert b"nansense" not in buffer.getvalue()
        model(torch.ones(1, 2)).sum().backward()

    _, snapshot = capture(model, step)
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in taken[0].modules())  # noqa: SLF001
    assert "0" in snapshot.activations


def test_inputs_given_by_keyword_are_captured() -> None:
    class Model(nn.Module):
        def forward(self, a: torch.Tensor, *, scale: torch.Tensor, **more: torch.Tensor) -> torch.Tensor:
            return a * scale + more["shift"]

    model = Model()
    a, scale, shift = torch.ones(2), torch.tensor(3.0), torch.ones(2)
    engine, snapshot = capture(
        model, lambda: model(a=a, scale=scale, shift=shift), watch=["a", "scale", "shift"]
    )
    assert torch.equal(snapshot.activations["a"], a)
    assert torch.equal(snapshot.activations["scale"], scale)
    assert torch.equal(snapshot.activations["shift"], shift)
    assert ("scale", "mul") in engine.architecture.edges


def test_the_output_is_what_the_users_own_hooks_made_of_it() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].register_forward_hook(lambda module, args, out: out * 10)
    x = torch.ones(1, 2)
    _, snapshot = capture(model, lambda: model(x).sum().backward())
    expected = model[0].forward(x) * 10  # without hooks
    assert torch.equal(snapshot.activations["0"], expected)
    assert torch.equal(copy.deepcopy(model)[0](x), expected)


def test_a_gradient_of_an_earlier_batch_is_not_shown_as_this_ones() -> None:
    program = kinds.residual_network()
    model = program.model
    engine, snapshot = capture(model, lambda: program.train(program.batches[0]))
    assert "5.weight" in snapshot.weight_gradients
    assert dict(model.named_parameters())["5.weight"].grad is not None
    position = BatchPosition("val", 0, 0)
    engine.begin(position, pauses=True)
    with torch.no_grad():
        model(program.batches[0][0])
    engine.end(position, complete=True)
    assert engine.snapshot is not None
    assert engine.snapshot.weight_gradients == {}


def test_cost_counts_copies_made_inside_forward_and_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    from nansense_widgets.capture.values import keep as original

    def slow(tensor: torch.Tensor, budget: Any) -> Any:
        time.sleep(0.02)
        return original(tensor, budget)

    monkeypatch.setattr("nansense_widgets.capture.collect.keep", slow)
    model = nn.Sequential(nn.Linear(2, 3))
    _, snapshot = capture(model, lambda: model(torch.ones(4, 2)).sum().backward(), watch=["0"])
    assert snapshot.cost.seconds >= 0.04  # value and gradient
    floats = 4 * 3 * 2 + 2 * (2 * 3 + 3)
    assert (snapshot.cost.layers, snapshot.cost.bytes) == (1, 4 * floats)


def test_weights_of_watched_scopes_ops_and_bare_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nansense_widgets.capture.model_tensors.ALL_BYTES", 1)
    program = kinds.gpt_with_tied_embeddings()
    _, snapshot = capture(program.model, lambda: program.train(program.batches[0]), watch=["blocks.0.mlp"])
    assert set(snapshot.weights) == {
        f"blocks.0.mlp.{i}.{kind}" for i in (0, 3) for kind in ("weight", "bias")
    }
    model = nn.Linear(2, 2)
    _, snapshot = capture(model, lambda: model(torch.ones(1, 2)), watch=["linear"])
    assert set(snapshot.weights) == {"weight", "bias"}


def test_a_compiled_part_inside_the_model_runs_and_is_seen() -> None:
    class Part(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(x) * 2

    @torch.compile(fullgraph=True, backend="eager")
    def helper(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(2, 2)
            self.part = torch.compile(Part(), backend="eager")

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return helper(self.part(self.fc(x)))

    model = Model()
    x = torch.ones(1, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch would warn of our hooks in the user's forward
        _, snapshot = capture(model, lambda: model(x).sum().backward())
    assert "fc" in snapshot.activations
    assert torch.allclose(model(x), helper(torch.tanh(model.fc(x)) * 2))


def test_selective_checkpointing_does_not_see_our_copies() -> None:
    from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

    policy = [torch.ops.aten.clone.default, torch.ops.aten.addmm.default]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    x = torch.randn(3, 4, requires_grad=True)

    def step() -> None:
        def run(value: torch.Tensor) -> torch.Tensor:
            return model(value.clone())

        contexts = functools.partial(create_selective_checkpoint_contexts, policy)
        checkpoint(run, x, use_reentrant=False, context_fn=contexts).square().sum().backward()

    expected = torch.autograd.grad(model(x.clone()).square().sum(), list(model.parameters()))
    _, snapshot = capture(model, step)
    for (name, _), gradient in zip(model.named_parameters(), expected, strict=True):
        assert torch.equal(snapshot.weight_gradients[name], gradient)


def test_the_users_modes_see_none_of_our_calls_and_keep_their_place() -> None:
    class Mode(TorchFunctionMode):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[str] = []

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    x = torch.ones(1, 2)
    with Mode() as plain:
        model(x)
    with Mode() as watched:
        capture(model, lambda: model(x))
    assert watched.seen == plain.seen

    left_on = Mode()

    class LeavesModeOn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            left_on.__enter__()
            return self.fc(x)

    odd = LeavesModeOn()
    capture(odd, lambda: odd(x))
    assert torch.overrides._get_current_function_mode_stack() == [left_on]  # noqa: SLF001
    left_on.__exit__(None, None, None)


def test_nothing_of_a_batch_waits_for_the_garbage_collector() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    alive: list[weakref.ref[torch.Tensor]] = []

    def step() -> None:
        x = torch.ones(1, 2)
        out = model(x)
        alive.extend((weakref.ref(x), weakref.ref(out)))
        out.sum().backward()

    gc.collect()
    gc.disable()
    try:
        capture(model, step, batches=3)
        assert [ref() for ref in alive] == [None] * len(alive)
    finally:
        gc.enable()


def test_containers_of_many_or_of_themselves_are_looked_at_in_bounded_time() -> None:
    class Passes(nn.Module):
        def forward(self, x: torch.Tensor, items: list[Any]) -> tuple[torch.Tensor, list[Any]]:
            return x * 1, items

    cyclic: list[Any] = []
    cyclic += [cyclic] * 8
    model = Passes()
    began = time.monotonic()
    for items in (list(range(1_000_000)), cyclic):
        _, snapshot = capture(model, lambda items=items: model(torch.ones(1), items))  # type: ignore[misc]
        assert "x" in snapshot.activations
    assert time.monotonic() - began < 2


def test_one_sample_above_the_limit_is_not_copied() -> None:
    class Expands(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.expand(1, 1, 8000, 8000)

    model = Expands()
    _, snapshot = capture(model, lambda: model(torch.ones(1)), watch=["*"], batches=2)
    leaf = snapshot.layers["expand"][0].leaves[0]
    assert leaf.activation is None
    assert leaf.activation_reason == "not captured: one sample takes 244 MiB, above the limit of 64 MiB"
    assert snapshot.cost.bytes < 100


def test_an_op_is_not_taken_for_the_module_of_its_name() -> None:
    class UsesWeights(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1d = nn.Conv1d(2, 2, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.conv1d(x, self.conv1d.weight)

    model = UsesWeights()
    _, snapshot = capture(model, lambda: model(torch.ones(1, 2, 3)))
    assert "conv1d" in snapshot.missing
    assert "conv1d" not in snapshot.layers


def test_what_is_compiled_after_start_is_captured_too() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    x = torch.randn(3, 4)
    engine = CaptureEngine(model, [], lambda snapshot: None)
    engine.watch(["1"])
    wrapped = torch.compile(model, backend="eager")

    @torch.compile(backend="eager")
    def step() -> torch.Tensor:
        return model(x).sum()

    for run in (lambda: wrapped(x).sum(), step):
        run().backward()
        position = BatchPosition("train", 0, 0)
        engine.begin(position, pauses=True)
        run().backward()
        engine.end(position, complete=True)
        assert engine.snapshot is not None
        assert torch.equal(engine.snapshot.activations["1"], torch.relu(model[0](x)))
        assert "1" in engine.snapshot.activation_gradients


def test_operators_that_compile_by_themselves_still_work() -> None:
    class Conditional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.out = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.cond(x.sum() > 0, lambda x: self.a(x).sin(), lambda x: self.b(x).cos(), (x,))
            return self.out(y)

    model = Conditional()
    x = torch.ones(3, 4)
    model(x).sum().backward()  # the compiler is there now
    expected = model.a.weight.grad
    model.zero_grad()
    _, snapshot = capture(model, lambda: model(x).sum().backward())
    assert torch.equal(snapshot.weight_gradients["a.weight"], expected)  # type: ignore[arg-type]
    assert torch.equal(snapshot.activations["out"], model.out(model.a(x).sin()))


def test_modules_that_run_elsewhere_say_so() -> None:
    class Towers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.towers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
            self.out = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with ThreadPoolExecutor(2) as pool:
                parts = list(pool.map(lambda tower: tower(x), self.towers))
            return self.out(sum(parts))

    model = Towers()
    _, snapshot = capture(model, lambda: model(torch.ones(1, 2)).sum().backward())
    assert snapshot.missing["towers.0"] == "not captured: it ran on another thread than the training loop's"
    assert "out" in snapshot.activations

    plain = nn.Sequential(nn.Tanh())
    replica = plain[0]._replicate_for_data_parallel()  # noqa: SLF001  what DataParallel calls
    _, snapshot = capture(plain, lambda: replica(torch.ones(1, 2)))
    assert snapshot.missing["0"] == "not captured: DataParallel ran copies of it, on several devices at once"


def test_hooks_of_the_users_own_on_what_a_function_returns_unchanged_are_called() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = Same.apply(self.fc(x))
            y.register_hook(lambda gradient: gradient * 2)
            return y

    model = Model()
    for _ in range(2):
        engine, snapshot = capture(model, lambda: model(torch.ones(1, 2)).sum().backward(), batches=2)
        assert list(engine.architecture.nodes) == ["x", "fc"]
        assert torch.equal(
            snapshot.weight_gradients["fc.bias"], torch.full((2,), 4.0)
        )  # two batches, doubled
        model.zero_grad()


def test_a_snapshot_has_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nansense_widgets.capture.values.SNAPSHOT_BYTES", 4 * (6 + 4 + 4 + 2))
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    _, snapshot = capture(model, lambda: model(torch.ones(1, 2)).sum().backward(), watch=["0", "1"])
    full = "not captured: the snapshot of this batch is full (2 GiB); watch fewer layers"
    assert set(snapshot.activations) == {"0", "1"}  # what came first is there
    assert snapshot.weight_reasons["0.weight"] == full or snapshot.weight_gradient_reasons["0.weight"] == full
    assert snapshot.cost.bytes <= 64
    assert model[0].weight.grad is not None


def test_gradients_of_leaves_and_views_without_grad() -> None:
    class Token(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token = nn.Parameter(torch.ones(1, 2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([self.token.expand(3, -1), x], 1)

    model = Token()
    x = torch.randn(3, 2, requires_grad=True)
    _, snapshot = capture(model, lambda: (model(x) ** 2).sum().backward(), batches=2)
    assert torch.equal(snapshot.activation_gradients["x"], 2 * x)
    assert torch.equal(snapshot.activation_gradients["expand"], torch.full((3, 2), 2.0))
    with torch.no_grad():
        _, snapshot = capture(model, lambda: model(x), batches=2)
    leaf = snapshot.layers["expand"][0].leaves[0]
    assert leaf.activation is not None
    assert leaf.gradient_reason == "no gradient: the forward ran without grad (torch.no_grad)"


def test_a_root_forward_that_is_called_directly_is_not_said_never_to_run() -> None:
    class Root(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.unused = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc.forward(x)

    model = Root()
    _, snapshot = capture(model, lambda: model.forward(torch.ones(1, 2)).sum().backward())
    assert (
        snapshot.missing["fc"]
        == "not captured: its parameters got gradients, but it was not called as a module"
    )
    assert snapshot.missing["unused"] == "did not run in this batch: no module of the model was called"


def test_a_view_that_autograd_has_given_up_does_not_end_the_capture() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.after = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = Same.apply(self.before(x))
            with torch.no_grad():
                torch.relu_(y)  # from here on `y.grad_fn` raises
            return self.after(x)

    model = Model()
    _, snapshot = capture(model, lambda: model(torch.ones(1, 2)).sum().backward(), batches=2)
    assert "after" in snapshot.activation_gradients
    assert "relu_" in snapshot.activations


def test_a_trace_of_the_users_own_sees_nothing_of_ours() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    x = torch.randn(4, 8)

    def step() -> None:
        traced = torch.jit.trace(model, x, check_trace=False)
        assert "aten::clone" not in str(traced.inlined_graph)
        model(x).sum().backward()

    _, snapshot = capture(model, step)
    assert [call.call for call in snapshot.layers["0"]] == [1]
    exported: list[Any] = []
    _, snapshot = capture(model, lambda: exported.append(torch.export.export(model, (x,))))
    assert "aten.clone" not in str(exported[0].graph)


def test_a_stance_that_the_user_sets_during_the_batch_stays() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    x = torch.ones(1, 2)
    torch.compile(model, backend="eager")(x)
    from torch._dynamo import eval_frame

    before = eval_frame._stance  # noqa: SLF001  there is no public way to ask
    try:
        capture(model, lambda: torch.compiler.set_stance("fail_on_recompile"))
        assert eval_frame._stance.stance == "fail_on_recompile"  # noqa: SLF001
        torch.compiler.set_stance("default")
        left: list[Any] = []
        capture(model, lambda: left.append(torch.compiler.set_stance("eager_on_recompile")))
        left[0].__exit__(None, None, None)
        assert eval_frame._stance.stance == "default"  # noqa: SLF001
    finally:
        eval_frame._stance = before  # noqa: SLF001


def test_threads_that_run_modules_are_not_disturbed_by_captures_that_come_and_go() -> None:
    model, other = nn.Sequential(nn.Linear(2, 2)), nn.Sequential(*[nn.ReLU() for _ in range(50)])
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    engine = CaptureEngine(model, [], lambda snapshot: None)
    over, errors = threading.Event(), []

    def inference() -> None:
        try:
            while not over.is_set():
                other(torch.ones(1))
                optimizer.step()
        except RuntimeError as error:
            errors.append(error)

    threads = [threading.Thread(target=inference) for _ in range(2)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads change in the middle of whatever they do
    try:
        for thread in threads:
            thread.start()
        for index in range(300):
            position = BatchPosition("train", 0, index)
            engine.begin(position, pauses=False)
            engine.end(position, complete=True)
    finally:
        sys.setswitchinterval(interval)
        over.set()
        for thread in threads:
            thread.join()
    assert errors == []


def test_global_hooks_that_the_user_registers_or_removes_meanwhile_are_his() -> None:
    from torch.nn.modules.module import register_module_forward_hook

    model = nn.Sequential(nn.Linear(2, 2))
    calls: list[str] = []
    before = register_module_forward_hook(lambda *_: calls.append("before"))
    handles: list[Any] = []

    def step() -> None:
        handles.append(register_module_forward_hook(lambda *_: calls.append("during")))
        model(torch.ones(1, 2))

    capture(model, step)
    calls.clear()
    model(torch.ones(1, 2))
    assert sorted(set(calls)) == ["before", "during"]
    handles[0].remove()
    before.remove()
    calls.clear()
    model(torch.ones(1, 2))
    assert calls == []
