"""The three runs of one model: bare, bare with plain hooks, and under a session."""

from __future__ import annotations

import gc
import hashlib
import random
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

import nansense_widgets
from nansense_widgets import Architecture, BatchSnapshot
from tests.zoo.subject import Case, Subject, tensors_in

__all__ = ["Bare", "Hooked", "Seen", "Watched", "bare_run", "digest", "hooked_run", "watched_run"]

TIMEOUT = 900.0


def digest(tensor: torch.Tensor) -> str:
    """A tensor's dtype, shape and bits, so that NaN equals NaN and -0.0 differs from 0.0."""
    plain = tensor.detach()
    if plain.is_sparse:
        plain = plain.to_dense()
    if plain.is_complex():
        plain = torch.view_as_real(plain.resolve_conj())
    flat = plain.resolve_neg().contiguous().reshape(-1).view(torch.uint8) if plain.numel() else plain
    found = hashlib.blake2b(flat.numpy().data if plain.numel() else b"", digest_size=16)
    found.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
    return found.hexdigest()


@dataclass
class Bare:
    """What training computed: losses, parameters, gradients, buffers and random states as digests."""

    state: dict[str, str]
    losses: list[float]
    seconds: float
    """Of the last batch."""
    note: str
    """How the model was built and fed."""


@dataclass
class Seen:
    """One call of a module, seen by a plain hook: its first output tensor and that tensor's gradient."""

    value: str | None
    gradient: str | None = None


@dataclass
class Hooked(Bare):
    """A bare run with a plain forward hook on each module; calls by batch and module name."""

    calls: dict[tuple[int, str], list[Seen]] = field(default_factory=dict)


@dataclass
class Watched(Bare):
    """A run under a session that captured each batch."""

    captured: int
    """Batches with a snapshot of their own."""
    architecture: Architecture
    notice: str


def bare_run(case: Case) -> Bare:
    """Train without anything of ours."""
    subject = _fresh(case)
    losses, seconds = [], 0.0
    for batch in subject.batches:
        began = time.perf_counter()
        losses.append(_step(subject, batch))
        seconds = time.perf_counter() - began
    return Bare(_state(subject, losses), _numbers(losses), seconds, subject.note)


def hooked_run(case: Case) -> Hooked:
    """Train bare, with torch's own per-module hooks to say what executed and what came out of it."""
    subject = _fresh(case)
    recorder = _Recorder()
    losses = []
    for index, batch in enumerate(subject.batches):
        recorder.batch = index
        handles = [
            module.register_forward_hook(recorder.hook(name))  # each batch anew: forwards may replace modules
            for name, module in subject.model.named_modules()
            if name
        ]
        losses.append(_step(subject, batch, recorder.in_forward))
        for handle in handles:
            handle.remove()
    state = _state(subject, losses)
    return Hooked(state, _numbers(losses), 0.0, subject.note, dict(recorder.calls))


def watched_run(case: Case, look: Callable[[int, BatchSnapshot, Architecture], None]) -> Watched:
    """Train under a session, all layers watched, and capture each batch.

    `look` is given each snapshot while training stands in its batch. None is kept: those of a large model
    take gigabytes.
    """
    subject = _fresh(case)
    session = nansense_widgets.start(subject.model, optimizer=subject.optimizer)
    losses: list[torch.Tensor] = []

    def loop() -> None:
        for batch in session.batches(subject.batches, phase="train", epoch=0):
            losses.append(_step(subject, batch))

    captured, seconds = 0, 0.0
    try:
        session.watch("*")
        session.launch(loop)
        pauses, began = 0, time.perf_counter()
        while session.wait_until_paused(after_pauses=pauses, timeout=TIMEOUT):
            seconds = time.perf_counter() - began
            pauses = session.pause_count
            snapshot = session.snapshot
            if snapshot is not None and snapshot.position == session.live_position:
                look(captured, snapshot, session.architecture)
                captured += 1
            del snapshot
            session.watch("*")
            began = time.perf_counter()
            session.step_batch()
        if not session.wait(TIMEOUT):
            raise TimeoutError("the loop did not end")
        state = _state(subject, losses)
        return Watched(
            state,
            _numbers(losses),
            seconds,
            subject.note,
            captured,
            session.architecture,
            session.notice,
        )
    finally:
        session.close()


class _Recorder:
    """Plain hooks. Forwards that backward makes (activation checkpointing) are told by the loop."""

    def __init__(self) -> None:
        self.batch = 0
        self.calls: dict[tuple[int, str], list[Seen]] = defaultdict(list)
        self._forward = False

    def in_forward(self, under_way: bool) -> None:
        self._forward = under_way

    def hook(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        def note(_module: nn.Module, _args: Any, output: Any) -> None:
            if not self._forward:
                return
            found = tensors_in(output)
            seen = Seen(digest(found[0]) if found else None)
            self.calls[self.batch, name].append(seen)
            if found and found[0].requires_grad:
                found[0].register_hook(lambda gradient: _note_gradient(seen, gradient))

        return note


def _note_gradient(seen: Seen, gradient: torch.Tensor) -> None:
    seen.gradient = digest(gradient)


def _fresh(case: Case) -> Subject:
    gc.collect()
    random.seed(3)
    np.random.seed(3)
    torch.manual_seed(3)
    return case.build()


def _step(subject: Subject, batch: Any, in_forward: Callable[[bool], None] = lambda _: None) -> torch.Tensor:
    subject.optimizer.zero_grad()
    in_forward(True)
    loss = subject.loss(subject.forward(batch))
    in_forward(False)
    loss.backward()
    subject.optimizer.step()
    return loss.detach()


def _state(subject: Subject, losses: list[torch.Tensor]) -> dict[str, str]:
    found = {f"loss {index}": digest(loss) for index, loss in enumerate(losses)}
    for name, parameter in subject.model.named_parameters():
        found[f"parameter {name}"] = digest(parameter)
        if parameter.grad is not None:
            found[f"gradient {name}"] = digest(parameter.grad)
    found |= {f"buffer {name}": digest(buffer) for name, buffer in subject.model.named_buffers()}
    found["torch random state"] = digest(torch.get_rng_state())
    found["numpy random state"] = repr(np.random.get_state(legacy=False))
    found["python random state"] = repr(random.getstate())
    return found


def _numbers(losses: list[torch.Tensor]) -> list[float]:
    return [float(loss) for loss in losses]
