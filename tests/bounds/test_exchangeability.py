"""A conformal test martingale: a naive twin of its evidence, and what it sees."""

import mpmath as mp
import numpy as np
import pytest
from cells import within_rounding
from hypothesis import given
from hypothesis.strategies import integers, lists
from mpmath import mpf
from numpy.random import default_rng

from bounds import Exchangeability, exchangeable


def naive(old, new, seed):
    """The evidence after each new score by the definition, at the precision in force."""
    uniform, kept, factors, found = default_rng([seed, 0x74696573]).random(len(new)), [mpf(1)], [], []
    for i, score in enumerate(new):
        bag = [*old, *new[: i + 1]]
        equal, below = sum(one == score for one in bag), mpf(float(uniform[i]))
        p = (sum(one > score for one in bag) + (1 - below) * equal) / mpf(len(bag))
        q = (sum(one < score for one in bag) + (below + mpf(2) ** -53) * equal) / mpf(len(bag))
        powers = [mpf(power) * one ** (mpf(power) - 1) for one in (p, q) for power in (0.2, 0.5, 0.8)]
        factors.append([*powers, mpf("1.5") - p, mpf("1.5") - q])
        kept.append(1 / (1 + mp.log(2 + i)))
        wealth = kept[-1]
        for j in range(i + 1):
            bets = [mp.fprod(row[k] for row in factors[j:]) for k in range(8)]
            wealth += (kept[j] - kept[j + 1]) * mp.fsum(bets) / 8
        found.append(wealth)
    return found


@pytest.mark.parametrize("ties", [False, True])
def test_evidence_against_a_naive_twin(ties):
    rng = default_rng(0)
    old, new = rng.normal(size=9), rng.normal(size=25) + 1
    if ties:
        old, new = np.round(old), np.round(new)
    made = exchangeable(old=old, new=new, seed=5)
    with mp.workdps(40):
        for exact, found in zip(naive(old.tolist(), new.tolist(), 5), made.evidence.tolist(), strict=True):
            assert exact * (1 - mpf("1e-11")) <= found <= exact
    assert made.p_value == within_rounding(min(1.0, 1 / made.evidence.max()))


@pytest.mark.parametrize("shift", [0.3, -0.3])
def test_a_shift_is_found_from_both_sides_and_late(shift):
    found = []
    for seed in range(20):
        rng = default_rng(seed)
        old, new = rng.normal(size=2000), rng.normal(size=1500)
        soon = (exchangeable(old=old, new=new + shift).alarm(0.01) or 9999) < 1000
        changed = exchangeable(old=old, new=np.r_[new, rng.normal(size=500) + 3 * shift])
        late = 1500 < (changed.alarm(0.01) or 0) and changed.p_value < 1e-10
        errors = exchangeable(old=rng.random(2000) < 0.05, new=rng.random(3000) < 0.15)
        same = default_rng(seed).random(500) < 0.1  # by the seed that breaks ties among them
        quiet = exchangeable(old=old, new=new).alarm(0.01) is None
        quiet &= exchangeable(old=rng.random(300) < 0.1, new=same, seed=seed).alarm(0.05) is None
        found.append([soon, late, errors.alarm(0.01) is not None, quiet])
    assert np.sum(found, axis=0).min() >= 15


@given(lists(integers(0, 3), min_size=1, max_size=30), integers(0, 9))
def test_what_was_said_of_the_first_scores_stays(scores, seed):
    old = [1, 2, 2]
    made = exchangeable(old=old, new=scores, seed=seed)
    first = exchangeable(old=old, new=scores[: len(scores) // 2 + 1], seed=seed)
    assert made.evidence[: first.new].tolist() == first.evidence.tolist()
    scaled = exchangeable(old=[10 * one + 3 for one in old], new=[10 * one + 3 for one in scores], seed=seed)
    assert scaled.evidence.tolist() == made.evidence.tolist()


def test_scores_kept_in_two_precisions_are_equal_where_the_coarser_one_is():
    votes = default_rng(0).integers(0, 11, 800) / 10
    whole = exchangeable(old=votes[:400], new=votes[400:])
    for kind in (np.float32, np.float16):
        for parts in ((votes[:400].astype(kind), votes[400:]), (votes[:400], votes[400:].astype(kind))):
            assert exchangeable(old=parts[0], new=parts[1]).evidence.tolist() == whole.evidence.tolist()
    with np.errstate(all="raise"):
        assert exchangeable(old=votes.astype(np.float16), new=[1e-50, 1e50]).new == 2


def test_it_is_a_record():
    made = exchangeable(old=[1.0], new=[2.0, 3.0])
    assert not made.evidence.flags.writeable
    certain = Exchangeability(old=1, evidence=np.array([1.0, 20.0, 3.0]))
    assert certain.alarm(0.05) is None  # the last digit decides against an alarm
    assert certain.alarm(0.051) == 2
    assert 0.05 < certain.p_value < 0.05 + 1e-15
    assert str(certain).endswith("with probability at most 0.05001."), "what is printed is rounded up"
    assert certain.e_value == 3.0
