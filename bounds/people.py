"""Examples that come in groups, such as cells of patients: what n people say of the risk for a new person.

Examples of one person are alike, so that they do not count as independent records; people do. ``n`` is the number of
people. The risk for a new person is the mean over people of their own mean loss: an average of n independent numbers in
[0, 1], to which every bound of this package applies. The risk for a new example, whose people count by how many
examples they have, is a ratio of means: ``bounds.new_example``. Arguments out of range raise ValueError. Proofs:
docs/people.md.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import fsum, log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bounds import _check
from bounds._arithmetic import outward
from bounds._check import Array, Integers, as_given, door, doubles, names, rates
from bounds.certificate import Certificate
from bounds.hypotheses import declared
from bounds.means import (
    GRID_NATS,
    betting_upper,
    clopper_pearson_upper,
    empirical_bernstein_upper,
    hoeffding_upper,
    kl_chernoff_upper,
    second_moment_upper,
)
from bounds.monte_carlo import gibbs_risk_upper
from bounds.prices import INDEPENDENT, billed, of_people, settled

NEW_PERSON = "risk of a new person"
_THINNED = 0x7468696E
"""What sets the draws of ``thinned`` apart from those of ``default_rng(seed)``."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PeopleSample:
    """How many examples each of n people gave, and the sum of the losses on them.

    Attributes:
        sizes: int64 [n], the number of examples of each person, at least 1, read-only.
        sums: float64 [n], the sum of each person's losses in [0, 1], rounded up, at most ``sizes``, read-only.

    Raises ValueError when the arrays differ in length, are empty, or hold an impossible number.
    """

    sizes: Integers
    sums: Array

    def __post_init__(self) -> None:
        sizes, sums = as_given(self.sizes), np.array(doubles("sums", self.sums))
        if sizes.dtype.kind not in "iu" or sizes.ndim != 1 or sizes.size == 0 or sizes.min() < 1:
            raise ValueError(f"sizes must be whole numbers of at least 1, one a person, got {self.sizes!r}.")
        if sums.shape != sizes.shape or not ((sums >= 0.0) & (sums <= sizes)).all():
            raise ValueError(
                "sums must be one number for each person, from 0 to the person's number of examples; "
                "rescale the loss to [0, 1]."
            )
        for name, array in (("sizes", sizes.astype(np.int64)), ("sums", sums)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def n(self) -> int:
        """The number of people."""
        return int(self.sizes.size)

    @property
    def examples(self) -> int:
        """The number of examples of all people together."""
        return int(self.sizes.sum())

    @property
    def smallest(self) -> int:
        """The number of examples of the person who gave fewest."""
        return int(self.sizes.min())

    @property
    def largest(self) -> int:
        """The number of examples of the person who gave most."""
        return int(self.sizes.max())

    @cached_property
    def means(self) -> Array:
        """Each person's mean loss, rounded up; exact for one example, no loss and nothing but losses of 1."""
        means = self.sums / self.sizes
        exact = (self.sizes == 1) | (self.sums == 0.0) | (self.sums == self.sizes)
        found: Array = np.where(exact, means, np.minimum(1.0, np.nextafter(means, 2.0)))
        found.setflags(write=False)
        return found

    @cached_property
    def person_risk(self) -> float:
        """The mean over people of their mean loss, rounded up: ``risk`` for any formula whose n counts people."""
        return min(1.0, outward(fsum(self.means.tolist()) / self.n))

    @cached_property
    def person_second_moment(self) -> float:
        """The mean over people of their squared mean loss, rounded up."""
        return min(1.0, outward(fsum((self.means**2).tolist()) / self.n))

    @cached_property
    def example_risk(self) -> float:
        """The mean loss over all examples, rounded up: ``risk`` for the bounds of ``bounds.new_example``."""
        return min(1.0, outward(fsum(self.sums.tolist()) / self.examples))


def people_sample(*, losses: ArrayLike, people: ArrayLike) -> PeopleSample:
    """The sizes and sums of people from one loss in [0, 1] and one person for each example.

    Sums of 0-1 losses are exact, others are rounded up. People stand in the order of their names.

    Args:
        losses: one number in [0, 1] an example; for predictions by fresh weights, its mean over the passes.
        people: one whole number or text an example, which says whose it is.
    """
    values, position = rates("losses", losses), _positions(people)
    if values.shape != position.shape:
        raise ValueError(f"losses must be one number for each entry of people, got shape {values.shape}.")
    sizes = np.bincount(position)
    sums: Array = np.bincount(position, weights=values).astype(np.float64)
    if not ((values == 0.0) | (values == 1.0)).all():
        sums = np.minimum(sizes, sums * (1.0 + (sizes + 8) * 2.0**-52))  # one rounding an addition
    return PeopleSample(sizes=sizes, sums=sums)


def errors_of_people(sizes: NDArray[np.int64], errors: NDArray[np.int64]) -> PeopleSample | None:
    """Those of people with so many examples and errors who have any; None where nobody has."""
    there = sizes > 0
    if not there.any():
        return None
    counted = np.zeros_like(sizes)
    counted[: errors.size] = errors
    return PeopleSample(sizes=sizes[there], sums=counted[there].astype(np.float64))


@door()
def thinned(*, people: ArrayLike, most_examples: int, seed: int) -> Integers:
    """The examples that stay when everyone keeps at most ``most_examples`` of theirs, as increasing indices.

    Which ones stay is drawn from ``seed``, which must not be chosen by looking at results. The risk for a new example
    is then that of an example from the same population thinned in the same way. ``people`` is as for ``people_sample``.
    """
    position = _positions(people)
    # apart from the draws by which a caller with the same seed may have put the rows in order
    drawn = np.random.default_rng([seed, _THINNED]).permutation(position.size)
    order = np.lexsort((drawn, position))
    first = np.searchsorted(position[order], position[order])
    kept = order[np.arange(position.size) - first < most_examples]
    return np.sort(kept).astype(np.int64)


def new_person_clopper_pearson(*, sample: PeopleSample, failure_prob: float) -> Certificate:
    """The exact bound for people who gave one 0-1 example each: ``clopper_pearson_upper``.

    Formal guarantee: people drawn independently from one law, none of whom the predictor saw, give a risk for a new
    person of at most ``value`` with probability at least 1 - failure_prob.
    """
    if checked(sample).largest > 1 or not (sample.sums == np.floor(sample.sums)).all():
        raise ValueError(
            f"sample must have one 0-1 example a person, got people with up to {sample.largest} examples or other "
            f"losses; use new_person_betting."
        )
    value = clopper_pearson_upper(int(sample.sums.sum()), sample.n, failure_prob)
    made = _new_person("clopper_pearson", value, sample, failure_prob, "Clopper and Pearson 1934")
    return replace(made, costs=())  # an exact bound adds nothing up


def new_person_kl(*, sample: PeopleSample, failure_prob: float) -> Certificate:
    """R ≤ kl⁻¹(mean over people of their mean loss, ln(1/failure_prob)/n): ``kl_chernoff_upper``.

    Formal guarantee: as for ``new_person_clopper_pearson``.
    """
    value = kl_chernoff_upper(checked(sample).person_risk, sample.n, failure_prob)
    return _new_person("kl", value, sample, failure_prob, "Hoeffding 1963, Theorem 1")


def new_person_hoeffding(*, sample: PeopleSample, failure_prob: float) -> Certificate:
    """R ≤ mean over people of their mean loss + √(ln(1/failure_prob)/(2n)): ``hoeffding_upper``.

    Formal guarantee: as for ``new_person_clopper_pearson``.
    """
    value = hoeffding_upper(checked(sample).person_risk, sample.n, failure_prob)
    return _new_person("hoeffding", value, sample, failure_prob, "Hoeffding 1963, Theorem 2")


def new_person_bernstein(*, sample: PeopleSample, failure_prob: float) -> Certificate:
    """``empirical_bernstein_upper`` of people's mean losses: small when people are alike.

    Formal guarantee: as for ``new_person_clopper_pearson``.
    """
    if checked(sample).n < 2:
        raise ValueError(f"sample must have at least two people, got {sample.n}; use new_person_kl.")
    value = empirical_bernstein_upper(sample.means, failure_prob)
    union = outward(log(2.0))
    return _new_person("bernstein", value, sample, failure_prob, "Maurer and Pontil 2009, Theorem 4", union=union)


def new_person_second_moment(*, sample: PeopleSample, failure_prob: float) -> Certificate:
    """``second_moment_upper`` of people's mean losses: small when few people have any.

    Formal guarantee: as for ``new_person_clopper_pearson``.
    """
    value = second_moment_upper(checked(sample).person_risk, sample.person_second_moment, sample.n, failure_prob)
    reference = 'docs/guarantees.md, "Un-expected Bernstein"'
    return _new_person("second_moment", value, sample, failure_prob, reference, grid=GRID_NATS)


def new_person_betting(*, sample: PeopleSample, failure_prob: float) -> Certificate:
    """``betting_upper`` of people's mean losses: for most samples the least of these bounds.

    Formal guarantee: as for ``new_person_clopper_pearson``.
    """
    value = betting_upper(checked(sample).means, failure_prob)
    return _new_person("betting", value, sample, failure_prob, "Waudby-Smith and Ramdas 2024")


@door(certificate=Certificate)
def for_a_new_person(certificate: Certificate) -> Certificate:
    """The certificate of a formula that was given ``person_risk`` and counted people as n, with its true name of risk.

    Formal guarantee: that of the formula, whose records are people, for the risk for a new person.
    """
    known = declared("records independent", f"the caller of bounds.{certificate.name}", "person")
    return replace(certificate, measures=NEW_PERSON).resting_on(known)


@door()
def new_person_monte_carlo(*, sample: PeopleSample, passes: int, failure_prob: float) -> Certificate:
    """An upper bound on the mean over people of their mean loss under Q, from fresh weights for every example.

        R̂(Q) ≤ kl⁻¹(person_risk, ln(1/failure_prob) / (n · passes · smallest))

    Given the data, an example of person p enters each pass with weight 1/(n · passes · sizes_p): the largest weight
    takes the place of one draw ("Averages of independent draws" in docs/guarantees.md). It is never above the bound
    that counts n · passes draws, a person's mean in a pass being one.

    Formal guarantee: if every example had fresh weights in every pass, R̂(Q) ≤ value with probability at least
    1 - failure_prob over the weights.

    ``sample`` is made of the losses' means over the passes, and ``passes`` says how many there were.
    """
    draws = checked(sample).n * passes * sample.smallest
    return gibbs_risk_upper(mean=sample.person_risk, draws=draws, failure_prob=failure_prob)


@door()
def new_example_monte_carlo(*, sample: PeopleSample, passes: int, failure_prob: float) -> Certificate:
    """The same for the mean loss over all examples, to which every example of every pass contributes alike.

    Formal guarantee and arguments: as for ``new_person_monte_carlo``, R̂(Q) being the mean loss over all examples.
    """
    draws = checked(sample).examples * passes
    return gibbs_risk_upper(mean=sample.example_risk, draws=draws, failure_prob=failure_prob)


def _new_person(
    name: str, value: float, sample: PeopleSample, failure_prob: float, reference: str, **nats: float
) -> Certificate:
    n, risk = sample.n, sample.person_risk
    return settled(
        of_people(billed(f"new_person_{name}", INDEPENDENT, n, failure_prob, **nats)),
        value,
        of="predictor",
        measures=NEW_PERSON,
        terms={"empirical_risk": risk, "second_moment": sample.person_second_moment},
        inputs={"risk": risk, "n": n, "examples": sample.examples},
        reference=f"{reference}; docs/people.md",
    )


def checked(sample: object) -> PeopleSample:
    """``sample``, if it is one of people."""
    return _check.records("sample", (sample,), PeopleSample)[0]


def _positions(people: ArrayLike) -> NDArray[np.intp]:
    """The place of each example's owner in the sorted list of people."""
    found = names("people", people)
    if found.dtype.kind in "iu" and 0 <= found.min() <= found.max() < 4 * found.size:
        there = np.bincount(found) > 0  # sorts nothing
        return (there.cumsum() - 1)[found]
    return np.unique(found, return_inverse=True)[1].ravel()
