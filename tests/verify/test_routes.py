"""Fresh reports of every route of `pacdp.certify` follow."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import bounds
from bounds import accounting
from pacdp import (
    BoundSet,
    DataFree,
    Finite,
    GaussianPosterior,
    HeldOut,
    MonteCarlo,
    Network,
    Prior,
    Private,
    certify,
)
from pacdp.data.rows import Rows
from pacdp.losses import ramp
from pacdp.verify.claim import CANNOT, FOLLOWS
from pacdp.verify.report import check_report

N = 400
EVENT = accounting.SelfComposed(
    event=accounting.PoissonSampled(sample_rate=0.05, event=accounting.Gaussian(noise_multiplier=30.0)), count=200
)
_OTHERS = Rows.of(np.full((3, 5), 9.0), np.arange(3), np.array([10_000, 10_001, 10_002]))


def _sets(*, people: bool = False) -> tuple[BoundSet, BoundSet]:
    rng = np.random.default_rng(3)
    found = []
    for start in (0, N):
        inputs = torch.tensor(rng.normal(size=(N, 5)), dtype=torch.float32)
        labels = (inputs[:, 0] + 0.5 * torch.tensor(rng.normal(size=N)) > 0).long()
        whose = start + np.arange(N) // 4 if people else None
        found.append(BoundSet(inputs=inputs, labels=labels, people=whose))
    return found[0], found[1]


def _network() -> nn.Module:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(5, 2)).eval()
    with torch.no_grad():
        network[0].weight[:] = torch.tensor([[-1.0, 0, 0, 0, 0], [1.0, 0, 0, 0, 0]])
        network[0].bias[:] = 0.0
    return network


def _gaussian(source: Any, data: BoundSet, test: BoundSet | None, **more: Any) -> Any:
    network = _network()
    prior = GaussianPosterior.around(network, std=0.2)
    law = GaussianPosterior(means={k: v + 0.01 for k, v in prior.means.items()}, stds=prior.stds)
    effort = MonteCarlo(passes=3)
    return certify(law, data, prior=Prior(law=prior, source=source), network=network, test=test, monte_carlo=effort,
                   **more)  # fmt: skip


def _claims() -> dict[str, bounds.PrivacyClaim]:
    return {
        "gaussian": bounds.GaussianDP(mu=0.02, adjacency="add-remove", status="accounted"),
        "composed": accounting.privacy_record(event=EVENT, adjacency="add-remove"),
        "stationary": bounds.PureDP(epsilon=0.01, adjacency="replace-one", status="assumes stationarity"),
    }


ROUTES: dict[str, Callable[[BoundSet, BoundSet], Any]] = {
    "independent prior": lambda data, test: _gaussian(DataFree(), data, test, losses=(ramp(),)),
    "held-out prior": lambda data, test: _gaussian(HeldOut(rows=_OTHERS), data, test),
    **{
        f"private prior, {name}": lambda data, test, claim=claim: _gaussian(Private(privacy=claim), data, test)
        for name, claim in _claims().items()
    },
    "one network": lambda data, test: certify(Network(network=_network()), data, test=test),
    "a released network": lambda data, test: certify(
        Network(network=_network()), data, prior=Private(privacy=_claims()["gaussian"]), test=test
    ),
    "finitely many": lambda data, test: certify(
        Finite(networks=[_network(), _network()], epsilon=0.1), data, test=test
    ),
}


@pytest.mark.parametrize("people", [False, True])
@pytest.mark.parametrize("name", ROUTES)
def test_every_route(name: str, people: bool) -> None:
    if people and (name == "finitely many" or "privat" in name or "released" in name):
        return  # no route counts people there, or it needs a claim about them
    report = ROUTES[name](*_sets(people=people)).to_dict()
    assert report["certificates"]
    if report["privacy"] and report["privacy"]["record"]["notion"] == "privacy loss distribution":
        unknown = [one for one in check_report(report) if one.verdict != FOLLOWS]
        assert {one.verdict for one in unknown} == {CANNOT}  # the route was not told what ran
        report["privacy"]["event"] = accounting.event_to_dict(EVENT)
    found = check_report(report)
    odd = [one for one in found if one.verdict != FOLLOWS]
    betting = [one for one in odd if "betting" in one.subject and one.verdict == CANNOT]
    assert odd == betting, odd
