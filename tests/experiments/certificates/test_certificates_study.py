"""The table of certificates: its jobs, a smoke run of it, and verdicts that can fail."""

import polars as pl
import pytest
from tiny_runs import carried_out

from experiments.papers.certificates import STUDY
from pacdp.cli.folder import Folder, read_json
from tests.schema import validate

# every run of the command `pacdp experiment all --scale smoke` carries these jobs out as well
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Full backward hook is firing")]


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    plan = [job for job in STUDY.jobs("smoke", 0) if job.tags["dataset"] == "digits"]
    carried_out(plan, folder)
    return plan, folder, STUDY.table(plan, folder)


def test_every_route_is_in_the_table(smoke):
    _, _, table = smoke
    rigorous = table.filter((pl.col("status") == "rigorous") & (pl.col("measures") == "0-1 risk"))
    assert {"data-free", "held-out", "finite", "private-prior"} <= set(rigorous["recipe"])
    assert {"randomised", "one draw", "prior mean", "private head", "best network", "vote"} <= set(rigorous["of"])
    optimistic = table.filter(pl.col("status") == "optimistic")
    assert {"Gibbs classifier", "weights"} <= set(optimistic["of"])
    chains = table.filter(pl.col("recipe").is_in(["sgd", "entropy-sgd-clipped"]))
    assert set(chains["status"]) == {"optimistic"}  # their settings were compared on MNIST, and nothing pays for that
    assert chains["settings"].str.starts_with("unproved: ").all()
    assert table.filter(pl.col("settings").str.contains("^(declared|unproved): ")).height == table.height
    assert table["value"].is_between(0, 1).all()
    assert rigorous["test_error"].null_count() == 0
    deployed = rigorous.filter(pl.col("recipe").is_in(["held-out", "finite", "private-prior"]))
    assert not deployed["below_test"].any()


def test_reports_of_every_job_follow_the_schema(smoke):
    plan, folder, _ = smoke
    for job in plan:
        report = read_json(Folder(folder / job.key).result)
        assert validate(report), job.key
        for reference in report["details"].get("references", {}).values():
            validate(reference)
        assert "checkpoint" not in (report["subject"] or {}), "a path of the machine that made it"


def test_figure_and_verdict_are_made_of_the_table_alone(smoke, tmp_path):
    _, _, table = smoke
    table.write_csv(tmp_path / "table.csv")
    again = pl.read_csv(tmp_path / "table.csv", infer_schema_length=None)
    assert all(path.is_file() for path in STUDY.draw(again, tmp_path))
    assert STUDY.judge(again, "smoke") == STUDY.judge(table, "smoke")
