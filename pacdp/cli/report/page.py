"""The page: what is known of a folder, put into the template, with everything that files say escaped."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, UndefinedError

from bounds.hypotheses import UNITS
from bounds.sentence import confidence, down, down_digits, headline, records, up, up_digits
from pacdp.cli import reading
from pacdp.cli.figures import costs
from pacdp.cli.figures.names import label
from pacdp.cli.figures.numbers import bound, probability, vacuous
from pacdp.cli.reading import Reading
from pacdp.cli.report import figures as report_figures
from pacdp.cli.report import sections as report_sections
from pacdp.cli.report.bars import bars
from pacdp.cli.report.material import Material

_FILTERS = {
    "bound": bound, "vacuous": vacuous, "probability": probability, "label": label, "headline": headline,
    "records": records, "up": up, "down": down, "up_digits": up_digits, "down_digits": down_digits,
    "cost_name": reading.cost_name, "nats": reading.nats, "paid_for": reading.paid_for,
    "measured": lambda value: "–" if value is None else f"{value:.4f}",
}  # fmt: skip
"""Numbers as every surface shows them, none of which looks better than it is."""


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
    environment.filters |= _FILTERS
    environment.tests["vacuous"] = vacuous
    try:
        return environment.get_template(template).render(values | {"version": _version()})
    except UndefinedError as error:  # a value of a file is of another kind
        raise KeyError(str(error)) from error


def context(material: Material) -> dict[str, Any]:
    """What the template shows; figures are finished SVG, all else is text."""
    return {
        "units": UNITS,
        "title": report_sections.title(material),
        "folder": str(material.path),
        "state": report_sections.state(material),
        "absent": report_sections.absent(material),
        "private": material.private,
        "warning": report_sections.warning(material),
        "privacy_by_person": report_sections.by_person(material),
        "certified": _certified(Reading.of(material.report)) if material.report else None,
        "privacy": report_sections.privacy(material),
        "calibration": report_sections.calibration(material),
        "ensemble": report_sections.ensemble(material),
        "training": report_sections.training(material),
        "provenance": report_sections.provenance(material),
        "configuration": report_sections.configuration(material),
    }


def _certified(found: Reading) -> dict[str, Any]:
    paying = costs.drawn(found.certificates)
    statuses = [made.status for made in found.certificates]
    said, condition, rest = found.headline.partition(", if ")
    whole = found.together
    return {
        "of": found, "headline": (said, condition + rest), "bars": bars(found),
        "unit": UNITS[found.report["unit"]], "optimistic": statuses.count("optimistic"),
        "confidence": confidence(found.report["failure_prob"] if whole is None else whole),
        "cost_names": reading.cost_names(found.certificates),
        "cost_figure": report_figures.cost_breakdown(paying) if paying else None,
    }  # fmt: skip


def _version() -> str:
    try:
        return version("pacdp")
    except PackageNotFoundError:
        return "of unknown version"
