"""How steps per second grow with the number of chains and fall with their dimension: one table, one plot."""

import torch

from benchmarks.timing import RESULTS, publish, side_by_side
from benchmarks.workload import BATCH, LOSS, TAU, data
from pacdp.algorithms import SGLD
from pacdp.algorithms import build as sampler
from pacdp.chains import Keys
from pacdp.cli.figures import style
from pacdp.data import Dataset
from pacdp.models import Architecture, build
from pacdp.objective import Objective

CHAINS = (1, 2, 4, 8, 16, 32, 64)
WIDTHS = (10, 30, 100, 300, 1000)
STEPS = 20


def rate(dataset: Dataset, *, width: int, chains: int) -> tuple[int, float]:
    """Weights of one chain, and chain-steps a second of SGLD on a network with one hidden layer."""
    generator = torch.Generator().manual_seed(0)
    model = build(Architecture(hidden=(width,)), input_shape=(1, 28, 28), classes=2, generator=generator)
    objective = Objective(model, LOSS, dataset, batch_size=BATCH)
    steps, keys = sampler(SGLD(tau=TAU), objective), Keys.derive([0] * chains, range(chains))
    start = steps.init(objective.weights().repeat(chains, 1))

    def run() -> None:
        state = start
        for _ in range(STEPS):
            state, _ = steps.step(state, keys)

    seconds = side_by_side({"run": run}, rounds=5)["run"]
    return objective.dim, chains * STEPS / seconds


def main() -> None:
    torch.set_num_threads(2)
    dataset = data()
    by_chains = {chains: rate(dataset, width=100, chains=chains)[1] for chains in CHAINS}
    by_dim = dict(rate(dataset, width=width, chains=1) for width in WIDTHS)
    publish("scaling", {"chain-steps a second by chains, fc(100)": by_chains, "steps a second by weights": by_dim})
    drawn, ((left, right),) = style.figure(1, 2, width=4.5)
    for axes, values, label in ((left, by_chains, "chains of 78,601 weights"), (right, by_dim, "weights of one chain")):
        axes.plot(list(values), list(values.values()), marker="o", color="C0")
        axes.set(xscale="log", yscale="log", xlabel=label, ylabel="chain-steps a second")
    style.save(drawn, RESULTS / "scaling")


if __name__ == "__main__":
    main()
