"""Dziugaite and Roy's studies: private settings, the theorem on a grid, gaps that say something, broken bounds."""

from math import sqrt

import polars as pl

from experiments.claims import judge
from experiments.papers import dziugaite_roy as section
from experiments.runs.local_entropy import Plane, plane
from experiments.runs.temperature import BOUNDS
from pacdp.cli.figures.names import GIBBS_BOUNDS
from pacdp.cli.runtime import Runtime
from tests.marks import parametrize

N = 60_000


def test_the_private_setting_is_root_n_of_the_examples_learnt_from():
    laws = {job.key: job.config for job in section.laws_jobs(False, 0)}
    assert {round(sqrt(2.0 / tau), 9) for key, one in laws.items() if "hot" in key for tau in one.taus} == {0.05}
    assert {tau for key, one in laws.items() if "hot" not in key for tau in one.taus} == {sqrt(N)}


def test_local_entropy_and_bound_have_one_optimum_and_a_wrong_sign_is_noticed(tmp_path):
    result = plane(Plane(dataset="digits2", examples=100, means=7, cells=31, rounds=1500), Runtime(), tmp_path)
    rows = [{"what": "mean", **row} for row in result["points"]]
    rows += [{"what": "search", **row} for row in result["searched"]]
    table = pl.DataFrame(rows, infer_schema_length=None)
    assert judge(section.THEOREM, table).holds is True
    assert judge(section.THEOREM, table.with_columns(-pl.col("local_entropy_nats"))).holds is False
    worse = table.with_columns(bound_searched=0.9 * pl.col("bound_searched"))
    assert judge(section.THEOREM, worse).holds is False


def _chains(run, train, test):
    return [{"run": run, "chain": k, "n": N, "n_test": 10_000, "train_error": train, "test_error": test}
            for k in range(2)]  # fmt: skip


@parametrize(
    ("learnt", "random_test", "holds"),
    [(0.1, 0.5, True), (0.4, 0.5, None), (0.1, 0.56, False), (0.4, 0.56, False), (0.1, 0.52, None)],
)
def test_a_missing_gap_counts_only_where_something_was_learnt(learnt, random_test, holds):
    table = pl.DataFrame(_chains("conv-hot-true", learnt, learnt) + _chains("conv-hot-random", 0.5, random_test))
    assert judge(section.WARM, table).holds is holds


def test_violations_compare_each_bound_with_its_own_classifier_beyond_the_noise_of_the_test_set():
    sound = {"test_error": 0.5, "gibbs_test_error": 0.3, "n_test": 10_000}
    sound |= {name: 0.32 if name in GIBBS_BOUNDS else 0.52 for name in BOUNDS}
    assert section.violated(pl.DataFrame([sound])) == [False] * len(BOUNDS)
    for name in BOUNDS:
        error = sound["gibbs_test_error" if name in GIBBS_BOUNDS else "test_error"]
        for value, broken in ((error - 0.001, 0), (error - 0.02, 1)):
            assert sum(section.violated(pl.DataFrame([sound | {name: value}]))) == broken
    assert section.violated(pl.DataFrame([dict.fromkeys(BOUNDS, 1.0) | sound | dict.fromkeys(BOUNDS, 0.9995)])) == []
    assert judge(section.VIOLATIONS, pl.DataFrame([sound])).holds is True
    assert judge(section.VIOLATIONS, pl.DataFrame([sound | dict.fromkeys(BOUNDS, 0.1)])).holds is False
