"""What the studies of learnt posteriors and of few records say of their rows, and of rows that say otherwise."""

import polars as pl
import pytest

from experiments.papers import learnt_posteriors, small_samples
from experiments.papers.runs.small_samples import COMPRESSED, COUNT, HALF, NOTHING, PRIVATE
from experiments.runner import RESULTS, read_table

STUDIES = (learnt_posteriors.STUDY, small_samples.STUDY)
VALUES = {COUNT: 0.02, HALF: 0.04, NOTHING: 0.1, COMPRESSED: 0.2, PRIVATE: 0.3}


def _holds(study, table, words):
    (claim,) = [one for one in study.judge(table, "cpu").claims if words in one.sentence]
    return claim.holds


def _routes(values=VALUES, seeds=3, **spread):
    """Rows of one data set at two sizes; a route's spread is added from seed to seed."""
    return pl.DataFrame([
        {"dataset": "mnist", "unit": "example", "route": route, "certificate": "x", "status": "rigorous", "records": n,
         "seed": seed, "n_test": 5000, "value": value + seed * spread.get(route.split()[0].lower(), 1e-4),
         "test_error": 0.01}
        for route, value in values.items() for n in (500, 5000) for seed in range(seeds)
    ])  # fmt: skip


def _learnt():
    return read_table(RESULTS / "learnt-posteriors" / "cpu")


@pytest.mark.parametrize(
    ("where", "value", "words", "holds"),
    [
        ({"recipe": "gradients", "dataset": "mnist"}, 0.11, "mnist: with a prior that saw nothing fixed", True),
        ({"kind": "fixed", "dataset": "mnist"}, 0.11, "mnist: with a prior that saw nothing fixed", False),
        ({"kind": "network", "dataset": "mnist2"}, 0.12, "mnist2: with a prior that saw nothing a network", False),
        ({"recipe": "gradients", "dataset": "mnist"}, 0.9, "mnist: on the same features", False),
        ({"recipe": "gradients and waves", "dataset": "mnist"}, 0.02, "mnist: random waves", True),
        ({"kind": "stages", "dataset": "mnist"}, 0.2, "mnist: 3 stages", False),
        ({"kind": "stages", "dataset": "mnist"}, 0.001, "Every certificate", False),
    ],
)
def test_claims_about_learnt_posteriors_can_fail(where, value, words, holds):
    rows = pl.all_horizontal(pl.col(name) == known for name, known in where.items())
    table = _learnt().with_columns(value=pl.when(rows).then(value).otherwise("value"))
    assert _holds(learnt_posteriors.STUDY, table, words) is holds


@pytest.mark.parametrize(
    ("values", "words", "holds"),
    [
        ({}, f"{COUNT} certifies less than {HALF}", True),
        ({COUNT: 0.05}, f"{COUNT} certifies less than {HALF}", False),
        ({NOTHING: 0.25}, f"{NOTHING} certifies less than {COMPRESSED}", False),
        ({HALF: 0.001}, "at least its predictor's test error", False),
    ],
)
def test_claims_about_few_records_can_fail(values, words, holds):
    assert _holds(small_samples.STUDY, _routes(VALUES | values), words) is holds


def test_one_seed_or_seeds_that_differ_as_much_decide_nothing_about_few_records():
    words = f"{COUNT} certifies less than {HALF}"
    assert _holds(small_samples.STUDY, _routes(seeds=1), words) is None
    assert _holds(small_samples.STUDY, _routes(**{"held-out": 0.05}), words) is None
    (claim,) = [one for one in small_samples.STUDY.judge(_routes(seeds=1), "cpu").claims if words in one.sentence]
    assert "seeds" in claim.settled_by


def test_a_route_that_does_not_run_on_people_is_left_out():
    few = {route: value for route, value in VALUES.items() if route in (COUNT, NOTHING, HALF)}
    sentences = [one.sentence for one in small_samples.STUDY.judge(_routes(few), "cpu").claims]
    assert len(sentences) == 4
    assert not any(COMPRESSED in one or PRIVATE in one for one in sentences)


@pytest.mark.parametrize("study", STUDIES, ids=[one.name for one in STUDIES])
def test_figures_are_drawn_of_the_rows_alone(study, tmp_path):
    table = read_table(RESULTS / study.name / "cpu")
    assert all(path.stat().st_size > 5_000 for path in study.draw(table, tmp_path))
