"""What k of n records promise, from tails that are added up term by term."""

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import (
    ONE,
    ball,
    binomial_below,
    log_choose,
    log_sum,
    total,
    zero_of,
)
from pacdp.verify.claim import Claim, require


def compression(c: Claim) -> arb:
    """ε_k: the largest v with Σ_{m=k}^{n-1} λ_m C(m,k)/C(n,k) (1-v)^(m-n) ≤ 1 ("Sample compression")."""
    n = c.n
    k = c.whole("k", n)
    c.terms_are(kept_share=arb(k) / n)
    sizes = _weights(c, k)
    if k == n or sizes == []:
        return ONE
    log_delta = c.failure_prob.log()
    lowest = (arb(k) / n).max(ONE / n / 2**60)
    return zero_of(
        lambda v: log_delta + _log_tail(k, n, sizes, v), lowest, 1
    )


def _weights(c: Claim, k: int) -> list[tuple[int, arb]] | None:
    """The m ≥ k with λ_m > 0, and λ_m/δ: Σ λ_m = δ; None of equal ones ("Sample compression")."""
    if "weight_sizes" not in c.inputs:
        return None
    sizes = list(map(int, c.inputs.weight_sizes.split(",")))
    shares = c.listed("weight_shares")
    require(
        len(set(sizes)) == len(sizes)
        and all(0 <= m < c.n for m in sizes)
        and total(shares) <= 1 + ball(1e-12)
        and all(one >= 0 for one in shares),
        f"the weights {shares} of the sizes {sizes}, of {c.n}, are no shares of one failure probability",
    )
    pairs = zip(sizes, shares, strict=True)
    return [
        (m, share) for m, share in pairs if m >= k and share > 0
    ]


def _log_tail(
    k: int, n: int, sizes: list[tuple[int, arb]] | None, v: arb
) -> arb:
    """ln of Σ_m (λ_m/δ) C(m,k)/C(n,k) (1-v)^(m-n) ("Sample compression")."""
    if sizes is None:
        return _log_uniform(k, n, v)
    each = (1 - v).log()
    logs = [
        share.log() + log_choose(m, k) + (m - n) * each
        for m, share in sizes
    ]
    return log_sum(logs) - log_choose(n, k)


def _log_uniform(k: int, n: int, v: arb) -> arb:
    """ln of P(Bin(n, v) > k) / (n v P(Bin(n, v) = k)), for λ_m = δ/n ("Sample compression")."""
    log_mass = log_choose(n, k) + (n - k) * (1 - v).log()
    if k:
        log_mass += k * v.log()
    above = 1 - binomial_below(k, n, v)
    return above.log() - (n * v).log() - log_mass
