"""Which route certifies best from n labelled images, by measurement: compression of all of them, a count on one half
with the same learner run on the other, and what private training of Entropy-SGLD would say if its chain had converged.

The learner of the first two is a kernel machine on fixed features; the last trains a network on all images at τ = √n,
the setting of Dziugaite and Roy 2018, whose differentially private PAC-Bayes bound stands beside the rigorous ones.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from experiments.claims import Claim, every, judging, least_risk
from experiments.figures import routes as figures
from experiments.papers.runs.certified import certified_chain
from experiments.study import Done, Row, Study, columns, drawing, tabled
from experiments.tables import part
from pacdp import Architecture, GibbsSettings, Problem
from pacdp.certify import BoundSet
from pacdp.cli.compressing import Compression
from pacdp.cli.compression_recipes import compression
from pacdp.cli.config import Run, Runtime
from pacdp.cli.figures.numbers import up
from pacdp.cli.folder import Folder, provenance
from pacdp.cli.reading import certificates_of
from pacdp.cli.recipes import Scale, sampler
from pacdp.cli.sweep.jobs import Job, single
from pacdp.compress import Groups
from pacdp.compress.certify import compress
from pacdp.data import make_splits
from pacdp.losses import error_count

SIZES: dict[Scale, tuple[int, ...]] = {
    "smoke": (200, 500),
    "cpu": (500, 1000, 2000, 5000, 10_000, 20_000, 60_000),
    "paper": (500, 1000, 2000, 5000, 10_000, 20_000, 60_000),
}
GROUPS = Groups(sizes=(10, 3), starts=(0, 60))
COMPRESSED, COUNTED, PRIVATE = "compression of all", "count on a held-out half", "private chain, if stationary"
_BOUND = "dp_pac_bayes"
_COLUMNS = columns(
    (pl.String, "dataset learner route status"),
    (pl.Int64, "n k"),
    (pl.Float64, "value failure_prob test_error"),
    (pl.Int64, "n_test"),
    (pl.Float64, "seconds"),
)
NOTES = (
    "k counts records kept, or errors on the half that was held out. The kernel machine's settings were chosen on the "
    "test images, whose error is therefore a little too good; certificates are not touched.",
    "The count has half of the images to learn from, and the same learner: run on records that it picks, which for "
    "the count it need not be.",
    "The private chain's bound is optimistic: it takes for true that Entropy-SGLD's chain was stationary. One fully "
    "connected network, 20 epochs, τ = √n; not tuned for small n.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A compression of one part of the examples, counted on the other."""

    compression: Compression
    held_out: int
    """Examples of the other part, drawn with the seed."""

    @property
    def seed(self) -> int:
        """The compression's."""
        return self.compression.seed


def _of_kernel(config: Counted, runtime: Runtime, folder: Path) -> Row:
    made, seed = config.compression, config.seed
    data, test = made.problem.data(root=runtime.data_root)
    parts = make_splits(data.n, sizes={"rest": config.held_out, "sample": data.n - config.held_out}, seed=seed)
    rest = data.subset(parts["rest"]) if config.held_out else None
    tests = BoundSet.part(test)
    found = compress(made.learner, data.subset(parts["sample"]), test=rest, groups=made.groups, stop=made.stop,
                     seed=seed, failure_prob=made.failure_prob, settings=made.settings(tests),
                     file=Folder(folder).checkpoint, every=runtime.checkpoint_seconds)  # fmt: skip
    errors = None if found.trace.best is None else error_count(found(tests.inputs), tests.labels)
    report = found.assessment.to_dict(provenance=provenance(device=runtime.device, seed=seed))
    return report | {"details": {**report["details"], "test_errors": errors, "n_test": tests.n, "labelled": data.n}}


def _of_chain(run: Run, runtime: Runtime, folder: Path) -> Row:
    report = certified_chain(run, runtime, folder)
    tested = next(one for one in report["measured"] if (one["on"], one["of"], one["loss"]) == _TESTED)
    details = {"test_errors": tested["mean"] * tested["n"], "n_test": tested["n"], "labelled": report["n"]}
    return report | {"details": {**report["details"], **details}}


_TESTED = ("test", "Gibbs classifier", "zero-one")
KERNEL, CHAIN = single(_of_kernel), single(_of_chain)


def jobs(scale: Scale, seed: int = 0) -> list[Job]:
    """Every route at every n."""
    dataset = "digits2" if scale == "smoke" else "mnist2"
    found = list[Job]()
    for n in SIZES[scale]:
        made = replace(compression("kernel", dataset, scale=scale, train_size=n, seed=seed), groups=GROUPS, expected=())
        tags = {"dataset": dataset, "n": n}
        for route, held_out in ((COMPRESSED, 0), (COUNTED, n // 2)):
            own = Counted(compression=made, held_out=held_out)
            key, told = f"routes-{'held-out' if held_out else 'all'}-{n}", {**tags, "learner": "kernel", "route": route}
            found.append(Job(key=key, kind=KERNEL, config=own, tags=told))
        own = {**tags, "learner": "entropy-sgld", "route": PRIVATE}
        found.append(Job(key=f"routes-chain-{n}", kind=CHAIN, config=_chain(dataset, n, scale, seed), tags=own))
    return found


def _chain(dataset: str, n: int, scale: Scale, seed: int) -> Run:
    effort = GibbsSettings(epochs=2.0, prior_draws=5, test_draws=20)
    problem = Problem(dataset=dataset, architecture=Architecture(hidden=(100,)), train_size=n, split_seed=seed)
    settings = sampler("entropy-sgld", scale=scale, dataset=dataset, tau=math.sqrt(n))
    return Run(problem=problem, sampler=settings, epochs=20.0, records=1, seed=seed, track=effort, certify=effort,
               reproducible=True)  # fmt: skip


def rows(done: Done) -> Iterator[Row]:
    """A row a run; 1 where nothing was certified."""
    report, route = done.result, done.tags["route"]
    name = {COMPRESSED: "compression", COUNTED: "test_set_clopper_pearson", PRIVATE: _BOUND}[route]
    made = next((one for one in certificates_of(report) if one.name == name), None)
    details = report["details"]
    errors = details["test_errors"]
    yield {
        **done.tags,
        "k": None if made is None else made.inputs.get("k"),
        "value": 1.0 if made is None else made.value,
        "status": "nothing certified" if made is None else made.status,
        "failure_prob": report["failure_prob"],
        "test_error": None if errors is None else errors / details["n_test"],
        "n_test": details["n_test"],
        "seconds": details["seconds"],
    }


def _values(table: pl.DataFrame, route: str) -> dict[int, dict[str, Any]]:
    return {row["n"]: row for row in part(table, route=route).iter_rows(named=True)}


def claims(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """Which route is smallest at which n, and that none is below its test error."""
    every_row = list(table.filter(pl.col("test_error").is_not_null()).iter_rows(named=True))
    low = [row for row in every_row if row["value"] < least_risk(row["test_error"], row["n_test"])]
    told = f"{len(every_row) - len(low)} of {len(every_row)}"
    yield Claim("Every certificate is at least its network's test error.", not low if every_row else None, told)
    all_, half, chain = (_values(table, route) for route in (COMPRESSED, COUNTED, PRIVATE))
    for sentence, one, other in (
        ("A count on a held-out half certifies less than compression of all, at every n.", half, all_),
        (
            "Compression of all certifies less than the private chain if that were stationary, at every n.",
            all_,
            chain,
        ),
    ):
        pairs = [(n, one[n]["value"], other[n]["value"]) for n in sorted(one.keys() & other.keys())]
        shown = "; ".join(f"n = {n}: {up(a)} against {up(b)}" for n, a, b in pairs)
        yield Claim(sentence, every(a < b for _, a, b in pairs), shown or "none")
    grown = [(n, all_[n]["k"]) for n in sorted(all_) if all_[n]["k"]]
    rising = [b[1] / b[0] < a[1] / a[0] for a, b in itertools.pairwise(grown)]
    told = "; ".join(f"n = {n}: {k}" for n, k in grown)
    yield Claim("The records that are needed grow more slowly than n.", every(rising), told or "none")


STUDY = Study(
    name="compression-routes",
    title="Routes to a certificate against the number of labelled images",
    paper="beside Dziugaite and Roy 2018; Campi and Garatti 2023",
    jobs=jobs,
    table=tabled(rows, _COLUMNS),
    draw=drawing(figure=figures.draw),
    judge=judging(claims=claims, notes=lambda table, scale: NOTES),
)
