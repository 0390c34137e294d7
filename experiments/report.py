"""One page about a run's folder: what is certified, what it rests on, what it cost, and what made it.

The page is one HTML file that asks the network for nothing and needs no script.
"""

import os
from pathlib import Path

from experiments.report_material import read
from experiments.report_page import render


def write_report(path: Path, out: Path | None = None) -> Path:
    """Write the page about the folder ``path`` to ``out``, by default its report.html; returns where.

    Raises:
        ValueError: the folder holds nothing known, or files that this version does not read.
    """
    material = read(path)
    try:
        page = render(material)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(
            f"{path} holds a file that this version does not read ({type(error).__name__}: {error}): restore it, or "
            "train and certify again"
        ) from error
    out = out or path / "report.html"
    if out.is_dir():
        raise ValueError(f"{out} is a folder: give --out the name of a file, such as {out / 'report.html'}")
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.{os.getpid()}.partial")
    partial.write_text(page, encoding="utf-8", errors="replace")
    partial.replace(out)
    return out
