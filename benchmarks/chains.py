"""Langevin steps of the engine against forward+backward alone, plain loops and a peer, side by side in one run."""

import argparse

import torch

from benchmarks.plain import Plain, posteriors_sgld
from benchmarks.timing import publish, side_by_side
from benchmarks.workload import TAU, data, network, objective
from pacdp.algorithms import SGLD, EntropySGD, build
from pacdp.chains import Keys
from pacdp.data import Dataset

INNER = 20


def compare(name: str, dataset: Dataset, *, steps: int, rounds: int) -> dict[str, float]:
    """Ratios for one network with the threads that torch has now."""
    ours, keys = objective(name, dataset), Keys.derive([0])
    weights = ours.weights()
    sgld = build(SGLD(tau=TAU), ours)
    entropy = build(EntropySGD(tau=TAU, inner_steps=INNER), ours)
    start, outer = sgld.init(weights), entropy.init(weights)
    plain, reference, peer = (Plain(network(name), dataset) for _ in range(3))
    peer_step = posteriors_sgld(peer)

    def repeat(step):
        def run() -> None:
            for _ in range(steps):
                step()

        return run

    def chain() -> None:
        state = start
        for _ in range(steps):
            state, _ = sgld.step(state, keys)

    ticks = iter(range(10**9))
    seconds = side_by_side(
        {
            "sgld": chain, "gradient": repeat(lambda: ours.estimate(weights, keys, next(ticks))),
            "autograd": repeat(plain.forward_backward), "plain": repeat(plain.sgld), "posteriors": repeat(peer_step),
            "entropy": lambda: entropy.step(outer, keys), "reference": reference.entropy_sgld,
        },
        rounds=rounds,
    )  # fmt: skip
    each = {label: 1e3 * value / steps for label, value in seconds.items()}
    inner = {label: 1e3 * seconds[label] / INNER for label in ("entropy", "reference")}
    return {
        "parameters": ours.dim,
        "SGLD step, ms": each["sgld"],
        "its gradient alone, ms": each["gradient"],
        "forward+backward by autograd, ms": each["autograd"],
        "plain loop, ms": each["plain"],
        "posteriors, ms": each["posteriors"],
        "Entropy-SGLD inner step, ms": inner["entropy"],
        "reference Entropy-SGLD inner step, ms": inner["reference"],
        "step / its gradient": each["sgld"] / each["gradient"],
        "step / forward+backward by autograd": each["sgld"] / each["autograd"],
        "plain loop / step": each["plain"] / each["sgld"],
        "posteriors / step": each["posteriors"] / each["sgld"],
        "reference Entropy-SGLD / ours": inner["reference"] / inner["entropy"],
        "plain loop / forward+backward by autograd": each["plain"] / each["autograd"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    dataset = data()
    results: dict[str, object] = {"data": f"{dataset.name}, n = {dataset.n}", "batch": 128}
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for name in ("fc(100)", "fc600", "conv"):
            key = f"{name}, {threads} thread" + ("s" if threads > 1 else "")
            results[key] = compare(name, dataset, steps=arguments.steps, rounds=arguments.rounds)
    publish("chains", results)


if __name__ == "__main__":
    main()
