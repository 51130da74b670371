"""The architecture against hand-written truth."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests import kinds
from tests.capture.test_capture import capture


def edges(engine: Any) -> set[str]:
    return {f"{a} -> {b}" for a, b in engine.architecture.edges}


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
    block = {edge for edge in edges(engine) if edge.startswith("blocks.0") and "-> blocks.0" in edge}
    assert "blocks.0.attn.scaled_dot_product_attention -> blocks.0.attn.transpose4" in block
    assert "blocks.0.mlp.0 -> blocks.0.mlp.1" in block
    assert {"wte -> add1", "wpe -> add1", "blocks.1.mlp.3 -> add5", "add5 -> head"} <= edges(engine)
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
    found = edges(engine)
    assert {"source -> embed", "target -> embed"} <= found
    memory = "transformer.encoder.norm -> transformer.decoder.layers.0.multihead_attn"
    assert memory in found
    assert "transformer.decoder.norm -> head" in found
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
