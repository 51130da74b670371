"""Files are whole or not there, whenever their writer is killed; what is wrong with one is said."""

from __future__ import annotations

import errno
import os
import pickle
import random
import signal
import subprocess
import sys
import time
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


WRITER = """
import sys, torch
from pathlib import Path
from nansense_widgets.history.files import write_file
path, n = Path(sys.argv[1]), 0
print("ready", flush=True)
while True:
    n += 1
    write_file(path, {"epoch": n, "state": torch.full((40_000,), float(n))})
    print(n, flush=True)
"""


def test_killed_at_any_moment_the_last_whole_file_is_there(tmp_path: Path) -> None:
    path = tmp_path / "a.state"
    draw = random.Random(1)
    for _ in range(12):  # each start of torch takes seconds; the writer is killed many times in a run of CI
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(draw.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        told = process.communicate()[0].split()
        if told:
            found = read_file(path)
            assert found["epoch"] >= int(told[-1])
            assert torch.equal(found["state"], torch.full((40_000,), float(found["epoch"])))
    remove_leftovers(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.state"]
