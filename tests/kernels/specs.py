"""Kernel specifications for the ipykernel versions that `make setup` put into `.kernels/`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.conftest import REPO

VERSIONS = ("6.31.0", "7.3.0", "7.4.0")
"""Each behaves differently while a cell is busy. The Makefile installs the same ones."""

KERNELS = REPO / ".kernels"


def kernel_name(version: str) -> str:
    """Name of the specification that JupyterLab and nbformat know this version by."""
    return f"ipykernel-{version}"


def kernel_argv() -> list[str]:
    return [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]


def kernel_env(version: str) -> dict[str, str]:
    """Environment in which `import ipykernel` finds that version before the installed one."""
    folder = KERNELS / version
    if not (folder / "ipykernel").is_dir():
        raise FileNotFoundError(f"{folder} is missing: run `make setup`")
    return {"PYTHONPATH": os.pathsep.join([str(folder), str(REPO)])}


def write_kernel_specs(data_dir: Path) -> None:
    """Make the versions known to a server whose JUPYTER_DATA_DIR is `data_dir`."""
    for version in VERSIONS:
        if not (KERNELS / version).is_dir():
            continue
        spec = {
            "argv": kernel_argv(),
            "env": kernel_env(version),
            "display_name": f"ipykernel {version}",
            "language": "python",
        }
        folder = data_dir / "kernels" / kernel_name(version)
        folder.mkdir(parents=True)
        (folder / "kernel.json").write_text(json.dumps(spec))
