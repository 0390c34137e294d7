"""The figures of the Entropy-SGLD paper: their runs at every scale, and small ones of each from end to end."""

import math

import pytest
from planted import carried_out, claims, shortened

from experiments.papers import entropy_sgld, entropy_sgld_cifar
from experiments.papers.chains import BOUNDS, COLUMNS
from experiments.papers.entropy_sgld_cifar import BETAS, GAMMAS, ONSETS, TAUS
from pacdp.algorithms import EntropySGD
from pacdp.cli.config import Run
from pacdp.cli.figures.names import CONVERGED, GIBBS_BOUNDS
from pacdp.cli.serial import from_dict, to_dict

NAMED = {study.name.rpartition("-")[2]: study for study in (*entropy_sgld.STUDIES, *entropy_sgld_cifar.STUDIES)}
SCALES = ("smoke", "cpu", "paper")
COUNTS = {
    "1": {"smoke": 12, "cpu": 18, "paper": 26}, "2": dict.fromkeys(SCALES, 2), "3": dict.fromkeys(SCALES, 3),
    "4": dict.fromkeys(SCALES, 4), "5": {scale: 4 * len(TAUS[scale]) for scale in SCALES},
    "6": {scale: 2 * len(GAMMAS[scale]) for scale in SCALES},
}  # fmt: skip


def test_there_is_a_study_for_every_figure():
    assert list(NAMED) == ["1", "2", "3", "4", "5", "6"]
    assert all(study.paper.endswith(f"Figure {figure}") for figure, study in NAMED.items())


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("figure", NAMED)
def test_jobs_differ_and_depend_on_the_seed(figure, scale):
    jobs, others = (NAMED[figure].jobs(scale, seed) for seed in (0, 1))
    assert len(jobs) == COUNTS[figure][scale]
    keys = {job.key for job in jobs}
    assert len(keys) == len(jobs)
    assert keys.isdisjoint(job.key for job in others)
    assert [job.tags for job in jobs] == [job.tags for job in others]
    for job in jobs:
        assert from_dict(Run, to_dict(job.config)) == job.config
        assert job.tags.keys() <= COLUMNS.keys()
        assert job.config.problem.random_labels == {"true": 0.0, "random": 1.0}[job.tags["labels"]]


@pytest.mark.parametrize("figure", ["1", "2", "3", "4"])
def test_the_private_setting_is_root_n_of_the_examples_learnt_from(figure):
    sizes = {"digits": 1437, "digits2": 1437, "mnist": 60_000, "mnist2": 60_000}
    for scale in SCALES:
        jobs = NAMED[figure].jobs(scale, 0)
        private = [job.config for job in jobs if job.tags["algorithm"] == "Entropy-SGLD"]
        for run in private:
            n = run.problem.train_size or sizes[run.problem.dataset]
            assert run.sampler.tau == math.sqrt(n)
            assert (run.sampler.beta, run.sampler.gamma, run.sampler.inner_steps) == (1.0, 1.0, 20)
        assert len(private) == {"1": 2, "2": 2, "3": 1, "4": 4}[figure]


def test_scale_paper_has_the_papers_networks_lengths_and_steps():
    for figure, networks in {"1": {"conv"}, "2": {"fc600", "fc1200"}, "3": {"conv"}, "4": {"fc1024", "conv"},
                             "5": {"allcnn"}, "6": {"allcnn"}}.items():  # fmt: skip
        runs = [job.config for job in NAMED[figure].jobs("paper", 0)]
        assert {run.problem.architecture.name for run in runs} == networks
        assert {(run.epochs, run.problem.train_size, run.sampler.batch_size) for run in runs} == {(2000.0, 0, 128)}
        assert {run.track.epochs for run in runs} == ({50.0} if figure in "56" else {1000.0})
        steps = {run.sampler.outer_step_size for run in runs if isinstance(run.sampler, EntropySGD)}
        assert steps == ({0.1} if figure in "56" else {0.006})
    assert {job.tags["beta"] for job in NAMED["6"].jobs("paper", 0)} == set(BETAS)


def test_the_sweeps_span_what_the_text_names():
    for job in NAMED["5"].jobs("paper", 0):
        assert job.tags["beta"] == 1.0
        assert job.tags["gamma"] in ONSETS
    assert min(TAUS["paper"]) < 2e2
    assert max(TAUS["paper"]) == 1e8
    assert {0.0003, 0.003, 0.03, 3.0, 50.0} <= set(GAMMAS["paper"])
    for scale in SCALES:
        for job in NAMED["6"].jobs(scale, 0):
            n = {"smoke": 1437}.get(scale, 50_000)
            assert math.isclose(job.tags["tau"] * job.tags["beta"], 2000.0 * n / 50_000)


@pytest.mark.parametrize("scale", SCALES)
def test_no_inner_chain_of_the_gamma_sweep_diverges(scale):
    for job in NAMED["6"].jobs(scale, 0) + NAMED["5"].jobs(scale, 0):
        settings = job.config.sampler
        # |1 - h_i gamma| multiplied over the inner loop, from its second step: the first starts at the centre
        pulls = (0.5 * settings.inner_step_size * settings.gamma / i for i in range(2, settings.inner_steps + 1))
        assert math.prod(abs(1.0 - pull) for pull in pulls) <= 1.0
        assert settings.outer_step_size / (settings.tau * settings.gamma * settings.beta) < 4.0, "the base's drift"


@pytest.mark.parametrize("figure", NAMED)
def test_a_small_run_from_end_to_end(figure, tmp_path):
    study = NAMED[figure]
    jobs = [shortened(job) for job in study.jobs("smoke", 0)]
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
    verdict = study.judge(table, "smoke")
    assert any("Scale smoke" in note for note in verdict.notes)
    assert any("optimistic" in note for note in verdict.notes)
    assert all(type(claim.holds) in (bool, type(None)) for claim in claims(verdict).values())
    assert any(claim.holds is not None for claim in claims(verdict).values())
    assert study.table(jobs[1:], tmp_path).equals(table[2:], null_equal=True)


@pytest.mark.parametrize("figure", NAMED)
def test_an_empty_table_decides_nothing(figure, tmp_path):
    study = NAMED[figure]
    table = study.table(study.jobs("smoke", 0), tmp_path)
    assert table.height == 0
    assert all(claim.holds is None for claim in study.judge(table, "smoke").claims)
    assert all(one.ours is None for one in study.judge(table, "smoke").comparisons)
    assert study.draw(table, tmp_path)


def test_bounds_are_those_of_chains_that_are_assumed_to_have_converged():
    assert set(BOUNDS) == set(CONVERGED) - {"test_set_clopper_pearson"}
