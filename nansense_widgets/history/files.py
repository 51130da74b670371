"""Files that are there whole or not at all, and whose contents are checked before they are believed."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import struct
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import torch

from nansense_widgets.errors import TimeTravelError

__all__ = ["VERSION", "read_file", "remove_leftovers", "write_file"]

MAGIC = b"nansense-state\n"
VERSION = 1

_HEADER = struct.Struct(f">{len(MAGIC)}sHQ32s")
"""Magic, version, length of what follows, its SHA-256."""

_TEMPORARY = ".writing-"

_CHUNK = 1 << 20


class _Part(io.RawIOBase):
    """A file from an offset on, as `torch.save` and `torch.load` want it; hashes what is written in order."""

    def __init__(self, file: io.BufferedReader, start: int) -> None:
        self._file = file
        self._start = start
        file.seek(start)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        return self._file.read(-1 if size is None else size)

    def readinto(self, buffer: Any, /) -> int:
        return self._file.readinto(buffer)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        at = offset + self._start if whence == io.SEEK_SET else offset
        return self._file.seek(at, whence) - self._start

    def tell(self) -> int:
        return self._file.tell() - self._start


class _Hashing(io.RawIOBase):
    """Passes on what is written, and counts and hashes it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()
        self.length = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        view = memoryview(data).cast("B")
        self._file.write(view)
        self.digest.update(view)
        self.length += len(view)
        return len(view)


def write_file(path: Path, content: Any) -> None:
    """Write plain values and tensors; `path` is the old file or the new one at every instant.

    Raises:
        OSError: if the disk is full or the folder cannot be written; nothing is left behind then.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(os.fsencode(path.name)).hexdigest()[
        :16
    ]  # the longest name leaves room for no other
    temporary = path.parent / f"{_TEMPORARY}{os.getpid()}-{name}"
    try:
        with temporary.open("wb") as file:
            file.write(bytes(_HEADER.size))
            hashing = _Hashing(file)
            torch.save(content, cast("IO[bytes]", hashing))  # it needs `write` alone
            file.seek(0)
            file.write(_HEADER.pack(MAGIC, VERSION, hashing.length, hashing.digest.digest()))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):  # not every file system can; the file itself is safe
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read_file(path: Path) -> Any:
    """What `write_file` wrote. No code that the file may hold is run.

    Raises:
        TimeTravelError: naming the file and what is wrong with it.
    """
    try:
        with path.open("rb") as file:
            _check(path, file)
            part = cast("IO[bytes]", _Part(file, _HEADER.size))
            return torch.load(part, map_location="cpu", weights_only=True)
    except TimeTravelError:
        raise
    except FileNotFoundError:
        raise TimeTravelError(f"{path} is not there") from None
    except Exception as error:
        raise TimeTravelError(f"{path} cannot be read: {type(error).__name__}: {error}") from error


def _check(path: Path, file: BinaryIO) -> None:
    header = file.read(_HEADER.size)
    if not header.startswith(MAGIC) or len(header) < _HEADER.size:
        if MAGIC.startswith(header[: len(MAGIC)]):
            raise TimeTravelError(f"{path} is cut off: it has {len(header)} bytes")
        raise TimeTravelError(f"{path} is no file of nansense_widgets")
    _, version, length, expected = _HEADER.unpack(header)
    if version > VERSION:
        raise TimeTravelError(
            f"{path} has version {version} of the format; this nansense_widgets reads up to {VERSION}"
        )
    digest, found = hashlib.sha256(), 0
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
        found += len(chunk)
    if found != length:
        raise TimeTravelError(f"{path} is cut off or longer than it was: {found} bytes of {length}")
    if digest.digest() != expected:
        raise TimeTravelError(f"{path} is damaged: its contents are not those that were written")


def remove_leftovers(folder: Path) -> None:
    """Remove what writers that were killed left in a folder."""
    for path in folder.glob(f"{_TEMPORARY}*"):
        process = path.name.removeprefix(_TEMPORARY).partition("-")[0]
        if not process.isdigit() or not _lives(int(process)):
            with contextlib.suppress(OSError):
                path.unlink()


def _lives(process: int) -> bool:
    if process == os.getpid():
        return False  # writing is over whenever this is asked
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
