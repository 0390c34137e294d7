"""The plans of scale gpu: they can be built and fit their data, cost less than 40 minutes of one H100 a study, and
stand on the page of results as not run."""

import torch

from experiments.costs import H100
from experiments.job_costs import SHAPES, of_jobs
from experiments.papers.runs.held_out import HeldOutConfig
from experiments.papers.runs.held_out import network as held_out_network
from experiments.registry import studies, study
from pacdp.cli.config import Run
from pacdp.cli.private.algorithms import Public
from pacdp.cli.private.algorithms import network as private_network
from pacdp.cli.private.config import PrivateConfig
from pacdp.models import batch_dependent_layers, build
from tests.marks import at_most
from tests.pacdp.toys import seeded

PLANNED = [name for name, found in studies().items() if "gpu" in found.scales]


def _network(config):
    shape = SHAPES[getattr(config, "dataset", None) or config.problem.dataset.removesuffix("2")]
    made = seeded(0)
    match config:
        case Run():
            classes = 2 if config.problem.dataset.endswith("2") else 10
            module = build(config.problem.architecture, input_shape=shape, classes=classes, generator=made)
            return module, shape, classes
        case PrivateConfig():
            public = Public(input_shape=shape, classes=10, size=50_000.0)
            return private_network(config, public, device="cpu"), shape, 10
        case HeldOutConfig():
            return held_out_network(config, input_shape=shape, classes=10, generator=made), shape, 10
    raise AssertionError(config)


@at_most(2, "name", PLANNED)
def test_a_plan_can_be_built_fits_its_data_and_costs_less_than_40_minutes(name):
    jobs = study(name).jobs("gpu", 0)
    assert {job.key for job in jobs}.isdisjoint(job.key for job in study(name).jobs("smoke", 0))
    assert 0 < of_jobs(jobs).seconds(H100) < 40 * 60
    tried = set()
    for config in (job.config for job in jobs):
        module, shape, classes = _network(config)
        assert not batch_dependent_layers(module), "bounds and clipping need examples that do not mix"
        if str(module) not in tried:
            tried.add(str(module))
            with torch.no_grad():
                assert module.eval()(torch.zeros(2, *shape)).shape == (2, 1 if classes == 2 else classes)
