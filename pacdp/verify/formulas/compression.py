"""What k of n records promise, from tails that are added up term by term."""

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import ONE, ball, log_choose, log_sum, total, zero_of
from pacdp.verify.claim import Claim, Wrong

_SMALL = arb(2) ** -150


def compression(c: Claim) -> arb:
    """ε_k: the largest v with Σ_{m=k}^{n-1} λ_m C(m,k)/C(n,k) (1-v)^(m-n) ≤ 1 ("Sample compression")."""
    k, n = c.raw("k"), c.n
    if not isinstance(k, int) or not 0 <= k <= n:
        raise Wrong(f"k is {k!r}, of {n}")
    c.term_agrees("kept_share", arb(k) / n)
    log_delta = c["failure_prob"].log()
    lowest = (arb(k) / n).max(ONE / n / 2**60)
    if "weight_sizes" not in c.inputs:
        return ONE if k == n else zero_of(lambda v: log_delta + _log_uniform(k, n, v), lowest, 1)
    sizes = [(m, share) for m, share in _weights(c) if m >= k and share > 0]
    if k == n or not sizes:
        return ONE
    return zero_of(lambda v: log_delta + _log_weighted(k, n, sizes, v), lowest, 1)


def _weights(c: Claim) -> list[tuple[int, arb]]:
    """The m with λ_m > 0, and λ_m/δ: Σ λ_m = δ ("Sample compression")."""
    sizes = [int(part) for part in str(c.raw("weight_sizes")).split(",")]
    shares = c.listed("weight_shares")
    if len(set(sizes)) != len(sizes) or not all(0 <= m < c.n for m in sizes):
        raise Wrong(f"the sizes with weights are {c.inputs['weight_sizes']}, of {c.n}")
    if not total(shares) <= 1 + ball(1e-12) or not all(share >= 0 for share in shares):
        raise Wrong(f"the weights are {c.inputs['weight_shares']}, which are no shares of one failure probability")
    return list(zip(sizes, shares, strict=True))


def _log_uniform(k: int, n: int, v: arb) -> arb:
    """ln of P(Bin(n, v) > k) / (n v P(Bin(n, v) = k)), for λ_m = δ/n ("Sample compression")."""
    log_mass = log_choose(n, k) + (n - k) * (1 - v).log()
    if k:
        log_mass += k * v.log()
    above = 1 - _at_most(k, n, v, log_mass.exp())
    return above.log() - (n * v).log() - log_mass


def _at_most(k: int, n: int, v: arb, mass: arb) -> arb:
    """P(Bin(n, v) ≤ k) from P(Bin(n, v) = k) downward."""
    odds = (1 - v) / v
    term = below = mass
    for j in range(k, 0, -1):
        ratio = odds * j / (n - j + 1)  # it falls with j, so that the rest is at most geometric
        term *= ratio
        below += term
        if ratio < 1:
            rest = term * ratio / (1 - ratio)
            if rest < _SMALL:
                return below.union(below + rest)
    return below


def _log_weighted(k: int, n: int, sizes: list[tuple[int, arb]], v: arb) -> arb:
    """ln of Σ_m (λ_m/δ) C(m,k)/C(n,k) (1-v)^(m-n) ("Sample compression")."""
    whole, each = log_choose(n, k), (1 - v).log()
    logs = list[arb]()
    for m, share in sizes:
        log_ratio = log_choose(m, k) - whole
        logs.append(share.log() + log_ratio + (m - n) * each)
    return log_sum(logs)
