"""Builds the library. Imports nothing of this package: it also runs while that is being installed."""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

__all__ = ["LIBRARY", "BuildError", "build", "source_hash"]

_FOLDER = pathlib.Path(__file__).parent
_SOURCE = _FOLDER / "fold.c"
_SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")

LIBRARY = _FOLDER / f"_fold{_SUFFIX}"


class BuildError(RuntimeError):
    """There is no compiler, or it failed."""


def source_hash() -> str:
    """What tells a library of this source from others."""
    return hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]


def build() -> pathlib.Path:
    """Compile the library beside its source; `CC` names the compiler, else `cc`, `gcc` or `clang` is taken.

    Raises:
        BuildError: saying why there is none.
    """
    compiler = os.environ.get("CC") or next(filter(shutil.which, ("cc", "gcc", "clang")), None)
    if compiler is None:
        raise BuildError("no C compiler was found (cc, gcc, clang, or what CC names)")
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder) / LIBRARY.name
        command = [
            *compiler.split(), "-O3", "-std=c11", "-fPIC", "-shared", "-Wno-psabi",
            f'-DSOURCE_HASH="{source_hash()}"', "-o", str(made), str(_SOURCE), "-lm",
        ]  # fmt: skip
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603  our own source
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", "") or str(error)
            raise BuildError(f"{compiler} failed: {said.strip()[:500]}") from error
        # In one step: another process may be loading the one before.
        fresh = LIBRARY.with_name(f"{LIBRARY.name}.{os.getpid()}")
        shutil.copy(made, fresh)
        fresh.replace(LIBRARY)
    return LIBRARY
