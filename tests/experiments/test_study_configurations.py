"""Configurations of all studies survive JSON, so that runs are found again, and keys tell them apart."""

import json

import pytest

from experiments.registry import studies
from pacdp.cli.serial import from_dict, to_dict


@pytest.mark.parametrize("name", list(studies()))
def test_configurations_of_every_scale_are_read_back_as_they_were(name):
    study = studies()[name]
    for scale in study.scales:
        jobs = study.jobs(scale, 3)
        assert len({job.key for job in jobs}) == len(jobs)
        for job in jobs:
            assert from_dict(type(job.config), json.loads(json.dumps(to_dict(job.config)))) == job.config
