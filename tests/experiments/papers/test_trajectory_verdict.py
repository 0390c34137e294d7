"""The trajectory's verdict: aims that can be missed, upper ends that are rounded up, a figure that says whose it is."""

from typing import Any

import polars as pl
import pytest

from experiments.figures import trajectory as figures
from experiments.papers.trajectory import _COLUMNS, AIM, TARGETS, TRAJECTORY


def _table(**values: float) -> pl.DataFrame:
    """One certificate an aim, a tenth below it unless ``values`` say otherwise by the learner's first word."""
    rows = list[dict[str, Any]]()
    for limit, where, classes in TARGETS.values():
        own = {"sampler": "SGHMC", "dataset": "mnist" if classes == 10 else "mnist2", "of": "weights", **where}
        value = values.get(where["learner"].split(" ")[0], 0.9 * limit)
        rows.append({**own, "status": "rigorous", "certificate": "realised_sum_maurer", "value": value,
                     "test_error": value / 2, "n_test": 10_000})  # fmt: skip
    return pl.DataFrame([{name: row.get(name) for name in _COLUMNS} for row in rows], schema=_COLUMNS)


def _aims(table: pl.DataFrame) -> dict[str, bool | None]:
    found = TRAJECTORY.judge(table, "cpu").claims
    return {one.sentence.split(":")[0]: one.holds for one in found if AIM in one.sentence}


def test_every_aim_is_a_claim_which_a_certificate_above_it_fails():
    assert _aims(_table()) == dict.fromkeys(TARGETS, True)
    assert _aims(_table(cnn3=0.1001)) == {name: name != "ten classes, raw pixels" for name in TARGETS}
    assert _aims(_table().clear()) == dict.fromkeys(TARGETS, None)


def test_the_first_page_tells_which_aims_were_missed():
    (kept,) = TRAJECTORY.judge(_table(), "cpu").points
    (missed,) = TRAJECTORY.judge(_table(cnn3=0.107211), "cpu").points
    assert kept.holds is True
    assert "missed" not in kept.said
    assert missed.holds is False
    assert "5 of 6 do: missed (ten classes, raw pixels 0.1073 for 0.1), kept" in missed.said, "rounded up"
    assert TRAJECTORY.judge(_table().clear(), "cpu").points == ()


@pytest.mark.parametrize("learners", [["linear on some-waves"], ["linear on some-waves", "100 on pixels"]])
def test_the_figure_names_data_and_learner_and_mixes_none(learners):
    rows = [{"dataset": "mnist2", "learner": learner, "sampler": "Entropy-SGLD", "tau": tau, "steps": 12,
             "certificate": "realised_sum_maurer", "value": 0.1, "test_error": 0.05}
            for learner in learners for tau in (250.0, 1000.0)]  # fmt: skip
    table = pl.DataFrame([{name: row.get(name) for name in _COLUMNS} for row in rows], schema=_COLUMNS)
    titles = [axes.get_title() for axes in figures.draw(table).axes]
    assert titles == [f"Entropy-SGLD, {learner}, mnist2, 12 outer steps" for learner in learners]
    figures.draw(table.clear())
