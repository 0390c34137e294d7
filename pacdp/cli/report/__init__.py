"""One page about a folder: of a run, what is certified and at what cost; of a study, what became of its paper.

The page is one HTML file that asks the network for nothing and needs no script.
"""

from pathlib import Path

from pacdp.cli.extensions import studies
from pacdp.cli.folder import as_written
from pacdp.cli.report.page import context, fill
from pacdp.store.files import keep_beside, replacing, written


def write_report(path: Path, out: Path | None = None) -> Path:
    """Write the page about the folder ``path`` to ``out``, by default its report.html; returns where.

    Another file that stands there, in a folder without a list of what pacdp wrote, is kept under a further name.

    Raises:
        ValueError: the folder holds nothing known, or files that this version does not read.
    """
    with as_written(path):
        known = studies(path)
        page = (known and known.page(path)) or fill("report.html", context(path))
    out = out or path / "report.html"
    if out.is_dir():
        raise ValueError(
            f"{out} is a folder: give --out the name of a file, such as {out / 'report.html'}"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    content = page.encode("utf-8", errors="replace")
    if written(out.parent) is None and out.exists() and out.read_bytes() != content:
        keep_beside(out)
    with replacing(out) as file:
        file.write(content)
    return out
