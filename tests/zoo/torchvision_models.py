"""The models of torchvision's classification, segmentation, detection and video sets, with random weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

import torch

from tests.zoo.subject import STEPS, Case, Subject, square_loss

__all__ = ["cases"]

SIZES = {
    "inception_v3": 299,  # its auxiliary head has a kernel for this size
    "maxvit_t": 224,  # the partition into windows is built for one size
    "vit_": 224,
}
"""Side of the images, by the beginning of a name; all others get 64."""

BUILD: dict[str, dict[str, Any]] = {
    "googlenet": {"aux_logits": True, "init_weights": False},  # a truncated normal takes minutes
    "inception_v3": {"init_weights": False},
}

IN_HALF = ("vit_h_14", "regnet_y_128gf")
"""Over 600 million parameters: in bfloat16, so that their values and gradients, and copies of them for two
snapshots, stay below 10 GB."""

CLIPS = {"mvit": (16, 224), "s3d": (16, 224)}
"""Frames and side, by the beginning of a name; all others get 4 frames of 64."""


def cases() -> Iterator[Case]:
    """All models of the four sets."""
    import torchvision.models as sets

    for family, module, build in (
        ("classification", sets, _classifier),
        ("segmentation", sets.segmentation, _segmenter),
        ("detection", sets.detection, _detector),
        ("video", sets.video, _video),
    ):
        yield from _set(family, module, build)


def _set(family: str, module: ModuleType, build: Callable[[str], Subject]) -> Iterator[Case]:
    from torchvision.models import list_models

    for name in list_models(module):
        yield Case(name, family, partial(build, name))


def _classifier(name: str) -> Subject:
    side = _by_prefix(SIZES, name, 64)
    model = _model(name, **BUILD.get(name, {}))
    images = _images(2, 3, side, side)
    if name in IN_HALF:
        halves = [(image.bfloat16(),) for (image,) in images]
        return Subject(model.bfloat16(), halves, square_loss, "in bfloat16")
    return Subject(model, images, square_loss)


def _segmenter(name: str) -> Subject:
    return Subject(_model(name, weights_backbone=None), _images(2, 3, 64, 64), square_loss)


def _video(name: str) -> Subject:
    frames, side = _by_prefix(CLIPS, name, (4, 64))
    # Video transformers are large, and one clip has all that a batch has; the others normalise over a batch.
    clips = 1 if name.startswith(("mvit", "swin3d")) else 2
    return Subject(_model(name), _images(clips, 3, frames, side, side), square_loss)


def _detector(name: str) -> Subject:
    small = {} if name.startswith("ssd") else {"min_size": 64, "max_size": 96}
    if "rcnn" in name:
        small |= {"rpn_post_nms_top_n_train": 40, "box_batch_size_per_image": 32}
    model = _model(name, weights_backbone=None, num_classes=4, **small)
    batches = [
        ([torch.rand(3, 64, 80), torch.rand(3, 80, 64)], [_target(name), _target(name)]) for _ in range(STEPS)
    ]
    return Subject(
        model, batches, lambda losses: torch.stack([v.float().mean() for v in losses.values()]).sum()
    )


def _target(name: str) -> dict[str, torch.Tensor]:
    target = {
        "boxes": torch.tensor([[4.0, 6.0, 30.0, 40.0], [20.0, 10.0, 60.0, 50.0]]),
        "labels": torch.tensor([1, 2]),
    }
    if name.startswith("maskrcnn"):
        target["masks"] = (torch.rand(2, 64, 80) > 0.5).to(torch.uint8)
    if name.startswith("keypointrcnn"):
        target["keypoints"] = torch.rand(2, 17, 3) * 20 + 10
        target["keypoints"][..., 2] = 1
    return target


def _model(name: str, **options: Any) -> torch.nn.Module:
    from torchvision.models import get_model

    model: torch.nn.Module = get_model(name, weights=None, **options)
    return model


def _images(*shape: int) -> list[tuple[torch.Tensor]]:
    return [(torch.rand(*shape),) for _ in range(STEPS)]


def _by_prefix(table: dict[str, Any], name: str, otherwise: Any) -> Any:
    return next((value for prefix, value in table.items() if name.startswith(prefix)), otherwise)
