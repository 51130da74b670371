"""Images, videos and sounds in the shapes that architectures take them in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from tests.zoo.configs import find, first, number, parts

__all__ = ["SAMPLES", "Batch", "Feed", "listed", "media", "noise", "patches", "sight_of"]

Batch = dict[str, Any]
Feed = tuple[str, Callable[[], Batch]]
"""What it feeds, and a function that makes a batch of it."""

SAMPLES = 2


def media(config: Any, takes: dict[str, Any]) -> Iterator[Feed]:
    """The ways to show or play something to a model whose forward takes these arguments, best first."""
    yield from _images(config, takes)
    yield from _sounds(config, takes)
    yield from _videos(config, takes)


def listed(given: dict[str, Any]) -> Batch:
    """Arguments as `exceptions.INPUTS` has them: shapes become noise, tensors copies."""

    def made(value: Any) -> Any:
        if isinstance(value, tuple):
            return torch.rand(value)
        return value.clone() if isinstance(value, torch.Tensor) else value

    return {name: made(value) for name, value in given.items() if name != "only"}


def noise(*shape: int) -> torch.Tensor:
    """Random floats for each sample."""
    return torch.rand(SAMPLES, *shape)


def sight_of(config: Any) -> Any:
    """The part of a configuration that describes what sees."""
    every = (config, *parts(config))
    for part in every:
        if hasattr(part, "image_size") or "vision" in part.model_type or "backbone" in part.model_type:
            return part
    return next((part for part in every if hasattr(part, "patch_size")), config)


def patches(sight: Any, grid: str, name: str = "pixel_values") -> Batch:
    """Images as a list of flat patches beside the grid they come from."""
    patch = number(find(sight, "patch_size") or 14)
    times = find(sight, "temporal_patch_size") or find(sight, "patch_temporal") or 1
    side = 4 * max(1, number(find(sight, "spatial_merge_size") or 2) // 2)
    values = torch.rand(SAMPLES * side * side, _channels(sight) * times * patch * patch)
    return {name: values, grid: torch.tensor([[1, side, side]] * SAMPLES)}


def _images(config: Any, takes: dict[str, Any]) -> Iterator[Feed]:
    if "pixel_values" not in takes:
        return
    sight = sight_of(config)
    channels, side = _channels(sight), _side(sight)
    for grid in ("image_grid_thw", "grid_thw"):
        if grid in takes:
            yield "images", partial(patches, sight, grid)
            break
    if "spatial_shapes" in takes:
        yield "images", partial(_ragged, sight)
    for size in dict.fromkeys((side, 64, 224)):
        if "image_sizes" in takes:
            for crops in ((1,), (), (3,)):
                yield "images", partial(_pixels, (*crops, channels, size, size), size)
        yield "images", partial(_pixels, (channels, size, size))
        yield "images", partial(_pixels, (1, channels, size, size))
    yield "videos", partial(_pixels, (find(sight, "num_frames") or 4, channels, side, side))
    yield "images", partial(_pixels, (1, side, side))


def _pixels(shape: tuple[int, ...], size: int = 0, name: str = "pixel_values") -> Batch:
    batch: Batch = {name: noise(*shape)}
    if size:
        batch["image_sizes"] = torch.tensor([[size, size]] * SAMPLES)
    return batch


def _ragged(sight: Any) -> Batch:
    patch = number(find(sight, "patch_size") or 16)
    return {
        "pixel_values": noise(16, _channels(sight) * patch * patch),
        "pixel_attention_mask": torch.ones(SAMPLES, 16, dtype=torch.long),
        "spatial_shapes": torch.tensor([[4, 4]] * SAMPLES),
    }


def _videos(config: Any, takes: dict[str, Any]) -> Iterator[Feed]:
    sight = sight_of(config)
    side = _side(sight)
    for name in ("pixel_values_videos", "pixel_values_video"):
        if name in takes and "pixel_values" not in takes:
            shape = (find(sight, "num_frames") or 4, _channels(sight), side, side)
            yield "videos", partial(_pixels, shape, name=name)


def _sounds(config: Any, takes: dict[str, Any]) -> Iterator[Feed]:
    sound = next((p for p in parts(config) if "audio" in p.model_type or "speech" in p.model_type), config)
    named = ("num_mel_bins", "feature_size", "input_dim", "input_feat_per_channel", "n_mels", "mel_bins")
    bands = first(sound, *named) or 80
    longest = 2 * (find(sound, "max_source_positions") or 0)
    for name in ("input_features", "audio_input_features", "audio_features", "input_audio_embeds"):
        for frames in dict.fromkeys((longest or 64, 64, 200)) if name in takes else ():
            yield "sounds", partial(_spectrum, name, (bands, frames), frames, takes)
            yield "sounds", partial(_spectrum, name, (frames, bands), frames, takes)
            yield "sounds", partial(_spectrum, name, (1, frames, bands), 0, takes)
    for name in ("input_values", "audio_values", "waveform"):
        spectrum = (find(sound, "max_length") or 200, bands)
        for shape in ((4000,), (1, 4000), spectrum, (20000,), (1, 20000)) if name in takes else ():
            yield "sounds", partial(_pixels, shape, name=name)


def _spectrum(name: str, shape: tuple[int, ...], frames: int, takes: dict[str, Any]) -> Batch:
    batch: Batch = {name: noise(*shape)}
    for mask in ("input_features_mask", "feature_attention_mask", "audio_attention_mask"):
        if frames and mask in takes:
            batch[mask] = torch.ones(SAMPLES, frames, dtype=torch.long)
    return batch


def _channels(sight: Any) -> int:
    return number(first(sight, "num_channels", "in_channels", "in_chans", "num_input_channels") or 3)


def _side(sight: Any) -> int:
    return min(number(find(sight, "image_size") or 64), 512)
