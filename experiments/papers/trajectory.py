"""Certificates of trajectories: training pays with its own noisy gradients, on all the examples that it used.

Langevin chains and Entropy-SG(L)D that keep their norms ("Noisy sums" in docs/guarantees.md), clipped chains and
private runs on secret batches ("Noisy sums on secret batches"); random labels; certificates against temperature.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from bounds import Certificate
from experiments.claims import MISSING, Claim, Comparison, Point, judging, point
from experiments.figures import trajectory as figures
from experiments.papers.certificates import above
from experiments.papers.chains import BRIEF, EXAMPLES
from experiments.papers.runs.certified import anywhere, certified_chain
from experiments.study import Done, Row, Study, columns, drawing, tabled
from experiments.tables import column
from pacdp import Architecture, GibbsSettings, Problem, Settings
from pacdp.algorithms import SGHMC, SGLD, EntropySGD
from pacdp.cli.config import Run, Runtime
from pacdp.cli.figures.numbers import up
from pacdp.cli.folder import Folder
from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.private.recipes import private_recipe
from pacdp.cli.reading import certificates_of, error_on_test
from pacdp.cli.recipes import Scale, recipe
from pacdp.cli.sweep.jobs import Job, single

TRIED = 1000
"""More settings than were compared for this study, on MNIST and on digits; each certificate pays for so many."""
TEMPERATURES = (250.0, 1000.0, 4000.0, 16000.0, 64000.0)
"""τ of Entropy-SGLD; the paper's is √n, 245 for MNIST."""
_SIZES = {**EXAMPLES, "xrays-mixed": 4672, "malaria": 21_947}
_PAID = Settings.tried(TRIED, "the study")
_COLUMNS = columns(
    (pl.String, "dataset learner sampler price of certificate status settings_by"),
    (pl.Int64, "n batch steps settings"),
    (pl.Float64, "tau nats value failure_prob test_error n_test seconds"),
)


def _of_chain(run: Run, runtime: Runtime, folder: Path) -> Row:
    return certified_chain(run, runtime, folder, unlisted=_PAID) | {"provenance": None}


def _of_private(config: PrivateConfig, runtime: Runtime, folder: Path) -> Row:
    from pacdp.cli.private.certify import certify_private  # brings Opacus
    from pacdp.cli.private.run import train_private

    if not Folder(folder / "run").finished:
        train_private(config, folder / "run", runtime, resume=True)
    checkpoint = Folder(folder / "run").checkpoint
    report = certify_private(checkpoint, runtime, failure_prob=0.05 / TRIED, std=0.01, seed=config.seed)
    return anywhere(report) | {"provenance": None}


CHAIN, PRIVATE = single(_of_chain), single(_of_private)


def jobs(scale: Scale, seed: int = 0) -> list[Job]:
    """Every learner, on two-class and ten-class images; those that take long first."""
    small = scale == "smoke"
    chains = [_brief(*one) for one in _of_digits()] if small else _of_images()
    parts = [*chains, *_private(scale, seed)]
    return [
        Job(key=key, kind=PRIVATE if isinstance(config, PrivateConfig) else CHAIN, config=config, tags=tags)
        for key, config, tags in parts
    ]


Named = tuple[str, Any, dict[str, Any]]
_LINEAR, _HIDDEN = Architecture(hidden=()), Architecture(hidden=(100,))
_MOMENTUM = SGHMC(tau=1000.0, step_size=3.0, friction=0.2, cooling=0.5)


def _of_images() -> Iterator[Named]:
    settings = replace(_MOMENTUM, tau=1500.0, step_size=1.0)
    yield _chain("langevin-pixels", "mnist", Architecture(name="cnn3"), "pixels", settings, 90.0)
    yield _chain("langevin-features", "mnist2", _LINEAR, "waves", replace(_MOMENTUM, step_size=4.0), 300.0)
    yield _chain("sgld-features", "mnist2", _LINEAR, "waves", SGLD(tau=20000.0, step_size=3.0), 250.0)
    settings = replace(_MOMENTUM, tau=2000.0, step_size=1.0, friction=0.3)
    yield _chain("langevin-pixels", "mnist2", _HIDDEN, "pixels", settings, 100.0)
    yield _chain("langevin-patches", "cifar10", _LINEAR, "patches", _MOMENTUM, 150.0)
    for fraction in (0.0, 1.0):
        yield _chain("langevin-features", "mnist", _LINEAR, "fine-gradients", _MOMENTUM, 200.0, random_labels=fraction)
    yield _entropy_chain("mnist2", "some-waves", 16000.0, beta=None, epochs=200.0)
    for tau in TEMPERATURES:
        yield _entropy_chain("mnist2", "some-waves", tau, beta=1.0, epochs=120.0)
    settings = replace(_MOMENTUM, tau=30.0, step_size=1.0)
    yield _chain("langevin-people", "xrays-mixed", _LINEAR, "film-waves", settings, 60.0)
    yield _chain("langevin-people", "malaria", _LINEAR, "spot-waves", replace(_MOMENTUM, tau=0.7, cooling=1.0), 20.0)
    yield _of_digits_alone()


def _of_digits() -> Iterator[Named]:
    """Some of these on 1,437 digits, in seconds, to see that everything works; no person is known of them. Each has
    over 100,000 draws of weights to make, whatever its length, so that there are few."""
    for fraction in (0.0, 1.0):
        settings = _MOMENTUM
        yield _chain("langevin-features", "digits", _LINEAR, "coarse-gradients", settings, 5.0, random_labels=fraction)
    yield _chain("sgld-features", "digits2", _LINEAR, "coarse-waves", SGLD(tau=30000.0, step_size=3.0), 5.0)
    for tau in TEMPERATURES[::3]:
        yield _entropy_chain("digits2", "coarse-waves", tau, beta=1.0, epochs=5.0)


def _brief(name: str, run: Run, tags: dict[str, Any]) -> Named:
    return name, replace(run, track=BRIEF, certify=BRIEF), tags


def _of_digits_alone() -> Named:
    return _chain("langevin-digits", "digits", _LINEAR, "coarse-waves", replace(_MOMENTUM, tau=300.0), 20.0)


def _private(scale: Scale, seed: int) -> Iterator[Named]:
    """Clipped chains and private runs, which pay for sums over secret batches."""
    yield _recipe("entropy-sgd-clipped-digits" if scale == "smoke" else "entropy-sgd-clipped-mnist2", scale, seed)
    for name in ("dp-sgd-mnist", "dp-sgld-mnist", *(() if scale == "smoke" else ("user-dp-sgd-malaria",))):
        config = replace(private_recipe(name, scale=scale, seed=seed), reproducible=True)
        if scale == "smoke":
            config = replace(config, sampling=replace(config.sampling, steps=6), records=2)
        tags = {"dataset": config.dataset, "learner": f"{config.architecture} on {config.features}", "tau": None}
        yield name, config, tags | {"sampler": config.algorithm, "steps": config.sampling.steps, "batch": None}


def _entropy_chain(dataset: str, features: str, tau: float, *, beta: float | None, epochs: float) -> Named:
    kind = "entropy-sgd" if beta is None else "entropy-sgld"
    return _chain(f"{kind}-{tau:g}", dataset, _LINEAR, features, _entropy(tau, beta=beta), epochs)


def _entropy(tau: float, *, beta: float | None) -> EntropySGD:
    """Ten inner steps of length 2, after which the weights move all the way to their average."""
    return EntropySGD(tau=tau, gamma=0.03, beta=beta, base_std=30.0, inner_steps=10, inner_step_size=6.0,
                      inner_decay=0.0, outer_step_size=2.0, outer_decay=0.0)  # fmt: skip


def _chain(
    name: str, dataset: str, architecture: Architecture, features: str, settings: Any, epochs: float,
    random_labels: float = 0.0,
) -> Named:  # fmt: skip
    """A chain that takes every record in every step and keeps its norms."""
    n = _SIZES[dataset]
    more = {} if isinstance(settings, EntropySGD) else {"base_std": 30.0}
    sampler = replace(settings, batch_size=n, keep_norms=True, every_record=True, **more)
    problem = Problem(
        dataset=dataset, architecture=architecture, max_loss=8.0, features=features, random_labels=random_labels
    )
    effort = GibbsSettings(epochs=20.0, prior_draws=20, test_draws=20)
    run = Run(problem=problem, sampler=sampler, epochs=epochs, records=1, track=effort, certify=effort)
    labels = "+random" if random_labels else ""
    return f"{name}-{dataset}{labels}", run, _tags(run, dataset + labels, architecture, features)


def _recipe(name: str, scale: Scale, seed: int) -> Named:
    run = replace(recipe(name, scale=scale, seed=seed), reproducible=True)
    if scale == "smoke":
        run = replace(run, epochs=1.0, records=1, track=BRIEF, certify=BRIEF)
    return name, run, _tags(run, run.problem.dataset, run.problem.architecture, "pixels as they are")


def _tags(run: Run, dataset: str, architecture: Architecture, features: str) -> dict[str, Any]:
    layers = "-".join(map(str, architecture.hidden)) if architecture.name == "fc" else architecture.name
    return {
        "dataset": dataset, "learner": f"{layers or 'linear'} on {features}", "sampler": run.sampler.name,
        "batch": run.sampler.batch_size, "steps": None, "tau": getattr(run.sampler, "tau", None),
    }  # fmt: skip


def rows(done: Done) -> Iterator[Row]:
    """A row a certificate of a risk."""
    report = done.result
    for made in certificates_of(report):
        if made.measures.startswith("0-1 risk"):
            yield {**done.tags, **_row(made, report), "steps": report["subject"].get("step", done.tags["steps"])}


def _row(made: Certificate, report: Row) -> Row:
    costs = sum(one.nats for one in made.costs)
    fixed, count = made.hypothesis("settings fixed beforehand"), report["choices"]["count"]
    paid = count if count > 1 else TRIED  # private runs pay in the failure probability that they are asked for
    return {
        "of": made.of,
        "certificate": made.name,
        "price": _price(made),
        "value": made.value,
        "status": made.status,
        "failure_prob": paid * made.failure_prob,
        "settings": paid,
        "settings_by": f"{fixed.standing}: {fixed.by}",
        "nats": costs or None,
        "n": made.inputs.get("n", report["n"]),
        "test_error": error_on_test(report, made.of, made.measures),
        "n_test": next((one["n"] for one in report["measured"] if one["on"] == "test"), None),
        "seconds": report["details"]["seconds"],
    }


def _price(made: Certificate) -> str:
    if made.name.startswith("test_set"):
        return "held-out count"
    names = {"sum_contributions": "realised norms", "sum_log_moments": "realised norms",
             "sum_event": "clipped sums", "sum_mu": "clipped sums", "privacy_notion": "privacy curve"}  # fmt: skip
    return next((said for name, said in names.items() if name in made.inputs), "stationarity")


TARGETS = {
    "ten classes, fixed features": (0.030, {"learner": "linear on fine-gradients", "price": "realised norms"}, 10),
    "two classes, fixed features": (0.050, {"learner": "linear on waves", "price": "realised norms"}, 2),
    "two classes, fixed features, Entropy-SGD": (
        0.050,
        {"sampler": "Entropy-SGD", "learner": "linear on some-waves", "price": "realised norms"},
        2,
    ),
    "two classes, fixed features, SGLD": (
        0.050,
        {"sampler": "SGLD", "learner": "linear on waves", "price": "realised norms"},
        2,
    ),
    "ten classes, raw pixels": (0.100, {"learner": "cnn3 on pixels", "price": "realised norms"}, 10),
    "two classes, raw pixels": (0.090, {"learner": "100 on pixels", "price": "realised norms"}, 2),
}
"""At most so much, of whom, and the number of classes."""
AIM = "the deployed weights are certified at most at"


def _weights(table: pl.DataFrame) -> pl.DataFrame:
    return table.filter((pl.col("of").is_in(["weights", "predictor"])) & (pl.col("status") == "rigorous"))


def _reached(table: pl.DataFrame, what: str) -> float | None:
    """The least certificate of the weights that an aim speaks of; None where no such run is there."""
    _, where, classes = TARGETS[what]
    dataset = "mnist" if classes == 10 else "mnist2"
    return min(column(_weights(table), "value", {"dataset": dataset, **where}), default=None)


def numbers(table: pl.DataFrame, scale: Scale) -> Iterator[Comparison]:
    """What the project set out for."""
    for what, (limit, *_) in TARGETS.items():
        yield Comparison(f"{what}, the deployed weights", limit, _reached(table, what), "the aim that was set")


def _aims(table: pl.DataFrame) -> Iterator[Claim]:
    """A certificate is a number: it keeps to its aim or not."""
    for what, (limit, *_) in TARGETS.items():
        value = _reached(table, what)
        sentence = f"{what}: {AIM} {limit:g}, the aim that was set."
        told = MISSING if value is None else f"{up(value)}, {abs(value - limit) / limit:.1%} "
        told += "" if value is None else "below" if value <= limit else "above"
        yield Claim(sentence, None if value is None else value <= limit, told, "its runs at scale cpu")


def points(table: pl.DataFrame, scale: Scale, claims: Sequence[Claim]) -> Iterator[Point]:
    """Which aims were reached."""
    own = {
        what: (limit, value) for what, (limit, *_) in TARGETS.items() if (value := _reached(table, what)) is not None
    }
    shown = {False: list[str](), True: list[str]()}
    for what, (limit, value) in own.items():
        shown[value <= limit].append(f"{what} {up(value)} for {limit:g}")
    said = f"Certificates of a trajectory keep to the aims that were set: {len(shown[True])} of {len(own)} do"
    parts = [f"{word} ({'; '.join(shown[kept])})" for kept, word in ((False, "missed"), (True, "kept")) if shown[kept]]
    yield point(claims, AIM, f"{said}: {', '.join(parts)}" if own else "")


def claims(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """Against the aims, test errors, chance and today's prices."""
    yield from _aims(table)
    risks = table.filter(pl.col("price") != "held-out count").with_columns(
        recipe=pl.col("sampler") + " " + pl.col("learner"), below_test=pl.col("value") < pl.col("test_error")
    )
    rigorous = pl.col("status") == "rigorous"
    yield above("Every rigorous certificate is at least its test error.", risks.filter(rigorous))
    yield above("So is every optimistic one.", risks.filter(~rigorous))
    random = column(_weights(table), "value", {"dataset": _ten(scale) + "+random", "price": "realised norms"})
    chance = 0.9
    told = ", ".join(map(up, random))
    sentence = "Random labels have a certificate at chance or above, whatever was fitted."
    yield Claim(sentence, all(value >= chance for value in random) if random else None, told or "missing")
    for sampler, new, old in _pairs(_weights(table)):
        sentence = f"{sampler}: the price of its noisy sums is below that of its privacy curve."
        yield Claim(sentence, new < old, f"{up(new)} against {up(old)}")


def _ten(scale: Scale) -> str:
    return "digits" if scale == "smoke" else "mnist"


def _pairs(table: pl.DataFrame) -> Iterator[tuple[str, float, float]]:
    for (sampler, dataset), part in table.group_by("sampler", "dataset", maintain_order=True):
        found = {price: column(part, "value", {"price": price}) for price in ("clipped sums", "privacy curve")}
        if all(found.values()):
            yield f"{sampler}, {dataset}", min(found["clipped sums"]), min(found["privacy curve"])


NOTES = (
    "Every certificate has its failure probability by itself, and pays for the choice among its settings with it. The "
    "list of settings was written down after the tries: that there were no more is declared.",
    "Rows of the price stationarity are optimistic: they assume that SGLD has converged, which nothing shows.",
    "Records of X-rays and malaria cells are people: what one adds to a sum is the mean over their examples, n counts "
    "them, and the risk is that on a new person. The X-rays' patients are mixed: their authors' two sets are of "
    "different laws, and certificates speak of one that stays the same.",
    "Held-out counts are those of the test set, which no other row uses; they do not pay for test errors that were "
    "looked at.",
    "Rounding of gradients and sums in single precision is not accounted for; the norms are rounded up.",
    "That each aim was reached was made a claim after the table had been looked at; before, the aims stood beside the "
    "numbers alone.",
)

TRAJECTORY = Study(
    name="trajectory",
    title="Certificates of trajectories that pay with their own gradients",
    paper="this project; temperatures as in Dziugaite and Roy 2018",
    jobs=jobs,
    table=tabled(rows, _COLUMNS),
    draw=drawing(figure=figures.draw),
    judge=judging(numbers=numbers, claims=claims, notes=lambda table, scale: NOTES, points=points),
)
