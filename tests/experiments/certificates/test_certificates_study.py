"""The study of certificates: reports of a smoke run, and a sentence that can fail."""

import polars as pl
import pytest
from tiny_runs import carried_out

from experiments.claims import judge
from experiments.ours.certificates import STUDY, UNCONTRADICTED
from pacdp.cli.folder import Folder, read_json
from tests.schema import validate


@pytest.mark.slow
def test_reports_of_every_job_follow_the_schema(tmp_path):
    plan = STUDY.jobs(True, 0)
    carried_out(plan, tmp_path)
    for job in plan:
        assert validate(read_json(Folder(tmp_path / job.key).result)), job.key
    rigorous = STUDY.table(plan, tmp_path)
    assert {"randomised", "one draw", "prior mean"} <= set(rigorous["of"])
    assert set(rigorous["status"]) == {"rigorous"}
    assert rigorous["value"].is_between(0, 1).all()
    assert rigorous["test_error"].null_count() == 0


@pytest.mark.parametrize(("value", "below", "wrong"), [(0.11, 0, 0), (0.095, 1, 0), (0.05, 1, 1), (1.0, 0, 0)])
def test_only_what_lies_below_the_lower_limit_of_the_test_error_contradicts(value, below, wrong):
    made = {"certificate": "randomised_maurer", "value": value, "test_error": 0.1, "n_test": 1000}
    table = pl.DataFrame([made, made | {"certificate": "test_set_clopper_pearson", "value": 0.01}])
    seen = judge(UNCONTRADICTED, table)
    assert seen.holds is (wrong == 0)
    assert seen.evidence == f"able {int(value < 1)}; below {below}; wrong {wrong}"
