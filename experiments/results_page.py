"""docs/results.md: every study's numbers beside its paper's, its claims and what made them, from the committed files.

Nothing on the page is typed: comparisons, claims and notes come from each verdict.json, the rest from provenance.json.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from experiments.costs import H100, TWO_CORES
from experiments.job_costs import cost_or_none
from experiments.registry import studies, study
from experiments.runner import FORMAT, SCALES, judge
from pacdp.cli.folder import read_json
from pacdp.cli.recipes import Scale
from pacdp.files import replacing

PAGE = Path("docs/results.md")
_COUNTED = {True: "hold", False: "do not hold", None: "are open"}
HOLDS = {True: "holds", False: "**DOES NOT HOLD**", None: "cannot tell"}
_HEAD = """\
# Results of the studies

What became of the papers' tables, figures and sentences: first in two minutes, then study by study.
"""
_HOW = """\
## How to read the rest

`pacdp results` writes this page from the files in `experiments/results`; the numbers are made by `pacdp experiment NAME
--scale SCALE`. Scales: `smoke` (seconds, small data, to see that everything works; its numbers say little), `cpu` (two
cores, cut as the notes say), `gpu` (minutes of one H100), `paper` (the paper's settings). Ours are given to five
significant digits; the tables have all of them. A claim holds or does not hold of our runs at that scale alone. What
was done otherwise than in the paper stands beside each number; it is the reason of a difference only where a claim or a
note says that this was measured.

Costs that are called estimated are lower ends, told as "at least". They follow from operations counted on networks
without data, each of which takes as long as the slowest of arithmetic, memory and the start of a kernel: {machines}.
Reading data, compiling and what nobody counted come on top.
"""
_ANSWERS = {
    True: "### What holds in our runs",
    False: "### What does not hold in our runs",
    None: "### What is open, and what would settle it",
}


def write_page(root: Path, page: Path) -> Path:
    """Judge every table below ``root`` again and write the page; returns where.

    Raises:
        ValueError: a file is missing or of another format.
    """
    for name in studies():
        for scale in _scales(root, name):
            judge(study(name), root / name / scale, scale)
    page.parent.mkdir(parents=True, exist_ok=True)
    with replacing(page) as file:
        file.write(render(root, page.parent).encode())
    return page


def render(root: Path, beside: Path) -> str:
    """The page about the results below ``root``, with links that hold in the folder ``beside``.

    Raises:
        ValueError: a file is missing or of another format.
    """
    for verdict in sorted(root.glob("*/*/verdict.json")):
        if verdict.parts[-3] not in studies():
            raise ValueError(f"{verdict} is of no study that is registered: register it, or remove its folder")
    how = _HOW.format(machines="; ".join(machine.assumed for machine in (H100, TWO_CORES)))
    parts = [_HEAD, *_first_page(root), how, *_in_short(root), *_waiting(root)]
    for name in studies():
        parts += list(_study(name, root, beside))
    return "\n".join(parts)


def shown(value: float | str | None) -> str:
    """A number of a verdict, to five significant digits."""
    if isinstance(value, float):
        return f"{value:.5g}"
    return "–" if value is None else str(value)


def read_verdict(folder: Path) -> dict[str, Any]:
    """The verdict in a folder of results.

    Raises:
        ValueError: it is missing or of another format.
    """
    verdict = read_json(folder / "verdict.json")
    if verdict.get("format") != FORMAT:
        raise ValueError(f"{folder / 'verdict.json'} has format {verdict.get('format')!r}, this version reads {FORMAT}")
    return verdict


def made_by(made: dict[str, Any]) -> str:
    """A sentence about the commits, the seed and the jobs behind a study's results."""
    origins = made.get("runs", [])
    commits = ", ".join(
        f"`{str(one['commit'])[:12]}`{' with uncommitted changes' if one['dirty'] else ''} ({one['runs']} runs)"
        for one in origins
    )
    device = made.get("device", {}).get("type", "an unrecorded device")
    return f"Runs made at commit {commits or 'unknown'}, seed {made.get('seed', 'unrecorded')}, on {device}."


def failures(made: dict[str, Any]) -> str | None:
    """A sentence about the jobs that left nothing."""
    jobs = made.get("jobs")
    if not jobs or jobs["finished"] == jobs["planned"]:
        return None
    said = "; ".join(f"{key}: {error}" for key, error in jobs["failed"].items())
    return f"Only {jobs['finished']} of {jobs['planned']} runs finished{': ' + said if said else ''}."


def _scales(root: Path, name: str) -> list[Scale]:
    return [scale for scale in SCALES if (root / name / scale / "table.csv").is_file()]


def _first_page(root: Path) -> Iterator[str]:
    """The points of every study's most telling scale, by what became of them."""
    verdicts = [read_verdict(root / name / scales[0]) for name in studies() if (scales := _scales(root, name))]
    answers = [claim["holds"] for verdict in verdicts for claim in verdict["claims"]]
    counts = ", ".join(f"{answers.count(holds)} {said}" for holds, said in _COUNTED.items())
    omitted = sum(len(one["numbers"]) for verdict in verdicts for one in verdict["omissions"])
    yield f"## In two minutes\n\nOf {len(answers)} claims {counts}. Printed numbers that are not compared: {omitted}.\n"
    for holds, title in _ANSWERS.items():
        found = [(verdict["study"], one) for verdict in verdicts for one in verdict["points"] if one["holds"] is holds]
        lines = [f"- {one['said']} ([{name}](#{name})){_settled(one) or '.'}" for name, one in found]
        yield "\n".join([f"{title}\n", *(lines or ["Nothing."])]) + "\n"


def _settled(one: dict[str, Any]) -> str:
    """What would settle an open point or claim."""
    told = one.get("settled_by")
    return f". *Would settle it:* {told}." if one["holds"] is None and told else ""


def _in_short(root: Path) -> Iterator[str]:
    """How many claims of each study hold; the names lead to the sections."""
    yield "## In short\n"
    rows = []
    for name in studies():
        link = f"[{name}](#{name})"
        scales = _scales(root, name)
        for scale in scales:
            verdict = read_verdict(root / name / scale)
            claims = [one["holds"] for one in verdict["claims"]]
            rows.append((link, scale, *(str(claims.count(holds)) for holds in HOLDS), str(len(verdict["comparisons"]))))
        if not scales:
            rows.append((link, "not yet run", "–", "–", "–", "–"))
    yield from _table(
        ("study", "scale", "claims that hold", "that do not", "cannot tell", "numbers beside the paper's"), rows
    )


def _waiting(root: Path) -> Iterator[str]:
    """The runs of scale gpu that nobody has made."""
    rows = []
    for name, found in studies().items():
        if "gpu" in found.scales and "gpu" not in _scales(root, name):
            jobs = found.jobs("gpu", 0)
            rows.append((f"[{name}](#{name})", str(len(jobs)), "not run: no GPU was at hand", cost_or_none(jobs)))
    if rows:
        yield "## Runs that wait for a GPU\n"
        yield "`pacdp experiment NAME --scale gpu --device cuda` makes them; `--dry-run` says what they cost.\n"
    yield from _table(("study", "runs", "state", "what they would cost"), rows)


def _study(name: str, root: Path, beside: Path) -> Iterator[str]:
    found = study(name)
    yield f"## {name}\n\n{found.title}. {found.paper}.\n"
    scales = _scales(root, name)
    if not scales:
        yield "Not yet run.\n"
        return
    verdicts = {scale: read_verdict(root / name / scale) for scale in scales}
    rows = [(scale, one["what"], shown(one["paper"]), shown(one["ours"]), one["why"])
            for scale, verdict in verdicts.items() for one in verdict["comparisons"]]  # fmt: skip
    yield from _table(("scale", "what", "paper", "ours", "what was done otherwise"), rows)
    rows = [
        (one["where"], ", ".join(map(shown, one["numbers"])), one["why"])
        for one in next(iter(verdicts.values()))["omissions"]
    ]
    yield from _table(("neither run nor compared", "printed numbers", "why"), rows)
    rows = [(scale, one["sentence"], HOLDS[one["holds"]], one["evidence"] + _settled(one))
            for scale, verdict in verdicts.items() for one in verdict["claims"]]  # fmt: skip
    yield from _table(("scale", "claim", "in our runs", "evidence"), rows)
    for scale, verdict in verdicts.items():
        folder = root / name / scale
        made = read_json(folder / "provenance.json")
        notes = [made_by(made), *filter(None, [failures(made)]), *verdict["notes"]]
        link = Path(os.path.relpath(folder, beside)).as_posix()
        files = ", ".join(f"[{file}]({link}/{file})" for file in sorted(one.name for one in folder.iterdir())
                          if file.endswith((".csv", ".json")))  # fmt: skip
        yield f"At scale `{scale}`:\n\n" + "".join(f"- {_line(note)}\n" for note in notes) + f"- Files: {files}\n"
        for figure in sorted(folder.glob("*.png")):
            yield f"![{name} at scale {scale}]({link}/{figure.name})\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if rows:
        lines = [head, ["---"] * len(head), *rows]
        yield "".join("| " + " | ".join(_line(cell).replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def _line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
