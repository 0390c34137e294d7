"""The page: what is known of a folder, put into the template, with everything that files say escaped."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from experiments import report_certificates, report_figures, report_sections
from experiments.figures.costs import PARTS
from experiments.report_material import Material


def render(material: Material) -> str:
    """The HTML of the page about a folder.

    Raises:
        ValueError: a certificate is none, or a number is NaN.
    """
    return fill("report.html", context(material))


def fill(template: str, values: dict[str, Any]) -> str:
    """A template with everything that the values say escaped, but for finished SVG."""
    environment = Environment(
        loader=PackageLoader("experiments", "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template(template).render(values | {"version": _version()})


def context(material: Material) -> dict[str, Any]:
    """What the template shows; figures are finished SVG, all else is text."""
    return {
        "title": report_sections.title(material), "folder": str(material.path),
        "state": report_sections.state(material), "has_run": material.config is not None, "private": material.private,
        "privacy_by_person": report_sections.by_person(material),
        "certified": _certified(material.report) if material.report else None,
        "privacy": report_sections.privacy(material), "calibration": report_sections.calibration(material),
        "ensemble": report_sections.ensemble(material), "training": report_sections.training(material),
        "provenance": report_sections.provenance(material),
        "configuration": report_sections.configuration(material),
    }  # fmt: skip


def _certified(report: dict[str, Any]) -> dict[str, Any]:
    certificates = report_certificates.verified(report)
    rows = report_certificates.certificate_rows(report, certificates)
    found = report_certificates.costs(certificates)
    columns = [part for part in PARTS if any(part in cost.parts for cost in found)]
    return {
        "n": report["n"], "measured": report_certificates.measured(report), "rows": rows, "count": len(rows),
        "rigorous": sum(not row["optimistic"] for row in rows), "optimistic": sum(row["optimistic"] for row in rows),
        "vacuous": sum(row["vacuous"] for row in rows), "below_test": [r["name"] for r in rows if r["below_test"]],
        "figure": report_figures.certificates(report) if rows else None,
        "ledger": report_certificates.ledger(certificates),
        "assumptions": report_certificates.assumptions(certificates),
        "refusals": report["not_applicable"],
        "diagnosis": report.get("diagnosis"),
        "cost_columns": columns, "costs": report_certificates.cost_rows(found, columns),
        "cost_figure": report_figures.cost_breakdown(found) if found else None,
        "without_costs": [row["name"] for row, c in zip(rows, certificates, strict=True)
                          if not report_certificates.parts(c)],
    }  # fmt: skip


def _version() -> str:
    try:
        return version("pacdp")
    except PackageNotFoundError:
        return "of unknown version"
