"""A frozen moment shows the very numbers again; neither freezing nor loading moves anything."""

from __future__ import annotations

import errno
import os
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import nansense_widgets
from nansense_widgets import LayerContext, MomentError, Session, SessionStateError
from nansense_widgets.history import files
from nansense_widgets.history.files import read_file, write_file
from tests.driver import TIMEOUT_S, Driver, small_data, small_model
from tests.history.programs import AT, F, Halves, Program, Tokens, Training, bits, differences, shown
from tests.history.test_files import Evil


def freeze(path: Path, program: Program, at: dict[str, Any] = AT) -> tuple[Training, Driver]:
    """A training that is paused after the batch whose moment is in the file."""
    training = Training(program)
    session = training.session
    session.watch(*program.watched)
    session.freeze_moment(path, **at)
    session.step_until_position(**at)
    driver = Driver(session, training.loop)
    assert driver.shown == tuple(at.values())
    assert session.notice == ""
    assert path.is_file()
    return training, driver


def load(path: Path, program: Program, model: nn.Module | None = None) -> Session:
    torch.manual_seed(99)
    return nansense_widgets.load_moment(model or program.model(), path, replay=program.loss)


PROGRAMS = pytest.mark.parametrize(
    "program", [Program(), Tokens(), Halves()], ids=lambda one: type(one).__name__
)


@PROGRAMS
def test_what_was_shown_is_shown(program: Program, tmp_path: Path) -> None:
    training, driver = freeze(tmp_path / "a.moment", program)
    session = load(tmp_path / "a.moment", program)
    assert differences(shown(training.session), shown(session)) == []
    snapshot = session.snapshot
    assert snapshot is not None
    assert snapshot.activations
    assert snapshot.activation_gradients
    assert snapshot.notes == ()
    assert session.status.word == "paused"
    driver.finish()


def test_a_batch_without_a_backward(tmp_path: Path) -> None:
    training, driver = freeze(tmp_path / "a.moment", Program(), {"phase": "val", "epoch": 1, "batch_idx": 1})
    session = load(tmp_path / "a.moment", Program())
    assert differences(shown(training.session), shown(session)) == []
    assert session.snapshot is not None
    assert session.snapshot.activations
    assert not session.snapshot.activation_gradients
    driver.finish()


def test_series_and_tensors_of_instruments_are_shown(tmp_path: Path) -> None:
    training = Training(Program())
    session = training.session
    session.watch("0", "9")

    @session.watch_metric("share", on="epoch", reduce="max")
    def share(ctx: LayerContext) -> float:
        return float((ctx.activation > 0).float().mean())

    @session.watch_metric("two")
    def two(ctx: LayerContext) -> dict[str, float]:
        return {"a": 1.0, "b": float("nan")}

    @session.watch_metric("broken")
    def broken(ctx: LayerContext) -> float:
        raise ValueError("as always")

    @session.watch_layer_tensor("twice")
    def twice(ctx: LayerContext) -> torch.Tensor:
        return ctx.activation * 2

    session.freeze_moment(tmp_path / "a.moment", **AT)
    session.step_until_position(**AT)
    driver = Driver(session, training.loop)
    loaded = load(tmp_path / "a.moment", Program())
    assert differences(shown(session), shown(loaded)) == []
    assert loaded.instrument_errors == session.instrument_errors
    assert "ValueError: as always" in loaded.instrument_errors["broken"]
    assert loaded.snapshot is not None
    assert list(loaded.snapshot.custom_activations["0"]) == ["twice"]
    driver.finish()


@PROGRAMS
def test_the_run_goes_on_as_it_would_have(program: Program, tmp_path: Path) -> None:
    bare = Training(program, enabled=False)
    bare.loop()
    bare_random = torch.get_rng_state()
    frozen = Training(program)
    frozen.session.watch(*program.watched)
    frozen.session.freeze_moment(tmp_path / "a.moment", **AT)
    frozen.session.detach()
    frozen.loop()
    assert frozen.session.pause_count == 0
    assert (tmp_path / "a.moment").is_file()
    assert frozen.losses == bare.losses
    assert torch.equal(torch.get_rng_state(), bare_random)
    for here, there in zip(frozen.model.state_dict().values(), bare.model.state_dict().values(), strict=True):
        assert bits(here) == bits(there)


@PROGRAMS
def test_the_model_stands_after_the_batch_and_the_world_where_it_was(
    program: Program, tmp_path: Path
) -> None:
    training, driver = freeze(tmp_path / "a.moment", program)
    model = program.model().eval()
    torch.manual_seed(5)
    np.random.seed(5)
    random.seed(5)
    numpy = np.random.get_state(legacy=False)
    before = torch.get_rng_state(), random.getstate()
    threads = torch.get_num_threads()
    with torch.no_grad():
        nansense_widgets.load_moment(model, tmp_path / "a.moment", replay=program.loss)
        assert not torch.is_grad_enabled()
    assert torch.equal(torch.get_rng_state(), before[0])
    assert differences(np.random.get_state(legacy=False), numpy) == []
    assert random.getstate() == before[1]
    assert torch.get_num_threads() == threads
    for name, here in training.model.state_dict().items():
        assert bits(model.state_dict()[name]) == bits(here), name
    for (name, here), there in zip(training.model.named_parameters(), model.parameters(), strict=True):
        assert (here.grad is None) == (there.grad is None), name
        assert here.grad is None or there.grad is None or bits(here.grad) == bits(there.grad)
    assert [m.training for m in model.modules()] == [m.training for m in training.model.modules()]
    driver.finish()


def test_other_layers_come_from_another_replay(tmp_path: Path) -> None:
    program = Program()
    program.watched = ("0",)
    training, driver = freeze(tmp_path / "a.moment", program)
    everything = Program()
    _, other = freeze(tmp_path / "b.moment", everything)
    session, model = load(tmp_path / "a.moment", program), training.model
    first = session.snapshot
    assert first is not None
    assert list(first.layers) == ["0"]
    before = torch.get_rng_state()
    assert session.watch("4", "9") == ["4", "9"]
    second = session.snapshot
    assert second is not None
    assert second.number == first.number + 1
    assert second.watched == ("0", "4", "9")
    assert differences(first.layers["0"], second.layers["0"]) == []
    for layer in ("4", "9"):
        assert differences(other.snapshot.layers[layer], second.layers[layer]) == []
    assert torch.equal(torch.get_rng_state(), before)
    assert differences(shown(training.session)["statistics"], session.watch_snapshot()) == []
    session.unwatch("0")
    assert session.watched_layers == ("4", "9")
    del model
    driver.finish()
    other.finish()


def test_attention_that_was_formed_is_formed_again(tmp_path: Path) -> None:
    program = Tokens()
    training = Training(program)
    training.session.step_run()
    training.session.freeze_moment(tmp_path / "a.moment", **AT)
    training.session.step_batch()
    driver = Driver(training.session, training.loop)
    training.session.watch_attention("attend")
    driver.do("step_until_position", **AT)
    session = load(tmp_path / "a.moment", program)
    assert session.attention_layers == ("attend",)
    assert differences(shown(training.session), shown(session)) == []
    driver.finish()


def test_the_batch_on_screen_is_frozen_by_three_calls_of_one_cell(tmp_path: Path) -> None:
    model, data = small_model(), small_data(6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = nansense_widgets.start(model, optimizer=optimizer)

    def loop() -> None:
        for x, y in session.batches(data, phase="train"):
            time.sleep(0.05)  # so that the way back is still being gone when the next call comes
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

    driver = Driver(session, loop)
    driver.do("step_until_position", "train", 0, 3)
    pauses = session.pause_count
    session.step_back()
    session.freeze_moment(tmp_path / "a.moment", phase="train", epoch=0, batch_idx=3)
    session.step_batch()
    end = time.monotonic() + TIMEOUT_S
    while not (tmp_path / "a.moment").exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert (tmp_path / "a.moment").exists()
    assert session.wait_until_paused(after_pauses=pauses, timeout=TIMEOUT_S)
    assert session.notice == ""
    with pytest.raises(ValueError, match="has passed"):
        session.freeze_moment(tmp_path / "b.moment", phase="train", epoch=0, batch_idx=2)
    driver.finish()
    session.close()


def test_a_moment_has_no_loop(tmp_path: Path) -> None:
    _, driver = freeze(tmp_path / "a.moment", Program())
    session = load(tmp_path / "a.moment", Program())
    pauses = session.pause_count
    for command in ("step_batch", "step_phase", "step_epoch", "step_run", "detach"):
        getattr(session, command)()
        pauses += 1
        assert session.wait_until_paused(after_pauses=pauses - 1, timeout=0)
    session.step_until_position("train", 2, 0)
    session.stop()
    session.request_snapshot()
    assert session.status.word == "paused"
    assert "a frozen moment (epoch 2, train, batch 3)" in session.status.detail
    assert session.pending == []
    for start in (
        lambda: session.launch(lambda: None),
        lambda: session.batches([1], phase="train"),
        lambda: session.batch(phase="train"),
        lambda: session.epochs(2),
        lambda: session.set_hyperparameter("lr", 0.1),
        lambda: session.freeze_moment(tmp_path / "b.moment", **AT),
    ):
        with pytest.raises(SessionStateError, match="a frozen moment"):
            start()
    assert session.time_travel_status().reason == session.no_loop
    session.close()
    with pytest.raises(SessionStateError, match="this session is closed"):
        session.step_batch()
    driver.finish()


def test_what_is_held_is_told_and_let_go(tmp_path: Path) -> None:
    _, driver = freeze(tmp_path / "a.moment", Program())
    session = load(tmp_path / "a.moment", Program())
    held = {entry.name: entry.bytes for entry in session.memory().entries if entry.kind == "moment"}
    weights = sum(p.numel() * 4 for p in Program().model().parameters())
    assert held["start"] >= weights
    assert held["end"] >= 2 * weights
    assert held["item"] == 6 * 3 * 8 * 8 * 4 + 6 * 8
    session.close()
    assert "moment" not in session.memory().by_kind
    driver.finish()


# ---------------------------------------------------------------- the function that replays


def test_a_replay_that_differs_is_told(tmp_path: Path) -> None:
    _, driver = freeze(tmp_path / "a.moment", Program())

    def without_dropout(model: nn.Module, batch: Any) -> torch.Tensor:
        model.eval()
        return F.cross_entropy(model(batch[0]), batch[1])

    session = nansense_widgets.load_moment(Program().model(), tmp_path / "a.moment", replay=without_dropout)
    assert session.snapshot is not None
    (note,) = session.snapshot.notes
    assert note.startswith("the replay gave other values than were frozen in 10 of 11 layers (0, 1, 2, …)")
    driver.finish()


def test_a_replay_that_fails_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.moment"
    _, driver = freeze(path, Program())

    def tried(replay: Any) -> Session:
        model = Program().model()
        before = torch.get_rng_state()
        try:
            return nansense_widgets.load_moment(model, path, replay=replay)
        finally:
            assert torch.equal(torch.get_rng_state(), before)

    with pytest.raises(MomentError, match=r"a\.moment: the replay failed with KeyError: 'image'"):
        tried(lambda model, batch: model({"other": batch}["image"]))
    with pytest.raises(
        TypeError, match=r"replay must return the loss, a tensor of one element, not a Tensor of"
    ):
        tried(lambda model, batch: model(batch[0]))
    with pytest.raises(TypeError, match="not a NoneType"):
        tried(lambda model, batch: None)
    with pytest.raises(MomentError, match="the replay's loss has no gradient"):
        tried(lambda model, batch: batch[0].sum())
    with pytest.raises(
        MomentError, match=r"a\.moment: layer '.*' ran in the frozen batch, and not in its replay"
    ):
        tried(lambda model, batch: model[0](batch[0]).sum())
    with pytest.raises(TypeError, match="replay=3 must be a function"):
        tried(3)
    with pytest.raises(MomentError, match=r"the replay changed the model itself: .*mine"):
        tried(lambda model, batch: model.append(nn.ModuleDict({"mine": nn.Linear(2, 2)})))
    driver.finish()


# ---------------------------------------------------------------- files


def test_a_file_of_another_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.moment"
    _, driver = freeze(path, Program())
    cases: dict[str, Any] = {
        "module 9 is a Linear there and a Bilinear here": lambda m: m.__setitem__(9, nn.Bilinear(2, 2, 5)),
        r"parameter 9.weight is float32 \(5, 144\) there and float32 \(5, 100\) here": lambda m: (
            m.__setitem__(9, nn.Linear(100, 5))
        ),
        "module 10 is not there and a ReLU here": lambda m: m.append(nn.ReLU()),
        "parameter 0.bias": lambda m: m.__setitem__(0, nn.Conv2d(3, 8, 3, padding=1, bias=False)),
        r"parameter 0.weight is float32 \(8, 3, 3, 3\) there and float64": lambda m: m.double(),
    }
    for message, change in cases.items():
        model = Program().model()
        change(model)
        with pytest.raises(MomentError, match=rf"a\.moment is no moment of this model: .*{message}"):
            load(path, Program(), model)
    driver.finish()


def test_every_damage_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.moment"
    _, driver = freeze(path, Program())
    driver.finish()
    whole = path.read_bytes()
    draw = random.Random(0)
    for _ in range(60):
        damaged = bytearray(whole)
        kind = draw.randrange(3)
        if kind == 0:
            damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del damaged[draw.randrange(len(damaged)) :]
        else:
            damaged += bytes(1 + draw.randrange(9))
        path.write_bytes(damaged)
        with pytest.raises(MomentError, match=r"a\.moment"):
            load(path, Program())


def test_what_somebody_else_wrote_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.moment"
    _, driver = freeze(path, Program())
    driver.finish()
    content = read_file(path)
    with pytest.raises(MomentError, match=r"b\.moment is not there"):
        load(tmp_path / "b.moment", Program())
    torch.save(content, path)
    with pytest.raises(MomentError, match="is no file of nansense_widgets"):
        load(path, Program())
    for other in ({"epoch": 1, "state": {}}, [1], {"kind": "state"}):
        write_file(path, other)
        with pytest.raises(MomentError, match=r"a\.moment is a file of nansense_widgets, but holds no"):
            load(path, Program())
    Path("/tmp/nansense-was-here").unlink(missing_ok=True)
    write_file(path, {**content, "item": Evil()})
    with pytest.raises(MomentError, match=r"a\.moment cannot be read"):
        load(path, Program())
    assert not Path("/tmp/nansense-was-here").exists()
    write_file(path, {**content, "version": 2})
    with pytest.raises(MomentError, match="has version 2 of a moment; this nansense_widgets reads version 1"):
        load(path, Program())
    write_file(path, content)
    raw = bytearray(path.read_bytes())
    raw[len(files.MAGIC) + 1] = 9
    path.write_bytes(raw)
    with pytest.raises(MomentError, match="version 9 of the format"):
        load(path, Program())


def test_files_with_a_right_checksum_and_wrong_contents_are_refused(tmp_path: Path) -> None:
    """Whatever is in them: an error that names the file, never a crash."""
    path = tmp_path / "a.moment"
    _, driver = freeze(path, Program())
    driver.finish()
    content = read_file(path)
    text = bytes(content["moment"]["text"].numpy())
    draw = random.Random(2)
    for _ in range(60):
        wrong = bytearray(text)
        for _ in range(1 + draw.randrange(4)):
            wrong[draw.randrange(len(wrong))] = draw.randrange(32, 127)
        packed = {**content["moment"], "text": torch.frombuffer(wrong, dtype=torch.uint8)}
        write_file(path, {**content, "moment": packed})
        try:
            load(path, Program())  # a changed digit of a number is nobody's to know
        except MomentError as error:
            assert "a.moment" in str(error)  # noqa: PT017  either may happen
    for part in ("start", "end", "item", "moment"):
        values: tuple[Any, ...] = (None, 3, {}, {"model": {}}, torch.zeros(2))
        for value in values:
            write_file(path, {**content, part: value})
            with pytest.raises(MomentError, match=r"a\.moment"):
                load(path, Program())
    kept = content["moment"]["block"]
    write_file(path, {**content, "moment": {**content["moment"], "block": kept[: len(kept) // 2]}})
    with pytest.raises(MomentError, match=r"a\.moment cannot be read"):
        load(path, Program())


# ---------------------------------------------------------------- what is asked for


def test_a_request_is_checked_at_once(tmp_path: Path) -> None:
    training, driver = freeze(tmp_path / "a.moment", Program())
    session = training.session
    path = tmp_path / "b.moment"
    for wrong, error, message in (
        ({"phase": 3}, TypeError, "phase=3"),
        ({"phase": ""}, ValueError, "phase=''"),
        ({"epoch": -1}, ValueError, "epoch=-1"),
        ({"epoch": None}, TypeError, "epoch=None"),
        ({"epoch": 3}, ValueError, "epoch=3 must be below the run's 3 epochs"),
        ({"batch_idx": True}, TypeError, "batch_idx=True"),
        ({"batch_idx": 4}, ValueError, "batch_idx=4 must be below the 4 batches"),
        ({"batch_idx": 2}, ValueError, "has passed"),
        ({"phase": "test"}, ValueError, "phase='test' is not a phase"),
    ):
        with pytest.raises(error, match=message):
            session.freeze_moment(path, **{**AT, **wrong})
    later = {**AT, "epoch": 2}
    with pytest.raises(TypeError, match="path=3 must be a path"):
        session.freeze_moment(3, **later)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=f"there is no folder {tmp_path}/no"):
        session.freeze_moment(tmp_path / "no" / "b.moment", **later)
    with pytest.raises(ValueError, match="must be a file, and is a folder"):
        session.freeze_moment(tmp_path, **later)
    assert session.pending == []
    driver.finish()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    session = nansense_widgets.start(small_model())
    tmp_path.chmod(0o500)
    with pytest.raises(ValueError, match="cannot be written to"):
        session.freeze_moment(tmp_path / "b.moment", **AT)


def test_one_request_at_a_time(tmp_path: Path) -> None:
    training = Training(Program())
    session = training.session
    session.detach()
    session.freeze_moment(tmp_path / "a.moment", **AT)
    session.freeze_moment(str(tmp_path / "b.moment"), **{**AT, "epoch": 2})
    assert session.pending == ["freeze_moment"]
    training.loop()
    assert [path.name for path in tmp_path.iterdir()] == ["b.moment"]
    assert session.pending == []
    position = load(tmp_path / "b.moment", Program()).live_position
    assert position is not None
    assert position.key == ("train", 2, 2)


def test_a_batch_that_never_came_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    training = Training(Program())
    session = training.session
    session.detach()
    session.freeze_moment(tmp_path / "a.moment", phase="test", epoch=0, batch_idx=0)
    training.loop()
    assert session.notice == ""
    session.close()
    assert "epoch 0, test, batch 0 (counted from 0) was not written" in session.notice
    assert "training never reached it" in session.notice
    assert session.notice in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_and_training_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    bare = Training(Program(), enabled=False)
    bare.loop()
    training = Training(Program())
    training.session.detach()
    training.session.freeze_moment(tmp_path / "a.moment", **AT)
    monkeypatch.setattr(os, "fsync", full)
    training.loop()
    assert training.losses == bare.losses
    assert "was not written" in training.session.notice
    assert "No space left on device" in training.session.notice
    assert list(tmp_path.iterdir()) == []


def test_batches_by_hand_need_their_item(tmp_path: Path) -> None:
    def trained(*, give: bool) -> Session:
        model = small_model()
        session = nansense_widgets.start(model)
        session.watch("1")
        session.detach()
        session.freeze_moment(tmp_path / "a.moment", phase="train", epoch=0, batch_idx=1)
        for x, y in small_data(3):
            with session.batch(phase="train", item=(x, y) if give else None):
                F.cross_entropy(model(x), y).backward()
        return session

    assert "a replay needs the loader's item" in trained(give=False).notice
    assert list(tmp_path.iterdir()) == []
    assert trained(give=True).notice == ""
    session = nansense_widgets.load_moment(
        small_model(), tmp_path / "a.moment", replay=lambda m, b: F.cross_entropy(m(b[0]), b[1])
    )
    assert session.snapshot is not None
    assert session.snapshot.notes == ()
    assert session.snapshot.activations["1"].shape == (4, 8)


def test_lazy_layers_in_their_first_batch(tmp_path: Path) -> None:
    model = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.Linear(8, 3))
    session = nansense_widgets.start(model)
    session.watch("*")
    session.detach()
    session.freeze_moment(tmp_path / "a.moment", phase="train", epoch=0, batch_idx=0)
    for x, y in session.batches([(torch.randn(4, 6), torch.randint(0, 3, (4,)))], phase="train"):
        F.cross_entropy(model(x), y).backward()
    fresh = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.Linear(8, 3))
    loaded = nansense_widgets.load_moment(
        fresh, tmp_path / "a.moment", replay=lambda m, b: F.cross_entropy(m(b[0]), b[1])
    )
    assert differences(shown(session)["snapshot"], loaded.snapshot) == []


def test_an_item_that_no_file_can_hold_is_named(tmp_path: Path) -> None:
    model = small_model()
    session = nansense_widgets.start(model)
    session.detach()
    session.freeze_moment(tmp_path / "a.moment", phase="train", epoch=0, batch_idx=0)
    for (x, _), _ in session.batches([(small_data(1)[0], object())], phase="train"):
        model(x)
    assert "the loader's item[1] is a builtins.object, which cannot be stored" in session.notice
    assert list(tmp_path.iterdir()) == []


def test_a_disabled_session_freezes_nothing(tmp_path: Path) -> None:
    session = nansense_widgets.start(small_model(), enabled=False)
    session.freeze_moment(tmp_path / "a.moment", **AT)
    session.park()
    session.lock()
    assert not session.locked
    for _ in session.batches([1], phase="train", epoch=0):
        pass
    assert list(tmp_path.iterdir()) == []
