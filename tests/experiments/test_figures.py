"""Figures: vacuous bounds are at 1 and marked, optimistic ones say so, both file formats are written."""

import json
import math
import re

import matplotlib as mpl
import polars as pl
import pytest
from cli_tools import one_sentence, pacdp
from reports import BELOW, handmade
from scipy.stats import beta

from experiments.figures import chains
from pacdp.cli.figures import names, run, style
from pacdp.cli.figures.numbers import up

_OTHERS = (*names.GIBBS_BOUNDS, *names.ACCOUNTED, "test_set_clopper_pearson")
WEIGHTS_BOUNDS = [name for name in names.CHAIN_BOUNDS if name not in _OTHERS]


@pytest.fixture(autouse=True)
def _style_of_the_session():
    with mpl.rc_context():
        yield


def _row(step: int, **bounds: float) -> dict:
    errors = {"train_error": 0.1, "test_error": 0.2, "gibbs_train_error": 0.15, "gibbs_test_error": 0.22}
    return {"step": step, "epochs": float(step), **errors, "bounds": bounds}


def _crosses(axes) -> list[tuple[float, float]]:
    lines = [line for line in axes.lines if line.get_marker() == "x"]
    return [(float(x), float(y)) for line in lines for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)]


def _texts(axes) -> str:
    return " ".join([axes.get_title(), axes.get_xlabel(), *(text.get_text() for text in axes.texts),
                     *(label.get_text() for label in axes.get_yticklabels()),
                     *((axes.get_legend().get_title().get_text(),) if axes.get_legend() else ())])  # fmt: skip


def test_every_bound_has_a_name_and_a_colour_of_its_own():
    assert names.NAMES.keys() == style.COLOURS.keys()
    assert len(set(names.NAMES.values())) == len(set(style.COLOURS.values())) == len(names.NAMES)
    assert set(chains.SHOWN) <= names.NAMES.keys()


def test_training_marks_vacuous_bounds_at_one_and_says_optimistic():
    _, ((axes,),) = style.figure(1, 1)
    run.draw_training(
        axes, [_row(1, dp_pac_bayes=1.0, dp_kl_chernoff=0.7), _row(2, dp_pac_bayes=0.5, dp_kl_chernoff=1.0)]
    )
    assert sorted(_crosses(axes)) == [(1.0, 1.0), (2.0, 1.0)]
    assert "optimistic" in _texts(axes)
    assert axes.get_ylim()[1] > 1.0
    assert all(max(line.get_ydata(), default=0) <= 1.0 for line in axes.lines)


def test_training_without_bounds_says_nothing_of_them():
    _, ((axes,),) = style.figure(1, 1)
    rows = [{"step": 1, "epochs": 1.0, "train_error": 0.1, "test_error": 0.2}]
    run.draw_training(axes, rows)
    assert "optimistic" not in _texts(axes)
    assert _crosses(axes) == []


def test_a_bound_that_a_run_refutes_is_a_gap_which_the_legend_tells():
    _, ((axes,),) = style.figure(1, 1)
    rows = [_row(1, dp_pac_bayes=0.4, dp_kl_chernoff=0.7), _row(2, dp_kl_chernoff=0.6), _row(3, dp_kl_chernoff=0.5)]
    run.draw_training(axes, rows)
    (line,) = (line for line in axes.lines if line.get_label().startswith(names.NAMES["dp_pac_bayes"]))
    assert line.get_label().endswith("(gap: estimate refuted)")
    assert [math.isnan(y) for y in line.get_ydata()] == [False, True, True]
    assert not any(label.get_text().endswith("refuted)") for label in axes.get_legend().get_texts()
                   if "kl-Chernoff" in label.get_text())  # fmt: skip
    assert "optimistic" in _texts(axes)


def test_figures_of_tables_tell_of_refuted_estimates():
    table = _table()
    full = chains.told("dp_pac_bayes", table.filter(algorithm="Entropy-SGLD"))
    assert full == names.NAMES["dp_pac_bayes"] + "*"
    part = table.with_columns(dp_pac_bayes=pl.lit(None, pl.Float64))
    assert chains.told("dp_pac_bayes", part).endswith("* (gap: estimate refuted)")
    assert "gap" not in chains.told("dp_kl_chernoff", part)
    legend = chains.by_noise(part).axes[4].get_legend()
    assert any("refuted" in text.get_text() for text in legend.get_texts())


def test_certificates_mark_what_is_vacuous_and_what_is_optimistic():
    report = handmade()
    _, ((axes,),) = style.figure(1, 1)
    run.draw_certificates(axes, report)
    values = [certificate["value"] for certificate in report["certificates"]]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert [label.endswith(" *") for label in labels] == [False, True, False, False]
    said = [text.get_text() for text in axes.texts]
    assert said == [f"{up(values[0])}, below test error", up(values[1]), up(values[2]), "1.0000 vacuous"]
    assert [bar.get_hatch() for bar in axes.patches] == [None, "//", None, None]
    assert [bar.get_width() for bar in axes.patches] == values
    ticks = [line.get_xdata()[0] for line in axes.lines]
    assert ticks == [BELOW, 0.09], "each beside the error of its own predictor, where that was measured"
    assert "* optimistic" in axes.get_xlabel()


def _table() -> pl.DataFrame:
    rows = []
    for labels in ("true", "random"):
        for algorithm, noise in (("SGD", 0.0), ("SGLD", 0.1), ("Entropy-SGD", 0.1), ("Entropy-SGLD", 0.2)):
            for step in (1, 2):
                private = algorithm.endswith("LD")
                values = {name: (1.3 if step == 1 else 0.8) if private else None for name in WEIGHTS_BOUNDS}
                values |= {name: 0.7 if algorithm == "Entropy-SGLD" else None for name in names.GIBBS_BOUNDS}
                rows.append({**_row(step), "algorithm": algorithm, "labels": labels, "thermal_noise": noise,
                             "epochs_over_l": step / 20, **values, "bounds": None})  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None)


def test_six_panels_clip_vacuous_bounds_and_say_optimistic(tmp_path):
    drawn = chains.by_noise(_table())
    for axes in drawn.axes[4:]:
        shown = [name for name in chains.SHOWN if name not in names.GIBBS_BOUNDS]
        assert _crosses(axes) == [(0.05, 1.0)] * len(shown)
        assert all(max(line.get_ydata(), default=0) <= 1.0 for line in axes.lines)
        assert axes.get_ylim()[1] > 1.0, "the ceiling is in sight"
        assert "optimistic" in _texts(axes)
    titles = [axes.get_title() for axes in drawn.axes]
    assert titles == [f"{name}, {labels} labels" for name in ("SGLD", "Entropy-SGD", "Entropy-SGLD")
                      for labels in ("true", "random")]  # fmt: skip
    png, pdf = style.save(drawn, tmp_path / "figure")
    assert (png.name, pdf.name) == ("figure.png", "figure.pdf")
    first = pdf.read_bytes()
    style.save(drawn, tmp_path / "figure")
    assert pdf.read_bytes() == first, "no date in the file"


@pytest.mark.parametrize("certified", [False, True])
@pytest.mark.parametrize("algorithm", ["sgd", "entropy-sgd", "entropy-sgld"])
def test_plot_draws_a_run_with_and_without_certificates(algorithm, certified, copied, capsys):
    folder = copied(algorithm)
    if certified:
        assert pacdp("certify", folder, "--threads", 1) == 0
    capsys.readouterr()
    assert pacdp("plot", folder) == 0
    written = [folder / "figure.png", folder / "figure.pdf"]
    assert capsys.readouterr().out == "".join(f"wrote {path}\n" for path in written)
    height, width = mpl.image.imread(written[0]).shape[:2]
    assert height >= 500
    assert width >= (1500 if certified else 800)
    assert all(path.stat().st_size > 10_000 for path in written)
    assert written[1].read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(("name", "said"), [("empty", "no recorded rows"), ("missing", "is no folder")])
def test_plotting_nothing_is_one_sentence(name, said, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert pacdp("plot", tmp_path / name) == 1
    assert said in one_sentence(capsys.readouterr().err)
    assert list((tmp_path / "empty").iterdir()) == []


def test_demo_ends_with_a_sentence_that_its_files_prove(tmp_path, capsys, monkeypatch):
    from pacdp.cli import demo

    monkeypatch.setattr(demo, "EPOCHS", 8)
    monkeypatch.setattr(demo, "_CHAIN_EPOCHS", 2.0)
    out = tmp_path / "demo"
    for _ in range(2):  # a second demo overwrites the first
        assert pacdp("demo", "--out", out, "--threads", 1) == 0
        first, *others = capsys.readouterr().out.splitlines()
        said = re.fullmatch(r"Error on new digits at most ([\d.]+)% \(95% confidence\), measured ([\d.]+)%\.", first)
        assert said, first
        assert "optimistic" in others[-1]
        assert others[-1].startswith("*")
        assert "%*" in others[-2]
    report = json.loads((out / "certificates.json").read_text())
    made = report["certificates"][0]
    assert made["name"] == "new_examples_clopper_pearson"
    measured = {one["on"]: one for one in report["measured"] if one["loss"] == "zero-one"}
    assert measured["bound"]["n"] == 800
    assert measured["test"]["n"] == 360, "what is called measured is not what the certificate counts"
    exact = beta.ppf(0.95, measured["bound"]["errors"] + 1, 800 - measured["bound"]["errors"])
    assert exact <= made["value"] <= float(said[1]) / 100 < exact + 2e-4
    assert measured["test"]["errors"] / 360 <= float(said[2]) / 100 < measured["test"]["errors"] / 360 + 2e-4
    hypotheses = {one["name"]: one["standing"] for one in made["hypotheses"]}
    assert "proved" in (
        hypotheses.get("predictor saw none of these rows"),
        hypotheses.get("prior saw none of these rows"),
    )
    assert (out / "figure.pdf").is_file()
    assert (out / "entropy-sgld" / "result.json").is_file()


def test_a_demo_replaces_nothing_that_pacdp_did_not_write(tmp_path, capsys):
    (tmp_path / "config.json").write_text("mine")
    assert pacdp("demo", "--out", tmp_path, "--threads", 1) == 1
    assert "was not written by pacdp" in one_sentence(capsys.readouterr().err)
    assert (tmp_path / "config.json").read_text() == "mine"


def test_spaces_of_any_width_are_drawn_as_spaces():
    from pacdp.cli.figures.names import plain

    assert plain("0-1\u00a0risk\nof\u2009it") == "0-1 risk of it"
    assert plain("a\u200bb\u4e2d") == "a?b?"
