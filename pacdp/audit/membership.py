"""Membership inference by likelihood ratios.

Carlini et al. 2022, "Membership inference attacks from first principles". An example's confidence φ = ln(p_y/(1 - p_y))
is nearly Gaussian over models trained on random halves of the data. The attacker trains such shadow models, fits one
Gaussian to the φ of those that saw the example and one to the φ of those that did not, and scores the attacked model's
φ by ln N(φ; μ_in, σ_in²) - ln N(φ; μ_out, σ_out²), with one σ_in and one σ_out for all examples, which is better for
fewer than about 64 models.

The true-positive rate at a small false-positive rate is what counts; beside it stands the largest that the accountant
of a private run allows to any attacker.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.stats import norm
from torch import Tensor

from bounds import _check, clopper_pearson_lower, clopper_pearson_upper
from bounds.accounting import Event, best_true_positive_rate
from bounds.kl import binary_kl_lower, binary_kl_upper
from pacdp.calibration.scores import auc as area

Scores = Float[np.ndarray, " examples"]
Shadows = Float[np.ndarray, "shadows examples"]
Members = Bool[np.ndarray, "shadows examples"]
Fit = Callable[[Int[np.ndarray, " members"]], Scores]


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipAttack:
    """How well scores tell members from others.

    Formal guarantee: none for the training run as a whole; the bands are optimistic. If, given the attacked model, the
    scores were independent and alike among members and among others, each band would hold with probability at least
    1 - failure_prob: the area is a U-statistic (Hoeffding 1963, section 5a, in its kl form, with min(members,
    non_members) terms), the rates are binomial.
    """

    auc: float
    """Probability that a member scores higher than a non-member, ties counted half."""
    auc_lower: float
    auc_upper: float
    false_positive_rate: float
    """The rate asked for; the threshold is the smallest at which no more non-members of this run are accused."""
    false_positive_upper: float
    """Upper confidence bound on the rate that this threshold has on new non-members."""
    true_positive_rate: float
    true_positive_lower: float
    true_positive_upper: float
    best_true_positive_rate: float | None
    """The most any attacker can have at ``false_positive_rate`` if the history is true; None without.

    It is for replace-one neighbours: of data sets of one size, one without the example has another in its place."""
    members: int
    non_members: int
    failure_prob: float


def logit_confidence(
    outputs: Float[Tensor, "examples classes"], targets: Int[Tensor, " examples"]
) -> Float[Tensor, " examples"]:
    """ln(p_y/(1 - p_y)) of the softmax of ``outputs``, without forming p; double precision.

    Raises:
        ValueError: fewer than two classes.
    """
    if outputs.shape[1] < 2:
        raise ValueError(f"outputs must have at least 2 classes, got {outputs.shape[1]}")
    scores = outputs.detach().double()
    others = scores.scatter(1, targets[:, None], -math.inf).logsumexp(1)
    return scores.gather(1, targets[:, None])[:, 0] - others


def shadow_confidences(
    fit: Fit, *, examples: int, shadows: int, generator: np.random.Generator
) -> tuple[Shadows, Members]:
    """Confidences of models trained on random halves, and who was in which; every example is in half of the models.

    Args:
        fit: trains on the examples with these indices, returns φ of all examples.
        examples: size of the pool.
        shadows: an even number of models, four or more; the halves come in complementary pairs.
        generator: draws the halves.

    Raises:
        ValueError: an odd number of models, or below 4: an example then has one model or none on a side.
    """
    if shadows < 4 or shadows % 2:
        raise ValueError(f"shadows must be even and at least 4, got {shadows}")
    half = np.stack([generator.permutation(examples) < examples // 2 for _ in range(shadows // 2)])
    member = np.concatenate([half, ~half])
    return np.stack(
        [np.asarray(fit(np.flatnonzero(row)), dtype=np.float64) for row in member]
    ), member


def likelihood_ratios(attacked: Scores, shadows: Shadows, member: Members) -> Scores:
    """The attack's score of every example.

    Args:
        attacked: φ of the attacked model.
        shadows: φ of the shadow models.
        member: which shadow model saw which example; each was seen by some and not by others.
    """
    inside, outside = _gaussian(shadows, member), _gaussian(shadows, ~member)
    return norm.logpdf(attacked, *inside) - norm.logpdf(attacked, *outside)


def _gaussian(shadows: Shadows, chosen: Members) -> tuple[Scores, float]:
    """Mean of each example over the chosen models, and the standard deviation of all."""
    count = chosen.sum(0)
    mean = shadows.mean(0, where=chosen)
    squares = np.square(shadows - mean).sum(where=chosen)
    return mean, math.sqrt(max(squares / (count.sum() - len(count)), 1e-12))


def evaluate_attack(
    scores: Scores,
    member: Bool[np.ndarray, " examples"],
    *,
    false_positive_rate: float = 0.01,
    failure_prob: float = 0.05,
    event: Event | None = None,
) -> MembershipAttack:
    """Area under the curve and true-positive rate, with bands.

    Args:
        scores: high where membership seems likely.
        member: whether the attacked model saw the example.
        false_positive_rate: where the true-positive rate is read off.
        failure_prob: of each two-sided band.
        event: what the attacked run did; with it the accountant's limit is computed.

    Raises:
        ValueError: scores that are not finite, rates out of range, no member or no non-member.
    """
    _check.open_probability(false_positive_rate=false_positive_rate, failure_prob=failure_prob)
    auc, inside, outside = area(scores, member), scores[member], scores[~member]
    nats = math.log(2.0 / failure_prob) / min(len(inside), len(outside))
    allowed = math.floor(false_positive_rate * len(outside))
    found = int((inside > np.sort(outside)[len(outside) - allowed - 1]).sum())
    limit = None if event is None else best_true_positive_rate(
        event=event, adjacency="replace-one", false_positive_rate=false_positive_rate)  # fmt: skip
    return MembershipAttack(
        auc=auc, auc_lower=float(binary_kl_lower(auc, nats)), auc_upper=float(binary_kl_upper(auc, nats)),
        false_positive_rate=false_positive_rate,
        false_positive_upper=clopper_pearson_upper(allowed, len(outside), failure_prob),
        true_positive_rate=found / len(inside),
        true_positive_lower=clopper_pearson_lower(found, len(inside), failure_prob / 2.0),
        true_positive_upper=clopper_pearson_upper(found, len(inside), failure_prob / 2.0),
        best_true_positive_rate=limit, members=len(inside), non_members=len(outside),
        failure_prob=failure_prob)  # fmt: skip


def attack_training(
    fit: Fit,
    *,
    examples: int,
    shadows: int,
    generator: np.random.Generator,
    false_positive_rate: float = 0.01,
    failure_prob: float = 0.05,
    event: Event | None = None,
) -> MembershipAttack:
    """Train shadow models and one model to attack, all on random halves, and score it online.

    Arguments and refusals as in :func:`shadow_confidences` and :func:`evaluate_attack`; ``event`` is that of one fit.
    """
    confidences, member = shadow_confidences(
        fit, examples=examples, shadows=shadows, generator=generator
    )
    chosen = generator.permutation(examples) < examples // 2
    attacked = np.asarray(fit(np.flatnonzero(chosen)), dtype=np.float64)
    scores = likelihood_ratios(attacked, confidences, member)
    return evaluate_attack(scores, chosen, false_positive_rate=false_positive_rate, failure_prob=failure_prob,
                           event=event)  # fmt: skip
