"""Steps of clipped chains: the loop that took one chain's gradients after the other, and compiled sums, in one run.

The loop is kept here alone, as it was at commit 71657c2. Both draw the same Poisson batches of two-class MNIST and add
the same noise; chains whose batches and noise come from secret keys run beside them. A chain-step is a gradient and the
fused update of one chain. Candidates take turns, so that a drifting clock touches all alike; what is compared are the
least times, and their medians stand beside them. On a machine that others use, processor time on one thread is the
number to trust: waiting for a processor is not in it, and chains on two threads share nothing but the memory.

The floor is what cannot be left out: the multiplications and additions of the layers between hidden units at the rate
of the fastest matrix product that torch has on this machine, measured beside them, and of the first layer the non-zero
inputs alone, at the same rate; the draw of a batch; and the pass over six vectors of weights that is the update.
"""

import argparse
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from benchmarks.timing import in_turn, publish
from benchmarks.workload import BATCH, LOSS, TAU, data, network
from pacdp.chains import NOISE, Keys, SecretKeys, langevin
from pacdp.chains.native.products import product
from pacdp.data import Dataset
from pacdp.losses import in_error
from pacdp.objective import Objective
from pacdp.step.gradients import clipped_gradient

CHAINS, CLIP_NORM, RATE = (1, 4, 16), 1.0, 0.05
NETWORKS = ("fc(100)", "fc600", "conv")
LAYERS = {"fc(100)": ((784, 100), (100, 1)), "fc600": ((784, 600), (600, 600), (600, 1))}


class Chains:
    """Clipped SGLD steps of K chains, each with its own minibatches."""

    def __init__(self, objective: Objective, keys: Keys) -> None:
        self.objective, self.keys = objective, keys
        self.weights = objective.weights().repeat(keys.count, 1)
        self.gradient, self.out, self.tick = (
            torch.zeros_like(self.weights),
            torch.empty_like(self.weights),
            0,
        )

    def compiled(self) -> None:
        """One step of all chains."""
        self.tick += 1
        self._move(self.objective.estimate(self.weights, self.keys, self.tick).gradient)

    def loop(self) -> None:
        """The same, chain after chain, through the reference."""
        self.tick += 1
        ours, inputs = self.objective, self.objective.examples[0]
        drawn, group = ours.draw(self.keys, self.tick)
        found: list[Tensor] = []
        for k, g in enumerate(group):
            labels = ours.examples[1][drawn[g]]
            seen = clipped_gradient(
                ours.model, ours.layout.views(self.weights[k]), inputs[drawn[g]], labels, LOSS,
                clip_norm=CLIP_NORM, divisor=float(BATCH), into=ours.layout.views(self.gradient[k]),
            )  # fmt: skip
            found.append(
                torch.stack(
                    [seen.mean_loss, in_error(seen.outputs, labels).to(self.weights.dtype).mean()]
                )
            )
        torch.stack(found, dim=1)
        self._move(self.gradient)

    def draw(self) -> None:
        """The minibatches alone."""
        self.tick += 1
        self.objective.draw(self.keys, self.tick)

    def update(self) -> None:
        """Drift and noise alone."""
        self._move(self.gradient)

    def _move(self, gradient: Tensor) -> None:
        # the weights stay, so that every step is as hard as the last
        langevin(self.weights, keep=1.0, gradient=gradient, rate=RATE, scale=(2 * RATE / TAU) ** 0.5,
                 keys=self.keys, stream=NOISE, tick=self.tick, out=self.out)  # fmt: skip


def rates(*, rounds: int) -> dict[str, float]:
    """GFLOP a second of one product [128, 600] x [600, 600] on one thread, by what the chains use and by torch.mm."""
    left, right = torch.randn(BATCH, 600), torch.randn(600, 600)
    runs: dict[str, Callable[[], object]] = {
        "product": lambda: product(left, right), "torch.mm": lambda: torch.mm(left, right),
    }  # fmt: skip
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    times = in_turn({name: _repeat(run, 20) for name, run in runs.items()}, rounds=10 * rounds)
    torch.set_num_threads(threads)
    operations = 20 * 2e-9 * BATCH * 600 * 600
    return {f"{name}, GFLOP/s": operations / own.least for name, own in times.items()}


def work(name: str, lit: float) -> float:
    """Multiplications and additions of a step: forward, weight gradients, input gradients of all layers but the first.

    Args:
        lit: share of inputs that are not zero.
    """
    first, *rest = LAYERS[name]
    return 2 * BATCH * (2 * lit * first[0] * first[1] + 3 * sum(a * b for a, b in rest))


def compare(
    name: str, dataset: Dataset, rate: float, *, rounds: int
) -> dict[str, dict[str, float]]:
    """Milliseconds a chain-step for one network and every number of chains."""
    objective = Objective(network(name), LOSS, dataset, batch_size=BATCH, clip_norm=CLIP_NORM)
    threads, found = torch.get_num_threads(), {}
    for count in CHAINS:
        chains = Chains(objective, Keys.derive(range(count)))
        secret = Chains(objective, SecretKeys.drawn(range(count)))
        slow = {"loop": chains.loop}  # in a convolutional network a fifth of a second a chain
        fast = {"compiled": chains.compiled, "draw": chains.draw, "update": chains.update}
        fast |= {"secret": secret.compiled, "secret update": secret.update}
        times = in_turn(fast if name == "conv" else fast | slow, rounds=rounds)
        if name == "conv":
            times |= in_turn(slow, rounds=max(2, rounds // 10))
        row: dict[str, float] = {}
        for label, own_times in times.items():
            for clock, own in zip(
                ("", "processor "), 1e3 * np.array(own_times) / count, strict=True
            ):
                row[f"{label}, least {clock}ms"] = float(own.min())
                row[f"{label}, median {clock}ms"] = float(np.median(own))
        if name in LAYERS:
            lit = float(np.count_nonzero(dataset.inputs) / dataset.inputs.size)
            alone = 1e-6 * work(name, lit) / rate
            row["floor, processor ms"] = alone + sum(
                row[f"{part}, least processor ms"] for part in ("draw", "update")
            )
        for clock in ("", "processor "):
            row[f"loop / compiled, {clock}time"] = (
                row[f"loop, least {clock}ms"] / row[f"compiled, least {clock}ms"]
            )
            row[f"secret / compiled, {clock}time"] = (
                row[f"secret, least {clock}ms"] / row[f"compiled, least {clock}ms"]
            )
        found[
            f"{name}, {count} chain{'s' if count > 1 else ''}, {threads} thread{'s' if threads > 1 else ''}"
        ] = row
        print(found, flush=True)
    return found


def _repeat(run: Callable[[], object], times: int) -> Callable[[], None]:
    def repeated() -> None:
        for _ in range(times):
            run()

    return repeated


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()
    dataset = data()
    speed = rates(rounds=arguments.rounds)
    results: dict[str, object] = {
        "data": f"{dataset.name}, n = {dataset.n}",
        "batch": BATCH,
        "clip norm": CLIP_NORM,
        **speed,
    }
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        for name in NETWORKS:
            results |= compare(name, dataset, speed["product, GFLOP/s"], rounds=arguments.rounds)
    publish("chains_clipped", results)


if __name__ == "__main__":
    main()
