"""Inputs for an architecture nobody described: made from its forward's parameters and its configuration.

Several ways to feed a model are tried in turn; the first that runs forward and backward is taken.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import nn

from tests.zoo.configs import find, first, parts
from tests.zoo.exceptions import INPUTS
from tests.zoo.media import SAMPLES, Batch, Feed, listed, media, noise, patches, sight_of
from tests.zoo.shrink import FIRST_FREE_TOKEN
from tests.zoo.subject import tensors_in

__all__ = ["feeds"]

LENGTH = 12


def feeds(model: nn.Module, config: Any) -> Iterator[Feed]:
    """The ways to feed this model, best first."""
    takes = dict(inspect.signature(model.forward).parameters)
    given = INPUTS.get(config.model_type, {})
    if given.get("only"):
        yield "as listed", partial(listed, given)
        return
    shown = list(media(config, takes))
    text = "input_ids" in takes
    for label, make in shown:
        if text and _place(config, make()) is not None:
            yield f"{label} and text", partial(_with_places, model, config, takes, make)
        if text:
            yield f"{label} and text", partial(_together, config, takes, make, text=True)
        yield label, partial(_together, config, takes, make, text=False)
    if text:
        yield "text", partial(_together, config, takes, dict, text=True)
    if not shown and not text:
        yield from _other(config, takes, given)


def _together(config: Any, takes: dict[str, Any], make: Any, *, text: bool) -> Batch:
    batch = _text(config, takes) if text else _rest(config, takes)
    return {**batch, **make(), **listed(INPUTS.get(config.model_type, {}))}


def _text(config: Any, takes: dict[str, Any]) -> Batch:
    batch = _rest(config, takes)
    batch["input_ids"] = _ids(config)
    if "attention_mask" in takes:
        batch["attention_mask"] = torch.ones_like(batch["input_ids"])
    if "bbox" in takes:
        corner = torch.randint(0, 40, (SAMPLES, LENGTH, 2))
        batch["bbox"] = torch.cat([corner, corner + torch.randint(1, 40, (SAMPLES, LENGTH, 2))], -1)
    return batch


def _rest(config: Any, takes: dict[str, Any]) -> Batch:
    """What goes with any main input."""
    return {"decoder_input_ids": _ids(config)} if "decoder_input_ids" in takes else {}


def _ids(config: Any) -> torch.Tensor:
    sizes = [find(part, "vocab_size") for part in (config, *parts(config))]
    most = min([*(size for size in sizes if isinstance(size, int) and size > 8), FIRST_FREE_TOKEN])
    return torch.randint(min(10, most // 2), most, (SAMPLES, LENGTH))


def _with_places(model: nn.Module, config: Any, takes: dict[str, Any], make: Any) -> Batch:
    """Text with as many placeholder tokens as the model makes features of the images, sounds or videos."""
    shown = make()
    kind, place = _kind(shown), _place(config, shown)
    rows = _rows(model, kind, shown)
    if rows % SAMPLES:
        raise ValueError(f"{rows} rows of {kind} features for {SAMPLES} samples")
    ids = _ids(config)
    start = first(config, "vision_start_token_id", "image_start_token_id")
    before = ids[:, :3] if start is None else torch.cat([ids[:, :2], torch.full((SAMPLES, 1), start)], 1)
    batch = _text(config, takes)
    batch["input_ids"] = torch.cat([before, torch.full((SAMPLES, rows // SAMPLES), place), ids[:, 3:]], 1)
    batch["attention_mask"] = torch.ones_like(batch["input_ids"])
    for name in ("mm_token_type_ids", "token_type_ids"):
        if name in takes:
            batch[name] = (batch["input_ids"] == place).long() * (2 if kind == "video" else 1)
    return {**batch, **shown, **listed(INPUTS.get(config.model_type, {}))}


def _rows(model: nn.Module, kind: str, shown: Batch) -> int:
    """How many vectors the model makes of what it is shown."""
    name = f"get_{kind}_features"
    features = getattr(model, name, None) or getattr(model.model, name)
    accepts = inspect.signature(features).parameters
    was = model.training
    model.eval()
    with torch.no_grad():
        found = features(**{key: value for key, value in shown.items() if key in accepts})
    model.train(was)
    pooled = getattr(found, "pooler_output", None)
    tensors = tensors_in(found)[:1] if pooled is None else tensors_in(pooled)
    return sum(tensor.numel() // tensor.shape[-1] for tensor in tensors)


def _kind(shown: Batch) -> str:
    if any("video" in name for name in shown):
        return "video"
    return "image" if any("image" in name or name == "pixel_values" for name in shown) else "audio"


def _place(config: Any, shown: Batch) -> Any:
    kind = _kind(shown)
    return first(config, f"{kind}_token_id", f"{kind}_token_index", "image_token_id", "media_token_id")


def _other(config: Any, takes: dict[str, Any], given: dict[str, Any]) -> Iterator[Feed]:
    """Whatever the forward insists on: hidden states and embeddings are floats of the model's width."""
    if given:
        yield "as listed", partial(listed, given)
        return
    if "grid_thw" in takes and "hidden_states" in takes:  # the part of a model that sees
        yield "images", partial(patches, sight_of(config), "grid_thw", "hidden_states")
    width = first(config, "hidden_size", "d_model", "embed_dim", "hidden_dim") or 32
    needed = [
        name
        for name, p in takes.items()
        if p.default is inspect.Parameter.empty
        and p.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    ]
    if "encoder_hidden_states" in takes:
        other = first(config, "encoder_hidden_size", "cross_hidden_size") or width
        both = {"hidden_states": width, **dict.fromkeys(needed, width), "encoder_hidden_states": other}
        wanted = {name: size for name, size in both.items() if name in takes}
        yield ", ".join(wanted), partial(_states, wanted)
    yield ", ".join(needed), partial(_states, dict.fromkeys(needed, width))


def _states(widths: dict[str, int]) -> Batch:
    return {name: noise(LENGTH, width) for name, width in widths.items()}
