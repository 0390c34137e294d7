"""An open claim names the run that would settle it and what that costs, in every committed verdict."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import experiments.papers
from experiments import job_costs
from experiments.claims import Claim, judging, point
from experiments.papers import small_samples
from experiments.papers.bayesian_dp import TABLE_1, settled_1
from experiments.papers.bayesian_dp_figures import FIGURES_1_2, FIGURES_3_7
from experiments.papers.bayesian_dp_regression import REGRESSION
from experiments.papers.calibration_frontier import FRONTIER
from experiments.registry import studies, study
from experiments.runner import RESULTS, SCALES, read_table

OPEN = Claim("It is so.", None, "1 against 1")
PAPERS = [path for path in sorted(Path(experiments.papers.__path__[0]).glob("*.py")) if "p3sgd" not in path.name]


def _committed():
    for name in studies():
        for scale in SCALES:
            if (RESULTS / name / scale / "table.csv").is_file():
                yield name, scale


@pytest.mark.parametrize(("name", "scale"), list(_committed()))
def test_every_open_claim_names_the_run_that_would_settle_it_and_its_cost(name, scale):
    claims = study(name).judge(read_table(RESULTS / name / scale), scale).claims
    assert [claim.sentence for claim in claims if claim.holds is None and not _names_a_cost(claim.settled_by)] == []


def _names_a_cost(told: str) -> bool:
    return any(unit in told for unit in ("second", "minute", "hours")) and (
        "cores" in told or "GPU" in told or "H100" in told
    )


def _judge(*claims: Claim, told: str = ""):
    made = judging(claims=lambda table, scale: claims, notes=lambda table, scale: (),
                   settled_by=lambda table, scale, claim: f"{claim.settled_by}{told}")  # fmt: skip
    return made(pl.DataFrame(), "cpu")


def test_the_study_is_asked_for_open_claims_alone_and_hears_what_they_say_themselves():
    own, decided = replace(OPEN, settled_by="8 seeds"), replace(OPEN, holds=False)
    found = _judge(OPEN, own, decided, told=", 3 minutes of two cores").claims
    assert [claim.settled_by for claim in found] == [", 3 minutes of two cores", "8 seeds, 3 minutes of two cores", ""]


def test_only_open_claims_are_written_with_what_would_settle_them():
    decided = replace(OPEN, holds=True, settled_by="nothing is left to settle")
    kept, dropped, silent = _judge(replace(OPEN, settled_by="8 seeds"), decided, OPEN).to_dict()["claims"]
    assert kept["settled_by"] == "8 seeds"
    assert "settled_by" not in dropped
    assert "settled_by" not in silent


def test_a_point_is_settled_by_what_settles_its_open_claims_each_once():
    told = [replace(OPEN, settled_by=by) for by in ("8 seeds", "8 seeds", "a GPU")]
    assert point([*told, replace(OPEN, holds=True, settled_by="x")], "so", "said").settled_by == "8 seeds; a GPU"
    assert point(told, "so", "said", settled_by="its own").settled_by == "its own"


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.name)
def test_no_cost_is_typed_by_hand(path):
    texts = [node.value for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
             if isinstance(node, ast.Constant) and isinstance(node.value, str)]  # fmt: skip
    assert [text for text in texts if re.search(r"(minutes?|hours?) of (two cores|one core|a GPU)", text)] == []


@pytest.mark.parametrize("study", [TABLE_1, FIGURES_1_2, FIGURES_3_7, REGRESSION, FRONTIER, small_samples.STUDY],
                         ids=lambda study: study.name)  # fmt: skip
def test_open_claims_cost_what_the_jobs_of_their_study_cost(study):
    table = read_table(RESULTS / study.name / "cpu").filter(seed=0)
    found = [claim for claim in study.judge(table, "cpu").claims if claim.holds is None]
    assert [claim.sentence for claim in found if not _names_a_cost(claim.settled_by)] == []


def test_few_records_cost_the_seconds_of_the_table():
    table = read_table(RESULTS / "small-samples" / "cpu").with_columns(pl.col("seconds") * 10.0)
    told = job_costs.by_seeds(small_samples.jobs)(table, "cpu", OPEN)
    found = re.search(r"all runs of one seed take about ([\d.]+) minutes of two cores, of 12 seeds", told)
    assert found
    assert float(found[1]) == pytest.approx(table["seconds"].sum() / 3 / 2 / 60, rel=0.05)


def test_no_number_of_seeds_helps_only_where_the_test_images_leave_a_drop_open():
    where = {"algorithm": "SGLD", "prior": "normal", "network": "MLP", "last_accuracy": 0.9, "seconds_per_epoch": 2.0}
    drop = replace(OPEN, sentence='MLP: "DP-SGLD ... does not deteriorate')

    def told(private: float, images: int) -> str:
        rows = [{**where, "private": one, "accuracy": value, "n": images, "seed": 0, "run": f"{one}"}
                for one, value in ((False, 0.97), (True, private))]  # fmt: skip
        return settled_1(pl.DataFrame(rows), "cpu", drop)

    assert told(0.905, 10_000).startswith("no number of seeds, for two standard errors of 10,000 test images alone")
    assert "hours of two cores, estimated" in told(0.905, 10_000)
    assert told(0.905, 1_000_000).startswith("four times the seeds")
    assert told(0.89, 10_000).startswith("four times the seeds")
