"""How steps per second grow with the number of chains and fall with their dimension: one table, one plot."""

import torch

from benchmarks.timing import RESULTS, in_turn, publish
from benchmarks.workload import BATCH, LOSS, chain_steps, data
from pacdp.cli.figures import style
from pacdp.data import Dataset
from pacdp.models import Architecture, build
from pacdp.objective import Objective

CHAINS = (1, 2, 4, 8, 16, 32, 64)
WIDTHS = (10, 30, 100, 300, 1000)
STEPS = 20


def rate(dataset: Dataset, *, width: int, chains: int) -> tuple[int, dict[str, float]]:
    """Weights of one chain, and milliseconds of a chain-step of SGLD on a network with one hidden layer."""
    generator = torch.Generator().manual_seed(0)
    model = build(
        Architecture(hidden=(width,)), input_shape=(1, 28, 28), classes=2, generator=generator
    )
    objective = Objective(model, LOSS, dataset, batch_size=BATCH)
    run = chain_steps(objective, chains=chains, steps=STEPS)
    return objective.dim, in_turn({"run": run}, rounds=5)["run"].table(1e3 / (chains * STEPS))


def main() -> None:
    torch.set_num_threads(2)
    dataset = data()
    by_chains = {chains: rate(dataset, width=100, chains=chains)[1] for chains in CHAINS}
    by_dim = dict(rate(dataset, width=width, chains=1) for width in WIDTHS)
    publish(
        "scaling", {"ms a chain-step by chains, fc(100)": by_chains, "ms a step by weights": by_dim}
    )
    drawn, ((left, right),) = style.figure(1, 2, width=4.5)
    for axes, values, label in (
        (left, by_chains, "chains of 78,601 weights"),
        (right, by_dim, "weights of one chain"),
    ):
        rates = [1e3 / table["least"] for table in values.values()]
        axes.plot(list(values), rates, marker="o", color="C0")
        axes.set(xscale="log", yscale="log", xlabel=label, ylabel="chain-steps a second")
    style.save(drawn, RESULTS / "scaling")


if __name__ == "__main__":
    main()
