"""The empirical risk of a Gaussian posterior on 30,000 MNIST digits: a draw for each example against whole networks.

Peers draw 150,000 whole networks, pass all examples through each and pay ln(2/failure_prob)/150000; that loop is timed
over a few draws, in the batch size that suits it best, and extrapolated. Ours is run in full, with as many passes as
make ln(1/failure_prob)/terms no larger. One core.
"""

import math
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.timing import in_turn, publish
from pacdp.data import load
from pacdp.losses import zero_one
from pacdp.models import Architecture, build
from pacdp.posterior import GaussianPosterior
from pacdp.stochastic import mean_risks, passes_for

N = 30_000
FAILURE_PROB = 0.01
PEER_DRAWS = 150_000
PEER_BATCHES = (64, 250, 1000)
STD = 0.03
ROUNDS = 3


def trained(name: str, inputs: Tensor, labels: Tensor, *, steps: int = 300) -> nn.Module:
    """A network after a few hundred steps of Adam: good enough to have a risk worth bounding."""
    generator = torch.Generator().manual_seed(0)
    module = build(
        Architecture(name=name),  # type: ignore[arg-type]
        input_shape=(1, 28, 28), classes=10, generator=generator,
    )  # fmt: skip
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
    for _ in range(steps):
        rows = torch.randint(0, len(inputs), (128,), generator=generator)
        loss = nn.functional.cross_entropy(module(inputs[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return module.eval()


def whole_network(
    module: nn.Module, posterior: GaussianPosterior, inputs: Tensor, labels: Tensor, batch_size: int
) -> Callable[[], int]:
    """One round of the peers' loop: errors of one drawn network on all examples."""
    generator = torch.Generator().manual_seed(0)

    @torch.no_grad()
    def errors() -> int:
        weights = posterior.sample(generator)
        found = 0
        for start in range(0, len(inputs), batch_size):
            logits = torch.func.functional_call(
                module, weights, (inputs[start : start + batch_size],)
            )
            found += int((logits.argmax(dim=1) != labels[start : start + batch_size]).sum())
        return found

    return errors


def compare(
    name: str, inputs: Tensor, labels: Tensor, bound: tuple[Tensor, Tensor]
) -> dict[str, object]:
    """Both ways on one network: seconds, slack, terms a second, and ratios at equal slack."""
    module = trained(name, inputs, labels)
    posterior = GaussianPosterior.around(module, std=STD)
    images, digits = bound
    slack = math.log(2 / FAILURE_PROB) / PEER_DRAWS
    passes = passes_for(slack_nats=slack, n=N, failure_prob=FAILURE_PROB)
    arguments = {"inputs": images, "labels": digits, "losses": (zero_one(),), "seed": 0}
    times = in_turn(
        {
            "one pass, a draw for each example": lambda: mean_risks(
                module, posterior, passes=1, **arguments
            ),
            **{
                f"one whole network, batches of {size}": whole_network(
                    module, posterior, images, digits, size
                )
                for size in PEER_BATCHES
            },
        },
        rounds=ROUNDS,
    )
    start = time.perf_counter()
    (risk,) = mean_risks(module, posterior, passes=passes, **arguments)
    ours = time.perf_counter() - start
    peer = min(own.least for key, own in times.items() if key.startswith("one whole"))
    return {
        "seconds": {name: own.table(1.0) for name, own in times.items()},
        "ours": {
            "passes": passes, "terms": risk.terms, "slack, nats": math.log(1 / FAILURE_PROB) / risk.terms,
            "seconds, measured in full": ours, "terms a second": risk.terms / ours, "errors": risk.errors,
            "upper bound on the risk": risk.upper(FAILURE_PROB).value,
            "slack after a minute, nats": math.log(1 / FAILURE_PROB) * ours / (60 * risk.terms),
        },
        "peers": {
            "passes": PEER_DRAWS, "slack, nats": slack, "seconds, extrapolated": peer * PEER_DRAWS,
            "draws timed": ROUNDS, "terms a second": 1 / peer,
            "slack after a minute, nats": math.log(2 / FAILURE_PROB) * peer / 60,
        },
        "times fewer passes": PEER_DRAWS / passes,
        "times less wall time": peer * PEER_DRAWS / ours,
    }  # fmt: skip


def main() -> None:
    torch.set_num_threads(1)
    train, _ = load("mnist")
    inputs, labels = torch.tensor(train.inputs), torch.tensor(train.labels)
    bound = inputs[N:], labels[N:]
    publish(
        "monte_carlo", {name: compare(name, inputs[:N], labels[:N], bound) for name in ("fc600", "conv")}
    )  # fmt: skip


if __name__ == "__main__":
    main()
