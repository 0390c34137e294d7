"""What k of n records promise, from tails that are added up term by term."""

from collections.abc import Callable
from functools import partial

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import (
    ONE,
    ball,
    log_choose,
    log_sum,
    total,
    zero_of,
)
from pacdp.verify.claim import Claim, Wrong

_SMALL = arb(2) ** -150


def compression(c: Claim) -> arb:
    """ε_k: the largest v with Σ_{m=k}^{n-1} λ_m C(m,k)/C(n,k) (1-v)^(m-n) ≤ 1 ("Sample compression")."""
    k, n = c.raw("k"), c.n
    if not isinstance(k, int) or not 0 <= k <= n:
        raise Wrong(f"k is {k!r}, of {n}")
    c.term_agrees("kept_share", arb(k) / n)
    tail = _tail(c, k, n)
    if tail is None:
        return ONE
    log_delta = c["failure_prob"].log()
    lowest = (arb(k) / n).max(ONE / n / 2**60)
    return zero_of(lambda v: log_delta + tail(v), lowest, 1)


def _tail(c: Claim, k: int, n: int) -> Callable[[arb], arb] | None:
    """ln of the sum over δ, as a function of v; None where it has no terms ("Sample compression")."""
    if "weight_sizes" not in c.inputs:
        return None if k == n else partial(_log_uniform, k, n)
    sizes = list[tuple[int, arb]]()
    for m, share in _weights(c):
        if m >= k and share > 0:
            sizes.append((m, share))
    return partial(_log_weighted, k, n, sizes) if sizes else None


def _weights(c: Claim) -> list[tuple[int, arb]]:
    """The m with λ_m > 0, and λ_m/δ: Σ λ_m = δ ("Sample compression")."""
    sizes = [int(part) for part in str(c.raw("weight_sizes")).split(",")]
    shares = c.listed("weight_shares")
    if len(set(sizes)) != len(sizes) or not all(0 <= m < c.n for m in sizes):
        raise Wrong(
            f"the sizes with weights are {c.inputs['weight_sizes']}, of {c.n}"
        )
    if not total(shares) <= 1 + ball(1e-12) or not all(
        share >= 0 for share in shares
    ):
        raise Wrong(
            f"the weights are {c.inputs['weight_shares']}, which are no shares of one failure probability"
        )
    return list(zip(sizes, shares, strict=True))


def _log_uniform(
    k: int,
    n: int,
    v: arb,
) -> arb:
    """ln of P(Bin(n, v) > k) / (n v P(Bin(n, v) = k)), for λ_m = δ/n ("Sample compression")."""
    log_mass = log_choose(n, k)
    log_mass += (n - k) * (1 - v).log()
    if k:
        log_mass += k * v.log()
    above = 1 - _at_most(k, n, v, log_mass.exp())
    return above.log() - (n * v).log() - log_mass


def _at_most(k: int, n: int, v: arb, mass: arb) -> arb:
    """P(Bin(n, v) ≤ k) from P(Bin(n, v) = k) downward ("Sample compression")."""
    odds = (1 - v) / v
    term = below = mass
    for j in range(k, 0, -1):
        ratio = odds * j / (n - j + 1)  # it falls with j: the rest is geometric
        term *= ratio
        below += term
        if ratio < 1:
            rest = term * ratio / (1 - ratio)
            if rest < _SMALL:
                return below.union(below + rest)
    return below


def _log_weighted(
    k: int,
    n: int,
    sizes: list[tuple[int, arb]],
    v: arb,
) -> arb:
    """ln of Σ_m (λ_m/δ) C(m,k)/C(n,k) (1-v)^(m-n) ("Sample compression")."""
    whole, each = log_choose(n, k), (1 - v).log()
    logs = list[arb]()
    for m, share in sizes:
        log_ratio = log_choose(m, k) - whole
        logs.append(share.log() + log_ratio + (m - n) * each)
    return log_sum(logs)
