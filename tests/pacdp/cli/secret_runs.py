"""Tiny runs of clipped chains whose noise comes from the operating system, and what a ledger counts of them."""

from dataclasses import replace

from tiny_runs import tiny

from pacdp.store.ledger import Ledger


def secret(algorithm="clipped-sgld", **more):
    """A tiny run whose noise nobody knows."""
    return replace(tiny(algorithm, **more), reproducible=False)


KINDS = {
    "SGLD": secret(),
    "SGLD, decaying": secret(decay=0.3),
    "Entropy-SGLD": secret("entropy-sgld", clip_norm=1.0, inner_steps=5),
}


def counted_in(ledger):
    """What the entries of a ledger count, in their order."""
    return [entry.stretch for entry in Ledger.load(ledger).entries]


def stretches(ledger, kind="reservation"):
    return [(one.first, one.last) for one in counted_in(ledger) if one.kind == kind]
