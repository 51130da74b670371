"""The architecture against hand-written truth."""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests import kinds
from tests.capture.test_capture import capture

SDPA = "scaled_dot_product_attention"


def edges(engine: Any) -> set[str]:
    return {f"{a} -> {b}" for a, b in engine.architecture.edges}


def chain(*names: str) -> set[str]:
    """Edges along a path."""
    return {f"{a} -> {b}" for a, b in itertools.pairwise(names)}


def trained(program: kinds.Program, batches: int = 1) -> Any:
    engine, _ = capture(program.model, lambda: program.train(program.batches[0]), batches=batches)
    return engine


def test_before_the_first_forward_there_are_modules_and_inputs() -> None:
    from nansense_widgets.capture.engine import CaptureEngine

    architecture = CaptureEngine(kinds.Residual(4), [], lambda snapshot: None).architecture
    assert not architecture.traced
    assert list(architecture.nodes) == ["x", "conv1", "bn1", "relu", "conv2", "bn2"]
    assert architecture.edges == frozenset()
    assert architecture.nodes["conv1"].cls == "Conv2d"
    assert architecture.nodes["conv1"].hyperparameters.startswith("4, 4, kernel_size=(3, 3)")
    assert architecture.nodes["conv1"].parameters == ("conv1.weight", "conv1.bias")


def test_residual_network() -> None:
    engine = trained(kinds.residual_network())
    assert edges(engine) == {
        "input -> 0",
        "0 -> 1.conv1",
        "1.conv1 -> 1.bn1",
        "1.bn1 -> 1.relu",
        "1.relu -> 1.conv2",
        "1.conv2 -> 1.bn2",
        "1.bn2 -> 1.add_",
        "0 -> 1.add_",
        "1.add_ -> 1.relu",
        "1.relu -> 2.conv1",
        "2.conv1 -> 2.bn1",
        "2.bn1 -> 2.relu",
        "2.relu -> 2.conv2",
        "2.conv2 -> 2.bn2",
        "2.bn2 -> 2.add_",
        "1.relu -> 2.add_",
        "2.add_ -> 2.relu",
        "2.relu -> 3",
        "3 -> 4",
        "4 -> 5",
    }
    nodes = engine.architecture.nodes
    assert nodes["1"].is_scope
    assert nodes["1"].output_shapes == ((6, 4, 6, 6),)
    assert nodes["1.relu"].calls == 2
    assert nodes["1.add_"].parent == "1"
    assert nodes["1.add_"].kind == "op"
    total = sum(p.numel() for p in engine.model.parameters())
    assert sum(node.parameter_count for node in nodes.values() if not node.parent) == total


def test_unet() -> None:
    assert edges(trained(kinds.unet())) == {
        "x -> down1",
        "down1 -> relu1",
        "relu1 -> max_pool2d",
        "max_pool2d -> down2",
        "down2 -> relu2",
        "relu2 -> up",
        "up -> cat",
        "relu1 -> cat",
        "cat -> out",
        "out -> mean",
    }


def test_gpt_with_tied_embeddings() -> None:
    engine = trained(kinds.gpt_with_tied_embeddings())
    nodes = engine.architecture.nodes
    expected = {"ids -> wte", "wte -> add1", "arange -> wpe", "wpe -> add1", "add5 -> head"}
    for i, (before, middle, after) in enumerate((("add1", "add2", "add3"), ("add3", "add4", "add5"))):
        attn, mlp = f"blocks.{i}.attn", f"blocks.{i}.mlp"
        expected |= chain(before, f"blocks.{i}.norm1", f"{attn}.qkv", f"{attn}.chunk")
        for n in (1, 2, 3):  # query, key and value
            expected |= chain(f"{attn}.chunk", f"{attn}.view{n}", f"{attn}.transpose{n}", f"{attn}.{SDPA}")
        expected |= chain(f"{attn}.{SDPA}", f"{attn}.transpose4", f"{attn}.reshape", f"{attn}.proj", middle)
        expected |= chain(before, middle, f"blocks.{i}.norm2", *(f"{mlp}.{n}" for n in range(4)), after)
        expected |= chain(middle, after)
    assert edges(engine) == expected
    assert nodes["wte"].parameter_count == nodes["head"].parameter_count == 88
    assert (
        sum(p.numel() for p in engine.model.parameters()) == 88 + 128 + 2 * nodes["blocks.0"].parameter_count
    )
    assert nodes["wte"].axes is not None
    assert nodes["wte"].axes.channel == -1
    assert nodes["add1"].axes == nodes["wte"].axes  # an op takes its axes from what feeds it


def test_lstm_classifier() -> None:
    engine = trained(kinds.lstm_classifier())
    assert edges(engine) == {
        "ids -> embed",
        "embed -> lstm",
        "lstm -> getitem1",
        "lstm -> getitem2",
        "getitem1 -> add",
        "getitem2 -> add",
        "add -> fc",
    }
    assert engine.architecture.nodes["lstm"].output_shapes == ((4, 7, 6), (2, 4, 6), (2, 4, 6))


def test_mixture_of_experts_shows_only_experts_that_ran() -> None:
    engine = trained(kinds.mixture_of_experts())
    nodes = engine.architecture.nodes
    assert nodes["gate"].ran
    ran = [name for name in ("experts.0", "experts.1", "experts.2") if nodes[name].ran]
    assert ran
    for name in ("experts.0", "experts.1", "experts.2"):
        assert nodes[name].note == ("" if name in ran else "never ran")
        assert any(edge.startswith(f"{name} -> ") for edge in edges(engine)) == (name in ran)
    assert nodes["experts"].ran  # a container runs with what is inside it


def test_gan_whose_root_is_never_called() -> None:
    engine = trained(kinds.gan_with_two_optimizers())
    assert {
        "generator.0 -> generator.1",
        "generator.1 -> generator.2",
        "generator.2 -> critic.0",
        "critic.0 -> critic.1",
        "critic.1 -> critic.2",
    } == edges(engine)
    assert engine.architecture.nodes["critic.0"].calls == 3


def test_encoder_decoder_transformer() -> None:
    engine = trained(kinds.encoder_decoder_transformer())
    nodes = engine.architecture.nodes
    assert list(nodes)[:2] == ["source", "target"]
    encoder, decoder = "transformer.encoder.layers.0", "transformer.decoder.layers.0"
    expected = {"source -> embed", "target -> embed"}
    for layer in (encoder, decoder):
        expected |= chain(
            "embed", f"{layer}.self_attn", f"{layer}.dropout1", f"{layer}.add1", f"{layer}.norm1"
        )
        expected |= chain("embed", f"{layer}.add1")
        expected |= chain(f"{layer}.linear1", f"{layer}.relu", f"{layer}.dropout", f"{layer}.linear2")
    expected |= chain(*(f"{encoder}.{name}" for name in ("norm1", "linear1")))
    expected |= chain(*(f"{encoder}.{name}" for name in ("linear2", "dropout2", "add2", "norm2")))
    expected |= chain(f"{encoder}.norm1", f"{encoder}.add2")
    expected |= chain(f"{encoder}.norm2", "transformer.encoder.norm", f"{decoder}.multihead_attn")
    cross = ("norm1", "multihead_attn", "dropout2", "add2", "norm2", "linear1")
    expected |= chain(*(f"{decoder}.{name}" for name in cross))
    expected |= chain(*(f"{decoder}.{name}" for name in ("linear2", "dropout3", "add3", "norm3")))
    expected |= chain(f"{decoder}.norm1", f"{decoder}.add2") | chain(f"{decoder}.norm2", f"{decoder}.add3")
    expected |= chain(f"{decoder}.norm3", "transformer.decoder.norm", "head")
    assert edges(engine) == expected
    assert nodes["transformer.encoder.layers.0.self_attn"].ran
    assert nodes["transformer.encoder.layers.0.self_attn.out_proj"].note.startswith("not called as a module")


def test_custom_autograd_function_does_not_cut_the_flow() -> None:
    assert {"fc1 -> clamp", "clamp -> fc2"} <= edges(trained(kinds.custom_autograd_function()))

    class Outside(torch.autograd.Function):
        """Computes where no torch call can be seen."""

        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return torch.from_numpy(x.numpy() * 2)

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            return gradient * 2

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.b(Outside.apply(self.a(x)))

    model = Model()
    engine, _ = capture(model, lambda: model(torch.ones(1, 2)).sum().backward())
    assert "a -> b" in edges(engine)


def test_ops_are_numbered_only_where_there_are_several() -> None:
    class Ops(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.relu = nn.ReLU()

        def forward(self, x: torch.Tensor, twice: bool = False) -> torch.Tensor:
            x = F.relu(self.relu(torch.tanh(x)))
            return torch.tanh(x) if twice else x

    model = Ops()
    x = torch.ones(2)
    engine, _ = capture(model, lambda: model(x))
    assert list(engine.architecture.nodes) == ["x", "tanh", "relu", "relu1"]  # `relu` is the module's name
    version = engine.architecture.version
    from nansense_widgets import BatchPosition

    position = BatchPosition("train", 0, 1)
    engine.begin(position, pauses=True)
    model(x, twice=True)
    engine.end(position, complete=True)
    assert list(engine.architecture.nodes) == ["x", "tanh", "relu", "relu1", "tanh2"]
    assert engine.architecture.version > version


def test_the_graph_follows_a_module_that_is_replaced() -> None:
    program = kinds.module_replaced_while_training()
    engine, _ = capture(program.model, lambda: program.train(program.batches[0]), batches=4)
    assert engine.architecture.nodes["2"].cls == "GELU"


def test_select_by_name_glob_class_and_alias() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(2, 2)
            self.b = self.a
            self.stage = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    from nansense_widgets.capture.engine import CaptureEngine

    architecture = CaptureEngine(Shared(), [], lambda snapshot: None).architecture
    assert architecture.select("stage.*") == ["stage.0", "stage.1"]
    assert architecture.select("Linear") == ["a", "stage.0"]
    assert architecture.select("b") == ["a"]
    assert architecture.select("nothing") == []


def test_of_very_many_ops_the_last_node_stands_for_the_rest() -> None:
    class Unrolled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.eye(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(2000):
                x = torch.tanh(x)
            return x @ self.weight

    model = Unrolled()
    engine, snapshot = capture(model, lambda: model(torch.ones(2, 3)).sum().backward(), batches=2)
    nodes = engine.architecture.nodes
    assert [name for name in nodes if name.startswith("tanh")] == [f"tanh{i}" for i in range(1, 101)]
    assert nodes["tanh100"].note == "the last 1,901 ops of this name, as its calls"
    assert nodes["tanh100"].calls == 1901
    assert nodes["tanh99"].note == ""
    assert "tanh100 -> matmul" in edges(engine)
    assert len(snapshot.layers["tanh100"]) == 64
    assert snapshot.missing["tanh100"] == "first 64 of 1901 calls kept"


def test_a_lazy_module_is_uninitialised_and_then_real() -> None:
    from nansense_widgets.capture.engine import CaptureEngine

    model = nn.Sequential(nn.Flatten(), nn.LazyLinear(10))
    before = CaptureEngine(model, [], lambda snapshot: None).architecture
    assert before.nodes["1"].cls == "LazyLinear"
    assert before.nodes["1"].note == "uninitialised until its first forward"
    assert before.nodes["1"].parameter_count == 0
    engine, snapshot = capture(model, lambda: model(torch.ones(2, 3, 4)).sum().backward())
    after = engine.architecture.nodes["1"]
    assert (after.cls, after.note, after.parameter_count) == ("Linear", "", 130)
    assert snapshot.weights["1.weight"].shape == (10, 12)
    assert torch.equal(snapshot.weight_gradients["1.weight"], torch.full((10, 12), 2.0))


def test_one_tensor_given_as_two_inputs_is_the_first_ones() -> None:
    class Language(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(5, 5)

        def forward(self, ids: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
            return F.cross_entropy(self.embed(ids).flatten(0, 1), labels.flatten())  # type: ignore[union-attr]

    model = Language()
    ids = torch.randint(0, 5, (2, 3))
    engine, snapshot = capture(model, lambda: model(ids, labels=ids).backward())
    assert "ids -> embed" in edges(engine)
    assert not any(edge.startswith("labels") for edge in edges(engine))
    assert torch.equal(snapshot.activations["labels"], ids)
