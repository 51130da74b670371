"""Every architecture that `transformers` can make a model of by its type, from a tiny configuration."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from tests.zoo.exceptions import CLASSES, NOT_RUN
from tests.zoo.feed import feeds
from tests.zoo.shrink import LEVELS, tiny
from tests.zoo.subject import STEPS, Case, NotRun, Subject, square_loss

__all__ = ["cases"]

MOST_PARAMETERS = 60_000_000

FAMILIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("image and text", ("IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM", "ZERO_SHOT_IMAGE_CLASSIFICATION", "RETRIEVAL",
                        "VISUAL_QUESTION_ANSWERING", "ZERO_SHOT_OBJECT_DETECTION")),
    ("speech and sound", ("CTC", "AUDIO_CLASSIFICATION", "SPEECH_SEQ_2_SEQ", "TEXT_TO_WAVEFORM", "RNNT",
                          "TDT", "TEXT_TO_SPECTROGRAM", "AUDIO_XVECTOR")),
    ("text encoder and decoder", ("SEQ_TO_SEQ_CAUSAL_LM",)),
    ("text encoder", ("MASKED_LM",)),
    ("text decoder", ("CAUSAL_LM",)),
    ("text encoder", ("SEQUENCE_CLASSIFICATION", "TEXT_ENCODING", "TOKEN_CLASSIFICATION")),
    ("video", ("VIDEO_CLASSIFICATION",)),
    ("time series", ("TIME_SERIES_CLASSIFICATION", "TIME_SERIES_PREDICTION", "TIME_SERIES_REGRESSION")),
    ("image", ("IMAGE", "IMAGE_CLASSIFICATION", "BACKBONE", "OBJECT_DETECTION", "SEMANTIC_SEGMENTATION",
               "UNIVERSAL_SEGMENTATION", "DEPTH_ESTIMATION", "MASK_GENERATION", "KEYPOINT_DETECTION",
               "KEYPOINT_MATCHING", "IMAGE_MATTING", "POSE_ESTIMATION", "TABLE_RECOGNITION",
               "TEXT_RECOGNITION", "IMAGE_TO_IMAGE", "MASKED_IMAGE_MODELING", "INSTANCE_SEGMENTATION")),
)  # fmt: skip
"""Family of a model type: the first whose tasks name it. What no task names is a part of another model."""

HEADS = ("SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ", "IMAGE_TEXT_TO_TEXT", "MASKED_LM", "CAUSAL_LM")
"""Tasks that are trained with their own loss; other models get the mean squares of their outputs."""


@dataclass(frozen=True)
class Plan:
    """How one model type is built and fed."""

    model_class: str
    level: str
    feed: int
    fed: str


def cases() -> Iterator[Case]:
    """All model types that some task of `transformers.models.auto` has a model class for."""
    tasks = _tasks()
    for model_type in sorted({name for names in tasks.values() for name in names}):
        yield Case(
            model_type, _family(model_type, tasks), partial(_build, model_type), partial(_plan, model_type)
        )


def _build(model_type: str) -> Subject:
    plan = _plan(model_type)
    model, config = _model(model_type, plan.model_class, plan.level)
    _, make = list(feeds(model, config))[plan.feed]
    batches: list[Any] = [_labelled(model, make()) for _ in range(STEPS)]
    size = "" if plan.level == "tiny" else f", {plan.level}"
    return Subject(model, batches, _loss, f"{plan.model_class}: {plan.fed}{size}")


@functools.cache
def _plan(model_type: str) -> Plan:
    if model_type in NOT_RUN:
        raise NotRun(NOT_RUN[model_type])
    reasons: dict[str, None] = {}
    for number, model_class in enumerate(_classes(model_type)):
        for level in LEVELS if number == 0 else LEVELS[:1]:
            try:
                plan = _try_level(model_type, model_class, level)
            except Exception as error:
                reasons.setdefault(f"{model_class}, {level}: {type(error).__name__}: {error}")
                if isinstance(error, ImportError):
                    raise NotRun(" ".join(str(error).split())[:160]) from error
                continue
            if plan is not None:
                return plan
    raise NotRun(" | ".join(" ".join(reason.split())[:300] for reason in reasons))


def _try_level(model_type: str, model_class: str, level: str) -> Plan | None:
    model, config = _model(model_type, model_class, level)
    error: Exception | None = None
    for index, (label, make) in enumerate(feeds(model, config)):
        try:
            subject = Subject(model, [_labelled(model, make())], _loss)
            loss = subject.loss(subject.forward(subject.batches[0]))
            loss.backward()
            if torch.isfinite(loss):
                return Plan(model_class, level, index, label)
            error = error or RuntimeError(f"fed {label}: the loss is {float(loss)}")
        except Exception as failed:
            error = error or RuntimeError(f"fed {label}: {type(failed).__name__}: {failed}")
        finally:
            model.zero_grad()
    raise error or NotRun("nothing is known that it could be fed")


def _model(model_type: str, model_class: str, level: str) -> tuple[nn.Module, Any]:
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    build = getattr(transformers, model_class)
    with torch.device("meta"):  # some part may have kept its size
        size = sum(p.numel() for p in build(tiny(CONFIG_MAPPING[model_type], level)).parameters())
    if size > MOST_PARAMETERS:
        raise ValueError(f"{size / 1e6:,.0f} million parameters")
    config = tiny(CONFIG_MAPPING[model_type], level)
    return build(config), config


def _labelled(model: nn.Module, batch: dict[str, Any]) -> dict[str, Any]:
    """Language models are given the text itself as labels."""
    if type(model).__name__ in _heads():
        ids = batch.get("decoder_input_ids", batch.get("input_ids"))
        if ids is not None:
            return {**batch, "labels": ids.clone()}
    return batch


def _loss(output: Any) -> torch.Tensor:
    own = getattr(output, "loss", None)
    if isinstance(own, torch.Tensor) and own.requires_grad and own.ndim == 0:
        return own
    return square_loss(output)


def _tasks() -> dict[str, dict[str, str | tuple[str, ...]]]:
    from transformers.models.auto import modeling_auto

    found = {}
    for name in dir(modeling_auto):
        if name.startswith("MODEL_") and name.endswith("MAPPING_NAMES"):
            found[name.removeprefix("MODEL_FOR_").removesuffix("_MAPPING_NAMES")] = getattr(
                modeling_auto, name
            )
    return found


@functools.cache
def _heads() -> frozenset[str]:
    tasks = _tasks()
    return frozenset(_one(name) for task in HEADS for name in tasks[task].values())


def _classes(model_type: str) -> list[str]:
    """Model classes to try: one with a loss of its own, the plain model, then any other."""
    if model_type in CLASSES:
        return [CLASSES[model_type]]
    tasks = _tasks()
    order = [*HEADS, "MODEL", *tasks]
    found = [_one(tasks[task][model_type]) for task in order if model_type in tasks.get(task, {})]
    return list(dict.fromkeys(found))[:2]


def _family(model_type: str, tasks: dict[str, Any]) -> str:
    for family, names in FAMILIES:
        if any(model_type in tasks.get(name, ()) for name in names):
            return family
    return "part of another model"


def _one(names: str | tuple[str, ...]) -> str:
    return names if isinstance(names, str) else names[0]
