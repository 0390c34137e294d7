"""The figures of the Entropy-SGLD paper: their runs at every scale, and small ones of each from end to end."""

import math
from math import sqrt

import pytest
from planted import carried_out, shortened

from experiments.papers import entropy_sgld, entropy_sgld_cifar
from experiments.papers.chains import BOUNDS, COLUMNS
from pacdp.cli.figures.names import GIBBS_BOUNDS
from tests.marks import at_most

NAMED = {study.name.rpartition("-")[2]: study for study in (*entropy_sgld.STUDIES, *entropy_sgld_cifar.STUDIES)}
SCALES = ("smoke", "cpu", "paper")


@pytest.mark.parametrize("figure", ["1", "2", "3", "4"])
def test_the_private_setting_is_root_n_of_the_examples_learnt_from(figure):
    sizes = {"digits": 1437, "digits2": 1437, "mnist": 60_000, "mnist2": 60_000}
    for scale in SCALES:
        jobs = NAMED[figure].jobs(scale, 0)
        private = [job.config for job in jobs if job.tags["algorithm"] == "Entropy-SGLD"]
        for run in private:
            n = run.problem.train_size or sizes[run.problem.dataset]
            assert run.sampler.tau == sqrt(n)
            assert (run.sampler.beta, run.sampler.gamma, run.sampler.inner_steps) == (1.0, 1.0, 20)
        assert len(private) == {"1": 2, "2": 2, "3": 1, "4": 4}[figure]


@pytest.mark.parametrize("scale", SCALES)
def test_no_inner_chain_of_the_gamma_sweep_diverges(scale):
    for job in NAMED["6"].jobs(scale, 0) + NAMED["5"].jobs(scale, 0):
        settings = job.config.sampler
        # |1 - h_i gamma| multiplied over the inner loop, from its second step: the first starts at the centre
        pulls = (0.5 * settings.inner_step_size * settings.gamma / i for i in range(2, settings.inner_steps + 1))
        assert math.prod(abs(1.0 - pull) for pull in pulls) <= 1.0
        assert settings.outer_step_size / (settings.tau * settings.gamma * settings.beta) < 4.0, "the base's drift"


@pytest.mark.slow
@at_most(1, "figure", NAMED)
def test_a_small_run_from_end_to_end(figure, tmp_path):
    study = NAMED[figure]
    jobs = study.jobs("smoke", 0)
    if figure == "1":  # one temperature of each algorithm
        jobs = {(job.tags["algorithm"], job.tags["labels"]): job for job in jobs}.values()
    jobs = [*map(shortened, jobs)]
    table = carried_out(study, jobs, tmp_path)
    assert dict(table.schema) == COLUMNS
    assert table.height == 2 * len(jobs)
    assert table["run"].unique(maintain_order=True).to_list() == [job.key for job in jobs]
    assert set(table["n"]) == {1437}
    private = table.filter(algorithm="Entropy-SGLD")
    assert all(private[name].is_not_null().all() for name in BOUNDS if figure not in "456" or "gibbs" not in name)
    assert all(table.filter(algorithm="SGLD")[name].is_null().all() for name in GIBBS_BOUNDS)
    paths = study.draw(table, tmp_path)
    assert [path.name for path in paths] == ["figure.png", "figure.pdf"]
    assert min(path.stat().st_size for path in paths) > 10_000
    assert any("optimistic" in note for note in study.judge(table, "smoke").notes)
    assert study.table(jobs[1:], tmp_path).equals(table[2:], null_equal=True)
