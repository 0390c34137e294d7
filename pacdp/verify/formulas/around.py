"""The price of a Gaussian around a Gibbs law that nobody draws ("Gibbs laws that nobody draws")."""

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.claim import Price

NEEDS = (
    "potentials one a record",
    "schedule blind to the records",
    "losses convex",
    "norms of all records kept",
)
"""What is needed because of it: no draw was made, and no noise is asked for."""


def moments(p: Price) -> list[arb]:
    """M_j = α_j (E_Q Σ_i c_ij + KL), the mean tilts and the divergence, which f is paid with at every order."""
    kl = p.c["around_divergence"]
    orders = p.c.listed("sum_orders")
    tilts = p.c.listed("around_log_moments")
    return [m + a * kl for a, m in zip(orders, tilts, strict=True)]
