"""Which loss a batch had is found out, and what the model said of each sample."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from nansense_widgets.probe.answers import Answers, answers_of
from nansense_widgets.probe.batch import InputBatch, InputPlace

Loss = Callable[..., torch.Tensor]


def batch(
    output: torch.Tensor | dict[str, torch.Tensor],
    target: torch.Tensor | dict[str, torch.Tensor] | None,
    *losses: torch.Tensor | float,
    inputs: dict[str, torch.Tensor] | None = None,
) -> InputBatch:
    given = {"input": torch.rand(3, 2)} if inputs is None else inputs
    targets = {} if target is None else target if isinstance(target, dict) else {"[1]": target}
    return InputBatch(
        None,
        given,
        {name: InputPlace(name, "") for name in given},
        targets,
        output if isinstance(output, dict) else {"": output},
        tuple(float(one) for one in losses),
    )


def losses(answers: Answers) -> torch.Tensor:
    assert answers.losses is not None, answers.loss_note
    assert answers.losses.dtype is torch.float64
    return answers.losses.float()


def close(found: torch.Tensor | None, expected: torch.Tensor) -> None:
    assert found is not None
    torch.testing.assert_close(found.float(), expected.float(), rtol=1e-4, atol=1e-5)


SIZES = st.integers(2, 6)


@settings(deadline=None, max_examples=60)
@given(SIZES, SIZES, st.lists(st.integers(1, 4), max_size=2), st.booleans(), st.sampled_from(["mean", "sum"]))
def test_cross_entropy_of_any_shape_is_found(
    samples: int, classes: int, places: list[int], last: bool, reduction: str
) -> None:
    torch.manual_seed(samples * 100 + classes)
    logits, labels = torch.randn(samples, classes, *places) * 3, torch.randint(classes, (samples, *places))
    each = F.cross_entropy(logits, labels, reduction="none").reshape(samples, -1)
    whole = each.mean() if reduction == "mean" else each.sum()
    output = logits.movedim(1, -1) if last else logits
    answers = answers_of(batch(output, labels, whole))
    assert answers.loss is not None
    assert answers.loss.name == "cross-entropy"
    if samples > 1 or each.shape[1] == 1:
        close(answers.losses, each.mean(1) if answers.loss.reduction == "mean" else each.sum(1))
    if not places:
        close(answers.probabilities, logits.softmax(1))
        assert answers.targets is not None
        assert answers.targets.tolist() == labels.tolist()
    elif each.shape[1] > 1:
        assert (answers.kind, "classes at each of" in answers.reason) == ("none", True)


REAL: dict[str, tuple[Loss, str]] = {
    "mse": (F.mse_loss, "mean squared error"),
    "l1": (F.l1_loss, "mean absolute error"),
    "smooth": (F.smooth_l1_loss, "smooth L1 (Huber)"),
    "huber": (F.huber_loss, "smooth L1 (Huber)"),
    "poisson": (F.poisson_nll_loss, "Poisson negative log-likelihood"),
}


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(REAL)), st.sampled_from(["mean", "sum"]), SIZES, SIZES, st.booleans())
def test_losses_of_numbers_are_found(which: str, reduction: str, samples: int, size: int, half: bool) -> None:
    torch.manual_seed(size * 10 + samples)
    output, target = torch.randn(samples, size) * 2, torch.rand(samples, size) * 5
    output = output.bfloat16() if half else output
    function, name = REAL[which]
    whole = function(output.float(), target, reduction=reduction)
    answers = answers_of(batch(output, target, whole))
    assert answers.loss is not None
    assert (answers.loss.name, answers.loss.reduction) == (name, reduction)
    each = function(output.float(), target, reduction="none")
    close(answers.losses, each.mean(1) if reduction == "mean" else each.sum(1))
    assert answers.kind == "values"
    assert answers.values is not None
    assert answers.values.shape == output.shape
    assert "it gives the batch's loss" in answers.loss_note


@pytest.mark.parametrize("shape", [(6,), (6, 1)])
@pytest.mark.parametrize("logits", [True, False])
def test_binary_classes(shape: tuple[int, ...], logits: bool) -> None:
    torch.manual_seed(0)
    raw, labels = torch.randn(shape), torch.randint(2, shape).float()
    output = raw if logits else raw.sigmoid()
    each = F.binary_cross_entropy_with_logits(raw, labels, reduction="none")
    answers = answers_of(batch(output, labels.reshape(6), each.mean()))
    assert answers.loss is not None
    assert answers.loss.name == "binary cross-entropy" + (" with logits" if logits else "")
    close(answers.losses, each.reshape(6))
    assert answers.kind == "classes"
    assert answers.probabilities is not None
    close(answers.probabilities[:, 1], raw.sigmoid().reshape(6))
    assert answers.targets is not None
    assert answers.targets.tolist() == labels.reshape(6).long().tolist()


def test_several_labels_a_sample_are_values() -> None:
    torch.manual_seed(0)
    raw, labels = torch.randn(4, 5), torch.randint(2, (4, 5)).float()
    each = F.binary_cross_entropy_with_logits(raw, labels, reduction="none")
    answers = answers_of(batch(raw, labels, each.mean()))
    assert answers.kind == "values"
    close(answers.losses, each.mean(1))


def test_log_probabilities_and_probabilities() -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(5, 4), torch.randint(4, (5,))
    each = F.cross_entropy(logits, labels, reduction="none")
    found = answers_of(batch(logits.log_softmax(1), labels, each.mean()))
    assert found.loss is not None
    assert found.loss.name == "negative log-likelihood"
    close(found.losses, each)
    close(found.probabilities, logits.softmax(1))
    found = answers_of(batch(logits.softmax(1), labels, each.mean()))
    assert found.loss is not None
    assert found.loss.name == "log loss of probabilities"
    close(found.losses, each)
    close(found.probabilities, logits.softmax(1))
    # The usual mistake: a softmax before the loss that has one of its own. The answer is what the model says.
    shares = logits.softmax(1)
    found = answers_of(batch(shares, labels, F.cross_entropy(shares, labels)))
    close(found.losses, F.cross_entropy(shares, labels, reduction="none"))
    close(found.probabilities, shares)
    assert "the outputs are probabilities already, which it takes for logits" in found.loss_note


def test_labels_that_do_not_count_and_smoothed_ones() -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(3, 6, 5), torch.randint(1, 6, (3, 5))
    for ignored in (-100, 255, 0):
        labels[:, 3:] = ignored
        labels[0, 2] = ignored
        loss = F.cross_entropy(logits, labels, ignore_index=ignored)
        found = answers_of(batch(logits, labels, loss))
        assert found.loss is not None
        assert (found.loss.name, found.loss.ignored) == ("cross-entropy", ignored)
        each = F.cross_entropy(logits, labels, ignore_index=ignored, reduction="none")
        close(found.losses, each.sum(1) / (labels != ignored).sum(1))
    logits, labels = torch.randn(5, 4), torch.randint(4, (5,))
    each = F.cross_entropy(logits, labels, label_smoothing=0.1, reduction="none")
    found = answers_of(batch(logits, labels, each.mean()))
    assert found.loss is not None
    assert found.loss.name == "cross-entropy, label smoothing 0.1"
    close(found.losses, each)


def test_the_next_token() -> None:
    torch.manual_seed(0)
    logits, ids = torch.randn(2, 7, 11), torch.randint(11, (2, 7))
    each = F.cross_entropy(logits[:, :-1].mT, ids[:, 1:], reduction="none")
    # As a transformers model does it: its labels are its input, and it gives its loss itself.
    output = {".loss": each.mean(), ".logits": logits}
    for target in ({"['labels']": ids}, None):
        found = answers_of(batch(output, target, inputs={"input_ids": ids}))
        assert found.loss is not None
        assert (found.loss.form, found.loss.output) == ("next token", ".logits")
        close(found.losses, each.mean(1))
        assert "the loss that the model gives" in found.loss_note
        assert "11 classes at each of 6 tokens" in found.reason
    # And where the loop cuts the last token off.
    found = answers_of(batch(logits[:, :-1], ids, each.mean()))
    close(found.losses, each.mean(1))
    # Flattened by the model itself.
    found = answers_of(batch(logits.reshape(-1, 11), ids, F.cross_entropy(logits.mT, ids)))
    close(found.losses, F.cross_entropy(logits.mT, ids, reduction="none").mean(1))


def test_an_autoencoder_is_compared_with_its_input() -> None:
    torch.manual_seed(0)
    x = torch.rand(4, 1, 5, 5)
    output = torch.rand(4, 25)
    each = F.binary_cross_entropy(output, x.flatten(1), reduction="none")
    found = answers_of(batch(output, None, each.sum() / 4, inputs={"x": x}))
    assert found.loss is not None
    assert (found.loss.name, found.loss.target, found.loss.of_input) == ("binary cross-entropy", "x", True)
    assert found.loss.reduction == "mean of sums"
    close(found.losses, each.sum(1))
    assert found.kind == "values"


def test_shapes_that_broadcast_by_mistake_are_told() -> None:
    torch.manual_seed(0)
    output, target = torch.randn(6, 1), torch.randn(6)
    found = answers_of(batch(output, target, ((output - target) ** 2).mean()))
    assert found.loss is not None
    assert found.loss.name == "mean squared error, of each with every other"
    close(found.losses, ((output - target) ** 2).mean(1))


def test_accumulated_gradients_and_several_losses() -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(5, 4), torch.randint(4, (5,))
    each = F.cross_entropy(logits, labels, reduction="none")
    found = answers_of(batch(logits, labels, each.mean() / 4))
    close(found.losses, each)
    assert "divided by 4" in found.loss_note
    found = answers_of(batch(logits, labels, 7.25, each.mean()))
    close(found.losses, each)


def test_soft_labels() -> None:
    torch.manual_seed(0)
    logits = torch.randn(5, 4)
    hard = F.one_hot(torch.randint(4, (5,)), 4).float()
    mixed = 0.7 * hard + 0.3 * hard.roll(1, 1)
    for target in (hard, mixed):
        each = F.cross_entropy(logits, target, reduction="none")
        found = answers_of(batch(logits, target, each.mean()))
        assert found.kind == "classes"
        close(found.losses, each)
        close(found.probabilities, logits.softmax(1))
        assert (found.targets is None) == (target is mixed) == ("mixtures" in found.loss_note)


def test_without_a_loss_labels_of_whole_numbers_tell_classes() -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(5, 4), torch.randint(4, (5, 1))
    found = answers_of(batch(logits, labels))
    assert (found.kind, found.losses, found.loss) == ("classes", None, None)
    assert found.loss_note == "not known which loss it is: no backward() was seen"
    close(found.probabilities, logits.softmax(1))
    assert found.targets is not None
    assert found.targets.tolist() == labels[:, 0].tolist()
    # Of two, which one?
    found = answers_of(batch(logits, {"a": labels[:, 0], "b": (labels[:, 0] + 1) % 4}))
    assert (found.kind, found.targets) == ("classes", None)
    assert "which of 2 targets" in found.loss_note
    # Nothing says that these are classes.
    assert answers_of(batch(logits, None)).kind == "values"
    assert answers_of(batch(logits, labels + 4)).kind == "values"
    assert answers_of(batch(logits, torch.rand(5, 4))).kind == "values"
    assert answers_of(batch(torch.rand(5, 1), torch.randint(2, (5,)))).kind == "values"
    assert answers_of(batch(logits, {"y": torch.rand(5, 4), "index": torch.arange(5) % 4})).kind == "values"


def test_a_loss_that_is_none_of_the_usual_ones() -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(5, 4), torch.randint(4, (5,))
    found = answers_of(batch(logits, labels, 123.4))
    assert (found.kind, found.loss, found.losses) == ("classes", None, None)
    assert found.loss_note == "the batch's loss 123.4 is none of the usual ones of output and target"
    found = answers_of(batch(logits, None, 123.4))
    assert "no tensor that may be a target" in found.loss_note
    found = answers_of(batch(logits, labels, float("nan")))
    assert (found.losses, found.loss_note) == (None, "not found out: the batch's loss is nan")


def test_the_loss_of_an_earlier_batch_and_of_another_output() -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(5, 4), torch.randint(4, (5,))
    known = answers_of(batch(logits, labels, F.cross_entropy(logits, labels))).loss
    other = torch.randn(3, 4)
    found = answers_of(batch(other, labels[:3]), known=known)
    close(found.losses, F.cross_entropy(other, labels[:3], reduction="none"))
    assert found.loss_note == "as in the last training batch"
    ran = batch(logits, labels, F.cross_entropy(logits, labels))
    again = logits * 2
    for one in (None, known):
        found = answers_of(ran, {"": again}, one)
        close(found.losses, F.cross_entropy(again, labels, reduction="none"))
        close(found.probabilities, again.softmax(1))
    found = answers_of(ran, {"": again}, ran=answers_of(ran))
    close(found.losses, F.cross_entropy(again, labels, reduction="none"))
    assert found.loss_note == answers_of(ran).loss_note
    # A loss that is known but another one than this batch's is not taken.
    found = answers_of(batch(logits, torch.rand(5, 4), 3.21), known=known)
    assert (found.loss, "none of the usual" in found.loss_note) == (None, True)
    found = answers_of(batch(logits, None), known=known)
    assert (found.losses, found.loss_note) == (
        None, "cross-entropy, the loss of earlier batches, does not fit this one",
    )  # fmt: skip
    found = answers_of(batch(logits * float("inf"), labels, float("nan")), known=known)
    assert found.loss == known
    assert found.loss_note == "as in an earlier batch: the batch's loss is nan"


def test_nothing_odd_raises() -> None:
    odd: list[torch.Tensor] = [
        torch.tensor(1.0),
        torch.zeros(0, 3),
        torch.zeros(2, 3, dtype=torch.complex64),
        torch.zeros(2, 3, dtype=torch.bool),
        torch.zeros(2, 3).to_sparse(),
        torch.full((2, 3), float("nan")),
        torch.zeros(2, 3, device="meta"),
        torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
        torch.zeros(2, 3, dtype=torch.float16),
        torch.zeros(1),
    ]
    for output in odd:
        for target in (*odd, torch.tensor([0, 1])):
            found = answers_of(batch(output, target, 0.5))
            assert found.kind != "none" or found.reason, (output, target)
    assert answers_of(batch({}, None)).reason == "the model gave no tensor of real numbers"
    assert answers_of(InputBatch(None, {}, {}, None)).reason.startswith("no answer could")  # type: ignore[arg-type]


def test_one_sample_without_a_batch_axis() -> None:
    logits, label = torch.tensor([0.2, 1.0, -1.0]), torch.tensor(1)
    found = answers_of(batch(logits, label, F.cross_entropy(logits, label)))
    close(found.probabilities, logits.softmax(0)[None])
    close(found.losses, F.cross_entropy(logits, label)[None])


def test_a_large_vocabulary_gives_losses_but_no_probabilities() -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(200, 30_000).half(), torch.randint(30_000, (200,))
    each = F.cross_entropy(logits.float(), labels, reduction="none")
    found = answers_of(batch(logits, labels, each.mean()))
    close(found.losses, each)
    assert (found.kind, found.probabilities) == ("none", None)
    assert "more than 4,000,000 probabilities" in found.reason
