"""What k of n records promise ("Sample compression" in docs/guarantees.md), from tails that are added up term by term.

ε_k is where Σ_m λ_m C(m,k)/C(n,k) (1-v)^(m-n), over k ≤ m < n, is 1. For λ_m = δ/n the sum is
δ P(Bin(n, v) > k) / (n v P(Bin(n, v) = k)).
"""

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import ball, zero_of
from pacdp.verify.claim import Claim, Wrong, agree

_SMALL = arb(2) ** -150
_NONE, _ONE = arb(0), arb(1)


def compressed(c: Claim) -> arb:
    """ε_k of the inputs."""
    k, n = c.raw("k"), c.n
    if not (isinstance(k, int) and 0 <= k <= n):
        raise Wrong(f"k is {k!r}, of {n}")
    agree("terms.kept_share", c.terms["kept_share"], arb(k) / n)
    sizes = None if "weight_sizes" not in c.inputs else _weights(c, n)
    if k == n or (sizes is not None and not any(m >= k and share > 0 for m, share in sizes)):
        return _ONE
    delta, low = c["failure_prob"].log(), (arb(k) / n).max(_ONE / n / 2**60)
    if sizes is None:
        return zero_of(lambda v: delta + _uniform(k, n, v), low, 1)
    rest = [(m, share) for m, share in sizes if m >= k and share > 0]
    return zero_of(lambda v: delta + _weighted(k, n, rest, v), low, 1)


def _weights(c: Claim, n: int) -> list[tuple[int, arb]]:
    sizes, shares = [int(part) for part in str(c.raw("weight_sizes")).split(",")], c.listed("weight_shares")
    if len(set(sizes)) != len(sizes) or not all(0 <= m < n for m in sizes):
        raise Wrong(f"the sizes with weights are {c.inputs['weight_sizes']}, of {n}")
    if not sum(shares, _NONE) <= 1 + ball(1e-12) or not all(share >= 0 for share in shares):
        raise Wrong(f"the weights are {c.inputs['weight_shares']}, which are no shares of one failure probability")
    return list(zip(sizes, shares, strict=True))


def _log_choose(n: int, k: int) -> arb:
    return arb(n + 1).lgamma() - arb(k + 1).lgamma() - arb(n - k + 1).lgamma()


def _uniform(k: int, n: int, v: arb) -> arb:
    log_mass = _log_choose(n, k) + (k * v.log() if k else _NONE) + (n - k) * (1 - v).log()
    term = below = log_mass.exp()
    odds = (1 - v) / v
    for j in range(k, 0, -1):
        ratio = odds * j / (n - j + 1)  # it falls with j, so that the rest is at most geometric
        term = term * ratio
        below += term
        if ratio < 1 and (rest := term * ratio / (1 - ratio)) < _SMALL:
            below = below.union(below + rest)
            break
    return (1 - below).log() - (n * v).log() - log_mass


def _weighted(k: int, n: int, sizes: list[tuple[int, arb]], v: arb) -> arb:
    whole, each = _log_choose(n, k), (1 - v).log()
    logs = [share.log() + _log_choose(m, k) - whole + (m - n) * each for m, share in sizes]
    top = max(logs, key=float)
    return top + sum(((log - top).exp() for log in logs), _NONE).log()
