"""What randomised networks, their posteriors and counts of their losses refuse, and in which words."""

import math
from dataclasses import replace
from functools import partial

import torch
from count_toys import count, data
from fresh_laws import random_posterior
from torch.nn import BatchNorm1d, Dropout, Linear, Sequential

from pacdp.losses import Loss, zero_one
from pacdp.posterior import GaussianPosterior
from pacdp.stochastic import fresh_pass, passes_for
from tests.pacdp.small_networks import Made
from tests.refusals import refuses

LINEAR, NORMED = Linear(4, 4), BatchNorm1d(4).eval()
ISOTROPIC = random_posterior(LINEAR, "isotropic")
BARE = replace(random_posterior(NORMED, "isotropic"), buffers={})
PAIR = {"w": torch.zeros(2)}


def applied(function):
    """A layer and a function of its outputs."""
    return Made(lambda own, x: function(own.layer(x)), layer=Linear(4, 4)).eval()


def passed(module, posterior=None):
    return partial(fresh_pass, module, posterior or random_posterior(module, "isotropic"), torch.randn(4, 4))


def law(means, **stds):
    return partial(GaussianPosterior, means=means, stds=stds)


def counted(function, n=37):
    return partial(count, n=n, losses=(Loss(name="odd", low=0.0, high=1.0, function=function),), batch_size=None)


def errors(logits, labels):
    return zero_one().function(logits, labels)


REFUSED = [
    (passed(Sequential(LINEAR, Dropout(0.5))), "eval"),
    (passed(Sequential(LINEAR, BatchNorm1d(4, track_running_stats=False)).eval()), "of the batch"),
    (passed(applied(lambda x: x - x.mean(dim=0))), "other examples"),
    (passed(applied(lambda x: x / 0.0)), "NaN or infinite"),
    (passed(LINEAR, random_posterior(Linear(5, 4), "isotropic")), "parameters of the module"),
    (passed(NORMED, BARE), "buffers of the module"),
    (law(PAIR, v=torch.ones(2)), "same parameters"),
    (law(PAIR, w=-torch.ones(2)), ">= 0"),
    (law(PAIR, w=torch.tensor(math.nan)), "finite"),
    (law({"w": torch.tensor([0.0, math.inf])}, w=torch.ones(2)), "diverged"),
    (partial(ISOTROPIC.kl_nats, random_posterior(Linear(5, 4), "isotropic")), "same parameters"),
    (partial(random_posterior(NORMED, "isotropic").kl_nats, BARE), "same buffers"),
    (partial(GaussianPosterior.around, LINEAR, std={"weight": 0.1}), "one std for each"),
    (counted(lambda logits, labels: errors(logits, labels).mean()), "expected one value an example"),
    (counted(lambda logits, labels: errors(logits, labels).mean().expand(len(labels))), "on the other examples"),
    (counted(lambda logits, labels: errors(logits, labels) * (len(labels) < 40), n=60), "on the other examples"),
    (partial(count, labels=data(5)[1]), "one label"),
    (partial(count, passes=0), "passes"),
    (partial(count, passes=2**30), "fewer passes"),
    (partial(passes_for, slack_nats=0.1, n=0, failure_prob=0.1), "n"),
]  # fmt: skip


test_what_has_no_meaning_is_refused = refuses(REFUSED)
