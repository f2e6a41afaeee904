"""Executed notebooks from the tutorials: `python examples/_make.py [NAME ..]`, or `make notebooks`.

NAME.py, a script in jupytext's percent format, is what people edit. NAME.ipynb is made from it and
committed, so that the figures can be seen without running anything.
"""

import base64
import sys
import tempfile
import time
from io import BytesIO
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from PIL import Image

FOLDER = Path(__file__).parent
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
"""The same on every machine: no paths, no versions, no times."""
WIDTH = 1400
"""Pixels of the widest figure; a page is rarely wider."""


def read_script(path: Path) -> nbformat.NotebookNode:
    """The notebook of a script before it is run, with cells that are numbered in order."""
    notebook = jupytext.read(path)
    notebook.metadata = nbformat.from_dict(METADATA)
    for number, cell in enumerate(notebook.cells):
        cell.metadata = nbformat.from_dict({})
        cell.id = f"cell-{number}"  # a random one would change the file every time
    return notebook


def execute(notebook: nbformat.NotebookNode, folder: str) -> None:
    """Run all cells in a folder, and make what they put out small and the same everywhere."""
    client = NotebookClient(
        notebook, timeout=1200, record_timing=False, coalesce_streams=True,
        resources={"metadata": {"path": folder}},
    )  # fmt: skip
    client.execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "metadata" in output:
                output.metadata = nbformat.from_dict({})
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = _smaller(output.data["image/png"])
    notebook.metadata = nbformat.from_dict(METADATA)


def _smaller(encoded: str) -> str:
    """A picture in 256 colours, at most WIDTH pixels wide."""
    drawn = BytesIO()
    with Image.open(BytesIO(base64.b64decode(encoded))) as image:
        small = image.convert("RGB")
        small.thumbnail((WIDTH, 4 * WIDTH), Image.Resampling.LANCZOS)
        small.quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=1).save(
            drawn, format="png", optimize=True
        )
    return base64.b64encode(drawn.getvalue()).decode()


def main(names: list[str]) -> None:
    """Make the notebooks of these names, or of all scripts, in one temporary folder."""
    scripts = [FOLDER / f"{name}.py" for name in names] or sorted(FOLDER.glob("[!_]*.py"))
    with tempfile.TemporaryDirectory() as folder:
        for script in scripts:
            began = time.monotonic()
            notebook = read_script(script)
            execute(notebook, folder)
            nbformat.write(notebook, script.with_suffix(".ipynb"))
            print(f"{script.stem}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
