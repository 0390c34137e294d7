"""Clipped chains and private runs pay for their sums over secret batches, below what their privacy costs."""

import json
from collections.abc import Mapping

import torch
from numpy.random import default_rng

from bounds.accounting import Gaussian, PoissonSampled, SelfComposed, privacy_record
from pacdp import Network, Private, certify
from pacdp.algorithms import SGLD
from pacdp.certify import BoundSet
from pacdp.certify.trajectory import poisson_sums
from pacdp.cli.config import Run
from pacdp.cli.private.config import METHODS
from pacdp.models import Architecture
from pacdp.problem import Problem
from pacdp.verify.certificate import check_certificate
from tests.edits import seen
from tests.marks import made_once
from tests.pacdp.certify.trajectory_toys import certified, verdicts

RUN = SelfComposed(event=PoissonSampled(sample_rate=0.02, event=Gaussian(noise_multiplier=3.3)), count=50)
CLIPPED = SGLD(tau=40.0, step_size=0.5, batch_size=64, clip_norm=1.0)
PROBLEM = Problem(dataset="digits2", architecture=Architecture(hidden=(4,)), train_size=600)


@made_once
def folder(tmp_path_factory):
    run = Run(problem=PROBLEM, sampler=CLIPPED, epochs=2.0, records=1)
    return certified(run, tmp_path_factory.mktemp("clipped"))


def test_a_clipped_chain_pays_less_for_its_sums_than_for_its_privacy(folder):
    path, report = folder
    of_weights = {one["name"]: one for one in report["certificates"] if one["of"] == "weights"}
    cheap, dear = of_weights["poisson_sum_kl_chernoff"], of_weights["private_kl_chernoff"]
    assert (cheap["status"], cheap["inputs"]["risk"]) == ("rigorous", dear["inputs"]["risk"])
    assert cheap["inputs"]["risk"] < cheap["value"] < dear["value"]
    assert seen(check_certificate(cheap)) == {"follows"}
    assert verdicts(path, report)["report"] == "follows"


def test_planted_noise_of_another_event_is_seen(folder):
    """A certificate in itself sound, for noise a tenth larger than that of the settings."""
    path, report = folder
    (cheap,) = [one for one in report["certificates"] if one["name"] == "poisson_sum_kl_chernoff"]

    def louder(event):
        if isinstance(event, Mapping):
            return {k: 1.1 * v if k == "noise_multiplier" else louder(v) for k, v in event.items()}
        return [louder(one) for one in event] if isinstance(event, list) else event

    event = louder(json.loads(cheap["inputs"]["sum_event"]))
    other = {**cheap, "inputs": {**cheap["inputs"], "sum_event": json.dumps(event)}}
    changed = {**report, "certificates": [other]}
    assert verdicts(path, changed)["report"] == "does not follow"


def test_a_released_network_has_both_certificates_where_its_steps_are_sums():
    rng = default_rng(0)
    inputs = torch.tensor(rng.normal(size=(500, 3)), dtype=torch.float32)
    bound = BoundSet(inputs=inputs, labels=torch.tensor(rng.integers(0, 2, 500)))
    law = Network(network=lambda x: x[:, 0], of="predictor")
    claim = privacy_record(event=RUN, adjacency="add-remove")
    sums = poisson_sums(RUN, whose="the settings of a test", noise="a test")
    private, found = (certify(law, bound, prior=Private(privacy=claim, sums=each)) for each in (None, sums))
    assert [one.name for one in private.certificates] == ["private_kl_chernoff"]
    assert [one.name for one in found.certificates] == ["poisson_sum_kl_chernoff", "private_kl_chernoff"]
    first, second = found.certificates
    assert first.value < second.value
    assert {one.name for one in first.hypotheses} >= {"batches secret and Poisson", "contributions bounded"}


def test_choices_by_scores_are_no_sums():
    assert {name for name, method in METHODS.items() if not method.NOISY_SUMS} == {"p3sgd", "dp-sgld-head"}
