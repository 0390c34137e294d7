"""Certificates of a Gaussian over the weights of any network: sampled risk, closed divergence, any prior.

The risk of the posterior is sampled with fresh weights for every example and paid for, the divergence is closed, and
where the prior came from decides the price.
"""

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

import bounds
from bounds import _check
from pacdp.certify.examples import (
    BoundSet,
    require_counts,
    require_kinds,
    require_labels,
)
from pacdp.certify.networks import Finding, Question, fresh_certificates, knows_already
from pacdp.certify.outputs import classes_of
from pacdp.certify.priors import DataFree, HeldOut, NoisySum, Prior, Private
from pacdp.certify.reading import AtWeights, Network, Reading
from pacdp.losses import brier, zero_one
from pacdp.posterior import GaussianPosterior
from pacdp.predictions.bounding import about, clopper_pearson
from pacdp.predictions.report import Measured, Refusal, Report
from pacdp.random.keys import of_one_draw
from pacdp.stochastic import MonteCarloRisk, mean_risks
from pacdp.stochastic.law import require_law_of
from pacdp.store.record import Values, record

MONTE_CARLO, PAC_STEP = "Monte Carlo", "PAC step"
_FIRST = "prior mean"
_MOVED_ALONG = (
    "all means of the posterior are the prior's: a prior that is made of a state_dict after training, which moves "
    "along with the network, has seen the examples; make it before training, or of copies"
)
_KNOWS_ALREADY = (
    "the prior's mean errs on {errors} of {n} examples: weights that other data taught may do so, but a prior counts "
    "as fixed beforehand only if none of it learnt from these examples, fixed weights and buffers among it"
)
_WHICH_DRAW = (
    "one draw has the weights and buffers of pacdp.certify.one_draw_weights(law, seed={seed}), the law's parameters in "
    "this order, which some files sort, and what is certified of it is certified of no other draw"
)
_KNOWN = {"zero-one": ("randomised", "0-1 risk"), "brier": ("half_brier", "half the Brier risk")}


@record
class MonteCarlo:
    """How the posterior's empirical risk is sampled.

    Attributes:
        passes: over the examples, with fresh weights for each.
        share: of each failure probability that pays for it.
        batch_size: examples at a time, by default as :func:`pacdp.stochastic.mean_risks` chooses.
    """

    passes: int = 5
    share: float = 0.1
    batch_size: int | None = None

    def __post_init__(self) -> None:
        require_counts(self, "passes", *(() if self.batch_size is None else ("batch_size",)))
        require_kinds(self, share=float)
        _check.open_probability(share=self.share)


def assess(asked: Question) -> Report:
    """Everything that applies to a Gaussian posterior, the randomised network first."""
    if not isinstance(asked.prior, Prior) or not isinstance(asked.network, nn.Module):
        raise ValueError(
            "a Gaussian posterior needs prior=Prior(law=..., source=...) and network=, its module"
        )
    require_law_of(asked.network, asked.law)
    nats = _kl_nats(asked)
    reading = Reading(law=Network(network=_network(asked, asked.law)), device=asked.device)
    for data in filter(None, (asked.data, asked.test)):
        require_labels(data.labels, classes_of(reading.outputs(data.inputs[:1])))
    found = [
        *randomised(asked, nats),
        *asked.on_both(asked.judged(_network(asked, asked.law), "mean weights")),
        *prior_mean(asked),
        *one_draw(asked),
        *randomised_on_test(asked),
    ]
    law, prior = asked.law, asked.prior
    unmoved = all(torch.equal(mean, prior.law.means[name]) for name, mean in law.means.items())
    moved_along = unmoved and isinstance(prior.source, DataFree | HeldOut)
    drawn = any(isinstance(one, bounds.Certificate) and one.of == "one draw" for one in found)
    remarks = {_MOVED_ALONG: moved_along, _WHICH_DRAW.format(seed=asked.seed): drawn}
    for one in found if isinstance(prior.source, DataFree) else ():
        if isinstance(one, Measured) and (one.of, one.on) == (_FIRST, "bound"):
            said = _KNOWS_ALREADY.format(errors=one.errors, n=asked.data.n)
            remarks[said] = knows_already(one.errors or 0, asked.data.labels)
    return asked.report("gaussian", found, prior=prior.to_dict(), details={"kl_nats": nats},
                        remarks=tuple(one for one, holds in remarks.items() if holds))  # fmt: skip


def _kl_nats(asked: Question) -> float:
    """KL(Q‖P) and what choosing the prior costs, rounded up; ValueError where it is infinite."""
    kl, more = asked.law.kl_nats(asked.prior.law), asked.prior.choice_nats
    if not math.isfinite(kl):
        raise ValueError(
            "the divergence from the prior is infinite: both laws must have the same fixed weights and buffers, "
            "and a std > 0 for the same parameters"
        )
    return math.nextafter(kl + more, math.inf) if more else kl


def _network(
    asked: Question, law: GaussianPosterior, weights: Mapping[str, Tensor] | None = None
) -> AtWeights:
    """The network at these weights of a law, by default at its means."""
    return AtWeights(asked.network, weights or {**law.buffers, **law.means})


def _bound_at(asked: Question) -> Values:
    """What every bound on the bound's examples takes."""
    return {"n": asked.data.units, "price": asked.prior.source.price}


def _sampled(asked: Question, data: BoundSet, **how: Any) -> tuple[MonteCarloRisk, ...]:
    """Losses of the randomised network on some examples."""
    return mean_risks(asked.network, asked.law, inputs=data.inputs, labels=data.labels, device=asked.device,
                      batch_size=asked.monte_carlo.batch_size, **how)  # fmt: skip


def randomised(asked: Question, nats: float) -> Iterator[Finding]:
    """Fresh weights for every prediction: 0-1 and Brier risk."""
    how, total = asked.monte_carlo, asked.failure_prob
    budget = bounds.FailureBudget(total).spend(MONTE_CARLO, how.share * total)
    budget = budget.spend(PAC_STEP, budget.left)
    step = functools.partial(bounds.maurer, kl_nats=nats, **_bound_at(asked))
    for risk in _sampled(asked, asked.data, losses=(zero_one(), brier()), passes=how.passes, seed=asked.seed,
                         progress=asked.progress, people=asked.data.people):  # fmt: skip
        yield risk
        yield _overall(risk, step, budget, asked)
        n = risk.people or risk.n
        yield Measured(of="randomised", on="bound", loss=risk.loss, mean=risk.mean, n=n)


def randomised_on_test(asked: Question) -> Iterator[Finding]:
    """The randomised network on the test set: a draw for each example, since Clopper and Pearson count independent
    errors. Of people the mean is over them, as everywhere else, and no errors are counted.
    """
    test, of = asked.test, "randomised"
    if test is None:
        why = "no examples were kept from prior and posterior"
        yield Refusal(name="test-set bounds", reason=why)
        return
    (fresh,) = _sampled(asked, test, losses=(zero_one(),), passes=1, seed=asked.seed + 1,
                        people=test.people)  # fmt: skip
    errors = fresh.errors if test.people is None else None
    yield Measured(of=of, on="test", mean=fresh.mean, errors=errors, n=test.units)
    if errors is not None:
        yield clopper_pearson(errors, test.n, asked.failure_prob, of=of)


def prior_mean(asked: Question) -> Iterator[Finding]:
    """The network with the prior's means, to which the bound's examples are new unless it met them privately."""
    if not isinstance(asked.prior.source, Private | NoisySum) and not asked.prior.choice_nats:
        sets = asked.judged(_network(asked, asked.prior.law), _FIRST)
        yield from (one.measured(on) for on, one in sets.items())
        how: Values = {"failure_prob": asked.failure_prob, "name": "prior_mean"}
        yield fresh_certificates(sets["bound"], **how)[0]


def one_draw(asked: Question) -> Iterator[Finding]:
    """One network drawn from the posterior: 0-1 risk, and calibration error from the bound's own examples.

    The draw must not depend on examples, prior or posterior: its generator has a key of its own, so that no training
    that was seeded with the same number has met its numbers. The exponential moment behind the calibration error bounds
    one draw by ln (dQ/dP)(w) just as it bounds the mean by the divergence ("One draw" in docs/guarantees.md), so the
    positive part of the ratio stands where the divergence does.
    """
    of, law, prior = "one draw", asked.law, asked.prior
    if _coarse(law):
        why = "a draw is rounded as coarsely as it varies, so that its density is not the law's: give network and laws "
        yield Refusal(name=of, reason=why + "in a higher precision, by .float() or .double()")
        return
    weights = one_draw_weights(law, seed=asked.seed)
    ratio = law.log_ratio(prior.law, weights)
    if not math.isfinite(ratio):
        yield Refusal(name=of, reason="the prior's density at the draw underflows")
        return
    ratio = math.nextafter(ratio + prior.choice_nats, math.inf)
    sets = asked.judged(_network(asked, law, weights), of)
    yield from (one.measured(on) for on, one in sets.items())
    seen, how = sets["bound"], {**_bound_at(asked), "failure_prob": asked.failure_prob}
    made = bounds.disintegrated(risk=seen.error, log_density_ratio=ratio, **how)
    yield about(made, f"one_draw_{made.name}", of=of, measures=asked.data.risk())
    if seen.calibration is not None:
        yield _calibrated_draw(seen.calibration, ratio, isinstance(prior.source, Private), how)


def _coarse(law: GaussianPosterior) -> bool:
    """Whether rounding of a draw moves its density: in half precision, or where a std is below a weight's last bit."""
    return any(
        mean.itemsize < 4
        or bool(
            (
                (law.stds[name] > 0) & (law.stds[name] < mean.abs() * torch.finfo(mean.dtype).eps)
            ).any()
        )
        for name, mean in law.means.items()
    )


def _calibrated_draw(
    sample: bounds.CalibrationSample, ratio: float, private: bool, how: Mapping[str, Any]
) -> bounds.Certificate:
    """The calibration error of one draw; under a private prior half the failure probability pays for the draw."""
    paid = 0.5 * how["failure_prob"] if private else 0.0
    nats = max(0.0, ratio)
    if private:
        nats = math.nextafter((nats - math.log(paid)) * (1.0 + 2.0**-50), math.inf)
    error, gap = sample.calibration_error, sample.mean_squared_gap
    how = {**how, "failure_prob": how["failure_prob"] - paid}
    made = bounds.ece_pac_bayes(calibration_error=error, mean_squared_gap=gap, kl_nats=nats, **how)
    made = made.charged("draw", paid) if private else made
    made = made.resting_on(bounds.declared("draws independent", "the caller"))
    return about(made, "one_draw_ece", of="one draw", measures="ECE")


def _overall(
    risk: MonteCarloRisk,
    step: Callable[..., bounds.Certificate],
    budget: bounds.FailureBudget,
    asked: Question,
) -> bounds.Certificate:
    """The randomised network's certificate for one loss; the Brier loss is halved, since it reaches 2."""
    made = bounds.overall_certificate(
        risk=risk.upper(budget.spent[MONTE_CARLO]), bound=step, budget=budget
    )
    source = asked.prior.source
    bound = (
        "hybrid_pac_bayes"
        if isinstance(source, Private) and source.seen is not None
        else made.inputs["bound"]
    )
    name, measures = _KNOWN[risk.loss]
    made = replace(made, inputs={**made.inputs, "bound": bound})
    return about(made, f"{name}_{bound}", of="randomised", measures=asked.data.risk(measures))


def one_draw_weights(posterior: GaussianPosterior, *, seed: int) -> dict[str, Tensor]:
    """The weights of the one network that is drawn from a posterior, by the seed that it is certified with.

    With the posterior's buffers, which a network that was trained on may have moved. The draw depends on the order of
    the posterior's parameters, which safetensors sorts: keep the weights themselves.
    """
    drawn = posterior.sample(of_one_draw(seed))
    return {**{name: one.clone() for name, one in posterior.buffers.items()}, **drawn}
