"""A few architectures of `transformers`, of one family each: captured completely, training unchanged.

All of them, and those of torchvision, run by hand: `make zoo`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.zoo import report, results
from tests.zoo.check import Outcome, check
from tests.zoo.subject import STEPS, Case, NotRun, Subject, square_loss
from tests.zoo.transformers_models import cases

ARCHITECTURES = {
    "bert": "text encoder",
    "gpt2": "text decoder",
    "mixtral": "text decoder",  # a mixture of experts
    "mamba": "text decoder",  # a state space
    "jamba": "text decoder",  # both of these, and attention
    "t5": "text encoder and decoder",
    "vit": "image",
    "clip": "image and text",
    "qwen2_vl": "image and text",
    "wav2vec2": "speech and sound",
    "whisper": "speech and sound",
    "big_bird": "text encoder",  # replaces modules in its first forward
}


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_executed_layer_is_captured_and_training_is_the_same(name: str) -> None:
    case = next(case for case in cases() if case.name == name)
    outcome = check(case)
    assert outcome.not_run == ""
    assert outcome.failures == []
    assert outcome.captured == outcome.executed > 10
    assert outcome.ops > 5
    assert outcome.gradients > 10
    assert outcome.loose == []
    assert case.family == ARCHITECTURES[name]


def test_a_forward_that_backward_repeats_is_captured_once() -> None:
    llama = next(case for case in cases() if case.name == "llama")
    calls = []

    def checkpointed() -> Subject:
        subject = llama.build()
        subject.model.activation_checkpointing_enable()  # type: ignore[operator]  # nn.Module has no such method
        norm = subject.model.get_submodule("model.layers.0.input_layernorm")
        norm.register_forward_pre_hook(lambda *_: calls.append(1))
        return subject

    outcome = check(Case("checkpointed llama", llama.family, checkpointed, llama.prepare))
    assert outcome.failures == []
    assert outcome.captured == outcome.executed > 20
    runs = 3
    assert len(calls) == 2 * runs * STEPS


class Liar(nn.Module):
    """Computes something else when somebody watches."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.idle = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        watched = bool(nn.modules.module._global_forward_hooks)  # noqa: SLF001
        return self.inner(x + 1 if watched else x)


def liar() -> Subject:
    return Subject(Liar(), [(torch.rand(2, 3),) for _ in range(STEPS)], square_loss)


def test_the_zoo_sees_what_is_wrong() -> None:
    outcome = check(Case("liar", "none", liar))
    assert any(failure.startswith("training differs") for failure in outcome.failures)
    assert any("inner, call 1: the activation is not what" in failure for failure in outcome.failures)
    assert outcome.idle == 1


def test_a_model_that_cannot_be_fed_is_not_run() -> None:
    def cannot() -> Subject:
        raise NotRun("eats nothing")

    outcome = check(Case("shy", "none", cannot))
    assert outcome.not_run == "eats nothing"
    assert not outcome.failures
    assert "eats nothing" in report.markdown("torch", [outcome])


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.md"
    path.write_text("# Models\n\n<!-- zoo torch: begin -->\nold\n<!-- zoo torch: end -->\n\nThe end.\n")
    return path


def test_lists_go_into_the_page_and_outcomes_into_a_file(page: Path, tmp_path: Path) -> None:
    outcome = Outcome("net", "image", executed=3, captured=3)
    outcome.no_gradient["no gradient: bool values have none"] = 2
    results.add(tmp_path / "outcomes", outcome)
    kept = results.read(tmp_path / "outcomes")
    assert kept == {"net": outcome}
    report.put_into(page, "torch", report.markdown("torch", list(kept.values())))
    text = page.read_text()
    assert text.startswith("# Models")
    assert text.endswith("The end.\n")
    assert "old" not in text
    assert "| image | 1 | 1 | 3 | 3 |" in text
    assert "| no gradient: bool values have none | 2 |" in text
