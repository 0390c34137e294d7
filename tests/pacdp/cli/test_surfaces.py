"""Terminal, page, figure and calculator: each shows what a certificate rests on and pays, and none looks better."""

import math
import re

import pytest
from report_pages import page_of, write
from reports import BELOW, CLINIC, STATIONARY, handmade
from rich.console import Console

from pacdp.cli import console, reading, terminal
from pacdp.cli.figures import run, style
from pacdp.cli.report import write_report
from pacdp.cli.terminal import answer
from pacdp.predictions.sentence import headline
from tests.marks import parametrize

SURFACES = ("terminal, 80 columns", "terminal, 150 columns", "page", "figure")


def _figure(folder, report):
    write(folder / "certificates.json", report)
    drawn, ((axes,),) = style.figure(1, 1, width=6.0, height=4.0)
    run.draw_certificates(axes, reading.Reading(report))
    texts = (axes.title, axes.xaxis.label, *axes.get_yticklabels(), *axes.texts, *drawn.texts)
    return "\n".join([*(text.get_text() for text in texts), *run.caption(folder)])


@pytest.fixture
def shown(request, tmp_path, monkeypatch, capsys):
    """A function that gives what a surface shows of a report, as text without line breaks."""

    def show(surface, report):
        if surface == "page":
            write(tmp_path / "certificates.json", report)
            text = page_of(write_report(tmp_path, tmp_path / "page.html")).text
        elif surface == "figure":
            text = _figure(tmp_path, report)
        else:
            width = int(re.findall(r"\d+", surface)[0])
            monkeypatch.setattr(terminal, "output", lambda: Console(width=width, highlight=False))
            answer(report, console.told(report), as_json=False)
            text = capsys.readouterr().out
        return " ".join(text.split())

    return show


every_surface = parametrize("surface", SURFACES)


@every_surface
def test_every_hypothesis_is_shown_with_its_standing_and_who_vouches_for_it(surface, shown):
    report = handmade()
    text = shown(surface, report)
    for made in reading.certificates_of(report):
        for one in made.hypotheses:
            assert one.by in text, one
            assert one.name in text
            assert one.standing in text
    assert headline(reading.certificates_of(report)[0]) in text
    assert "new data follow the same law" in text
    assert f"{STATIONARY.name}: unproved, {STATIONARY.by}" in text or surface == "page"
    assert f"records independent (people): declared, {CLINIC}" in text or surface == "page"
    assert "1*" in text, "the mark of what nobody proved has a star"


@every_surface
def test_no_certificate_is_rounded_down(surface, shown):
    report = handmade()
    values = [made.value for made in reading.certificates_of(report)]
    assert round(values[1], 4) < values[1], "one that the nearest digit would make smaller"
    text = shown(surface, report)
    form = "{:.2%}" if surface == "figure" else "{:.4f}"
    for value in values:
        said = form.format(math.ceil(value * 1e4) / 1e4) if value < 1.0 else "vacuous"
        assert said in text
    assert form.format(values[1]) not in text


@every_surface
def test_a_certificate_below_the_measured_error_is_remarked_on(surface, shown):
    report = handmade()
    said = "below test error" if surface == "figure" else f"lies below the measured test error {BELOW:.4f}"
    assert shown(surface, report).count(said) == 1
    report["measured"][1]["mean"] = 0.01
    assert said not in shown(surface, report)


@every_surface
def test_the_best_of_several_settings_fails_with_what_all_pay_on_every_surface(surface, shown):
    report = handmade()
    report |= {"choices": {"count": 3}, "failure_prob": 0.05 / 3}
    said = "at one of the 3 settings that are paid for" if surface == "page" else "probability at most 0.05 by itself"
    assert said in shown(surface, report)


@parametrize("surface", SURFACES[1:3])
def test_what_should_be_looked_at_is_told(surface, shown):
    report = handmade()
    report["details"]["remarks"] = ["neighbours are of one person"]
    assert shown(surface, report).count("neighbours are of one person") == 1
