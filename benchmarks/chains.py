"""Langevin steps of the engine against forward+backward alone, plain loops and a peer, side by side in one run."""

import argparse

import torch

from benchmarks.plain import Plain, posteriors_sgld
from benchmarks.timing import in_turn, publish
from benchmarks.workload import BATCH, TAU, chain_steps, data, network, objective
from pacdp.algorithms import EntropySGD, build
from pacdp.chains import Keys
from pacdp.data import Dataset

INNER = 20


def compare(name: str, dataset: Dataset, *, steps: int, rounds: int) -> dict[str, object]:
    """Milliseconds a chain-step and ratios of the least for one network with the threads that torch has now."""
    ours, keys = objective(name, dataset), Keys.derive([0])
    weights = ours.weights()
    entropy = build(EntropySGD(tau=TAU, inner_steps=INNER), ours)
    outer = entropy.init(weights)
    plain, reference, peer = (Plain(network(name), dataset) for _ in range(3))
    peer_step = posteriors_sgld(peer)

    def repeat(step):
        def run() -> None:
            for _ in range(steps):
                step()

        return run

    ticks = iter(range(10**9))
    times = in_turn(
        {
            "sgld": chain_steps(ours, chains=1, steps=steps),
            "norms": chain_steps(objective(name, dataset, keep_norms=True), chains=1, steps=steps),
            "gradient": repeat(lambda: ours.estimate(weights, keys, next(ticks))),
            "autograd": repeat(plain.forward_backward), "plain": repeat(plain.sgld), "posteriors": repeat(peer_step),
            "entropy": lambda: entropy.step(outer, keys), "reference": reference.entropy_sgld,
        },
        rounds=rounds,
    )  # fmt: skip
    inner = ("entropy", "reference")
    each = {
        label: own.table(1e3 / (INNER if label in inner else steps)) for label, own in times.items()
    }
    least = {label: table[compared()] for label, table in each.items()}
    return {
        "parameters": ours.dim,
        "SGLD step, ms": each["sgld"],
        "its gradient alone, ms": each["gradient"],
        "forward+backward by autograd, ms": each["autograd"],
        "plain loop, ms": each["plain"],
        "posteriors, ms": each["posteriors"],
        "Entropy-SGLD inner step, ms": each["entropy"],
        "reference Entropy-SGLD inner step, ms": each["reference"],
        "step / its gradient": least["sgld"] / least["gradient"],
        "step / forward+backward by autograd": least["sgld"] / least["autograd"],
        "step that keeps norms / step": least["norms"] / least["sgld"],
        "plain loop / step": least["plain"] / least["sgld"],
        "posteriors / step": least["posteriors"] / least["sgld"],
        "reference Entropy-SGLD / ours": least["reference"] / least["entropy"],
        "plain loop / forward+backward by autograd": least["plain"] / least["autograd"],
    }


def compared() -> str:
    """The time that is compared: on one thread that of the processor, in which waiting for others does not count."""
    return "least of the processor" if torch.get_num_threads() == 1 else "least"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()
    dataset = data()
    results: dict[str, object] = {"data": f"{dataset.name}, n = {dataset.n}", "batch": BATCH}
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        for name in ("fc(100)", "fc600", "conv"):
            key = f"{name}, {threads} thread" + ("s" if threads > 1 else "")
            results[key] = compare(name, dataset, steps=arguments.steps, rounds=arguments.rounds)
    publish("chains", results)


if __name__ == "__main__":
    main()
