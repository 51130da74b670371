"""Every demo notebook runs through, and is committed without outputs of an older run."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from tests.notebooks import demo_notebooks, errors, execute, printed

CELL_LIMIT_S = 300
"""A notebook's longest cell trains for about two minutes on two cores."""

each_notebook = pytest.mark.parametrize("path", demo_notebooks(), ids=lambda path: path.stem)


@pytest.mark.notebook
@pytest.mark.timeout(CELL_LIMIT_S * 2)
@each_notebook
def test_runs_from_top_to_bottom(path: Path) -> None:
    notebook = execute(path, timeout_s=CELL_LIMIT_S)
    assert errors(notebook) == []
    for accuracy in re.findall(r"validation accuracy ([\d.]+)%", printed(notebook)):
        assert float(accuracy) > 95  # a demo that does not learn teaches nothing


@each_notebook
def test_is_committed_without_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert [cell for cell in notebook.cells if cell.cell_type == "code" and cell.outputs] == []


@pytest.mark.notebook
def test_a_failing_cell_is_reported(tmp_path: Path) -> None:
    """The check itself: a cell that raises ends the run with its own error."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")])
    path = tmp_path / "fails.ipynb"
    nbformat.write(notebook, path)
    with pytest.raises(Exception, match="ZeroDivisionError"):
        execute(path, timeout_s=60)
