"""Files are whole or not there, whenever their writer is killed; what is wrong with one is said."""

from __future__ import annotations

import errno
import os
import pickle
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from nansense_widgets.errors import TimeTravelError
from nansense_widgets.history import files
from nansense_widgets.history.files import read_file, remove_leftovers, write_file

CONTENT = {"epoch": 3, "state": {"w": torch.arange(5.0)}}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "a.state"
    write_file(path, CONTENT)
    found = read_file(path)
    assert found["epoch"] == 3
    assert torch.equal(found["state"]["w"], CONTENT["state"]["w"])  # type: ignore[index]
    assert [entry.name for entry in path.parent.iterdir()] == ["a.state"]


def test_every_damage_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.state"
    write_file(path, CONTENT)
    whole = path.read_bytes()
    draw = random.Random(0)
    for _ in range(300):
        damaged = bytearray(whole)
        kind = draw.randrange(3)
        if kind == 0:
            damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del damaged[draw.randrange(len(damaged)) :]
        else:
            damaged += bytes(draw.randrange(256) for _ in range(1 + draw.randrange(9)))
        path.write_bytes(damaged)
        with pytest.raises(TimeTravelError, match=r"a\.state"):
            read_file(path)


class Evil:
    def __reduce__(self) -> Any:
        return (os.system, ("touch /tmp/nansense-was-here",))


def test_foreign_hostile_and_newer_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.state"
    torch.save(CONTENT, path)
    with pytest.raises(TimeTravelError, match="is no file of nansense_widgets"):
        read_file(path)
    path.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(TimeTravelError, match="is no file of nansense_widgets"):
        read_file(path)
    with pytest.raises(TimeTravelError, match="is not there"):
        read_file(tmp_path / "b.state")
    # Written by somebody who knows the format: what it holds is still not run.
    Path("/tmp/nansense-was-here").unlink(missing_ok=True)
    write_file(path, Evil())
    with pytest.raises(TimeTravelError, match="cannot be read"):
        read_file(path)
    assert not Path("/tmp/nansense-was-here").exists()
    write_file(path, CONTENT)
    whole = bytearray(path.read_bytes())
    whole[len(files.MAGIC) + 1] = 9
    path.write_bytes(whole)
    with pytest.raises(TimeTravelError, match="version 9 of the format; this nansense_widgets reads up to 1"):
        read_file(path)


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.state"
    write_file(path, CONTENT)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_file(path, {"epoch": 4, "state": {}})
    assert read_file(path)["epoch"] == 3
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.state"]


WRITERS = """
import os, random, signal, sys, time, torch
from pathlib import Path
from nansense_widgets.history.cache import EpochCache

torch.set_num_threads(1)
folder, draw, lost = Path(sys.argv[1]), random.Random(1), 0

def content(epoch):
    return {"epoch": epoch, "state": torch.full((20_000,), float(epoch)), "loaders": {}}

def write(out):
    cache = EpochCache(folder, keep=3, every=10)
    cache.adopt()
    epoch = max(cache.epochs, default=-1) + 1
    while True:
        cache.save(epoch, content(epoch))
        cache.flush(10)
        os.write(out, b"%d\\n" % epoch)  # this one is on the disk
        epoch += 1

for _ in range(200):
    told, out = os.pipe()
    child = os.fork()
    if not child:
        write(out)
    os.close(out)
    time.sleep(0.002 + draw.random() * 0.03)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(told) as pipe:
        done = [int(line) for line in pipe.read().split()]
    cache = EpochCache(folder, keep=3, every=10)
    cache.adopt()
    known = cache.epochs
    assert not done or max(known) >= done[-1], (done, known)
    for epoch in known[-3:]:
        found = cache.load(epoch)
        assert found["epoch"] == epoch and bool((found["state"] == epoch).all()), epoch
    cache.release()
cache = EpochCache(folder, keep=3, every=10)
cache.adopt()
newest = max(cache.epochs) + 1
cache.save(newest, content(newest))
assert cache.flush(10)
print(newest, len(cache.epochs))
"""


def test_killed_200_times_while_it_writes_a_cache_loses_nothing_that_was_there(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WRITERS, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    newest, known = map(int, done.stdout.split())
    assert newest > 20  # some were written between the kills
    assert known <= 3 + newest // 10 + 2
    remove_leftovers(tmp_path)
    assert {path.suffix for path in tmp_path.iterdir() if path.is_file()} <= {".state", ".json", ".lock", ""}
