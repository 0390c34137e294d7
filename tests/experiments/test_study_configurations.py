"""Configurations of all studies survive JSON, so that runs are found again, and keys tell them apart."""

import json

import pytest

from experiments.registry import studies
from pacdp.cli.serial import from_dict, to_dict
from tests.marks import at_most


@pytest.mark.parametrize("name", list(studies()))
def test_configurations_of_every_scale_are_read_back_as_they_were(name):
    study = studies()[name]
    for scale in study.scales:
        jobs = study.jobs(scale, 3)
        assert len({job.key for job in jobs}) == len(jobs)
        for job in jobs:
            assert from_dict(type(job.config), json.loads(json.dumps(to_dict(job.config)))) == job.config


ASK_FOR_ROWS = {
    "certificates", "certificates-cifar10", "compression-routes", "learnt-posteriors", "local-entropy",
    "p3sgd-printed", "small-samples",
}  # fmt: skip
"""Studies whose tables or figures are not made before some run has finished."""


@at_most(2, "name", sorted(studies().keys() - ASK_FOR_ROWS))
def test_where_no_run_has_finished_nothing_is_claimed_and_a_figure_is_drawn(name, tmp_path):
    study = studies()[name]
    table = study.table(study.jobs("smoke", 0), tmp_path)
    assert {claim.holds for claim in study.judge(table, "smoke").claims} <= {None}
    assert all(path.is_file() for path in study.draw(table, tmp_path))
