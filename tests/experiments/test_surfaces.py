"""Terminal, page, figure and calculator: each shows what a certificate rests on and pays, and none looks better."""

import math
import re

import matplotlib as mpl
import pytest
from report_pages import Page, page_of, write
from reports import BELOW, CLINIC, REAL, STATIONARY, handmade
from rich.console import Console

import bounds
from bounds.sentence import headline
from pacdp.cli import calculator_tables, console, reading
from pacdp.cli.figures import costs, run, style
from pacdp.cli.report import write_report

SURFACES = ("terminal, 80 columns", "terminal, 150 columns", "page", "figure")


@pytest.fixture(autouse=True)
def _style_of_the_session():
    with mpl.rc_context():
        yield


def _figure(report) -> str:
    drawn, ((axes,),) = style.figure(1, 1, width=6.0, height=4.0)
    run.draw_certificates(axes, report)
    labels = [label.get_text() for label in axes.get_yticklabels()]
    texts = [text.get_text() for text in (*axes.texts, *drawn.texts)]
    small = drawn._supxlabel.get_text()  # type: ignore[union-attr]
    return "\n".join([axes.get_title(), axes.get_xlabel(), *labels, *texts, small])


def _page(report, tmp_path) -> Page:
    write(tmp_path / "certificates.json", report)
    return page_of(write_report(tmp_path, tmp_path / "page.html"))


@pytest.fixture
def shown(request, tmp_path, monkeypatch, capsys):
    """A function that gives what a surface shows of a report, as text without line breaks."""

    def show(surface: str, report) -> str:
        if surface == "page":
            page = _page(report, tmp_path)
            text = re.sub(r"<svg.*?</svg>", "", page.source, flags=re.DOTALL)
            text = Page(text).text
        elif surface == "figure":
            text = _figure(report)
        else:
            width = int(re.findall(r"\d+", surface)[0])
            monkeypatch.setattr(console, "output", lambda: Console(width=width, highlight=False))
            console.print_report(report)
            text = capsys.readouterr().out
        return " ".join(text.split())

    return show


@pytest.mark.parametrize("surface", SURFACES)
def test_every_hypothesis_is_shown_with_its_standing_and_who_vouches_for_it(surface, shown):
    report = handmade()
    text = shown(surface, report)
    for made in reading.certificates_of(report):
        for one in made.hypotheses:
            assert one.by in text, one
            assert one.name in text
            assert one.standing in text
    assert "new data follow the same law" in text
    assert f"{STATIONARY.name}: unproved, {STATIONARY.by}" in text or surface == "page"
    assert f"records independent (people): declared, {CLINIC}" in text or surface == "page"
    assert "1*" in text, "the mark of what nobody proved has a star"


@pytest.mark.parametrize("surface", SURFACES)
def test_status_predictor_risk_and_unit_are_in_sight(surface, shown):
    text = shown(surface, handmade())
    words = ("Gibbs classifier", "0-1 risk of a new person", "40 people", "1437 examples")
    if surface == "terminal, 80 columns":  # cells wrap; what must not be cut is on one line
        words = ("Gibbs", "person", "40", "people", "1437")
        assert text.count("│ optimistic │") == 1
        assert text.count("│ rigorous │") == 3
    elif surface == "figure":
        assert "* optimistic" in text
    else:
        assert "optimistic" in text
        assert text.count("rigorous") >= 3
    for word in words:
        assert word in text


@pytest.mark.parametrize("surface", SURFACES)
def test_no_certificate_is_rounded_down(surface, shown):
    report = handmade()
    values = [made.value for made in reading.certificates_of(report)]
    assert round(values[1], 4) < values[1], "one that the nearest digit would make smaller"
    text = shown(surface, report)
    for value in values:
        said = f"{math.ceil(value * 1e4) / 1e4:.4f}" if value < 1.0 else "vacuous"
        assert said in text
    assert f"{values[1]:.4f}" not in text


@pytest.mark.parametrize("surface", SURFACES)
def test_the_headline_is_a_sentence_on_every_surface(surface, shown):
    report = handmade()
    assert headline(reading.certificates_of(report)[0]) in shown(surface, report)


@pytest.mark.parametrize("surface", SURFACES)
def test_a_certificate_below_the_measured_error_is_remarked_on(surface, shown):
    report = handmade()
    said = "below test error" if surface == "figure" else f"lies below the measured test error {BELOW:.4f}"
    assert shown(surface, report).count(said) == 1
    report["measured"][1]["mean"] = 0.01
    assert said not in shown(surface, report)


def test_the_terminal_lists_costs_that_add_up(shown):
    text = shown("terminal, 150 columns", handmade())
    lines = re.findall(r"((?:\S+ )*?)((?:[^│=]+ [\d.]+ \+ )+[^│=]+ [\d.]+) = ([\d.]+) nats", text)
    assert len(lines) == 3
    for _, parts, total in lines:
        nats = [float(part.split()[-1]) for part in parts.split(" + ")]
        assert sum(nats) == pytest.approx(float(total), rel=2e-3)
    assert "KL 30.00" in text
    assert "ln ξ(n)" in text


def test_the_page_has_a_column_a_cost_and_their_sum(tmp_path):
    report = handmade()
    certificates = reading.certificates_of(report)
    page = _page(report, tmp_path)
    header, *rows = next(table for table in page.tables if "sum" in table[0])
    assert header[2:-3] == [reading.cost_name(name) for name in reading.cost_names(certificates)]
    for row, made in zip(rows, (one for one in certificates if one.costs), strict=True):
        assert made.total_nats <= float(row[-3]) <= made.total_nats * 1.002
        assert made.total_per_example <= float(row[-2]) <= made.total_per_example * 1.002
        parts = [float(cell) for cell in row[2:-3] if cell != "–"]
        assert len(parts) == len(made.costs)
        assert sum(parts) == pytest.approx(made.total_nats, rel=2e-3)


def test_bars_are_the_costs_of_each_certificate():
    certificates = costs.drawn(reading.certificates_of(handmade()))
    _, ((axes,),) = style.figure(1, 1)
    costs.draw(axes, certificates)
    widths = sorted(bar.get_width() for bar in axes.patches)
    assert widths == pytest.approx(sorted(cost.per_example for made in certificates for cost in made.costs))


def test_the_calculator_shows_who_vouches_for_what(capsys):
    made = bounds.dp_pac_bayes(risk=0.0856, kl_nats=1.4, n=1437, epsilon=0.001, failure_prob=0.05)
    calculator_tables.print_certificate(made.resting_on(STATIONARY), json_only=False)
    text = " ".join(capsys.readouterr().out.split())
    assert f"rests on: {STATIONARY}" in text
    for one in made.hypotheses:
        assert f"rests on: {one}" in text
    assert headline(made.resting_on(STATIONARY)) in text
    assert "in all" in text
    calculator_tables.print_comparison([made, made.resting_on(STATIONARY)], {}, json_only=False)
    table = capsys.readouterr().out
    assert "chain stationary" in table
    assert "(unproved)" in table
    assert "each rests on: records independent (declared); new data follow the same law (declared)" in table


@pytest.mark.parametrize("route", REAL)
@pytest.mark.parametrize("surface", SURFACES)
def test_real_reports_are_shown(route, surface, shown, real):
    report = real(route)
    text = shown(surface, report)
    assert headline(reading.certificates_of(report)[0]) in text
    assert "new data follow the same law" in text


@pytest.fixture(scope="module")
def real():
    """A function that gives a route's report, made once."""
    made = {}

    def get(route: str):
        if route not in made:
            made[route] = REAL[route]().to_dict(subject={"checkpoint": "here"})
        return made[route]

    return get


def test_reports_of_another_format_are_refused(tmp_path):
    report = {**handmade(), "format": "pacdp-certificates/1"}
    for show in (console.print_report, _figure):
        with pytest.raises(ValueError, match="expected a report of format 'pacdp-certificates/2'"):
            show(report)
    with pytest.raises(ValueError, match="has format 'pacdp-certificates/1'"):
        _page(report, tmp_path)


@pytest.mark.parametrize(("errors", "n", "rate"), [(0, 5, 0.3), (1, 1, 0.25), (3, 7, 0.2), (7, 7, 0.9), (40, 300, 0.1)])
def test_the_probability_of_so_many_errors_is_the_binomial_one(errors, n, rate):
    from fractions import Fraction

    share = Fraction(rate)
    exact = sum(math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(errors, n + 1))
    assert exact <= reading.errors_at_least(errors, n, rate) <= exact * Fraction(1 + 1e-9)


def test_a_certificate_below_the_test_error_is_explained():
    report = handmade()
    (made,) = [one for one in reading.certificates_of(report) if one.value < (report["measured"][1]["mean"] or 0)][:1]
    report["unit"], report["measured"] = "example", []

    def said(errors, n):
        report["measured"] = [
            {"of": made.of, "on": "test", "loss": "zero-one", "mean": errors / n, "errors": errors, "n": n}
        ]
        (found,) = reading.remarks([made], report, str)
        return found

    few = said(1, 2)
    chance = 1 - (1 - made.value) ** 2
    assert "1 errors or more on 2 new examples of the same law have probability at most" in few
    assert float(few.split("at most ")[1].split(":")[0]) >= chance
    assert few.endswith("the test set is too small to speak against it.")
    many = said(900, 1000)
    assert "it has failed, which may happen with probability" in many
    assert "the test examples follow the same law" in many
    report["unit"] = "person"
    assert "probability" not in said(900, 1000)
