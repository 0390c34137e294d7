"""Certificates of a Gaussian over the weights of any network: sampled risk, closed divergence, any prior.

The risk of the posterior is sampled with fresh weights for every example and paid for, the divergence is closed, and
where the prior came from decides the price.
"""

import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import bounds
from bounds import _check
from pacdp.certify.examples import (
    BoundSet,
    Device,
    require_counts,
    require_kind,
    require_kinds,
    require_labels,
)
from pacdp.certify.networks import Finding, fresh_certificates
from pacdp.certify.outputs import classes_of
from pacdp.certify.priors import NoisySum, Prior, Private
from pacdp.certify.reading import AtWeights, Network, Reading
from pacdp.losses import Loss, brier, zero_one
from pacdp.posterior import GaussianPosterior
from pacdp.predictions.bounding import about, clopper_pearson
from pacdp.predictions.report import Measured, Refusal, Report
from pacdp.stochastic import MonteCarloRisk, mean_risks
from pacdp.stochastic.law import require_law_of

Progress = Callable[[int, int], None]
Formula = Callable[..., bounds.Certificate]
MONTE_CARLO, PAC_STEP = "Monte Carlo", "PAC step"
_ONE_DRAW = 0x6F6E65  # key of the one draw among all uses of a seed
_KNOWN = {"zero-one": ("randomised", "0-1 risk"), "brier": ("half_brier", "half the Brier risk")}


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class Gaussians:
    """A posterior, its prior, and where they are judged."""

    posterior: GaussianPosterior
    prior: Prior
    module: nn.Module
    data: BoundSet
    test: BoundSet | None
    failure_prob: float
    how: MonteCarlo
    losses: Sequence[Loss]
    formulas: Sequence[Formula]
    seed: int
    device: Device
    progress: Progress | None = None

    @functools.cached_property
    def kl_nats(self) -> float:
        """KL(Q‖P) and what choosing the prior costs, rounded up.

        Raises:
            ValueError: it is infinite.
        """
        kl = self.posterior.kl_nats(self.prior.law)
        if not math.isfinite(kl):
            raise ValueError(
                "the divergence from the prior is infinite: both laws must have the same fixed weights and buffers, "
                "and a std > 0 for the same parameters"
            )
        more = self.prior.choice_nats
        return math.nextafter(kl + more, math.inf) if more else kl

    @property
    def at(self) -> dict[str, Any]:
        """What every bound on the bound's examples takes."""
        return {"n": self.data.units, "price": self.prior.source.price}

    def network(
        self, of: str, law: GaussianPosterior, weights: Mapping[str, Tensor] | None = None
    ) -> Reading:
        """The network at these weights of a law, by default its means."""
        at = AtWeights(self.module, {**law.buffers, **(weights or law.means)})
        return Reading(law=Network(network=at, of=of), device=self.device)

    def sampled(self, data: BoundSet, **how: Any) -> tuple[MonteCarloRisk, ...]:
        """Losses of the randomised network on some examples."""
        return mean_risks(self.module, self.posterior, inputs=data.inputs, labels=data.labels,
                          batch_size=self.how.batch_size, device=self.device, **how)  # fmt: skip

    def require_fitting(self) -> None:
        """Refuse laws, labels and losses that do not fit the network, before any work; raises ValueError."""
        for loss in self.losses:
            require_kind("each of losses", loss, Loss)
        names = ["zero-one", "brier", *(loss.name for loss in self.losses)]
        if len(set(names)) != len(names):
            raise ValueError(
                f"expected losses of names that differ from each other and from zero-one and brier, got {names}"
            )
        require_law_of(self.module, self.posterior)
        _ = self.kl_nats
        for data in filter(None, (self.data, self.test)):
            outputs = self.network("", self.posterior).outputs(data.inputs[:1])
            require_labels(data.labels, classes_of(outputs))
            for loss in self.losses:
                _require_defined(loss, outputs, data.labels[:1])


def _require_defined(loss: Loss, outputs: Tensor, labels: Tensor) -> None:
    try:
        loss(outputs, labels)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(
            f"loss {loss.name} fails on outputs of shape {tuple(outputs.shape)} and labels [1]: write it as a "
            f"function of both: {type(error).__name__}: {error}"
        ) from error


def assess(where: Gaussians) -> Report:
    """Everything that applies to a Gaussian posterior, the randomised network first."""
    where.require_fitting()
    parts = randomised, mean_weights, prior_mean, one_draw, randomised_on_test
    return Report.of(
        (one for part in parts for one in part(where)),
        where.data,
        route="gaussian",
        failure_prob=where.failure_prob,
        prior=where.prior.to_dict(),
        details={"kl_nats": where.kl_nats},
    )


def randomised(where: Gaussians) -> Iterator[Finding]:
    """Fresh weights for every prediction: 0-1 and Brier risk."""
    data, how = where.data, where.how
    budget = bounds.FailureBudget(where.failure_prob).spend(
        MONTE_CARLO, how.share * where.failure_prob
    )
    budget = budget.spend(PAC_STEP, budget.left)
    risks = where.sampled(
        data,
        losses=(zero_one(), brier(), *where.losses),
        passes=how.passes,
        seed=where.seed,
        progress=where.progress,
        people=data.people,
    )
    at = {"kl_nats": where.kl_nats, **where.at}
    for risk in risks:
        yield risk
        yield _overall(risk, functools.partial(bounds.maurer, **at), budget, where)
        yield Measured(
            of="randomised", on="bound", loss=risk.loss, mean=risk.mean, n=risk.people or risk.n
        )
    for formula in where.formulas:
        yield _overall(risks[0], functools.partial(_of_errors, formula, at), budget, where)


def _of_errors(
    formula: Formula, at: Mapping[str, Any], *, risk: float, failure_prob: float
) -> bounds.Certificate:
    """A formula for the 0-1 loss, whose square is itself; ValueError when it is none of a risk and a divergence."""
    given = {**at, "risk": risk, "failure_prob": failure_prob}
    try:
        takes = inspect.signature(formula).parameters
        made = formula(**given, **({"second_moment": risk} if "second_moment" in takes else {}))
    except TypeError as error:
        raise ValueError(
            f"expected formulas of bounds that take {', '.join(given)}, got one: {error}"
        ) from error
    if not isinstance(made, bounds.Certificate) or not {"n", "kl_nats"} <= made.inputs.keys():
        raise ValueError(
            f"expected formulas of bounds that return certificates, got {type(made).__name__}"
        )
    return made


def randomised_on_test(where: Gaussians) -> Iterator[Finding]:
    """The randomised network on the test set: a draw for each example, since Clopper and Pearson count independent
    errors.
    """
    test = where.test
    if test is None:
        why = "no examples were kept from prior and posterior"
        yield Refusal(name="test-set bounds", reason=why)
        return
    of, n = "randomised", test.n
    (fresh,) = where.sampled(test, losses=(zero_one(),), passes=1, seed=where.seed + 1)
    yield Measured(of=of, on="test", mean=fresh.mean, errors=fresh.errors, n=n)
    if test.people is None:
        yield clopper_pearson(fresh.errors, n, where.failure_prob, of=of)


def mean_weights(where: Gaussians) -> Iterator[Finding]:
    """The network with the posterior's means, which the test set alone can speak of."""
    sets = where.network("mean weights", where.posterior).judged(where.data, where.test)
    yield from (one.measured(on) for on, one in sets.items())
    if "test" in sets:
        yield from fresh_certificates(sets["test"], failure_prob=where.failure_prob)


def prior_mean(where: Gaussians) -> Iterator[Finding]:
    """The network with the prior's means, to which the bound's examples are new unless it met them privately."""
    if not isinstance(where.prior.source, Private | NoisySum) and not where.prior.choice_nats:
        sets = where.network("prior mean", where.prior.law).judged(where.data, where.test)
        yield from (one.measured(on) for on, one in sets.items())
        found = fresh_certificates(
            sets["bound"], failure_prob=where.failure_prob, name="prior_mean"
        )
        yield found[0]


def one_draw(where: Gaussians) -> Iterator[Finding]:
    """One network drawn from the posterior: 0-1 risk, and calibration error from the bound's own examples.

    The draw must not depend on examples, prior or posterior: its generator has a key of its own, so that no training
    that was seeded with the same number has met its numbers. The exponential moment behind the calibration error bounds
    one draw by ln (dQ/dP)(w) just as it bounds the mean by the divergence ("One draw" in docs/guarantees.md), so the
    positive part of the ratio stands where the divergence does.
    """
    of = "one draw"
    weights = one_draw_weights(where.posterior, seed=where.seed)
    ratio = where.posterior.log_ratio(where.prior.law, weights)
    if not math.isfinite(ratio):
        yield Refusal(name=of, reason="the prior's density at the draw underflows")
        return
    ratio = math.nextafter(ratio + where.prior.choice_nats, math.inf)
    sets = where.network(of, where.posterior, weights).judged(where.data, where.test)
    yield from (one.measured(on) for on, one in sets.items())
    seen = sets["bound"]
    made = bounds.disintegrated(
        risk=seen.error, log_density_ratio=ratio, failure_prob=where.failure_prob, **where.at
    )
    yield about(made, f"one_draw_{made.name}", of=of, measures=where.data.risk())
    if seen.calibration is not None:
        yield _calibrated_draw(where, seen.calibration, ratio)


def _calibrated_draw(
    where: Gaussians, sample: bounds.CalibrationSample, ratio: float
) -> bounds.Certificate:
    """The calibration error of one draw; under a private prior half the failure probability pays for the draw."""
    private = isinstance(where.prior.source, Private)
    paid = 0.5 * where.failure_prob if private else 0.0
    nats = max(0.0, ratio)
    if private:
        nats = math.nextafter((nats - math.log(paid)) * (1.0 + 2.0**-50), math.inf)
    made = bounds.ece_pac_bayes(
        calibration_error=sample.calibration_error,
        mean_squared_gap=sample.mean_squared_gap,
        kl_nats=nats,
        failure_prob=where.failure_prob - paid,
        **where.at,
    )
    made = made.charged("draw", paid) if private else made
    made = made.resting_on(bounds.declared("draws independent", "the caller"))
    return about(made, "one_draw_ece", of="one draw", measures="ECE")


def _overall(
    risk: MonteCarloRisk,
    step: Callable[..., bounds.Certificate],
    budget: bounds.FailureBudget,
    where: Gaussians,
) -> bounds.Certificate:
    """The randomised network's certificate for one loss; the Brier loss is halved, since it reaches 2."""
    made = bounds.overall_certificate(
        risk=risk.upper(budget.spent[MONTE_CARLO]), bound=step, budget=budget
    )
    source = where.prior.source
    bound = (
        "hybrid_pac_bayes"
        if isinstance(source, Private) and source.seen is not None
        else made.inputs["bound"]
    )
    default = (f"rescaled_{risk.loss}", f"{risk.loss} risk, rescaled to [0, 1]")
    name, measures = _KNOWN.get(risk.loss, default)
    made = replace(made, inputs={**made.inputs, "bound": bound})
    return about(made, f"{name}_{bound}", of="randomised", measures=where.data.risk(measures))


def one_draw_weights(posterior: GaussianPosterior, *, seed: int) -> dict[str, Tensor]:
    """The weights of the one network that is drawn from a posterior, by the seed that it is certified with."""
    words = np.random.SeedSequence(seed, spawn_key=(_ONE_DRAW,)).generate_state(1, np.uint64)
    return posterior.sample(torch.Generator().manual_seed(int(words[0] >> np.uint64(1))))
