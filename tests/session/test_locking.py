"""A locked session can be looked at; nothing that visitors share can be changed, and its script goes on."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch

import nansense_widgets
from nansense_widgets import LayerContext, Session, SessionStateError, StatsScope, TimeTravelError
from nansense_widgets.widgets.actions import ACTIONS
from tests.driver import TIMEOUT_S, Driver, small_data, small_training, start_small, train
from tests.history.programs import AT, Program, Training, differences, shown

CALLS: dict[str, tuple[Any, ...]] = {
    "step_batch": (),
    "step_phase": (),
    "step_epoch": (),
    "step_run": (),
    "step_until_position": ("train", 2, 0),
    "detach": (),
    "stop": (),
    "cancel": (),
    "watch": ("3",),
    "unwatch": ("1",),
    "watch_attention": ("3",),
    "unwatch_attention": ("1",),
    "set_axes": ("1",),
    "set_stats_scope": ("none",),
    "set_patch_layers": (["1"],),
    "set_watch_performance": (),
    "set_update_frequency": (),
    "set_hyperparameter": ("lr", 0.5),
    "freeze_moment": ("nowhere/at.all",),
    "set_history": (),
    "pin_current_batch": (),
    "pin": (torch.zeros(4, 3),),
    "unpin_batch": (),
    "set_probe_mode": ("eval",),
    "add_perturbation": (),
    "ablate": ("1",),
    "undo_perturbation": (),
    "clear_perturbations": (),
    "measure_receptive_field": ("1",),
    "clear_receptive_field": (),
}
"""What does nothing on a locked session, with arguments that would change something."""

KEYWORDS: dict[str, dict[str, Any]] = {
    "set_axes": {"channel": 0},
    "set_watch_performance": {"channel_limit": 3},
    "set_update_frequency": {"unit": "batch"},
    "freeze_moment": AT,
    "set_history": {"budget": 1},
    "add_perturbation": {"scale": 0.5},
}

JUMPS = ("request_time_travel", "rewind", "step_back")
REFUSED = (*JUMPS, "watch_metric", "watch_layer_tensor", "watch_weight_tensor")

FREE = ("request_snapshot", "launch", "log", "track", "set_schedule", "park", "close")
"""What works all the same, though it does something."""


def locked() -> tuple[Session, Driver]:
    session, loop = start_small()
    session.watch("1")
    driver = Driver(session, loop)
    session.lock()
    return session, driver


@pytest.mark.parametrize("name", CALLS)
def test_commands_and_settings_do_nothing(name: str) -> None:
    session, driver = locked()
    before = shown(session), session.mode, session.pending, session.stats_scope, session.pause_count
    given = getattr(session, name)(*CALLS[name], **KEYWORDS.get(name, {}))
    assert given in (None, [], False)
    assert (session.is_pinned, session.perturbations, session.probe_mode) == (False, (), "unchanged")
    after = shown(session), session.mode, session.pending, session.stats_scope, session.pause_count
    assert differences(before, after) == []
    assert session.status.word == "paused"
    session.close()
    del driver


def test_jumps_and_instruments_are_refused() -> None:
    session, _ = locked()
    for jump in (
        lambda: session.request_time_travel(0),
        session.step_back,
        lambda: session.rewind(phase="train", epoch=0, batch_idx=0),
    ):
        with pytest.raises(TimeTravelError, match="the session is locked"):
            jump()
    assert "locked" in session.time_travel_status().reason
    for register in (session.watch_metric, session.watch_layer_tensor, session.watch_weight_tensor):
        with pytest.raises(SessionStateError, match=r"register instruments before session\.lock\(\)"):
            register("mine")
    session.close()


def test_whatever_a_browser_may_call_is_decided() -> None:
    assert {*CALLS, *REFUSED, *FREE} >= ACTIONS


@pytest.mark.parametrize("name", [*CALLS, *REFUSED, *FREE])
def test_its_docstring_says_what_the_lock_does(name: str) -> None:
    text = " ".join((inspect.getdoc(getattr(Session, name)) or "").split())
    if name in CALLS:
        assert "No-op on a locked session" in text
    elif name in FREE:
        assert "Works on a locked session too" in text
    else:
        assert "locked" in text or "as `watch_metric`" in text


def test_statistics_are_of_every_layer_then(nothing_has_been_compiled: None) -> None:
    session, model, optimizer = small_training()
    session.set_stats_scope("none")
    session.detach()
    session.lock()
    assert session.locked
    assert session.stats_scope is StatsScope.ALL
    train(model, optimizer, session.batches(small_data(), phase="train", epoch=0))
    collected = {layer for layer, _, _ in session.watch_snapshot().stats}
    assert {"0", "1", "2", "3"} <= collected


def test_a_command_given_before_goes_on() -> None:
    session, loop = start_small()
    session.step_run()
    session.lock()
    session.launch(loop)
    assert session.wait_until_paused(timeout=TIMEOUT_S)
    assert session.live_position is not None
    assert session.live_position.key == ("val", 2, 1)
    session.log("more", 1.0)
    assert "more" in session.run_log.names
    session.close()


def test_the_numbers_of_a_locked_moment_stay_and_all_layers_can_be_seen(tmp_path: Path) -> None:
    training = Training(Program())
    session = training.session
    session.watch("0")
    session.detach()
    session.freeze_moment(tmp_path / "a.moment", **AT)

    @session.watch_metric("zero")
    def zero(ctx: LayerContext) -> float:
        return 0.0

    training.loop()
    moment = nansense_widgets.load_moment(
        Program().model(), tmp_path / "a.moment", replay=Program().loss, input_mean=0.5
    )
    before = shown(moment)
    first = moment.snapshot
    moment.lock()
    assert moment.stats_scope is StatsScope.NONE
    assert moment.watched_layers == ("0",)
    after = shown(moment)
    snapshot = moment.snapshot
    assert first is not None
    assert snapshot is not None
    assert {name for name, node in moment.architecture.nodes.items() if node.ran} == set(snapshot.layers)
    assert differences(first.layers["0"], snapshot.layers["0"]) == []
    assert torch.equal(first.weights["0.weight"], snapshot.weights["0.weight"])
    del before["snapshot"], after["snapshot"]
    assert differences(before, after) == []
