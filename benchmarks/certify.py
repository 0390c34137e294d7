"""Certifying 60,000 MNIST digits with a Gaussian posterior: what checking the hypotheses adds to the draws. One core.

The draws are the sampled risk alone, as they were before hypotheses were checked; the whole is ``pacdp.certify`` with a
test set, so that the ratio includes judging single networks. Row hashes and set-up probes are timed by themselves.
"""

import torch

from benchmarks.monte_carlo import trained
from benchmarks.timing import in_turn, publish
from pacdp import GaussianPosterior, Prior, certify
from pacdp.certify import BoundSet, DataFree, MonteCarlo
from pacdp.data import load
from pacdp.data.row_checks import require_apart, require_plain
from pacdp.data.rows import Rows
from pacdp.losses import brier, zero_one
from pacdp.stochastic import mean_risks
from pacdp.trials.buffers import Holdings

ROUNDS = 3
STD = 0.03


def main() -> None:
    """Print the results and write them to benchmarks/results/certify.json."""
    train, test = load("mnist")
    inputs, labels = torch.tensor(train.inputs), torch.tensor(train.labels)
    module = trained("fc600", inputs, labels).eval()
    law = GaussianPosterior.around(module, std=STD)
    prior = Prior(law=law, source=DataFree())
    few = slice(0, 256)

    def hashes() -> None:
        rows, others = Rows.of(inputs, labels), Rows.of(test.inputs, test.labels)
        require_plain(rows)
        require_apart(others, rows)
        Holdings(module, paid=tuple(law.means)).require_none(inputs)

    def draws(part: slice) -> None:
        mean_risks(
            module,
            law,
            inputs=inputs[part],
            labels=labels[part],
            losses=(zero_one(), brier()),
            passes=1,
            seed=0,
        )

    def whole() -> None:
        bound, fresh = (BoundSet.part(data) for data in (train, test))
        certify(
            law, bound, prior=prior, network=module, test=fresh, monte_carlo=MonteCarlo(passes=1)
        )

    times = in_turn(
        {
            "row checks": hashes,
            "probes and 256 draws": lambda: draws(few),
            "60,000 draws": lambda: draws(slice(None)),
            "certify": whole,
        },
        rounds=ROUNDS,
    )
    publish("certify", {f"{name}, seconds": own.table(1.0) for name, own in times.items()})


if __name__ == "__main__":
    main()
