"""Langevin steps of the engine against forward+backward alone, plain loops and a peer, side by side on one thread."""

import argparse
from itertools import count

import torch

from benchmarks.plain import Plain, posteriors_sgld
from benchmarks.timing import in_turn, publish, tables
from benchmarks.workload import ARCHITECTURES, BATCH, TAU, chain_steps, data, network, objective
from pacdp.algorithms import EntropySGD, build
from pacdp.chains import Keys
from pacdp.data import Dataset

INNER = 20


def compare(name: str, dataset: Dataset, *, steps: int, rounds: int) -> dict[str, object]:
    """Milliseconds a chain-step, and ratios of the least processor times."""
    ours, keys, ticks = objective(name, dataset), Keys.derive([0]), count()
    weights = ours.weights()
    entropy = build(EntropySGD(tau=TAU, inner_steps=INNER), ours)
    outer = entropy.init(weights)
    plain, reference, peer = (Plain(network(name), dataset) for _ in range(3))
    stepwise = in_turn(
        {
            "SGLD step": chain_steps(ours, steps=1),
            "step that keeps norms": chain_steps(
                objective(name, dataset, keep_norms=True), steps=1
            ),
            "its gradient alone": lambda: ours.estimate(weights, keys, next(ticks)),
            "forward+backward by autograd": plain.forward_backward,
            "plain loop": plain.sgld,
            "posteriors": posteriors_sgld(peer),
        },
        rounds=rounds,
        calls=steps,
    )
    outer_steps = in_turn(
        {
            "Entropy-SGLD inner step": lambda: entropy.step(outer, keys),
            "reference Entropy-SGLD inner step": reference.entropy_sgld,
        },
        rounds=rounds,
    )
    found = tables(stepwise, 1e3 / steps) | tables(outer_steps, 1e3 / INNER)
    least = {label: own["least of the processor"] for label, own in found.items()}
    step, autograd = least["SGLD step"], least["forward+backward by autograd"]
    return {
        "parameters": ours.dim,
        **{f"{label}, ms": own for label, own in found.items()},
        "step / its gradient": step / least["its gradient alone"],
        "step / forward+backward by autograd": step / autograd,
        "step that keeps norms / step": least["step that keeps norms"] / step,
        "plain loop / step": least["plain loop"] / step,
        "posteriors / step": least["posteriors"] / step,
        "reference Entropy-SGLD / ours": least["reference Entropy-SGLD inner step"]
        / least["Entropy-SGLD inner step"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=9)
    sizes = vars(parser.parse_args())
    torch.set_num_threads(1)
    dataset = data()
    found = {f"{name}, 1 thread": compare(name, dataset, **sizes) for name in ARCHITECTURES}
    publish("chains", {"data": f"{dataset.name}, n = {dataset.n}", "batch": BATCH, **found})


if __name__ == "__main__":
    main()
