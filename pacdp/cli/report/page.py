"""The page: what is known of a folder, put into the template, with everything that files say escaped."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, UndefinedError

from bounds.hypotheses import UNITS
from bounds.sentence import confidence, first_sentence
from pacdp.cli import reading
from pacdp.cli.figures import costs
from pacdp.cli.figures.names import label
from pacdp.cli.report import certificates as report_certificates
from pacdp.cli.report import figures as report_figures
from pacdp.cli.report import sections as report_sections
from pacdp.cli.report.bars import bars
from pacdp.cli.report.material import Material
from pacdp.cli.report.statements import statement_rows


def render(material: Material) -> str:
    """The HTML of the page about a folder.

    Raises:
        ValueError: a certificate is none, or a number is NaN.
    """
    return fill("report.html", context(material))


def fill(template: str, values: dict[str, Any], *, package: str = "pacdp.cli") -> str:
    """A template of a package with everything that the values say escaped, but for finished SVG."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("pacdp.cli")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    try:
        return environment.get_template(template).render(values | {"version": _version()})
    except UndefinedError as error:  # a value of a file is of another kind
        raise KeyError(str(error)) from error


def context(material: Material) -> dict[str, Any]:
    """What the template shows; figures are finished SVG, all else is text."""
    return {
        "title": report_sections.title(material),
        "folder": str(material.path),
        "state": report_sections.state(material),
        "absent": report_sections.absent(material),
        "private": material.private,
        "warning": report_sections.warning(material),
        "privacy_by_person": report_sections.by_person(material),
        "certified": _certified(material.report) if material.report else None,
        "privacy": report_sections.privacy(material),
        "calibration": report_sections.calibration(material),
        "ensemble": report_sections.ensemble(material),
        "training": report_sections.training(material),
        "provenance": report_sections.provenance(material),
        "configuration": report_sections.configuration(material),
    }


def _certified(report: dict[str, Any]) -> dict[str, Any]:
    certificates = reading.certificates_of(report)
    found = reading.notes(certificates)
    rows = report_certificates.certificate_rows(report, certificates, found)
    paying = costs.drawn(certificates)
    whole = reading.together(report)
    return {
        "n": report["n"],
        "unit": UNITS[report["unit"]],
        "examples": report["examples"],
        "headline": _headline(first_sentence(certificates, failure_prob=whole)),
        "measured": reading.measured(report),
        "statements": statement_rows(report),
        "confidence": confidence(report["failure_prob"] if whole is None else whole),
        "rows": rows,
        "count": len(rows),
        "rigorous": sum(not row["optimistic"] for row in rows),
        "optimistic": sum(row["optimistic"] for row in rows),
        "vacuous": sum(row["vacuous"] for row in rows),
        "remarks": reading.remarks(certificates, report, label),
        "bars": bars(report, certificates),
        "ledger": report_certificates.ledger(certificates),
        "hypotheses": report_certificates.hypothesis_rows(certificates, found),
        "refusals": report["not_applicable"],
        "diagnosis": report["diagnosis"],
        "cost_columns": [reading.cost_name(name) for name in reading.cost_names(certificates)],
        "costs": report_certificates.cost_rows(certificates),
        "cost_figure": report_figures.cost_breakdown(paying) if paying else None,
        "without_costs": [label(made.name) for made in certificates if not made.costs],
    }


def _headline(sentence: str) -> tuple[str, str]:
    """What is certified, and on what conditions."""
    said, condition, rest = sentence.partition(", if ")
    return said, condition + rest


def _version() -> str:
    try:
        return version("pacdp")
    except PackageNotFoundError:
        return "of unknown version"
