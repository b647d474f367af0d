"""The notebooks of the documentation run from top to bottom, and their stored outputs are real."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def texts(cells):
    """What each cell printed, without warnings of other packages."""
    return [
        "".join(output.text for output in cell.outputs if output.get("name") == "stdout")
        for cell in cells
    ]


def test_there_are_three_and_the_page_links_to_each():
    assert len(NOTEBOOKS) == 3
    page = (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
    for path in NOTEBOOKS:
        assert f"(notebooks/{path.name})" in page


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_outputs_come_from_one_run_without_errors_and_paths(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert {output.output_type for output in outputs} <= {"stream", "display_data"}
    assert {output.name for output in outputs if output.output_type == "stream"} <= {"stdout"}
    for folder in ("/home", "/root", "/tmp", "/work", "site-packages"):
        assert folder not in json.dumps([cell.outputs for cell in cells])


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_notebooks_run_from_top_to_bottom(tmp_path):
    """In one folder, in their order: the third one uses the model that the first one trained."""
    for path in NOTEBOOKS:
        stored = code_cells(nbformat.read(path, as_version=4))
        notebook = nbformat.read(path, as_version=4)
        for cell in code_cells(notebook):
            cell.outputs, cell.execution_count = [], None
        resources = {"metadata": {"path": str(tmp_path)}}
        NotebookClient(notebook, timeout=900, resources=resources).execute()
        executed = code_cells(notebook)
        for before, after in zip(stored, executed, strict=True):
            figures = [
                sum("image/png" in output.get("data", {}) for output in cell.outputs)
                for cell in (before, after)
            ]
            assert figures[0] == figures[1]
        # Numbers and translations depend on the processor; what is printed at all does not.
        lines = [[len(text.splitlines()) for text in texts(cells)] for cells in (stored, executed)]
        assert lines[0] == lines[1]
