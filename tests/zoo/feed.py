"""Inputs for an architecture nobody described: made from its forward's parameters and its configuration.

Several ways to feed a model are tried in turn; the first that runs forward and backward is taken.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from tests.zoo.exceptions import INPUTS
from tests.zoo.shrink import FIRST_FREE_TOKEN
from tests.zoo.subject import tensors_in

__all__ = ["feeds"]

Batch = dict[str, Any]
Feed = tuple[str, Callable[[], Batch]]
"""What it feeds, and a function that makes a batch of it."""

SAMPLES = 2
LENGTH = 12


def feeds(model: nn.Module, config: Any) -> Iterator[Feed]:
    """The ways to feed this model, best first."""
    takes = dict(inspect.signature(model.forward).parameters)
    given = INPUTS.get(config.model_type, {})
    if given.get("only"):
        yield "as listed", lambda: _listed(given)
        return
    media = [*_images(config, takes), *_audio(config, takes), *_videos(config, takes)]
    text = "input_ids" in takes
    for label, make in media:
        if text:
            yield f"{label} and text", lambda make=make: _with_places(model, config, takes, make())
            yield f"{label} and text", lambda make=make: {**_text(config, takes), **make(), **_listed(given)}
        yield label, lambda make=make: {**_rest(config, takes), **make(), **_listed(given)}
    if text:
        yield "text", lambda: {**_text(config, takes), **_listed(given)}
    if not media and not text:
        yield from _other(config, takes, given)


def _listed(given: dict[str, Any]) -> Batch:
    made: Batch = {}
    for name, value in given.items():
        if name == "only":
            continue
        made[name] = torch.rand(value) if isinstance(value, tuple) else value
    return {name: v.clone() if isinstance(v, torch.Tensor) else v for name, v in made.items()}


# ---------------------------------------------------------------- text


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
    batch: Batch = {}
    if "decoder_input_ids" in takes:
        batch["decoder_input_ids"] = _ids(config)
    return batch


def _ids(config: Any, length: int = LENGTH) -> torch.Tensor:
    sizes = [_find(c, "vocab_size") for c in (config, *_parts(config))]
    known = [size for size in sizes if isinstance(size, int) and size > 8]
    most = min([*known, FIRST_FREE_TOKEN])
    return torch.randint(min(10, most // 2), most, (SAMPLES, length))


def _with_places(model: nn.Module, config: Any, takes: dict[str, Any], media: Batch) -> Batch:
    """Text with as many placeholder tokens as the model makes features of the images, sounds or videos."""
    kind = "image" if any("image" in n or n == "pixel_values" for n in media) else "audio"
    if any("video" in name for name in media):
        kind = "video"
    place = _first(config, f"{kind}_token_id", f"{kind}_token_index", "image_token_id", "media_token_id")
    if place is None:
        raise ValueError(f"no placeholder token for {kind}")
    features = getattr(model, f"get_{kind}_features", None) or getattr(model.model, f"get_{kind}_features")
    accepts = inspect.signature(features).parameters
    with torch.no_grad():
        was = model.training
        model.eval()
        found = features(**{n: v for n, v in media.items() if n in accepts})
        model.train(was)
    pooled = getattr(found, "pooler_output", None)
    tensors = tensors_in(pooled if pooled is not None else found)
    if pooled is None and len(tensors) > 1:
        tensors = tensors[:1]
    rows = sum(t.numel() // t.shape[-1] for t in tensors)
    if rows % SAMPLES:
        raise ValueError(f"{rows} rows of {kind} features for {SAMPLES} samples")
    places = torch.full((SAMPLES, rows // SAMPLES), place)
    ids = _ids(config)
    start = _first(config, "vision_start_token_id", "image_start_token_id")
    before = ids[:, :3] if start is None else torch.cat([ids[:, :2], torch.full((SAMPLES, 1), start)], 1)
    batch = _text(config, takes)
    batch["input_ids"] = torch.cat([before, places, ids[:, 3:]], 1)
    batch["attention_mask"] = torch.ones_like(batch["input_ids"])
    for name in ("mm_token_type_ids", "token_type_ids"):
        if name in takes:
            batch[name] = (batch["input_ids"] == place).long() * (2 if kind == "video" else 1)
    return {**batch, **media, **_listed(INPUTS.get(config.model_type, {}))}


# ---------------------------------------------------------------- images, videos, sounds


def _images(config: Any, takes: dict[str, Any]) -> Iterator[Feed]:
    if "pixel_values" not in takes:
        return
    sight = _sight(config)
    channels, side = _channels(sight), _side(sight)
    if "image_grid_thw" in takes or "grid_thw" in takes:
        grid = "image_grid_thw" if "image_grid_thw" in takes else "grid_thw"
        yield "images", lambda: _patches(sight, channels, grid)
    if "spatial_shapes" in takes:
        yield "images", lambda: _ragged(sight, channels)
    for size in dict.fromkeys((side, 64, 224)):
        if "image_sizes" in takes:
            sizes = torch.tensor([[size, size]] * SAMPLES)
            yield "images", lambda s=size, z=sizes: {"pixel_values": _noise(1, channels, s, s), "image_sizes": z}
            yield "images", lambda s=size, z=sizes: {"pixel_values": _noise(channels, s, s), "image_sizes": z}
            yield "images", lambda s=size, z=sizes: {"pixel_values": _noise(3, channels, s, s), "image_sizes": z}
        yield "images", lambda s=size: {"pixel_values": _noise(channels, s, s)}
        yield "images", lambda s=size: {"pixel_values": _noise(1, channels, s, s)}
    frames = _find(sight, "num_frames") or 4
    yield "videos", lambda: {"pixel_values": _noise(frames, channels, side, side)}
    yield "images", lambda: {"pixel_values": _noise(1, side, side)}


def _patches(sight: Any, channels: int, grid: str) -> Batch:
    """Images as a list of flat patches beside the grid they come from."""
    patch = _one(_find(sight, "patch_size") or 14)
    times = _find(sight, "temporal_patch_size") or 1
    height = width = 4 * max(1, _one(_find(sight, "spatial_merge_size") or 2) // 2)
    values = torch.rand(SAMPLES * height * width, channels * times * patch * patch)
    return {"pixel_values": values, grid: torch.tensor([[1, height, width]] * SAMPLES)}


def _ragged(sight: Any, channels: int) -> Batch:
    patch = _one(_find(sight, "patch_size") or 16)
    return {
        "pixel_values": torch.rand(SAMPLES, 16, channels * patch * patch),
        "pixel_attention_mask": torch.ones(SAMPLES, 16, dtype=torch.long),
        "spatial_shapes": torch.tensor([[4, 4]] * SAMPLES),
    }


def _videos(config: Any, takes: dict[str, Any]) -> Iterator[Feed]:
    sight = _sight(config)
    frames = _find(sight, "num_frames") or 4
    for name in ("pixel_values_videos", "pixel_values_video"):
        if name in takes and "pixel_values" not in takes:
            side, channels = _side(sight), _channels(sight)
            yield "videos", lambda n=name: {n: _noise(frames, channels, side, side)}


def _audio(config: Any, takes: dict[str, Any]) -> Iterator[Feed]:
    sound = next((p for p in _parts(config) if "audio" in p.model_type or "speech" in p.model_type), config)
    bands = _first(
        sound, "num_mel_bins", "feature_size", "input_dim", "input_feat_per_channel", "n_mels", "mel_bins"
    )
    bands = bands or 80
    longest = 2 * (_find(sound, "max_source_positions") or 0)
    for name in ("input_features", "audio_input_features", "audio_features", "input_audio_embeds"):
        if name not in takes:
            continue
        for frames in dict.fromkeys((longest or 64, 64, 200)):
            masks = {
                n: torch.ones(SAMPLES, frames, dtype=torch.long)
                for n in ("input_features_mask", "feature_attention_mask", "audio_attention_mask")
                if n in takes
            }
            yield "sounds", lambda n=name, f=frames, m=masks: {n: _noise(bands, f), **m}
            yield "sounds", lambda n=name, f=frames, m=masks: {n: _noise(f, bands), **m}
            yield "sounds", lambda n=name, f=frames: {n: _noise(1, f, bands)}
    for name in ("input_values", "audio_values", "waveform"):
        if name not in takes:
            continue
        for shape in ((4000,), (1, 4000), (_find(sound, "max_length") or 200, bands), (20000,), (1, 20000)):
            yield "sounds", lambda n=name, s=shape: {n: _noise(*s)}


def _other(config: Any, takes: dict[str, Any], given: dict[str, Any]) -> Iterator[Feed]:
    """Whatever the forward insists on: hidden states and embeddings are floats of the model's width."""
    if given:
        yield "as listed", lambda: _listed(given)
        return
    width = _first(config, "hidden_size", "d_model", "embed_dim", "hidden_dim") or 32
    needed = [
        name
        for name, p in takes.items()
        if p.default is inspect.Parameter.empty
        and p.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    ]
    yield ", ".join(needed), lambda: {name: _noise(LENGTH, width) for name in needed}


# ---------------------------------------------------------------- reading configurations


def _parts(config: Any) -> list[Any]:
    found = []
    for name in getattr(config, "sub_configs", {}):
        part = getattr(config, name, None)
        if part is not None and hasattr(part, "model_type"):
            found += [part, *_parts(part)]
    return found


def _sight(config: Any) -> Any:
    for part in (config, *_parts(config)):
        if hasattr(part, "image_size") or "vision" in part.model_type or "backbone" in part.model_type:
            return part
    return next((p for p in (config, *_parts(config)) if hasattr(p, "patch_size")), config)


def _channels(sight: Any) -> int:
    return _one(_first(sight, "num_channels", "in_channels", "in_chans", "num_input_channels") or 3)


def _side(sight: Any) -> int:
    return min(_one(_find(sight, "image_size") or 64), 512)


def _find(config: Any, name: str) -> Any:
    try:
        return getattr(config, name, None)
    except Exception:  # noqa: BLE001  properties that look elsewhere
        return None


def _first(config: Any, *names: str) -> Any:
    for part in (config, *_parts(config)):
        for name in names:
            value = _find(part, name)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
    return None


def _one(value: Any) -> int:
    if isinstance(value, dict):
        return int(next(iter(value.values())))
    return int(value[-1] if isinstance(value, (list, tuple)) else value)


def _noise(*shape: int) -> torch.Tensor:
    return torch.rand(SAMPLES, *shape)
