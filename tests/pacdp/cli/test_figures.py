"""Figures: vacuous bounds are at 1 and marked, optimistic ones say so, both file formats are written."""

import re
from concurrent.futures import Future

import pytest
from cli_tools import read, succeed
from reports import BELOW, handmade

import bounds
from bounds.numbers import percent
from pacdp import certify_predictions
from pacdp.cli.figures import run, style
from pacdp.cli.reading import Reading
from tests.marks import parametrize, slow


def _row(step, **bounds):
    errors = {"train_error": 0.1, "test_error": 0.2, "gibbs_train_error": 0.15, "gibbs_test_error": 0.22}
    return {"step": step, "epochs": float(step), **errors, "bounds": bounds}


def _crosses(axes):
    lines = [line for line in axes.lines if line.get_marker() == "x"]
    return [(float(x), float(y)) for line in lines for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)]


@pytest.fixture
def axes():
    _, ((found,),) = style.figure(1, 1)
    return found


def test_training_marks_vacuous_bounds_at_one_and_says_optimistic(axes):
    run.draw_training(
        axes, [_row(1, dp_pac_bayes=1.0, dp_kl_chernoff=0.7), _row(2, dp_pac_bayes=0.5, dp_kl_chernoff=1.0)]
    )
    assert sorted(_crosses(axes)) == [(1.0, 1.0), (2.0, 1.0)]
    assert "optimistic" in axes.get_title()
    assert axes.get_ylim()[1] > 1.0
    assert all(max(line.get_ydata(), default=0) <= 1.0 for line in axes.lines)


def test_certificates_mark_what_is_vacuous_and_what_is_optimistic(axes):
    report = handmade()
    run.draw_certificates(axes, Reading(report))
    values = [certificate["value"] for certificate in report["certificates"]]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert [label.endswith(" *") for label in labels] == [False, True, False, False]
    assert [bar.get_hatch() for bar in axes.patches] == [None, "//", None, None]
    assert [bar.get_width() for bar in axes.patches] == values
    ticks = [line.get_xdata()[0] for line in axes.lines]
    assert ticks == [BELOW, 0.09], "each beside the error of its own predictor, where that was measured"
    assert "* optimistic" in axes.get_xlabel()
    assert [text.get_text().split()[0].rstrip(",") for text in axes.texts] == [
        f"{percent(min(one, 1.0))}%" for one in values
    ]


def test_rows_of_predictions_are_lines_around_what_was_measured(axes):
    found = certify_predictions([0, 1] * 20, [0, 1] * 19 + [1, 1], ask="recall", interval=True)
    run.draw_statements(axes, Reading(found.to_dict()))
    spans, dots = axes.lines[::2], axes.lines[1::2]
    assert [tuple(line.get_xdata()) for line in spans] == [(row.lower, row.upper) for row in found.statements]
    assert [line.get_xdata()[0] for line in dots] == [row.measured for row in found.statements]
    assert axes.get_title() == "all at once with 95% confidence"
    assert not axes.get_xlabel()
    open_ = found.resting_on(bounds.unproved("records independent", "nobody"), beside="records independent")
    run.draw_statements(axes, Reading(open_.to_dict()))
    assert axes.get_title().endswith("95% confidence *")
    assert axes.get_xlabel().startswith("* optimistic")


def _at_once(_, function, *given, **more):
    (done := Future()).set_result(function(*given, **more))
    return done


@parametrize("alone", [True, slow(False)])
def test_demo_ends_with_a_sentence_that_its_files_prove(alone, tmp_path, capsys, monkeypatch):
    from pacdp.cli import demo

    monkeypatch.setattr(demo, "EPOCHS", 2)
    monkeypatch.setattr(demo, "_CHAIN_EPOCHS", 1.0)
    if alone:  # no process beside this one
        monkeypatch.setattr(demo.ProcessPoolExecutor, "submit", _at_once)
    out = tmp_path / "demo"
    for _ in range(1 if alone else 2):  # a second demo overwrites the first
        succeed("demo", "--out", out, "--threads", 1)
        first = capsys.readouterr().out.splitlines()[0]
        said = re.fullmatch(r"Error on new digits at most ([\d.]+)% \(95% confidence\), measured ([\d.]+)%\.", first)
        assert said, first
    report = read(out / "certificates.json")
    made = report["certificates"][0]
    assert made["name"] == "new_examples_clopper_pearson"
    measured = {one["on"]: one for one in report["measured"] if one["loss"] == "zero-one"}
    assert measured["bound"]["n"] == 800
    assert measured["test"]["n"] == 360, "what is called measured is not what the certificate counts"
    for printed, value in ((said[1], made["value"]), (said[2], measured["test"]["errors"] / 360)):
        assert value <= float(printed) / 100 < value + 2e-4
