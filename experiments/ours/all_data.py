"""Certificates of what learnt from all labelled data: by trajectory, by compression, by posteriors that are learnt.

Every certificate holds with 95% by itself and pays for the choice of its settings, or had them chosen elsewhere.

- Trajectory: 1,000 settings are paid for, but by the private runs, whose settings are declared; the list was written
  down after the tries. Rounding of gradients and sums in single precision is not accounted for; norms are
  rounded up. Bounds that assume convergence are optimistic. Patients of the X-rays are mixed: their authors' two sets
  are of different laws.
- Compression: settings were chosen with the test images in place of the sample, so that test errors are a little too
  good; certificates are not touched. Malaria and X-rays: a patient is in error when more than the share in column
  tolerance of the patient's images are. The official test set of the X-rays is of another law than their training set.
  CIFAR-10: ten thousand images are the sample; where column start has a number, the network first learnt from so many
  others. Rows with a route are those of one kernel machine on two-class MNIST at growing n; k counts records kept, or
  errors on the half that was held out.
- Learnt posteriors: fixed features have no parameters; their settings were chosen with MNIST in view, on a list of
  28,576,800 that is paid for.
"""

import math
from collections.abc import Iterator
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import bounds
from experiments.claims import Below, Cell, Every, Measured, Number, Printed, Sentence, cell, exact, exactly, made_of
from experiments.panels import plain_log
from experiments.runs import compression, learnt, trajectory
from experiments.runs.compression import COMPRESSED, COUNTED, SIZES
from experiments.runs.learnt import GRADIENTS, STILL, WAVES
from experiments.runs.trajectory import TEMPERATURES
from experiments.study import Done, Row, Section, Study
from experiments.tables import part
from pacdp.cli.figures import style
from pacdp.cli.reading import Reading, certificates_of

COUNT, NORMS, CONVERGED = "test_set_clopper_pearson", "realised_sum_maurer", "dp_pac_bayes"
SUMS, CURVE = "poisson_sum_kl_chernoff", "private_kl_chernoff"


def risks(done: Done) -> Iterator[Row]:
    """A row a certificate of a 0-1 risk."""
    report = done.result
    tested = next((one["n"] for one in report["measured"] if one["on"] == "test"), None)
    found = Reading(report)
    for made in found.certificates:
        if made.measures.startswith("0-1 risk"):
            costs = {one.name: one.nats for one in made.costs}
            yield {
                "steps": (report["subject"] or {}).get("step"), **done.tags, "of": made.of, "certificate": made.name,
                "status": made.status, "value": made.value, "nats": sum(costs.values()) or None,
                "kl_nats": costs.get("kl"), "n": made.inputs.get("n", report["n"]), "n_test": tested,
                "empirical_risk": made.terms.get("empirical_risk"), "seconds": report["details"].get("seconds"),
                "test_error": found.error(made),
            }  # fmt: skip


def heads(done: Done) -> Iterator[Row]:
    """Those of the randomised head and of one draw of it."""
    return (row for row in risks(done) if row["of"] != "prior mean" and row["certificate"] != COUNT)


def compressions(done: Done) -> Iterator[Row]:
    """A row a run; 1 where nothing was certified."""
    report, details = done.result, done.result["details"]
    name = COUNT if done.tags.get("route") == COUNTED else "compression"
    made = next((one for one in certificates_of(report) if one.name == name), None)
    tested, errors = (report["measured"] or [{}])[-1], details.get("test_errors")
    if errors is not None:
        tested = {"mean": errors / details["n_test"], "n": details["n_test"]}
    yield {
        "n": report["n"], "unit": report["unit"], "k": made and made.inputs["k"], "value": made.value if made else 1.0,
        "status": made.status if made else "nothing certified", "test_error": tested.get("mean"),
        "n_test": tested.get("n"), "start": getattr(done.job.config, "start_size", None) or None,
        "seconds": details["seconds"], **done.tags,
    }  # fmt: skip


def _temperatures(table: pl.DataFrame) -> Figure:
    """Certificates of Entropy-SGLD against its temperature, rigorous and optimistic, above the test error."""
    chains = part(table, sampler="Entropy-SGLD").sort("tau")
    drawn, ((axes,),) = style.figure(1, 1, width=5.0, height=3.6)
    for name, label, look in (
        (NORMS, "weights, by the trajectory", "o-"), (COUNT, "weights, counted on the test set", "s-"),
        (CONVERGED, "Gibbs classifier, if converged (optimistic)", "^--"),
    ):  # fmt: skip
        own = chains.filter(pl.col("certificate") == name, pl.col("of").is_in(["weights", "Gibbs classifier"]))
        axes.plot(own["tau"], own["value"], look, markersize=4, label=label)
    own = part(chains, certificate=NORMS)
    axes.plot(own["tau"], own["test_error"], ":", color="black", label="weights, test error")
    _logarithmic(axes, chains, "inverse temperature τ")
    axes.set_title(f"Entropy-SGLD, two-class MNIST, n = {chains['n'].max() or 0:,}, one seed")
    return drawn


def _sizes(table: pl.DataFrame) -> Figure:
    """Certificates of two routes against the number of images, and dotted the test errors of their networks."""
    drawn, ((axes,),) = style.figure(1, 1, width=5.0, height=3.6)
    for route, look, colour in ((COMPRESSED, "o", "tab:blue"), (COUNTED, "s", "tab:orange")):
        own = part(table, route=route).sort("n")
        axes.plot(own["n"], own["value"], look + "-", color=colour, label=route)
        axes.plot(own["n"], own["test_error"], look + ":", color=colour, markersize=3, label="its test error")
    _logarithmic(axes, table, "labelled images n")
    axes.set_title("kernel machine, two-class MNIST, one seed")
    return drawn


def _logarithmic(axes: Axes, table: pl.DataFrame, x: str) -> None:
    axes.set(xlabel=x, ylabel="0-1 risk, certified (95%) or measured")
    axes.legend()
    if not table.is_empty():
        axes.set(xscale="log", yscale="log")
        plain_log(axes.yaxis)


def trajectory_of(certificate: str, dataset: str, **where: Any) -> Cell:
    """A certificate in the table of trajectories."""
    return exactly("value", certificate=certificate, dataset=dataset, **where)


def _weights(what: str, dataset: str, learner: str, count: str = COUNT) -> Printed:
    own: dict[str, Any] = {"dataset": dataset, "learner": learner, "sampler": "SGHMC"}
    numbers: dict[str, tuple[None, Number]] = {
        "n": (None, exactly("n", certificate=NORMS, **own)),
        "all data certify": (None, exactly("value", certificate=NORMS, **own)),
        "test set counted": (None, exactly("value", certificate=count, of="mean weights", **own)),
        "test error": (None, cell("test_error", certificate=NORMS, **own)),
    }
    return Printed(place="Weights certified by their trajectory", what=what, numbers=numbers)


_BETTING = "test_set_new_person_betting"
_PRIVATE = (("Entropy-SGD", "mnist2"), ("DP-SGD", "mnist"), ("DP-SGLD", "mnist"), ("user-level DP-SGD", "malaria"))


def _entropy(certificate: str, tau: float, of: str) -> Cell:
    return trajectory_of(certificate, "mnist2", sampler="Entropy-SGLD", tau=tau, of=of)


def _private(certificate: str, sampler: str, dataset: str) -> Cell:
    return trajectory_of(certificate, dataset, sampler=sampler)


TRAJECTORY = Study(
    name="trajectory",
    title="Certificates of trajectories that pay with their own gradients",
    paper="this project",
    jobs=trajectory.jobs,
    rows=risks,
    columns="dataset learner sampler of certificate status n steps tau nats value test_error n_test seconds",
    figures={"figure": _temperatures},
    numbers=(
        _weights("ten-class MNIST, oriented gradients", "mnist", "linear on fine-gradients"),
        _weights("ten-class MNIST, CNN on pixels", "mnist", "cnn3 on pixels"),
        _weights("two-class MNIST, random features", "mnist2", "linear on waves"),
        _weights("MNIST with random labels", "mnist+random", "linear on fine-gradients"),
        _weights("CIFAR-10, random patches", "cifar10", "linear on patches"),
        _weights("X-rays, by patient", "xrays-mixed", "linear on film-waves", _BETTING),
        _weights("malaria, by patient", "malaria", "linear on spot-waves", _BETTING),
    ),
    sentences=(
        Sentence(
            printed="Clipped sums price private runs below their privacy curves.",
            ours="DP-SGD on MNIST is certified at {sums:up} by its sums and at {curve:up} by its privacy curve.",
            holds=Every([Below(_private(SUMS, *one), _private(CURVE, *one)) for one in _PRIVATE]),
            evidence={"sums": _private(SUMS, "DP-SGD", "mnist"), "curve": _private(CURVE, "DP-SGD", "mnist")},
        ),
        Sentence(
            printed="At every temperature the trajectory certifies Entropy-SGLD at less than the bound that takes its "
            "chain for converged.",
            ours="At τ = 16,000 they certify {norms:up} and {converged:up}.",
            holds=Every([
                Below(_entropy(NORMS, tau, "weights"), _entropy(CONVERGED, tau, "Gibbs classifier"))
                for tau in TEMPERATURES
            ]),
            evidence={"norms": _entropy(NORMS, 16000.0, "weights"),
                      "converged": _entropy(CONVERGED, 16000.0, "Gibbs classifier")},
        ),
    ),
)  # fmt: skip


def compression_of(dataset: str, learner: str, **where: Any) -> Cell:
    """A certificate in the table of compressions, of a learner on full data."""
    return exactly("value", dataset=dataset, learner=learner, labels="true", route=None, **where)


def at_size(route: str, n: int) -> Cell:
    """A certificate in the table of compressions, of a kernel machine on n images of two-class MNIST."""
    return exactly("value", route=route, n=n)


def _half(error: Measured, n: Measured) -> Measured | None:
    """What a count on half of the records says of a network with the same test error."""
    half = int(n.mean) // 2
    return exact(bounds.clopper_pearson_upper(math.ceil(error.mean * half - 1e-9), half, 0.05))


def _compressed(what: str, dataset: str, learner: str, printed: float | None = None, **where: Any) -> Printed:
    found = compression_of(dataset, learner, **where)
    own = dict(found.where)
    numbers: dict[str, tuple[float | None, Number]] = {
        "all data certify": (printed, found),
        "a count on half would say": (None, made_of(_half, cell("test_error", **own), cell("n", **own))),
        "test error": (None, cell("test_error", **own)),
    }
    return Printed(
        place="One network certified by compression",
        what=what,
        numbers=numbers,
        why="Printed are Entropy-SGLD, had its chain converged (Dziugaite and Roy 2018), and a network on 43,200 "
        "images (Bazinet et al. 2025). The count supposes that half of the data train as well as all do.",
    )


COMPRESSION = Study(
    name="compression",
    title="Learners certified on all of their data by sample compression",
    paper="Campi and Garatti 2023; beside Dziugaite and Roy 2018 and Bazinet et al. 2025",
    jobs=compression.jobs,
    rows=compressions,
    columns="dataset labels learner route status unit n k n_test start value test_error seconds",
    figures={"figure": _sizes},
    numbers=(
        _compressed("ten-class MNIST, Entropy-SGD", "mnist", "entropy-sgd", 0.0306),
        _compressed("two-class MNIST, Entropy-SGD", "mnist2", "entropy-sgd", 0.030),
        _compressed("digits, kernel machine", "digits", "kernel"),
        _compressed("CIFAR-10 after a head start, Adam", "cifar10", "adam"),
        _compressed("malaria, patients with more than a fifth of cells in error, Adam", "malaria", "adam"),
    ),
    sentences=(
        Sentence(
            printed="A count on a held-out half certifies less than compression of all, at every number of images.",
            ours="With 500 images of two-class MNIST they certify {few:up} and {few_all:up}, with 60,000 {many:up} and "
            "{many_all:up}.",
            holds=Every([Below(at_size(COUNTED, n), at_size(COMPRESSED, n)) for n in SIZES]),
            evidence={"few": at_size(COUNTED, 500), "few_all": at_size(COMPRESSED, 500),
                      "many": at_size(COUNTED, 60_000), "many_all": at_size(COMPRESSED, 60_000)},
            why="The count has the same kernel machine, which learns from the other half.",
        ),
    ),
)  # fmt: skip


def learnt_of(recipe: str, dataset: str, of: str = "randomised") -> Cell:
    """A certificate in the table of learnt posteriors."""
    return exactly("value", recipe=recipe, dataset=dataset, of=of)


def _lower(printed: str, one: str, other: str) -> Sentence:
    own = {"ten": learnt_of(one, "mnist"), "two": learnt_of(one, "mnist2"),
           "other": learnt_of(other, "mnist"), "two_other": learnt_of(other, "mnist2")}  # fmt: skip
    return Sentence(
        printed=printed,
        ours="On ten classes the first certifies {ten:up}, the second {other:up}; on two {two:up} and {two_other:up}.",
        holds=Every([Below(own["ten"], own["other"]), Below(own["two"], own["two_other"])]),
        evidence=own,
    )


def _heads(what: str, recipe: str, dataset: str, printed: float | None = None) -> Printed:
    return Printed(
        place="Gaussian heads on fixed features, from priors that saw nothing",
        what=what,
        numbers={
            "randomised": (printed, learnt_of(recipe, dataset)),
            "one draw": (None, learnt_of(recipe, dataset, "one draw")),
            "test error": (None, cell("test_error", recipe=recipe, dataset=dataset, of="randomised")),
        },
        why="Printed is of a compressed network (Lotfi et al. 2022); our features are of a list that is paid for.",
    )


LEARNT = Study(
    name="learnt-posteriors",
    title="Posteriors that are learnt from priors that saw nothing",
    paper="this project; beside Lotfi et al. 2022",
    jobs=learnt.jobs,
    rows=heads,
    columns="dataset recipe of certificate status n n_test value test_error empirical_risk kl_nats",
    numbers=(
        _heads("ten-class MNIST, gradients", GRADIENTS, "mnist", 0.116),
        _heads("two-class MNIST, gradients and random waves", WAVES, "mnist2"),
    ),
    sentences=(
        _lower("A covariance that is learnt with the mean certifies less than the prior's.", GRADIENTS, STILL),
    ),
)  # fmt: skip


SECTION = Section(
    title="Certificates on all training data",
    about="Can a network be certified on the very data that it learnt from? By its trajectory (noisy gradients, norms "
    "kept), by compression (it learnt from few records and is right on the others) or by PAC-Bayes from a prior that "
    "saw nothing. These routes are for whoever cannot hold data out: at equal numbers of records a count on a held-out "
    "half is tighter wherever both were made, by compression below and in the next section. We ran one seed.",
    studies=(TRAJECTORY, COMPRESSION, LEARNT),
    figure=("compression", "figure", "Compression of n images against a count on half of them."),
)
