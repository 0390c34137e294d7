"""Heads on fixed features by Gibbs laws over all labelled records but the first, which fix what the laws are.

Two ways: one head is drawn, exactly, from a law of convex quadratics around an anchor that the first records taught
(:mod:`pacdp.features.gibbs_head`); or nobody draws, and Gaussians lie around the law of logistic heads, one against the
rest, in the directions of the first records (:mod:`pacdp.features.ridge_head`).
"""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch

from experiments.runs.held_out import of_a_list
from experiments.study import Row
from pacdp import HeldOut, certify
from pacdp.certify import BoundSet
from pacdp.certify.heads import draw_price
from pacdp.cli.runtime import Runtime
from pacdp.cli.sweep.jobs import Job, single
from pacdp.data import Dataset, load
from pacdp.features import anchored_head, nearest, ridge_heads
from pacdp.features.named import seen_through

DRAWN, UNDRAWN = "drawn", "around the law"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadsConfig:
    """Everything that decides the numbers. They were chosen with MNIST in view, among fewer than ``compared``."""

    way: Literal["drawn", "around the law"]
    dataset: str
    features: str
    ridge: float
    tau: float
    share: float = 0.01
    """Of a direction's variance, in the norm of the law that nobody draws from."""
    bias: float = 10.0
    exact_below: int = 2
    first: int = 5000
    """Records that fix the law, and that no certificate counts."""
    compared: int = 1000
    failure_prob: float = 0.05
    seed: int = 0


def conduct(config: HeadsConfig, runtime: Runtime, folder: Path) -> Row:
    """A job's report, with the CPU seconds that law, draw and price took beyond the features."""
    sets = [_seen(one, config) for one in load(config.dataset, root=runtime.data_root)]
    (inputs, labels), test = sets[0], BoundSet(inputs=sets[1][0], labels=sets[1][1])
    first, classes = slice(0, config.first), int(labels.max()) + 1
    others = BoundSet(inputs=inputs[first], labels=labels[first])
    bound = BoundSet(inputs=inputs[config.first :], labels=labels[config.first :])
    how = {"classes": classes, "ridge": config.ridge, "tau": config.tau, "normaliser": bound.n,
           "provenance": f"{config.features}, functions of one image without parameters that were learnt"}  # fmt: skip
    before = time.process_time()
    if config.way == DRAWN:
        law = anchored_head(others.inputs, others.labels, seed=config.seed, **how)
        taught = time.process_time()
        draw_price(law.draw(bound.inputs, bound.labels), law.tau)
    else:
        heads = ridge_heads(others.inputs, share=config.share, bias=config.bias, **how)
        taught = time.process_time()
        law = nearest(heads, bound.inputs, bound.labels, config.exact_below)
    learnt = time.process_time()
    found = certify(law, bound, prior=HeldOut(rows=others.rows), test=test, failure_prob=config.failure_prob,
                    settings=of_a_list(config.compared))  # fmt: skip
    seconds = {"law": taught - before, "posterior": learnt - taught, "certificate": time.process_time() - learnt}
    told = {f"seconds_{name}": f"{value:.2f}" for name, value in seconds.items()}
    return replace(found, details={**found.details, **told}).to_dict()


def _seen(data: Dataset, config: HeadsConfig) -> tuple[torch.Tensor, torch.Tensor]:
    rows = torch.tensor(seen_through(data, config.features).inputs)
    if config.way == DRAWN:
        rows = torch.cat([rows, torch.ones(len(rows), 1)], dim=1)
    return rows, torch.tensor(data.labels)


HEADS = single(conduct)


def jobs(smoke: bool, seed: int) -> list[Job]:
    """A drawn head of ten classes, and heads that nobody draws of two and of ten; for ``smoke`` on digits."""
    drawn = HeadsConfig(way=DRAWN, dataset="mnist", features="oriented-gradients", ridge=0.01, tau=1e4, seed=seed)
    around = HeadsConfig(way=UNDRAWN, dataset="mnist2", features="some-waves", ridge=5e-4, tau=3e4, seed=seed)
    found = [drawn, around, replace(around, dataset="mnist", ridge=1e-3)]
    if smoke:
        small = {"dataset": "digits", "features": "coarse-gradients", "first": 200, "tau": 100.0}
        found = [replace(drawn, **small), replace(around, **small)]
    return [
        Job(key=f"{one.way.replace(' ', '-')}-{one.dataset}", kind=HEADS, config=one,
            tags={"dataset": one.dataset, "way": one.way})
        for one in found
    ]  # fmt: skip
