"""After a jump everything comes again bit for bit, and nothing of the abandoned future is left."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import nansense_widgets
from nansense_widgets import Session, SessionStateError, TimeTravelError
from nansense_widgets.history.files import read_file, write_file
from tests.driver import TIMEOUT_S, Driver, small_model, start_small

EPOCHS = 4


class Pictures(Dataset[tuple[torch.Tensor, int]]):
    """Augments with every generator that people use."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(5)  # of its own; workers have copies

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        x = torch.full((1, 4, 4), index / 24.0) + torch.randn(1, 4, 4)
        if random.random() < 0.5:
            x = x.flip(2)
        return x * float(np.random.uniform(0.5, 2)) + float(self.rng.normal()), index % 3


class Program:
    """A loop with all that decides a next batch; remembers what it did, epoch by epoch."""

    def __init__(
        self, tmp_path: Path, workers: int = 0, generator: bool = False, shape: str = "flat"
    ) -> None:
        for seed in (torch.manual_seed, np.random.seed, random.seed):
            seed(0)
        self.model = nn.Sequential(
            nn.Flatten(), nn.Linear(16, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.3), nn.Linear(12, 3)
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.other = torch.optim.SGD(self.model[5].parameters(), lr=0.001, momentum=0.9)
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.7)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=3)
        self.loader = DataLoader(
            Pictures(), batch_size=6, shuffle=True, num_workers=workers,
            generator=torch.Generator().manual_seed(9) if generator else None,
        )  # fmt: skip
        self.session = nansense_widgets.start(
            self.model, optimizer=[self.optimizer, self.other], scheduler=self.scheduler
        )
        self.session.track("scaler", self.scaler)
        self.folder, self.shape = tmp_path / "cache", shape
        self.done: list[tuple[int, list[float]]] = []
        self.between = 0

    def loop(self) -> None:
        if self.shape == "flat":
            for epoch in self.session.epochs(EPOCHS, cache_dir=self.folder):
                self.scheduler.step()  # between the loop and the restore point: comes again too
                with self.session.restore_point():
                    self.epoch(epoch)
        else:
            self.session.set_schedule(epochs=EPOCHS)
            restorer = self.session.training_restorer(cache_dir=self.folder)
            while restorer.pending():
                with restorer:
                    for epoch in restorer.epochs():
                        self.scheduler.step()
                        self.epoch(epoch)

    def epoch(self, epoch: int) -> None:
        losses: list[float] = []
        self.done.append((epoch, losses))
        self.model.train()
        for x, y in self.session.batches(self.loader, phase="train"):
            loss = nn.functional.cross_entropy(self.model(x), y)
            self.scaler.scale(loss).backward()
            for optimizer in (self.optimizer, self.other):
                self.scaler.step(optimizer)
            self.scaler.update()
            self.optimizer.zero_grad()  # after the step: the first gradients of an epoch are those left over
            losses.append(loss.item())
        self.model.eval()
        with torch.no_grad():
            for x, y in self.session.batches(self.loader, phase="val"):
                losses.append(nn.functional.cross_entropy(self.model(x), y).item())

    def weights(self) -> list[torch.Tensor]:
        return [tensor.detach().clone() for tensor in self.model.state_dict().values()]


def straight(tmp_path: Path, **arguments: Any) -> Program:
    program = Program(tmp_path / "straight", **arguments)
    program.session.detach()
    program.session.launch(program.loop)
    assert program.session.wait(TIMEOUT_S)
    program.session.close()
    return program


@pytest.mark.parametrize("shape", ["flat", "nested"])
@pytest.mark.parametrize(("workers", "generator"), [(0, False), (0, True), (2, False)])
def test_the_replay_is_the_first_run(tmp_path: Path, workers: int, generator: bool, shape: str) -> None:
    expected = straight(tmp_path, workers=workers, generator=generator, shape=shape)
    program = Program(tmp_path, workers, generator, shape)
    session = program.session
    session.watch("1")
    driver = Driver(session, program.loop)
    driver.do("step_epoch")
    driver.do("step_epoch")
    for _ in range(3):
        driver.do("step_batch")
    assert driver.live == ("train", 2, 2)
    assert session.time_travel_status().cached_epochs == (0, 1, 2)
    driver.do("request_time_travel", 1)
    assert (driver.live, session.standing) == (("train", 1, 0), "before")
    driver.do("step_batch")
    assert driver.shown == ("train", 1, 0)
    watch = session.watch_snapshot(layers=["1"])
    assert {(phase, epoch): stats.batches for (_, phase, epoch), stats in watch.stats.items()} == {
        ("train", 0): 4, ("val", 0): 4, ("train", 1): 1,
    }  # fmt: skip
    assert len(session.run_log.series("loss")["train"]) == 5
    # A change of a setting is undone by going back before it.
    session.set_hyperparameter("lr", 0.5)
    driver.do("step_batch")
    assert program.optimizer.param_groups[0]["lr"] == 0.5
    assert any(event.kind == "hyperparameter" for event in session.events)
    driver.do("request_time_travel", 0)
    assert not any(event.kind == "hyperparameter" for event in session.events)
    assert driver.live == ("train", 0, 0)
    driver.do("step_epoch")
    driver.finish()
    assert [epoch for epoch, _ in program.done] == [0, 1, 2, 1, 0, 1, 2, 3]
    del program.done[3]  # with a learning rate of its own
    first = dict(expected.done)
    for epoch, losses in program.done:
        assert losses == first[epoch][: len(losses)], epoch
    assert all(torch.equal(a, b) for a, b in zip(program.weights(), expected.weights(), strict=True))
    assert program.scheduler.state_dict() == expected.scheduler.state_dict()
    jumps = [event.text for event in session.events if event.kind == "jump"]
    assert jumps == [
        "went back to the beginning of epoch 2 (from epoch 3, train, batch 3)",
        "went back to the beginning of epoch 1 (from epoch 2, train, batch 2)",
    ]
    assert session.notice == ""
    session.close()


def test_another_process_goes_on_from_a_folder(tmp_path: Path) -> None:
    expected = straight(tmp_path, generator=True)
    program = Program(tmp_path, generator=True)
    driver = Driver(program.session, program.loop)
    for _ in range(2):
        driver.do("step_epoch")
    driver.session.close()

    fresh = Program(tmp_path, generator=True)
    torch.rand(7), np.random.rand(3), random.random()
    with torch.no_grad():
        for parameter in fresh.model.parameters():
            parameter.zero_()
    session = fresh.session

    def loop() -> None:
        for epoch in session.epochs(EPOCHS, cache_dir=fresh.folder, start_epoch=1):
            fresh.scheduler.step()
            with session.restore_point():
                fresh.epoch(epoch)

    session.detach()
    session.launch(loop)
    assert session.wait(TIMEOUT_S)
    assert fresh.done == expected.done[1:]
    session.close()


def test_a_running_loop_jumps_and_runs_on(tmp_path: Path) -> None:
    program = Program(tmp_path)
    session = program.session
    asked: list[int] = []

    def loop() -> None:
        for epoch in session.epochs(EPOCHS, cache_dir=program.folder):
            with session.restore_point():
                program.epoch(epoch)
                if epoch == 2 and not asked:
                    asked.append(epoch)
                    session.request_time_travel(1)
                    assert "request_time_travel" in session.pending

    session.detach()
    session.launch(loop)
    assert session.wait(TIMEOUT_S)
    assert [epoch for epoch, _ in program.done] == [0, 1, 2, 1, 2, 3]
    session.close()


def test_run_to_the_end_and_back_from_its_last_pause(tmp_path: Path) -> None:
    program = Program(tmp_path)
    driver = Driver(program.session, program.loop)
    driver.do("step_run")
    assert driver.live == ("val", 3, 3)
    driver.do("request_time_travel", 3)
    driver.finish()
    assert [epoch for epoch, _ in program.done] == [0, 1, 2, 3, 3]
    assert program.done[3] == program.done[4]
    assert program.session.time_travel_status().reason == "the run is over"
    program.session.close()


def test_without_a_restore_point_nothing_is_written_and_it_is_said(tmp_path: Path) -> None:
    session, _ = start_small()
    folder = tmp_path / "cache"

    def loop() -> None:
        for _ in session.epochs(3, cache_dir=folder):
            for _ in session.batches(range(3), phase="train"):
                pass

    assert "does not go through session.epochs()" in session.time_travel_status().reason
    driver = Driver(session, loop)
    status = session.time_travel_status()
    assert not status.available
    assert "wrap each epoch's body" in status.reason
    with pytest.raises(TimeTravelError, match="epoch=0: the loop has no restore point"):
        session.request_time_travel(0)
    driver.finish()
    assert not folder.exists()
    session.close()


def test_a_broad_except_does_not_catch_a_jump_and_errors_go_through(tmp_path: Path) -> None:
    program = Program(tmp_path)
    session = program.session

    def loop() -> None:
        for epoch in session.epochs(2, cache_dir=program.folder):
            with session.restore_point():
                try:
                    program.epoch(epoch)
                except Exception:  # noqa: BLE001
                    program.between += 1
        for _ in session.epochs(1, cache_dir=program.folder):
            with pytest.raises(ZeroDivisionError), session.restore_point():
                raise ZeroDivisionError

    driver = Driver(session, loop)
    driver.do("step_epoch")
    driver.do("request_time_travel", 0)
    driver.finish()
    assert program.between == 0
    assert [epoch for epoch, _ in program.done] == [0, 1, 0, 1]
    session.close()


def test_what_does_not_fit_is_refused_and_training_stays_where_it_is(tmp_path: Path) -> None:
    program = Program(tmp_path)
    driver = Driver(program.session, program.loop)
    for _ in range(2):
        driver.do("step_epoch")
    session = program.session
    with pytest.raises(TimeTravelError, match=r"epoch=3 has no kept state; those are of epochs 0, 1, 2"):
        session.request_time_travel(3)
    with pytest.raises(TypeError, match="epoch='1'"):
        session.request_time_travel("1")  # type: ignore[arg-type]
    restorer = session._restorer  # noqa: SLF001
    assert restorer is not None
    assert restorer.cache.flush(TIMEOUT_S)
    path = restorer.cache.path(1)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TimeTravelError, match=r"epoch-000001\.state is cut off"):
        session.request_time_travel(1)
    path.unlink()
    with pytest.raises(TimeTravelError, match="epoch=1 has no kept state; those are of epochs 0, 2"):
        session.request_time_travel(1)
    before = program.weights()
    assert driver.live == ("train", 2, 0)
    assert all(torch.equal(a, b) for a, b in zip(program.weights(), before, strict=True))
    driver.finish()
    session.close()


def test_another_model_is_refused_before_anything_happens(tmp_path: Path) -> None:
    program = Program(tmp_path)
    driver = Driver(program.session, program.loop)
    driver.do("step_epoch")
    driver.finish()
    program.session.close()
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    other = nansense_widgets.start(model, optimizer=optimizer)
    with pytest.raises(
        TimeTravelError, match=r"does not fit: .*parameter 1\.weight is float32 \(12, 16\) there"
    ):
        other.epochs(4, cache_dir=program.folder, start_epoch=1)
    with pytest.raises(TimeTravelError, match="is not there"):
        other.epochs(9, cache_dir=program.folder, start_epoch=8)
    with pytest.raises(ValueError, match="start_epoch=4 must be less than the 4 epochs"):
        other.epochs(4, cache_dir=program.folder, start_epoch=4)
    other.close()


def test_disk_use_is_bounded_and_an_earlier_run_is_put_aside(tmp_path: Path) -> None:
    folder = tmp_path / "cache"

    def run(session: Session, epochs: int) -> None:
        for _ in session.epochs(epochs, cache_dir=folder, keep=2, every=4):
            with session.restore_point():
                for _ in session.batches(range(2), phase="train"):
                    pass
                restorer = session._restorer  # noqa: SLF001
                assert restorer is not None
                assert restorer.cache.flush(TIMEOUT_S)

    for epochs, names in ((9, {0, 4, 7, 8}), (3, {0, 1, 2})):
        session, _ = start_small()
        session.detach()
        session.launch(run, session, epochs)
        assert session.wait(TIMEOUT_S)
        status = session.time_travel_status()
        assert set(status.cached_epochs) == names
        assert status.disk_bytes == sum(path.stat().st_size for path in folder.glob("*.state"))
        assert status.folder == str(folder)
        session.close()
    assert {path.name for path in (folder / "previous").iterdir()} == {
        f"epoch-{epoch:06d}.state" for epoch in (0, 4, 7, 8)
    }


def test_a_full_disk_and_what_cannot_be_stored_are_told_and_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Odd:
        def state_dict(self) -> Any:
            return {"function": print}

        def load_state_dict(self, state: Any) -> None:
            raise AssertionError

    program = Program(tmp_path)
    program.session.track("odd", Odd())
    driver = Driver(program.session, program.loop)
    status = program.session.time_travel_status()
    assert status.note.startswith("epoch 0 was not kept: odd['function'] is a builtins.")
    assert not status.available
    driver.finish()
    assert len(program.done) == EPOCHS
    program.session.close()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nansense_widgets.history.cache.write_file", full)
    program = Program(tmp_path)
    driver = Driver(program.session, program.loop)
    restorer = program.session._restorer  # noqa: SLF001
    assert restorer is not None
    restorer.cache.flush(TIMEOUT_S)
    status = program.session.time_travel_status()
    assert "No space left on device" in status.note
    assert status.cached_epochs == ()
    driver.finish()
    assert len(program.done) == EPOCHS
    program.session.close()


def test_taking_a_state_moves_nothing(tmp_path: Path) -> None:
    """The same losses with and without restore points, random generators included."""
    expected = straight(tmp_path)
    bare = Program(tmp_path / "bare")

    def loop() -> None:
        for epoch in range(EPOCHS):
            bare.scheduler.step()
            bare.epoch(epoch)

    bare.session.detach()
    bare.session.launch(loop)
    assert bare.session.wait(TIMEOUT_S)
    assert bare.done == expected.done
    bare.session.close()


def test_wrong_arguments_and_places() -> None:
    session, _ = start_small()
    with pytest.raises(SessionStateError, match=r"belongs into a loop over session\.epochs"):
        session.restore_point()
    for arguments, error, said in (
        ({"start_epoch": -1}, ValueError, "start_epoch=-1"),
        ({"keep": 0}, ValueError, "keep=0 must be at least 1"),
        ({"cache_dir": 3}, TypeError, "cache_dir=3 must be a path"),
    ):
        with pytest.raises(error, match=said):
            session.epochs(3, **arguments)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"obj=3 must have a method state_dict\(\)"):
        session.track("a", 3)
    with pytest.raises(ValueError, match="name='' must not be empty"):
        session.track("", nn.Linear(1, 1))
    session.close()
    off = nansense_widgets.start(small_model(), enabled=False)
    for epoch in off.epochs(2):
        with off.restore_point() as restorer:
            assert epoch in (0, 1)
            assert restorer.start_epoch == 0
    loops = 0
    restorer = off.training_restorer()
    while restorer.pending():
        with restorer:
            loops += 1
    assert loops == 1
    assert off.time_travel_status().reason == "this session is disabled"


def test_a_jump_waits_until_it_can_be_caught(tmp_path: Path) -> None:
    """Validation lies outside of the restore point here: nothing may be raised there."""
    session, _ = start_small()
    seen: list[tuple[int, str]] = []

    def loop() -> None:
        for epoch in session.epochs(3, cache_dir=tmp_path / "cache"):
            with session.restore_point():
                for _ in session.batches(range(2), phase="train"):
                    seen.append((epoch, "train"))
            for _ in session.batches(range(2), phase="val"):
                seen.append((epoch, "val"))

    driver = Driver(session, loop)
    for _ in range(2):
        driver.do("step_batch")
    assert driver.live == ("val", 0, 0)
    driver.do("request_time_travel", 0)
    assert seen == [(0, "train")] * 2 + [(0, "val")] * 2
    assert driver.live == ("train", 0, 0)
    driver.finish()
    session.close()


def test_loaders_come_again_wherever_they_are_used(tmp_path: Path) -> None:
    """With generators of their own: one every other epoch, one over a subset, one made anew each epoch."""
    torch.manual_seed(0)
    data = torch.arange(12.0)
    train = DataLoader(data, batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(1))  # type: ignore[arg-type,var-annotated]
    rare = DataLoader(data, batch_size=6, shuffle=True, generator=torch.Generator().manual_seed(2))  # type: ignore[arg-type,var-annotated]
    inner = Pictures()
    part = DataLoader(torch.utils.data.Subset(inner, range(6)), batch_size=3)
    session, _ = start_small()
    seen: list[tuple[int, list[Any]]] = []

    def loop() -> None:
        for epoch in session.epochs(4, cache_dir=tmp_path / "cache"):
            with session.restore_point():
                items: list[Any] = []
                seen.append((epoch, items))
                for x in session.batches(train, phase="train"):
                    items.append(x.tolist())
                if epoch % 2:
                    for x in session.batches(rare, phase="val"):
                        items.append(x.tolist())
                for x, _ in session.batches(part, phase="part"):
                    items.append(x.sum().item())
                anew = DataLoader(data, shuffle=True, generator=torch.Generator().manual_seed(epoch))  # type: ignore[arg-type,var-annotated]
                for x in session.batches(anew, phase="anew"):
                    items.append(x.tolist())

    driver = Driver(session, loop)
    for _ in range(3):
        driver.do("step_epoch")
    for target in (2, 0, 1):
        driver.do("request_time_travel", target)
        driver.do("step_epoch")
        driver.do("step_epoch") if target < 2 else None
    driver.finish()
    first: dict[int, list[Any]] = {}
    for epoch, items in seen:
        known = first.setdefault(epoch, items)
        shorter = min(len(known), len(items))
        assert items[:shorter] == known[:shorter], epoch
        first[epoch] = max(known, items, key=len)
    assert len(first) == 4
    session.close()


class OddLoader:
    """A loader of the user's own in which everything goes wrong that can."""

    def __init__(self) -> None:
        self.generator = torch.Generator()

    def __iter__(self) -> Any:
        return iter(range(3))

    @property
    def sampler(self) -> Any:
        raise ZeroDivisionError

    def state_dict(self) -> Any:
        raise ZeroDivisionError


def test_a_loader_of_the_users_own_is_not_asked_for_anything(tmp_path: Path) -> None:
    session, _ = start_small()
    loader = OddLoader()

    def loop() -> int:
        done = 0
        for _ in session.epochs(2, cache_dir=tmp_path / "cache"):
            with session.restore_point():
                for _ in session.batches(loader, phase="train"):
                    torch.rand(1, generator=loader.generator)
                    done += 1
        return done

    driver = Driver(session, loop)
    state = loader.generator.get_state()
    driver.do("step_epoch")
    driver.do("request_time_travel", 0)
    driver.do("step_batch")
    assert torch.equal(loader.generator.get_state(), state)
    assert session.time_travel_status().note == ""
    assert driver.finish() == 3 + 6
    session.close()


@pytest.mark.parametrize("harm", ["deleted", "a file", "elsewhere"])
def test_a_folder_that_goes_away_ends_no_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    monkeypatch.chdir(tmp_path)
    program = Program(tmp_path, generator=True)
    program.folder = Path("cache")
    driver = Driver(program.session, program.loop)
    driver.do("step_batch")
    restorer = program.session._restorer  # noqa: SLF001
    assert restorer is not None
    assert restorer.cache.flush(TIMEOUT_S)
    if harm == "elsewhere":
        (tmp_path / "other").mkdir()
        monkeypatch.chdir(tmp_path / "other")
    else:
        shutil.rmtree(tmp_path / "cache")
        if harm == "a file":
            (tmp_path / "cache").write_text("")
    driver.do("step_epoch")
    assert restorer.cache.flush(TIMEOUT_S)
    note = program.session.time_travel_status().note
    assert ("was not written" in note) == (harm == "a file"), note
    driver.do("request_time_travel", 1) if harm != "a file" else None
    driver.finish()
    assert len(program.done) == EPOCHS + (harm != "a file")
    program.session.close()


def test_two_sessions_do_not_mix_their_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def begin(**chosen: Any) -> Driver:
        session, _ = start_small()

        def loop() -> None:
            for _ in session.epochs(2, **chosen):
                with session.restore_point():
                    for _ in session.batches(range(2), phase="train"):
                        pass

        return Driver(session, loop)

    def end(*drivers: Driver) -> None:
        for driver in drivers:
            driver.finish()
            driver.session.close()

    first, second = begin(), begin()
    assert first.session.time_travel_status().folder == str(tmp_path / "nansense_cache")
    assert second.session.time_travel_status().folder == str(tmp_path / "nansense_cache-2")
    end(first, second)
    # A folder that was asked for is not changed for another one.
    first, second = begin(cache_dir="mine"), begin(cache_dir="mine")
    assert first.session.time_travel_status().available
    status = second.session.time_travel_status()
    assert not status.available
    assert "is used by another session whose loop goes on" in status.note
    end(first, second)


def test_buffers_of_modules_that_are_gone_are_told_before_anything_changes(tmp_path: Path) -> None:
    program = Program(tmp_path)
    driver = Driver(program.session, program.loop)
    driver.do("step_epoch")
    before = program.weights()
    program.model[2] = nn.Identity()
    with pytest.raises(TimeTravelError, match="has no"):
        program.session.request_time_travel(0)
    assert torch.equal(program.weights()[0], before[0])
    driver.finish()
    program.session.close()


def test_a_tracked_object_may_keep_what_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Average:
        def __init__(self) -> None:
            self.value = torch.zeros(2)

        def state_dict(self) -> Any:
            return {"value": self.value}

        def load_state_dict(self, state: Any) -> None:
            self.value = state["value"]

    monkeypatch.setattr("nansense_widgets.history.cache.write_file", lambda *_: time.sleep(0.2))
    session, _ = start_small()
    average = Average()
    session.track("average", average)

    def loop() -> None:
        for _ in session.epochs(2, cache_dir=tmp_path / "cache"):
            with session.restore_point():
                for _ in session.batches(range(2), phase="train"):
                    average.value += 1

    driver = Driver(session, loop)
    for _ in range(3):
        driver.do("request_time_travel", 0)
        assert average.value.tolist() == [0, 0]
        driver.do("step_batch")
        assert average.value.tolist() == [1, 1]
    driver.finish()
    session.close()


def test_what_was_not_tracked_in_time_is_told(tmp_path: Path) -> None:
    program = Program(tmp_path)
    driver = Driver(program.session, program.loop)
    driver.do("step_epoch")
    program.session.track("late", nn.Linear(1, 1))
    driver.do("request_time_travel", 0)
    note = program.session.time_travel_status().note
    assert note == "late was not tracked yet in that epoch and stays as it is"
    driver.finish()
    program.session.close()


def test_files_with_other_contents_are_refused(tmp_path: Path) -> None:
    program = Program(tmp_path)
    driver = Driver(program.session, program.loop)
    for _ in range(2):
        driver.do("step_epoch")
    restorer = program.session._restorer  # noqa: SLF001
    assert restorer is not None
    assert restorer.cache.flush(TIMEOUT_S)
    path = restorer.cache.path(0)
    content = read_file(path)
    harms: list[dict[str, Any]] = [{"state": {}}, {"state": {"model": 3}}, {"epoch": 7}, {"run": "other"}]
    for harm in harms:
        write_file(path, {**content, **harm})
        with pytest.raises(TimeTravelError, match=r"epoch-000000\.state"):
            program.session.request_time_travel(0)
    driver.finish()
    program.session.close()


class Tempered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)


def test_parameters_that_only_the_optimizer_has_come_back_too(tmp_path: Path) -> None:
    model, temperature = Tempered(), nn.Parameter(torch.ones(()))
    optimizer = torch.optim.Adam([*model.parameters(), temperature], lr=0.1)
    session = nansense_widgets.start(model, optimizer=optimizer)
    seen: list[tuple[int, float]] = []

    def loop() -> None:
        for epoch in session.epochs(3, cache_dir=tmp_path / "cache"):
            with session.restore_point():
                torch.set_grad_enabled(True)
                for _ in session.batches(range(3), phase="train"):
                    optimizer.zero_grad()
                    (model.linear(torch.ones(2, 4)) / temperature).square().mean().backward()
                    optimizer.step()
                    seen.append((epoch, temperature.item()))
                torch.set_grad_enabled(False)  # and a jump from here
                for _ in session.batches(range(2), phase="val"):
                    pass

    driver = Driver(session, loop)
    driver.do("step_phase")
    driver.do("step_batch")
    driver.do("request_time_travel", 0)
    driver.do("step_phase")
    assert seen[:3] == seen[3:]
    driver.finish()
    session.close()


def test_files_of_others_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    (folder / "previous").mkdir(parents=True)
    mine = [
        folder / "epoch-best.state",
        folder / "previous" / "notes.txt",
        folder / "previous" / "epoch-1.state",
    ]
    for path in mine:
        path.write_text("mine")
    for _ in range(2):
        program = Program(tmp_path)
        driver = Driver(program.session, program.loop)
        driver.finish()
        program.session.close()
    assert [path.read_text() for path in mine] == ["mine"] * 3


def test_a_tracked_object_that_raises_is_told_and_training_goes_on(tmp_path: Path) -> None:
    class Broken:
        def state_dict(self) -> Any:
            return {}

        def load_state_dict(self, state: Any) -> None:
            raise ZeroDivisionError("no")

    program = Program(tmp_path)
    program.session.track("broken", Broken())
    driver = Driver(program.session, program.loop)
    driver.do("step_epoch")
    driver.do("request_time_travel", 0)
    assert program.session.time_travel_status().note == "broken was not put back: ZeroDivisionError: no"
    driver.finish()
    assert program.done[0] == program.done[2]
    program.session.close()


def test_a_loop_that_says_itself_when_epochs_begin(tmp_path: Path) -> None:
    """As a trainer's callback does; a jump asked for in its last batch is heard too."""
    program = Program(tmp_path)
    session = program.session
    session.set_schedule(epochs=3)
    asked = [2, 1]

    def loop() -> None:
        restorer = session.training_restorer(cache_dir=program.folder)
        while restorer.pending():
            with restorer:
                for epoch in range(restorer.start_epoch, 3):
                    restorer.save_epoch_start(epoch)
                    program.epoch(epoch)
                    if epoch == 2 and asked:
                        session.request_time_travel(asked.pop())

    session.detach()
    session.launch(loop)
    assert session.wait(TIMEOUT_S)
    assert [epoch for epoch, _ in program.done] == [0, 1, 2, 1, 2, 2]
    first = dict(program.done[:3])
    assert all(losses == first[epoch] for epoch, losses in program.done)
    session.close()
