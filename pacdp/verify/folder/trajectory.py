"""What a chain that kept the norms of its gradients pays for: V = Σ_i Σ_t ‖h_t(z_i; Y)‖² ("Noisy sums").

The price that is paid at V is ``realised_sum`` in ``pacdp.verify.prices.noisy``.
"""

from collections.abc import Iterable

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import ball, total
from pacdp.verify.claim import Fields, Wrong, exactly
from pacdp.verify.folder.plan import noises_on_sums
from pacdp.verify.folder.read import Folder
from pacdp.verify.needs import standings

_GRID = [1.0 + 0.02 * 2.0 ** (k / 2) for k in range(17)]
"""The orders of a realised price, all of which are paid for."""


def check_norms(f: Folder) -> None:
    """Certificates of a chain that kept the norms of its gradients pay for these, all of them, at the fixed orders."""
    whole = _sum_of_norms(f)
    for made in f.paying_for_norms:
        said = exactly(made.inputs.sum_contributions)
        if not whole * (1 - 1e-9) <= said <= whole * (1 + 1e-5):
            raise Wrong(
                f"{made.name} pays for contributions of {said}, and the norms add up to {whole}"
            )
        _check_records(f, made)
        _check_standings(f, made)
        grid = [float(word) for word in made.inputs.sum_orders.split(",")]
        if grid != _GRID or "sum_weights" in made.inputs:
            raise Wrong(
                f"{made.name} has other orders than those that were fixed before any run"
            )


def _sum_of_norms(f: Folder) -> arb:
    kept = f.stored.tensors.get("trace.squared_norms")
    if kept is None or kept.kind != "float64":
        raise Wrong(
            "the checkpoint holds no norms, of which these certificates are made"
        )
    noises = noises_on_sums(f.header.sampler, f.header.step)
    return realised_contributions(kept.array().ravel(), noises)


def realised_contributions(
    squared_norms: Iterable[float], noises: list[float]
) -> arb:
    """V = Σ_t Σ_i ‖g_t(z_i)‖²/σ_t², from what the records added at each step ("Noisy sums")."""
    norms = [float(norm) for norm in squared_norms]
    if len(norms) != len(noises):
        raise Wrong(
            f"{len(noises)} steps ran, and {len(norms)} norms were recorded"
        )
    if not all(norm >= 0.0 for norm in norms):
        raise Wrong("a norm is negative or no number")
    steps = zip(norms, noises, strict=True)
    return total(ball(norm) / ball(noise) ** 2 for norm, noise in steps)


def _check_records(f: Folder, made: Fields) -> None:
    """The norms are of the records that the certificate counts: examples, or people."""
    header, report = f.header, f.report
    examples = report.examples or report.n
    if made.inputs.n != report.n or examples != header.n:
        raise Wrong(
            f"{made.name} is about {made.inputs.n} records, the report {report.n} of {examples} examples"
        )
    count, unit = header.n, "example"
    if people := header.get("people"):
        count, unit = people.count, "person"
    if (report.n, report.unit) != (count, unit):
        raise Wrong(
            f"the norms are of {count} {unit}s, the report's records {report.n}"
        )


def _check_standings(f: Folder, made: Fields) -> None:
    standing = standings(made)
    if standing.get(
        "batches drawn without the records"
    ) == "proved" and not every_record(f.header):
        raise Wrong(
            f"{made.name} takes every record for in every batch, and the settings draw batches"
        )
    if standing.get("norms of all records kept") == "proved":
        raise Wrong(
            f"{made.name} takes the norms of all records for proved, and a sum shows no record"
        )


def every_record(header: Fields) -> bool:
    """Whether every record is in every batch of the chain."""
    sampler = header.sampler
    return (
        bool(sampler.get("every_record", False))
        and sampler.batch_size == header.n
    )
