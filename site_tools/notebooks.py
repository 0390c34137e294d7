"""Executes an example, a notebook in the percent format of jupytext, and writes its page."""

import os
import re
import sys
import tempfile
from pathlib import Path

import jupytext
from mkdocs.exceptions import PluginError
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError
from nbconvert import MarkdownExporter
from nbformat.v4 import new_code_cell

ROOT = Path(__file__).parents[1]
SECONDS = 120
_PLAIN = "import os; [os.environ.pop(name, None) for name in ('FORCE_COLOR', 'CLICOLOR_FORCE')]"
"""Runs first and is not shown: commands that a notebook calls then print as they do into a file."""
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def executed(path: Path) -> tuple[str, dict[str, bytes]]:
    """The page of an example with its outputs, and its pictures by name.

    Raises:
        PluginError: a cell raised an error, or took too long; the build then fails.
    """
    notebook = jupytext.read(path)
    notebook.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    commands = os.pathsep.join(
        [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    )  # pacdp itself
    here = {
        "PATH": commands,
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": "1",
    }
    notebook.cells.insert(0, new_code_cell(_PLAIN))
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": folder}})
        try:
            client.execute(env={**os.environ, **here})
        except (CellExecutionError, CellTimeoutError) as error:
            raise PluginError(
                f"{path.name} does not run: {_ESCAPES.sub('', str(error))}"
            ) from error
    del notebook.cells[0]
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    page, resources = MarkdownExporter().from_notebook_node(notebook, {"unique_key": path.stem})
    return _ESCAPES.sub("", page), {
        Path(name).name: content for name, content in resources["outputs"].items()
    }
