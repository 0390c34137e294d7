"""Random labels: what rows say, and the bound that Entropy-SGD's own prior breaks."""

from dataclasses import replace
from math import isclose, log, sqrt

import polars as pl
from tiny_runs import EFFORT, carried_out

from experiments.claims import judge
from experiments.papers.random_labels import RANDOM_LABELS, SENTENCES, N, invalid_bound, jobs
from pacdp.cli.figures.names import CONVERGED, GIBBS_BOUNDS
from pacdp.cli.folder import Folder
from pacdp.models import Architecture
from tests.oracles.kl_by_mpmath import kl

BY_KEY = {sentence.answers[0]: sentence for sentence in SENTENCES}


def _tiny(job):
    problem = replace(job.config.problem, architecture=Architecture(hidden=(8,)))
    run = replace(job.config, problem=problem, epochs=2.0, records=2, track=EFFORT, certify=EFFORT)
    return replace(job, key=run.key, config=run)


def test_rows_say_what_runs_recorded(tmp_path):
    wanted = [("SGD", "true"), ("Entropy-SGLD", "random"), ("SGLD", "random")]
    found = jobs(True, 0)
    plan = [_tiny(next(c for c in found if (c.config.algorithm, c.tags["labels"]) == one)) for one in wanted]
    carried_out(plan, tmp_path)
    table = RANDOM_LABELS.table(plan, tmp_path)
    assert table.height == 6
    for job, bounded in zip(plan, (set(), set(CONVERGED), set(CONVERGED) - set(GIBBS_BOUNDS)), strict=True):
        last = Folder(tmp_path / job.key).rows()[-1]
        row = table.filter(run=job.key).row(-1, named=True)
        assert row["test_error"] == last["test_error"]
        assert row["tau"] == getattr(job.config.sampler, "tau", None)
        assert isclose(row["epochs_over_l"], last["epochs"] / 20)
        for name in set(CONVERGED) & set(row):
            assert row[name] == last.get("bounds", {}).get(name)
            assert (row[name] is not None) == (name in bounded)


def planted(risk, nats, error):
    """The last record of a run on random labels."""
    own = {"run": "one", "algorithm": "Entropy-SGD", "labels": "random", "thermal_noise": 0.005, "n": N}
    errors = {"train_error": risk, "test_error": error, "gibbs_train_error": risk, "gibbs_test_error": error}
    return pl.DataFrame([{**own, "n_test": 10_000, "kl_nats": nats, **errors}])


def test_the_invalid_bound_is_the_formula_of_a_prior_that_no_data_chose():
    table = planted(0.4, 30.0, 0.5)
    bound = invalid_bound(table).mean
    assert isclose(N * kl(0.4, bound), 30.0 + log(2.0 * sqrt(N) / 0.05), rel_tol=1e-9)
    assert judge(BY_KEY["D04"], table).holds is True
    assert judge(BY_KEY["D04"], planted(0.4, 12_000.0, 0.5)).holds is False
    assert judge(BY_KEY["D04"], planted(0.4, 30.0, bound)).holds is None
