"""The trajectory of a chain: its noise, where it may end, what norms of gradients add up to, and who pays for it.

V = Σ_i Σ_t ‖h_t(z_i; Y)‖² ("Noisy sums" in docs/guarantees.md). The price that is paid at V is ``realised_sum`` in
``pacdp.verify.formulas.prices``; that the norms are those of all records is asked in ``pacdp.verify.replay``.
"""

from collections.abc import Iterable
from math import sqrt

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import ball, total
from pacdp.verify.claim import Fields, exactly, require
from pacdp.verify.events import Step, require_few
from pacdp.verify.files import Folder
from pacdp.verify.measured import SUM
from pacdp.verify.needs import KEPT, KNOWN_BATCHES, standings

PAYING = "sum_contributions"
"""The input by which a certificate pays for the norms that its run kept."""
_PAYING = """
report.n = count
report.unit = unit
examples = header.n
made.inputs.n = count
"""
"""What is certified where norms are paid for."""
_MOMENTS = "other stopping times"
"""What a budget has for the moments at which a run might have ended."""
_ORDERS = [1.0 + 0.02 * 2.0 ** (k / 2) for k in range(17)]
"""The orders of a realised price, all of which are paid for."""


def steps_of_chain(
    sampler: Fields, n: int, steps: int
) -> list[Step]:
    """What so many steps of clipped SGLD or Entropy-SG(L)D add: noise (K/C) √(2/(τ h)), at sample rate K/n."""
    clip = sampler["clip_norm"] or 0.0
    require(
        clip and sampler.kind in ("SGLD", "EntropySGD"),
        "the sampler's steps are no private mechanisms",
    )
    rate = sampler.batch_size / n
    return [
        Step(rate, noise / clip) for noise in noises(sampler, steps)
    ]


def noises(sampler: Fields, steps: int) -> list[float]:
    """K √(2κ/(τ h)) at the step size h: standard deviation of the noise on a sum of gradients ("Noisy sums").

    κ is the friction of SGHMC and otherwise 1; τ grows with the step where the settings cool.
    """
    require_few(steps * sampler.get("inner_steps", 1))
    if sampler.kind == "EntropySGD":
        size = sampler.inner_step_size / 2
        decay = sampler.inner_decay
        places = list(range(1, sampler.inner_steps + 1)) * steps
        cooling = 0.0
    else:
        size = sampler.step_size
        decay = sampler.decay
        places = range(1, steps + 1)
        cooling = sampler.get("cooling", 0.0)
    friction = sampler.get("friction", 1.0)
    return [
        sampler.batch_size
        * sqrt(
            2
            * friction
            / (sampler.tau * t**cooling * size * t**-decay)
        )
        for t in places
    ]


def noise_of_one(run: Fields, size: float) -> float:
    """Tempered noise of DP-SGLD at a step size, for each record of a batch."""
    heat = 2 * run.method.temperature / size
    return sqrt(heat) / run.sampling.clip_norm


def check_moments(
    certificates: Iterable[Fields], listed: list[int]
) -> None:
    """Each certificate may fail as often at each of the listed moments."""
    for made in certificates:
        others = exactly(made.budget.get(_MOMENTS, 0))
        own = exactly(made.failure_prob) - others
        require(
            others * SUM >= (len(listed) - 1) * own,
            f"{made.name} does not pay for the other moments at which the run might have ended",
        )


def check_norms(f: Folder) -> None:
    """Certificates of a chain that kept the norms of its gradients pay for these, all of them, at the fixed orders."""
    header = f.header
    sampler = header.sampler
    kept = f.stored.tensors.get("trace.squared_norms")
    require(
        sampler["clip_norm"] is None
        and sampler.kind in ("SGLD", "SGHMC", "EntropySGD"),
        "the sampler's steps are no sums of gradients, as they are, with noise",
    )
    require(
        kept and kept.kind == "float64",
        "the checkpoint holds no norms, of which these certificates are made",
    )
    whole = realised_contributions(
        f.stored.numbers("trace.squared_norms").ravel(),
        noises(sampler, header.step),
    )
    for made in (
        one for one in f.certificates if PAYING in one.inputs
    ):
        said = exactly(made.inputs.sum_contributions)
        require(
            whole * (1 - 1e-9) <= said <= whole * (1 + 1e-5),
            f"{made.name} pays for contributions of {said}, and the norms add up to {whole}",
        )
        _check_paying(f, made)


def _check_paying(f: Folder, made: Fields) -> None:
    """It counts the records whose norms these are, at the fixed orders, and proves no more than a sum shows."""
    header = f.header
    name = made.name
    people = header["people"]
    count = people.count if people else header.n
    unit = "person" if people else "example"
    examples = f.report.examples or count
    given = {"made": made, "count": count, "unit": unit}
    f.hold(_PAYING, **given, examples=examples)
    require(
        [float(word) for word in made.inputs.sum_orders.split(",")]
        == _ORDERS
        and "sum_weights" not in made.inputs,
        f"{name} has other orders than those that were fixed before any run",
    )
    standing = standings(made)
    require(
        standing.get(KNOWN_BATCHES) != "proved"
        or every_record(header),
        f"{name} takes every record for in every batch, and the settings draw batches",
    )
    require(
        standing.get(KEPT) != "proved",
        f"{name} takes the norms of all records for proved, and a sum shows no record",
    )


def realised_contributions(
    squared_norms: Iterable[float], noises: list[float]
) -> arb:
    """V = Σ_t Σ_i ‖g_t(z_i)‖²/σ_t², from what the records added at each step ("Noisy sums")."""
    norms = [float(norm) for norm in squared_norms]
    require(
        len(norms) == len(noises),
        f"{len(noises)} steps ran, and {len(norms)} norms were recorded",
    )
    require(
        all(norm >= 0.0 for norm in norms),
        "a norm is negative or no number",
    )
    return total(
        ball(norm) / ball(noise) ** 2
        for norm, noise in zip(norms, noises, strict=True)
    )


def every_record(header: Fields) -> bool:
    """Whether every record is in every batch of the chain."""
    sampler = header.sampler
    every = bool(sampler["every_record"])
    return every and sampler.batch_size == header.n
