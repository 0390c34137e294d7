"""Numbers of studies in the documentation: between two marks, made from experiments/results and nothing else.

``pacdp results`` writes them anew, and so does ``python -m experiments.doc_numbers`` alone; a test says where they are
not those of the results. A number stands between ``<!-- results.NAME -->`` and ``<!-- end -->``. Certificates are upper
ends and rounded up.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import polars as pl

from experiments.papers.runs.frontier_plans import FOLDS
from experiments.results_page import read_verdict
from experiments.runner import RESULTS, read_table
from experiments.tables import column
from pacdp.cli.figures.numbers import up

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("docs/calibration.md", "docs/trajectory.md")
_MARK = re.compile(r"(<!-- results\.([\w-]+) -->).*?(<!-- end -->)", re.DOTALL)
_DATA = {"two": "mnist2", "ten": "mnist"}
_POSTERIORS = ("randomised", "one draw")
_ROUTES: dict[str, tuple[str, dict[str, Any]]] = {
    "count": ("certificates", {"recipe": "held-out", "certificate": "prior_mean_clopper_pearson"}),
    "compression": ("compression", {"learner": "entropy-sgd", "labels": "true"}),
    "trajectory": ("trajectory", {"of": "weights", "price": "realised norms", "sampler": "SGHMC"}),
    "private-prior": ("certificates", {"recipe": "private-prior", "measures": "0-1 risk"}),
    "finite": ("certificates", {"recipe": "finite", "certificate": "one_of_finitely_many"}),
}
"""Study and rows of the routes that stand side by side."""
_CALIBRATION = {
    "falling steps": "the decaying learning rate",
    "noise before clipping": "pre-noising",
    "DP-SGLD averaged, beside DP-SGD averaged": "standard DP-SGD, both averaged",
    "DP-SGD's weights averaged": "the mean prediction of weights kept on the way",
}
"""What may mend calibration, and words of the claims of private-calibration on it."""
_ANSWERS = {True: "yes", False: "no", None: "open"}


def _certificate(route: str, classes: str) -> str:
    """The least rigorous certificate of a route, of all classifiers that it speaks of."""
    study, where = _ROUTES[route]
    table = _table(study).filter(pl.col("status") == "rigorous")
    if route == "private-prior":
        table = table.filter(pl.col("of").is_in(_POSTERIORS) & ~pl.col("certificate").str.starts_with("test_set"))
    values = column(table, "value", {"dataset": _DATA[classes], **where})
    if not values:
        raise ValueError(f"{study} has no certificate of {route} on {_DATA[classes]}: mend _ROUTES")
    return up(min(values)).removeprefix("0")


def _claims(words: str) -> list[tuple[str, str, str]]:
    """The claims of private-calibration with these words: whose they are, their evidence, and what became of them.

    What it leaves open is told by private-calibration-pairs where that asks the same of new seeds.
    """
    first, later = (read_verdict(ROOT / RESULTS / name / "cpu")["claims"]
                    for name in ("private-calibration", "private-calibration-pairs"))  # fmt: skip
    again = {one["sentence"]: one for one in later}
    asked = [one for one in first if words in one["sentence"]]
    own = [one if one["holds"] is not None else again.get(one["sentence"], one) for one in asked]
    return [(one["sentence"].split(": ")[0], one["evidence"], _ANSWERS[one["holds"]]) for one in own]


def _clip_norm() -> str:
    """A table of the two clip norms that differ most in ECE."""
    rows = list[Sequence[str]]()
    for data, evidence, answer in _claims("the clip norm alone changes"):
        cells, ratio = re.split(r": ratio |, at least ", evidence)[:2]
        rows.append((data, cells, ratio, answer))
    printed = " and ".join(f"{folds}-fold on {data}" for data, folds in FOLDS.items())
    asked = f"as large as is printed of DP-SGLD ({printed}), at one accuracy?"
    return _lines(("data", "at the two clip norms", "ECE, one over the other", asked), rows)


def _mended() -> str:
    """A table of what may mend calibration, over all cells."""
    rows = list[Sequence[str]]()
    for what, words in _CALIBRATION.items():
        for data, evidence, answer in _claims(words):
            over = re.findall(r"over all cells (.*?) times", evidence)[0]
            rows.append((what, data, over, answer))
    return _lines(("what", "data", "ECE over all cells, times as large", "better by a tenth?"), rows)


def _lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


@cache
def _table(name: str) -> pl.DataFrame:
    return read_table(ROOT / RESULTS / name / "cpu")


NUMBERS: dict[str, Callable[[], str]] = {
    f"{route}-{classes}": partial(_certificate, route, classes) for route in _ROUTES for classes in _DATA
} | {"clip-norm": _clip_norm, "mended": _mended}


def written(text: str) -> str:
    """The page with its numbers made anew. Raises ValueError for a mark without an end, and one of nothing."""
    if len(_MARK.findall(text)) != text.count("<!-- results."):
        raise ValueError("every mark of a result needs an end before the next mark; write <!-- end --> after it.")

    def renewed(found: re.Match[str]) -> str:
        if found[2] not in NUMBERS:
            raise ValueError(f"a mark must name one of {', '.join(NUMBERS)}, got {found[2]!r}")
        return found[1] + NUMBERS[found[2]]() + found[3]

    return _MARK.sub(renewed, text)


def main() -> None:
    """Write all pages anew."""
    for name in PAGES:
        path = ROOT / name
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"wrote {name}")


if __name__ == "__main__":
    main()
