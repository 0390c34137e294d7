"""Certificates of a Gaussian over the weights of any network: sampled risk, closed divergence, any prior.

The risk of the posterior is sampled with fresh weights for every example and paid for, the divergence is closed, and
where the prior came from decides the price.
"""

import functools
import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import bounds
from pacdp.certify.assessment import Measured, Refusal
from pacdp.certify.examples import BoundSet, require_kind
from pacdp.certify.networks import (
    Judged,
    about,
    classes_of,
    clopper_pearson,
    fresh_certificates,
    judge,
    outputs_of,
    with_weights,
)
from pacdp.certify.priors import Prior, Private, price_of
from pacdp.losses import Loss, brier, zero_one
from pacdp.posterior import GaussianPosterior
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
        batch_size: examples at a time.
        group_size: examples that share one draw where the network is not made of known layers.
        resume: a file that holds the sums as they grow.
    """

    passes: int = 5
    share: float = 0.1
    batch_size: int = 64
    group_size: int = 1
    resume: Path | None = None

    def __post_init__(self) -> None:
        for name in ("passes", "batch_size", "group_size"):
            require_kind(f"MonteCarlo.{name}", getattr(self, name), int)
            if not 1 <= getattr(self, name) < 2**31:
                raise ValueError(f"expected MonteCarlo.{name} from 1 to 2**31 - 1, got {getattr(self, name)}")
        require_kind("MonteCarlo.share", self.share, float)
        if not 0.0 < self.share < 1.0:
            raise ValueError(f"expected MonteCarlo.share strictly between 0 and 1, got {self.share}")
        require_kind("MonteCarlo.resume", self.resume, Path | None)


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
    device: torch.device | str
    progress: Progress | None = None

    @property
    def price(self) -> bounds.Price:
        """What pays for the prior."""
        return price_of(self.prior.source)

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
        return math.nextafter(kl + self.prior.choice_nats, math.inf) if self.prior.choice_nats else kl

    def network(self, law: GaussianPosterior, weights: Any) -> Callable[[Tensor], Tensor]:
        """The network at these weights of a law."""
        return with_weights(self.module.to(self.device), weights, law.buffers, self.device)

    def classes(self, data: BoundSet) -> int:
        """How many classes the network's outputs distinguish, tried on an example."""
        first = BoundSet(inputs=data.inputs[:1], labels=torch.zeros(1, dtype=torch.int64))
        return classes_of(outputs_of(self.network(self.posterior, self.posterior.means), first, self.device))

    def require_defined(self, loss: Loss) -> None:
        """Refuse a loss that fails on an example; raises ValueError."""
        given = replace(self.data, inputs=self.data.inputs[:1], labels=self.data.labels[:1], indices=None, people=None)
        outputs = outputs_of(self.network(self.posterior, self.posterior.means), given, self.device)
        try:
            loss(outputs, given.labels)
        except ValueError:
            raise
        except Exception as error:
            raise ValueError(
                f"loss {loss.name} fails on outputs of shape {tuple(outputs.shape)} and labels [1]: write it as a "
                f"function of both: {type(error).__name__}: {error}"
            ) from error

    def judged(self, network: Callable[[Tensor], Tensor], of: str) -> "Twice":
        """What a network did on the bound's examples and on the test set."""
        seen = judge(network, self.data, self.device)
        tested = None if self.test is None else judge(network, self.test, self.device)
        return Twice(seen, tested, [one.measured(of, on) for one, on in ((seen, "bound"), (tested, "test")) if one])


class Twice(NamedTuple):
    """A network on the bound's examples and, where there is one, on the test set."""

    seen: Judged
    tested: Judged | None
    measured: list[Measured]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one part of the route has to say."""

    certificates: Sequence[bounds.Certificate] = ()
    measured: Sequence[Measured] = ()
    refusals: Sequence[Refusal] = ()
    monte_carlo: Sequence[MonteCarloRisk] = ()


def parts(where: Gaussians) -> Iterator[Found]:
    """Everything that applies to a Gaussian posterior, the randomised network first."""
    for loss in where.losses:
        require_kind("each of losses", loss, Loss)
    names = ["zero-one", "brier", *(loss.name for loss in where.losses)]
    if len(set(names)) != len(names):
        raise ValueError(
            f"expected losses of names that differ from each other and from zero-one and brier, got {names}"
        )
    require_law_of(where.module, where.posterior)
    _ = where.kl_nats
    for each in (where.data, *([] if where.test is None else [where.test])):
        each.require_labels(where.classes(each))
    for loss in where.losses:
        where.require_defined(loss)
    yield randomised(where)
    yield mean_weights(where)
    yield prior_mean(where)
    yield one_draw(where)
    yield randomised_on_test(where)


def randomised(where: Gaussians) -> Found:
    """Fresh weights for every prediction: 0-1 and Brier risk."""
    data, how = where.data, where.how
    budget = bounds.FailureBudget(where.failure_prob).spend(MONTE_CARLO, how.share * where.failure_prob)
    budget = budget.spend(PAC_STEP, budget.left)
    risks = _sampled(where)(
        inputs=data.inputs,
        labels=data.labels,
        losses=(zero_one(), brier(), *where.losses),
        passes=how.passes,
        group_size=how.group_size,
        seed=where.seed,
        progress=where.progress,
        resume=how.resume,
        people=data.people,
    )
    at = {"kl_nats": where.kl_nats, "n": data.units, "price": where.price}
    certificates = [_overall(risk, functools.partial(bounds.maurer, **at), budget, where) for risk in risks]
    certificates += [_overall(risks[0], _of_errors(each, at), budget, where) for each in where.formulas]
    measured = [
        Measured(of="randomised", on="bound", loss=r.loss, mean=r.mean, errors=None, n=r.people or r.n) for r in risks
    ]
    return Found(certificates=certificates, measured=measured, monte_carlo=risks)


def _of_errors(formula: Formula, at: dict[str, Any]) -> Formula:
    """A formula for the 0-1 loss, whose square is itself; ValueError when it is none of a risk and a divergence."""

    def step(*, risk: float, failure_prob: float) -> bounds.Certificate:
        given = {**at, "risk": risk, "failure_prob": failure_prob}
        try:
            takes = inspect.signature(formula).parameters
            made = formula(**given, **({"second_moment": risk} if "second_moment" in takes else {}))
        except TypeError as error:
            raise ValueError(f"expected formulas of bounds that take {', '.join(given)}, got one: {error}") from error
        if not isinstance(made, bounds.Certificate) or not {"n", "kl_nats"} <= made.inputs.keys():
            raise ValueError(f"expected formulas of bounds that return certificates, got {type(made).__name__}")
        return made

    return step


def randomised_on_test(where: Gaussians) -> Found:
    """The randomised network on the test set: a draw for each example, since Clopper and Pearson count independent
    errors.
    """
    if where.test is None:
        reason = "no examples were kept from prior and posterior"
        return Found(refusals=[Refusal(name="test-set bounds", reason=reason)])
    (fresh,) = _sampled(where)(
        inputs=where.test.inputs,
        labels=where.test.labels,
        losses=(zero_one(),),
        passes=1,
        group_size=1,
        seed=where.seed + 1,
    )
    of, errors = "randomised", fresh.errors
    measured = [Measured(of=of, on="test", loss="zero-one", mean=fresh.mean, errors=errors, n=where.test.n)]
    if where.test.unit == "person":
        return Found(measured=measured)
    made = clopper_pearson(errors, where.test.n, where.failure_prob)
    return Found(certificates=[about(made, of=of, measures="0-1 risk")], measured=measured)


def _sampled(where: Gaussians) -> Callable[..., tuple[MonteCarloRisk, ...]]:
    batch_size, device = where.how.batch_size, where.device
    return functools.partial(mean_risks, where.module, where.posterior, batch_size=batch_size, device=device)


def mean_weights(where: Gaussians) -> Found:
    """The network with the posterior's means, which the test set alone can speak of."""
    of, network = "mean weights", where.network(where.posterior, where.posterior.means)
    _, tested, measured = where.judged(network, of)
    if tested is None:
        return Found(measured=measured)
    return Found(certificates=fresh_certificates(tested, of=of, failure_prob=where.failure_prob), measured=measured)


def prior_mean(where: Gaussians) -> Found:
    """The network with the prior's means, to which the bound's examples are new unless it met them privately."""
    prior, of = where.prior, "prior mean"
    if isinstance(prior.source, Private) or prior.choice_nats:
        return Found()
    network = where.network(prior.law, prior.law.means)
    seen, _, measured = where.judged(network, of)
    made = fresh_certificates(seen, of=of, failure_prob=where.failure_prob, name="prior_mean")[0]
    return Found(certificates=[made], measured=measured)


def one_draw(where: Gaussians) -> Found:
    """One network drawn from the posterior: 0-1 risk, and calibration error from the bound's own examples.

    The draw must not depend on examples, prior or posterior: its generator has a key of its own, so that no training
    that was seeded with the same number has met its numbers. The exponential moment behind the calibration error bounds
    one draw by ln (dQ/dP)(w) just as it bounds the mean by the divergence ("One draw" in docs/guarantees.md), so the
    positive part of the ratio stands where the divergence does.
    """
    of = "one draw"
    weights = where.posterior.sample(_generator(where.seed))
    ratio = log_density_ratio(where.posterior, where.prior.law, weights)
    if not math.isfinite(ratio):
        return Found(refusals=[Refusal(name=of, reason="the prior's density at the draw underflows")])
    ratio = math.nextafter(ratio + where.prior.choice_nats, math.inf)
    network = where.network(where.posterior, weights)
    seen, _, measured = where.judged(network, of)
    at = {"n": seen.units, "failure_prob": where.failure_prob, "price": where.price}
    made = bounds.disintegrated(risk=seen.error, log_density_ratio=ratio, **at)
    risk = "0-1 risk" if where.data.unit == "example" else "0-1 risk of a new person"
    found = [about(made, f"one_draw_{made.name}", of=of, measures=risk)]
    if seen.calibration is not None:
        found.append(_calibrated_draw(where, seen.calibration, ratio, seen.units))
    return Found(certificates=found, measured=measured)


def _calibrated_draw(where: Gaussians, sample: bounds.CalibrationSample, ratio: float, n: int) -> bounds.Certificate:
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
        n=n,
        failure_prob=where.failure_prob - paid,
        price=where.price,
    )
    made = made.charged("draw", paid) if private else made
    made = made.resting_on(bounds.declared("draws independent", "the caller"))
    return about(made, "one_draw_ece", of="one draw", measures="ECE")


def _overall(
    risk: MonteCarloRisk, step: Callable[..., bounds.Certificate], budget: bounds.FailureBudget, where: Gaussians
) -> bounds.Certificate:
    """The randomised network's certificate for one loss; the Brier loss is halved, since it reaches 2."""
    made = bounds.overall_certificate(risk=risk.upper(budget.spent[MONTE_CARLO]), bound=step, budget=budget)
    private = where.prior.source if isinstance(where.prior.source, Private) else None
    bound = "hybrid_pac_bayes" if private is not None and private.seen is not None else made.inputs["bound"]
    default = (f"rescaled_{risk.loss}", f"{risk.loss} risk, rescaled to [0, 1]")
    name, measures = _KNOWN.get(risk.loss, default)
    measures += " of a new person" if where.data.unit == "person" else ""
    made = replace(made, inputs={**made.inputs, "bound": bound})
    return about(made, f"{name}_{bound}", of="randomised", measures=measures)


def _generator(seed: int) -> torch.Generator:
    words = np.random.SeedSequence(seed, spawn_key=(_ONE_DRAW,)).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(words[0] >> np.uint64(1)))


def log_density_ratio(posterior: GaussianPosterior, prior: GaussianPosterior, weights: Any) -> float:
    """ln (dQ/dP)(weights) in nats, rounded up; weights that are fixed in both laws do not count."""
    found = []
    for name, mean in posterior.means.items():
        given = (weights[name], mean, posterior.stds[name], prior.means[name], prior.stds[name])
        values = [x.detach().cpu().double().expand(mean.shape).reshape(-1).numpy() for x in given]
        free = values[2] > 0.0  # fixed weights are equal in both, or the divergence were infinite
        if free.any():
            found.append(bounds.gaussian_log_density_ratio(*(value[free] for value in values)))
    return math.nextafter(math.fsum(found), math.inf)
