"""Execute a notebook from top to bottom, as a reader who runs all cells does."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient

from tests.conftest import REPO

FOLDER = REPO / "notebooks"


def demo_notebooks() -> list[Path]:
    return sorted(FOLDER.glob("*.ipynb"))


def execute(path: Path, *, timeout_s: int) -> nbformat.NotebookNode:
    """Run a copy of the notebook in its own folder; the file stays as it is.

    `timeout_s` limits each cell. A cell that raises ends the run with its traceback, unless it is tagged
    `raises-exception`.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=timeout_s, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    )
    client.execute()
    return notebook


def errors(notebook: nbformat.NotebookNode) -> list[str]:
    """Error outputs of cells that are not tagged to raise, as `cell n: type: message`."""
    return [
        f"cell {number}: {output.ename}: {output.evalue}"
        for number, cell in enumerate(notebook.cells)
        if cell.cell_type == "code" and "raises-exception" not in cell.metadata.get("tags", [])
        for output in cell.outputs
        if output.output_type == "error"
    ]


def printed(notebook: nbformat.NotebookNode) -> str:
    """All that its cells printed."""
    outputs = (output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs)
    return "".join(output.text for output in outputs if output.output_type == "stream")
