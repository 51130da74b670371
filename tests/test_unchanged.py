"""Promise 1: with the debugger on, training is bit for bit what it is with the debugger off."""

from __future__ import annotations

import itertools
import random
import re
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import nansense_widgets
from nansense_widgets import BatchSnapshot, LayerContext, Session, WeightContext
from tests.kinds import KINDS, Bare, Program


def state_bytes(program: Program, losses: list[torch.Tensor]) -> dict[str, bytes]:
    """Everything that training computed, as bytes, so that NaN equals NaN and -0.0 differs from 0.0."""
    found: dict[str, bytes] = {}
    _add(found, "loss", losses)
    _add(found, "state", dict(program.model.state_dict()))
    for index, optimizer in enumerate(program.optimizers):
        _add(found, f"optimizer {index}", optimizer.state_dict()["state"])
    for index, scheduler in enumerate(program.schedulers):
        _add(found, f"scheduler {index}", scheduler.get_last_lr())
    _add(found, "also", program.also())
    found["torch random state"] = _raw(torch.get_rng_state())
    found["numpy random state"] = repr(np.random.get_state(legacy=False)).encode()
    found["python random state"] = repr(random.getstate()).encode()
    return found


def _add(found: dict[str, bytes], name: str, value: Any) -> None:
    """Enter the tensors and numbers in `value`."""
    if isinstance(value, torch.Tensor):
        found[name] = _raw(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            _add(found, f"{name} {key}", item)
    elif isinstance(value, (list, tuple, deque)):
        for index, item in enumerate(value):
            _add(found, f"{name} {index}", item)
    else:
        assert value is None or isinstance(value, (bool, int, float, str, torch.dtype)), (name, value)
        found[name] = repr(value).encode()


def _raw(tensor: torch.Tensor) -> bytes:
    plain = tensor.detach()
    if plain.is_meta:
        return repr((plain.dtype, plain.shape)).encode()
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    if plain.is_quantized:
        plain = plain.int_repr()
    if plain.is_complex():
        plain = torch.view_as_real(plain.resolve_conj())
    plain = plain.as_subclass(torch.Tensor).contiguous().clone().reshape(-1)
    return plain.view(torch.uint8).numpy().tobytes()


def seeded(name: str) -> Program:
    random.seed(3)
    np.random.seed(3)
    torch.manual_seed(3)
    return KINDS[name]()


@cache
def bare_state(name: str) -> dict[str, bytes]:
    """What the kind computes without a session."""
    program = seeded(name)
    return state_bytes(program, program.run(Bare()))


def watched(program: Program, drive: Callable[[Session], None], enabled: bool = True) -> list[torch.Tensor]:
    session = nansense_widgets.start(
        program.model, optimizer=program.optimizers, scheduler=program.schedulers, enabled=enabled
    )
    if enabled:
        session.watch("*")
        session.set_stats_scope("all")
    session.launch(program.run, session)
    drive(session)
    assert session.wait(60)
    assert session.notice == "", session.notice
    notes = {stats.note for stats in session.watch_snapshot().stats.values()}
    assert not [note for note in notes if re.search(AN_EXCEPTION, note)]
    result: list[torch.Tensor] = session.result
    session.close()
    return result


def step_every_batch(session: Session) -> None:
    pauses = 0
    while session.wait_until_paused(after_pauses=pauses, timeout=60):
        assert session.snapshot is not None
        assert session.snapshot.number == pauses
        pauses += 1
        assert session.pause_count == pauses
        # After a batch that the loop left, by `break` or an exception, the pause comes before the next one.
        left = session.standing == "before"
        assert (session.snapshot.position != session.live_position) == left
        assert errors_of_ours(session.snapshot) == {}
        session.watch("*")  # ops become known with the first forward
        if any(node.gives_attention for node in session.architecture.nodes.values()):
            session.watch_attention("*")
        session.step_batch()


def errors_of_ours(snapshot: BatchSnapshot) -> dict[str, str]:
    """Layers whose reason for having no values is an exception, which is no reason."""
    reasons = dict(snapshot.missing)
    for name, calls in snapshot.layers.items():
        for leaf in (leaf for call in calls for leaf in call.leaves):
            reasons[name + leaf.path] = f"{leaf.activation_reason} {leaf.gradient_reason}"
    return {name: why for name, why in reasons.items() if re.search(AN_EXCEPTION, why)}


AN_EXCEPTION = r"(Error|Exception|Exit)\b"


def publish_every_batch(session: Session) -> None:
    assert session.wait_until_paused(timeout=60)
    session.watch("*")
    session.set_update_frequency(unit="batch")
    session.step_run()
    session.wait_until_paused(after_pauses=1, timeout=60)
    session.detach()


def detach_after_the_first_batch(session: Session) -> None:
    assert session.wait_until_paused(timeout=60)
    session.detach()


def one_command_after_the_other(session: Session) -> None:
    """As somebody does who tries all buttons; what is watched changes at each pause."""
    commands = itertools.cycle(
        [session.step_batch, session.step_phase, session.stop, session.step_epoch, session.request_snapshot]
    )
    pauses = 0
    while session.wait_until_paused(after_pauses=pauses, timeout=60):
        pauses = session.pause_count
        if pauses % 2:
            session.watch(*session.layer_names[pauses % 3 :: 3], "*")
        else:
            session.unwatch()
        next(commands)()
        if not session.is_running:  # `stop` and `request_snapshot` do not resume
            session.step_batch()


def evaluate_instruments(session: Session) -> None:
    """Instruments read all there is and draw random numbers; some batches show tensors of their own."""

    def drawn(*tensors: torch.Tensor | None) -> float:
        random.random(), np.random.rand()
        copies = [tensor.detach().clone() for tensor in tensors if tensor is not None]
        return float(torch.rand(())) + sum(copy.numel() for copy in copies)

    @session.watch_metric("reader")
    @session.watch_metric("folded", on="epoch", reduce=lambda values: values[0] + random.random())
    def reader(ctx: LayerContext) -> float:
        states = [value for state in ctx.optimizer_state.values() for value in state.values()]
        return drawn(
            *(ctx.activation, ctx.gradient, *ctx.weights.values(), *ctx.weight_gradients.values()),
            *(value for value in states if isinstance(value, torch.Tensor)),
        )

    @session.watch_layer_tensor("layer")
    def layer(ctx: LayerContext) -> torch.Tensor | None:
        drawn(ctx.activation, ctx.gradient)
        return ctx.activation if ctx.activation.layout is torch.strided else None

    @session.watch_weight_tensor("weight")
    def weight(ctx: WeightContext) -> torch.Tensor:
        drawn(ctx.gradient)
        return ctx.weight

    publish_every_batch(session)
    assert session.wait(60)
    assert session.instrument_errors == {}
    notes = session.watch_metrics_snapshot().notes
    assert "" not in notes, notes


def probe_every_batch(session: Session) -> None:
    """Pins batches, perturbs inputs and layers, in every mode."""
    pauses = 0
    while session.wait_until_paused(after_pauses=pauses, timeout=60):
        pauses += 1
        session.watch("*")
        if session.pin_current_batch():
            session.set_probe_mode(("unchanged", "eval", "train")[pauses % 3])
            result = session.wait_for_probe(60)
            assert result is not None
            assert not result.error or any(why in result.error for why in NO_PROBE), result.error
            for name, tensor in result.batch.inputs.items():
                if tensor.is_floating_point() and tensor.layout is torch.strided:
                    session.add_perturbation(name, noise=0.1)
            for name, calls in list(result.layers.items())[1:4]:
                node, value = session.architecture.nodes[name], calls[0].leaves[0].activation
                if value is None or not value.is_floating_point() or value.layout is not torch.strided:
                    continue
                if node.kind != "input" and node.ran:
                    session.ablate(name, scale=0.5)
            result = session.wait_for_probe(60)
            assert result is not None
            assert not result.error or any(why in result.error for why in NO_PROBE), result.error
            session.clear_perturbations()
            if pauses % 2:
                session.unpin_batch()
        session.step_batch()


NO_PROBE = (
    "mat1 and mat2 shapes cannot be multiplied",  # batches at which the model raises in the loop as well
    "not supported on ScriptModules",
    "Calling train() is not supported yet",  # of an exported module
    "which cannot be put back where it is",
    "cannot register a hook on a tensor that doesn't require gradient",  # train mode in a batch without grad
)
"""Why a kind cannot be probed in some mode."""


DRIVES = [
    step_every_batch,
    publish_every_batch,
    detach_after_the_first_batch,
    one_command_after_the_other,
    evaluate_instruments,
    probe_every_batch,
]


@pytest.mark.parametrize("name", KINDS)
def test_the_kind_itself_repeats(name: str) -> None:
    """Otherwise the comparison below would say nothing; nor would it of numbers that are not any."""
    program = seeded(name)
    losses = program.run(Bare())
    assert all(loss.isfinite().all() for loss in losses)
    assert different(state_bytes(program, losses), bare_state(name)) == []


KNOWN: dict[tuple[str, Callable[[Session], None]], str] = {}
"""Defects of the debugger that are being mended."""


def cases() -> Iterator[Any]:
    for name in KINDS:
        for drive in DRIVES:
            reason = KNOWN.get((name, drive))
            marks = [pytest.mark.xfail(strict=True, reason=reason)] if reason else []
            yield pytest.param(name, drive, marks=marks, id=f"{name}-{drive.__name__}")


@pytest.mark.parametrize(("name", "drive"), cases())
def test_training_is_bit_for_bit_unchanged(name: str, drive: Callable[[Session], None]) -> None:
    expected = bare_state(name)
    program = seeded(name)
    assert different(state_bytes(program, watched(program, drive)), expected) == []


def different(found: dict[str, bytes], expected: dict[str, bytes]) -> list[str]:
    return [key for key in {**expected, **found} if found.get(key) != expected.get(key)]


def test_disabled_session_changes_nothing_and_knows_nothing() -> None:
    program = seeded("residual_network")
    losses = watched(program, lambda session: None, enabled=False)
    assert different(state_bytes(program, losses), bare_state("residual_network")) == []
