"""Tiny runs of clipped chains whose noise comes from the operating system, and what a ledger counts of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from tiny_runs import tiny

from pacdp.cli.config import Run
from pacdp.ledger import Ledger


def secret(algorithm: str = "clipped-sgld", **more: Any) -> Run:
    """A tiny run whose noise nobody knows."""
    return replace(tiny(algorithm, **more), reproducible=False)


KINDS = {
    "SGLD": secret(),
    "SGLD, decaying": secret(decay=0.3),
    "Entropy-SGLD": secret("entropy-sgld", clip_norm=1.0, inner_steps=5),
}


def stretches(ledger: Path, kind: str = "reservation") -> list[tuple[int, int]]:
    entries = Ledger.load(ledger).entries
    return [(one.stretch.first, one.stretch.last) for one in entries if one.stretch.kind == kind]
