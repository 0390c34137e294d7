"""What chains, methods and schedules refuse, and in which words."""

import dataclasses
from functools import partial

import pytest
import torch
from exact_laws import EXACT
from test_chain import EXAMPLES
from toys import keys_of

from pacdp import schedules
from pacdp.algorithms import PSGLD, SGD, SGHMC, SGLD, EntropySGD, build
from pacdp.layers.priors import law_of
from pacdp.private import DPSGD, Mechanism
from tests.refusals import refuses


def huge(t):
    return 1e10


COOLED = SGLD(tau=10.0, cooling=lambda t: 0.0)
wrong = partial(pytest.param, marks=pytest.mark.wrong_types)


def together(kind, **other):
    return partial(build, [EXAMPLES[kind], dataclasses.replace(EXAMPLES[kind], **other)], EXACT)


def a_step(make, *chains):
    def run():
        sampler = make()
        sampler.step(sampler.init(torch.ones(len(chains), 4)), keys_of(*chains))

    return run


PUBLIC = Mechanism(clip_norm=0.5, sample_rate=0.1, expected_batch_size=10.0, steps=40)
HUGE = [SGLD(tau=10.0, step_size=size, decay=huge) for size in (0.1, 1e300)]
REFUSED = [
    *((partial(EXAMPLES[kind].promise, 500, 3), f"steps of {kind.__name__} have no privacy accounting")
      for kind in (SGD, PSGLD, SGHMC)),
    (partial(EXAMPLES[PSGLD].step, 1), "steps of PSGLD are not sums over the records plus Gaussian noise"),
    (together(SGLD, clip_norm=1.0), "chains of one batch must agree on clip_norm"),
    (together(EntropySGD, inner_steps=3), "chains of one batch must agree on inner_steps"),
    (partial(build, [], EXACT), "one chain or more"),
    (partial(schedules.cyclical, period=0), "> 0, got 0"),
    (a_step(partial(build, COOLED, EXACT), 0), "the schedule gives τ = 0.0 at step 1: expected a finite number > 0"),
    (a_step(partial(build, HUGE, EXACT), 0, 1), "step size inf at step 1"),
    wrong(partial(law_of, "uniform", 1.0), "one of none, normal, laplace, .*got 'uniform'"),
    wrong(lambda: DPSGD(prior="flat").add_data_free_gradient(torch.nn.Linear(1, 1), PUBLIC), "got 'flat'"),
]  # fmt: skip


test_what_has_no_meaning_is_refused = refuses(REFUSED)
