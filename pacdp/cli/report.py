"""One page about a folder: of a run, what is certified and at what cost; of a study, what became of its paper.

The page is one HTML file that asks the network for nothing and needs no script. Everything that files say is escaped.
"""

import base64
import io
import json
from pathlib import Path, PurePath

import matplotlib as mpl
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, UndefinedError

from bounds.hypotheses import UNITS
from bounds.numbers import confidence, down, down_digits, up, up_digits
from pacdp.cli import reading
from pacdp.cli.extensions import studies
from pacdp.cli.figures import run
from pacdp.cli.figures.names import bound, label, probability, vacuous
from pacdp.cli.folder import PRIVATE, Folder, as_written, installed, read_json, write_telling
from pacdp.cli.reading import FORMAT, Reading
from pacdp.cli.serial import Values
from pacdp.predictions.sentence import headline, records
from pacdp.store.files import one_of_its_chains

RUNS = ("chain", "private", "compression")
RESULTS = ("pacdp-result/1", "pacdp-private-result/1")
_MOST_ROWS = 50
_SHOWN = (
    bound, vacuous, probability, label, headline, records, up, down, up_digits, down_digits, confidence,
    reading.cost_name, reading.cost_names, reading.nats, reading.paid_for,
)  # fmt: skip
_FILTERS: Values = {one.__name__: one for one in _SHOWN} | {
    "measured": lambda value: "–" if value is None else f"{value:.4f}",
    "json": lambda values: json.dumps(values, indent=2, ensure_ascii=False),
}
"""Numbers as every surface shows them, none of which looks better than it is."""


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
    write_telling(out, page.encode("utf-8", errors="replace"))
    return out


def fill(template: str, values: Values, *, package: str = "pacdp.cli") -> str:
    """A template of a package with everything that the values say escaped, but for finished SVG."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("pacdp.cli")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= _FILTERS
    environment.tests["vacuous"] = vacuous
    try:
        made = {"version": installed("pacdp")}
        return environment.get_template(template).render(values | made)
    except UndefinedError as error:  # a value of a file is of another kind
        raise KeyError(str(error)) from error


def context(path: Path) -> Values:
    """What the template shows of a folder; the figure is a finished picture, all else is text.

    Raises:
        ValueError: the folder holds nothing known, or a file of another format.
    """
    if not path.is_dir():
        raise ValueError(
            f"{path} is no folder: give the folder of a run, or one that holds a certificates.json"
        )
    folder = Folder(path)
    files = (folder.config, folder.provenance, folder.result)
    config, provenance, result = (read_json(one) if one.is_file() else {} for one in files)
    report = folder.certified()
    if not report and result.get("format") == FORMAT:
        result, report = {}, result  # of a study, whose runs end with their certificates
    kind = folder.kind if folder.kind in RUNS else None
    if not (kind or result or report):
        hint = one_of_its_chains(path) or "give the folder of a run"
        raise ValueError(f"{path} holds no run and no certificates.json: {hint}")
    for file, values, known in (
        (folder.result, result, RESULTS),
        (folder.certificates, report, (FORMAT,)),
    ):
        if values and values.get("format") not in known:
            raise ValueError(
                f"{file} has format {values.get('format')!r}, this version reads {' and '.join(known)}"
            )
    rows, subject, details = folder.rows(), report.get("subject") or {}, report.get("details") or {}
    named = PurePath(str(subject.get("checkpoint") or subject.get("predictions") or "")).name
    secret = kind == "private" or config.get("reproducible") is False  # finished or not
    about = {name: report[name] for name in ("prior", "rows", "choices") if report.get(name)}
    certified = (report.get("provenance") or {}) | subject | about
    return {
        "units": UNITS, "folder": str(path) if path.name else path.resolve().name,
        "title": str(config.get("title") or "Certificates" + f" of {named}" * bool(named)),
        "kind": kind, "result": result, "config": config, "report": report, "details": details,
        "found": Reading(report) if report else None,
        "went_on": run.went_on(rows, report),
        "warning": PRIVATE if secret else details.get("private") or result.get("private"),
        "figure": _png(rows, report), "count": len(rows), "rows": run.thinned(rows, _MOST_ROWS),
        "provenance": {
            "What made the run": provenance, "What made the certificates": certified, "Configuration": config
        },
    }  # fmt: skip


def _png(rows: list[Values], report: Values) -> str:
    """The run's figure in base64; empty where nothing can be drawn."""
    written = io.BytesIO()
    with mpl.rc_context({"text.parse_math": False}):
        if drawn := run.draw(rows, report):
            drawn.savefig(written, format="png", dpi=150)
    return base64.b64encode(written.getvalue()).decode()
