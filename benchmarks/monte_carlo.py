"""The empirical risk of a Gaussian posterior on 30,000 MNIST digits: a draw for each example against whole networks.

Peers draw 150,000 whole networks, pass all examples through each and pay ln(2/failure_prob)/150000; that loop is timed
over a few draws, in the batch size that suits it best, and extrapolated. Ours takes as many passes as make
ln(1/failure_prob)/terms no larger. One core.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.timing import in_turn, publish, tables
from benchmarks.workload import network
from pacdp.data import load
from pacdp.losses import zero_one
from pacdp.posterior import GaussianPosterior
from pacdp.stochastic import mean_risks, passes_for

N = 30_000
FAILURE_PROB = 0.01
PEER_DRAWS = 150_000
PEER_BATCHES = (64, 250, 1000)
STD = 0.03
ROUNDS = 3
OURS = "one pass, a draw for each example"


def whole_network(
    module: nn.Module, posterior: GaussianPosterior, inputs: Tensor, labels: Tensor, size: int
) -> Callable[[], int]:
    """One round of the peers' loop: errors of one drawn network on all examples."""
    generator = torch.Generator().manual_seed(0)

    @torch.no_grad()
    def errors() -> int:
        weights = posterior.sample(generator)
        parts = zip(inputs.split(size), labels.split(size), strict=True)
        drawn = ((torch.func.functional_call(module, weights, (x,)), y) for x, y in parts)
        return sum(int((logits.argmax(dim=1) != y).sum()) for logits, y in drawn)

    return errors


def compare(name: str, inputs: Tensor, labels: Tensor) -> dict[str, object]:
    """Both ways on one network: seconds of a pass and of all passes, and their ratio."""
    module = network(name, classes=10).eval()
    posterior = GaussianPosterior.around(module, std=STD)
    slack = math.log(2 / FAILURE_PROB) / PEER_DRAWS
    passes = passes_for(slack_nats=slack, n=N, failure_prob=FAILURE_PROB)

    def fresh() -> None:
        mean_risks(
            module, posterior, inputs=inputs, labels=labels, losses=(zero_one(),), seed=0, passes=1
        )

    whole = {
        f"one whole network, batches of {size}": whole_network(
            module, posterior, inputs, labels, size
        )
        for size in PEER_BATCHES
    }
    found = tables(in_turn({OURS: fresh, **whole}, rounds=ROUNDS))
    ours = passes * found[OURS]["least"]
    theirs = PEER_DRAWS * min(found[name]["least"] for name in whole)
    return {
        "seconds": found,
        "passes": {"ours": passes, "peers": PEER_DRAWS},
        "seconds in all": {"ours": ours, "peers, extrapolated": theirs},
        "times less wall time": theirs / ours,
    }


def main() -> None:
    torch.set_num_threads(1)
    train, _ = load("mnist")
    inputs, labels = torch.tensor(train.inputs[:N]), torch.tensor(train.labels[:N])
    publish("monte_carlo", {name: compare(name, inputs, labels) for name in ("fc600", "conv")})


if __name__ == "__main__":
    main()
