"""The P3SGD studies: jobs at every scale, a smoke run end to end, verdicts that planted tables can turn."""

from dataclasses import replace

import polars as pl
import pytest
import tiny_runs
from tiny_runs import RUNTIME

from experiments.papers import p3sgd_problems
from experiments.papers.p3sgd import PAPER_SETTINGS, SETS, TABLE_1, TABLE_2
from experiments.papers.p3sgd_figures import FIGURE_2, FIGURE_3
from experiments.papers.p3sgd_problems import PRIVATE, scale_name
from experiments.papers.runs import p3sgd_runs as training
from experiments.papers.runs.p3sgd import Network, Plain, Training
from experiments.papers.runs.p3sgd_runs import TRAINING
from tests.marks import at_most

STUDIES = (TABLE_1, TABLE_2, FIGURE_2, FIGURE_3)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Every study's jobs at smoke, of fewer steps and passes, each configuration once, and their tables."""
    root = tmp_path_factory.mktemp("p3sgd")
    tables = {}
    with pytest.MonkeyPatch.context() as patch:
        short = tuple(replace(one, steps=3, plain=replace(one.plain, epochs=1)) for one in p3sgd_problems.SMOKE)
        patch.setattr(p3sgd_problems, "SMOKE", short)
        for study in STUDIES:
            jobs = study.jobs("smoke", 0)
            tiny_runs.carried_out(jobs, root)
            tables[study.name] = study.table(jobs, root)
    return tables


@pytest.mark.slow
@at_most(1, "study", STUDIES, ids=lambda study: study.name)
def test_a_smoke_run_makes_table_figure_and_verdict(study, ran, tmp_path):
    table = ran[study.name]
    assert table.height
    paths = study.draw(table, tmp_path)
    assert all(path.stat().st_size > 1000 for path in paths)
    verdict = study.judge(table, "smoke")
    assert verdict.claims
    assert not any("missing" in claim.evidence for claim in verdict.claims)
    assert all(comparison.ours is not None for comparison in verdict.comparisons)


@pytest.mark.slow
def test_tables_say_what_ran(ran):
    table = ran["p3sgd-table-1"]
    private = pl.col("strategy") == PRIVATE
    assert table.filter(private)["epsilon"].null_count() == 0
    assert table.filter(~private)["epsilon"].null_count() == table.height - 2
    assert (table["gap"] - (table["train_accuracy"] - table["test_accuracy"])).abs().max() < 1e-9
    assert not table["halted"].fill_null(False).any()
    assert set(table["people"]) == {120}
    # the curve of a run begins with the same first weights for every strategy, and ends where the run does
    curve = ran["p3sgd-figure-2"].filter(pl.col("epochs") == 0.0)
    assert curve.group_by("problem").agg(pl.col("test_loss").n_unique())["test_loss"].to_list() == [1, 1]
    # all networks are asked about the same images
    attacks = ran["p3sgd-figure-3"].group_by("attack", "part", "reference", "example", "label")
    assert attacks.agg(pl.col("start_psnr").n_unique())["start_psnr"].max() == 1


@pytest.mark.slow
def test_the_papers_accounting_gives_the_printed_numbers(ran):
    rows = ran["p3sgd-table-2"].filter(pl.col("problem") == PAPER_SETTINGS)
    found = dict(zip(rows["noise_scales"], rows["published_epsilon"], strict=True))
    for scales, (_, printed) in SETS.items():
        assert found[scale_name(scales)] == pytest.approx(printed, abs=0.035)


def test_an_interrupted_private_run_goes_on_to_the_same_numbers(tmp_path, monkeypatch):
    job = next(job for job in FIGURE_2.jobs("smoke", 0) if job.tags["strategy"] == PRIVATE)

    def carried_out(folder):
        (error,) = TRAINING.carry_out([job.config], [tmp_path / folder / job.key], RUNTIME)
        return error

    assert carried_out("whole") is None
    score, calls = training.score, []

    def stop(*arguments):
        calls.append(1)
        if len(calls) == 8:
            raise OSError("cut")
        return score(*arguments)

    monkeypatch.setattr(training, "score", stop)
    assert isinstance(carried_out("cut"), OSError)
    assert carried_out("cut") is None
    whole, cut = (FIGURE_2.table([job], tmp_path / folder) for folder in ("whole", "cut"))
    assert whole.height == 9
    assert cut.equals(whole)


def test_a_run_that_diverges_is_an_error_and_no_row(tmp_path):
    config = Training(network=Network(width=4), strategy=Plain(epochs=2, learning_rate=1e30))
    (error,) = TRAINING.carry_out([config], [tmp_path / "run"], RUNTIME)
    assert error is not None
    assert "not finite" in str(error) or "NaN" in str(error)
