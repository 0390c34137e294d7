"""Dziugaite and Roy (2018), Entropy-SGD optimizes the prior of a PAC-Bayes bound: Figure 1 and Section 5.2.

The paper's network is convolutional and runs for "thousands of epochs". Here one hidden layer of 100 learns all of
two-class MNIST, true or random labels, for 150 epochs; the recipes' outer step of 2 stands for the printed one of
0.006, which hardly moves in that time (docs/entropy_sgld.md). One run a setting. Nothing was tuned for this study.

Study entropy-sgld-printed has the printed outer base step, 0.006 t^-0.6. How far a chain has come is the sum of its
steps, its Langevin time; a step m times as long reaches the same time in m^-2.5 of the steps. The path of 2,000 epochs
is run at several m: where two agree, the path decides and not its number of steps. Momentum, which the paper's code
has and its text does not name, is left out.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import polars as pl
from matplotlib.figure import Figure

import bounds
from experiments import panels
from experiments.claims import (
    Below,
    Every,
    Measured,
    Most,
    Not,
    Number,
    Printed,
    Sentence,
    Shown,
    cell,
    exact,
    exactly,
)
from experiments.ours.temperature_map import PAPER
from experiments.runs.chains import BRIEF, COLUMNS, INNER_STEPS, LABELS, QUICK, Size, final, job, records
from experiments.study import Done, Row, Section, Study, columns
from experiments.tables import part
from pacdp import Architecture
from pacdp.cli.figures import style
from pacdp.cli.recipes import SIZES, run, tau_of
from pacdp.cli.sweep.jobs import Job
from pacdp.cli.sweep.kinds import sampler_job

N = SIZES["mnist2"]
NOISES = {"sgld": (0.001, 0.01, 0.05), "entropy-sgd": (0.001, 0.005, 0.01, 0.05)}


def jobs(smoke: bool, seed: int) -> list[Job]:
    """SGD, then SGLD and Entropy-SGLD at the private setting τ = √n, then each algorithm at its noises."""
    dataset = "digits2" if smoke else "mnist2"
    less = {"epochs": 1.0, "records": 2, "track": BRIEF, "certify": BRIEF} if smoke else {}
    private = math.sqrt(2.0 / math.sqrt(SIZES[dataset]))
    plan = [("sgd", 0.0, None), ("entropy-sgld", private, None), ("sgld", private, None)]
    plan += [(name, at, tau_of(at)) for name, noises in NOISES.items() for at in noises[: 1 if smoke else None]]
    found = list[Job]()
    for labels, share in LABELS.items():
        for algorithm, at, tau in plan:
            made = run(algorithm, dataset, scale="smoke" if smoke else "cpu", tau=tau, random_labels=share, seed=seed)
            made = replace(made, **less)
            own = {"thermal_noise": at, "tau": getattr(made.sampler, "tau", None)}
            found.append(sampler_job(made, algorithm=made.algorithm, labels=labels, **own))
    return found


LABEL_COLUMNS = {name: kind for name, kind in COLUMNS.items() if name not in ("network", "gamma", "beta", "n")}
NETWORKS = {"FC100": Architecture(hidden=(100,)), "CONV": Architecture(name="conv"),
            "CONV with BatchNorm": Architecture(name="conv", norm="batch")}  # fmt: skip
PLAN = [
    *(("Entropy-SGLD", name, times) for name, times in (
        ("CONV", 4.0), ("CONV", 8.0), ("FC100", 2.0), ("CONV with BatchNorm", 8.0), ("FC100", 4.0), ("FC100", 8.0))),
    *(("SGLD", "FC100", times) for times in (8.0, 16.0)),
]  # fmt: skip
"""Algorithms and networks, and how many times as long as printed their steps are; those that take long first."""
SEEDS = 24
"""Of SGLD, whose runs take seconds; four had left open whether longer steps end where shorter ones do."""
DECAY = 0.6


def shortened(steps: int, times: float) -> int:
    """The number of steps, each ``times`` as long, whose Langevin time is that of ``steps`` printed ones."""
    gone, count, whole = 0.0, 0, langevin_time(1.0, steps)
    while gone < whole:
        count += 1
        gone += times * count**-DECAY
    return count


def langevin_time(base: float, steps: int) -> float:
    """The sum of so many steps."""
    return base * math.fsum(t**-DECAY for t in range(1, steps + 1))


def printed_jobs(smoke: bool, seed: int) -> list[Job]:
    """Entropy-SGLD and SGLD over the printed path."""
    size, batch = (Size("digits2", 200.0, 2, BRIEF), 32) if smoke else (Size("mnist2", 2000.0, 10, QUICK), 128)
    found = list[Job]()
    for algorithm, name, times in PLAN[-3:-1] if smoke else PLAN:
        entropy, network = algorithm == "Entropy-SGLD", NETWORKS[name]
        each = batch * (INNER_STEPS if entropy else 1)
        steps = shortened(round(size.epochs * size.n / each), times)
        own = replace(size, epochs=steps * each / size.n)
        step = {"outer_step_size": 0.006 * times} if entropy else {"step_size": 0.003 * times, "decay": DECAY}
        for k in range(1 if smoke or entropy else SEEDS):
            made = job(algorithm.lower(), own, labels="true", network=network, seed=seed + k, **step)
            found.append(replace(made, tags={**made.tags, "norm": network.norm, "times": times}))
    return found


def printed_rows(done: Done) -> Iterator[Row]:
    """A row a record, with the Langevin time that it stands at in printed base steps."""
    sampler = done.job.config.sampler
    step = getattr(sampler, "outer_step_size", None) or sampler.step_size
    return (row | {"langevin_time": langevin_time(step, row["step"])} for row in records(done))


PRINTED_COLUMNS = columns((pl.String, "norm"), (pl.Float64, "times langevin_time")) | COLUMNS


def _end(number: Number) -> Number:
    """At the last record of each run; the table of random-labels leaves out how many examples there are."""

    def found(table: pl.DataFrame, /) -> Measured | None:
        return None if table.is_empty() else number(final(table).with_columns(n=pl.lit(N)))

    return found


def at(column: str, algorithm: str, labels: str, noise: float | None = None) -> Number:
    """A column at the end of a run, with the noise of its counts."""
    where: dict[str, Any] = {"algorithm": algorithm, "labels": labels} | ({"thermal_noise": noise} if noise else {})
    return _end(cell(column, examples="n_test" if "test" in column else "n", **where))


def _errors(algorithm: str, labels: str, **noises: float) -> dict[str, Number]:
    """Training and test errors, named by the noises' names."""
    return {f"{name}_{side}": at(f"{side}_error", algorithm, labels, noise)
            for name, noise in noises.items() for side in ("train", "test")}  # fmt: skip


def _overfits(errors: dict[str, Number], *names: str, margin: float) -> list[Below]:
    return [Below(errors[f"{name}_train"], errors[f"{name}_test"], margin=margin) for name in names]


def invalid_bound(table: pl.DataFrame, /) -> Measured | None:
    """The PAC-Bayes bound of Entropy-SGD's Gibbs classifier if the data had not chosen its prior. They have: it bounds
    nothing, and pacdp issues no such certificate."""
    risk, kl = (at(name, "Entropy-SGD", "random", 0.005)(table) for name in ("gibbs_train_error", "kl_nats"))
    return risk and kl and exact(bounds.langford_seeger(risk=risk.mean, kl_nats=kl.mean, n=N, failure_prob=0.05).value)


LOOK = {"SGD": ("black", "D"), "SGLD": ("tab:blue", "o"), "Entropy-SGD": ("tab:orange", "s"),
        "Entropy-SGLD": ("tab:green", "^")}  # fmt: skip


def by_noise(table: pl.DataFrame) -> Figure:
    """Training and test errors at the ends of runs against thermal noise, on true and on random labels."""
    drawn, (line,) = style.figure(1, 2, width=3.6, height=3.0)
    ends = final(table).sort("thermal_noise")
    for axes, labels in zip(line, LABELS, strict=True):
        for algorithm, (colour, mark) in LOOK.items():
            own = part(ends, algorithm=algorithm, labels=labels)
            label = f"{algorithm}, epsilon {Shown(own['epsilon'][0]):up}" if algorithm == "Entropy-SGLD" else algorithm
            axes.plot(own["thermal_noise"], own["test_error"], f"{mark}-", color=colour, label=label)
            axes.plot(own["thermal_noise"], own["train_error"], f"{mark}:", color=colour, markerfacecolor="white")
        axes.set(xlabel="thermal noise", ylabel="0-1 error", title=f"{labels} labels, n = {N:,}, one seed")
        axes.set_xscale("symlog", linthresh=1e-3)
    panels.legend(line[0], title="filled: test, hollow: training")
    return drawn


def along_paths(table: pl.DataFrame) -> Figure:
    """Test errors of Entropy-SGLD's Gibbs classifier along the printed path, a line a step length."""
    drawn, ((axes,),) = style.figure(1, 1, width=5.0)
    for (algorithm, name, times), mark in zip(PLAN[:3] + PLAN[4:6], "os^vD", strict=True):
        own = part(table, **_path(algorithm, name, times))
        axes.plot(own["langevin_time"], own["gibbs_test_error"], f"{mark}-", label=f"{name}, steps x {times:g}",
                  color="tab:orange" if name == "CONV" else "tab:blue", markersize=4, linewidth=1)  # fmt: skip
    axes.axhline(0.02, color="0.6", linewidth=0.8)
    axes.set(xlabel="Langevin time, sum of base steps", ylabel="test error of the Gibbs classifier", ylim=(0.0, None),
             title=f"Entropy-SGLD, n = {N:,}, epsilon {Shown(table['epsilon'][0]):up}, one seed")  # fmt: skip
    panels.legend(axes, title="grey line: the paper's 2%")
    return drawn


def _path(algorithm: str, name: str, times: float) -> dict[str, Any]:
    return {"algorithm": algorithm, "network": name.split()[0], "norm": NETWORKS[name].norm, "times": times}


_COLD = _errors("Entropy-SGD", "random", cold=0.001, cool=0.005)
_SGLD = _errors("SGLD", "random", cold=0.001, warm=0.01)
_TRUE, _RANDOM = (_errors("Entropy-SGD", labels, warm=0.01) for labels in LABELS)
_SGD = at("test_error", "SGD", "true")
_GIBBS = at("gibbs_test_error", "Entropy-SGD", "random", 0.005)
_COLD_GIBBS = at("gibbs_train_error", "Entropy-SGD", "random", 0.001)
_EQUAL = {
    f"{key}{k}": at("test_error", algorithm, "true", noise)
    for k, noise in enumerate(NOISES["sgld"])
    for key, algorithm in (("e", "Entropy-SGD"), ("s", "SGLD"))
}
HIGH, OVERFITS = 0.1, 0.05
"""A gap between test and training error that is called high, and one that is called overfitting, or low below it."""
SENTENCES = (
    Sentence(
        answers=("D02", "D03"),
        place="Abstract",
        printed="Entropy-SGD rapidly obtains zero training error on random labels, and the same holds of the Gibbs "
        "posterior.",
        ours="At noise 0.001 the training error is {train:.3f} after 150 epochs, and that of the Gibbs classifier "
        "{gibbs:.3f}.",
        holds=Every([Below(one, 0.01) for one in (_COLD["cold_train"], _COLD_GIBBS)]),
        evidence={"train": _COLD["cold_train"], "gibbs": _COLD_GIBBS},
    ),
    Sentence(
        answers=("D04",),
        place="1",
        printed="By optimizing the prior mean, Entropy-SGD invalidates the PAC-Bayes bound; indeed, the bound does not "
        "hold empirically.",
        ours="At noise 0.005 on random labels the formula for a prior fixed beforehand gives {bound:up}; the Gibbs "
        "classifier's test error is {error}.",
        holds=Below(invalid_bound, _GIBBS),
        evidence={"bound": invalid_bound, "error": _GIBBS},
        why="No such certificate is ever issued here.",
    ),
    Sentence(
        answers=("D20",),
        place="Figure 1",
        printed="On random labels, SGLD has high generalization error for thermal noise values 0.01 and below.",
        ours="Training and test errors are {cold_train} and {cold_test} at noise 0.001, {warm_train} and {warm_test} "
        "at 0.01.",
        holds=Every(_overfits(_SGLD, "cold", "warm", margin=HIGH)),
        evidence=_SGLD,
        why="High is a gap above 0.1.",
    ),
    Sentence(
        answers=("D22",),
        place="Figure 1",
        printed="On random labels, Entropy-SGD overfits for thermal noise values 0.005 and below.",
        ours="Training and test errors are {cold_train:.3f} and {cold_test:.3f} at noise 0.001, {cool_train:.3f} and "
        "{cool_test:.3f} at 0.005.",
        holds=Every(_overfits(_COLD, "cold", "cool", margin=OVERFITS)),
        evidence=_COLD,
    ),
    Sentence(
        answers=("D23", "D24"),
        place="5.2",
        printed="At 0.01 thermal noise, Entropy-SGD achieves good risk and low generalization error on both true and "
        "random labels, but is still worse than SGD.",
        ours="Its training and test errors are {warm_train} and {warm_test}, on random labels {random_train} and "
        "{random_test}; SGD's test error is {sgd}.",
        holds=Every([
            Below(_TRUE["warm_test"], OVERFITS), Below(_SGD, _TRUE["warm_test"]),
            *(Not(one) for own in (_TRUE, _RANDOM) for one in _overfits(own, "warm", margin=OVERFITS)),
        ]),
        evidence=_TRUE | {"random_train": _RANDOM["warm_train"], "random_test": _RANDOM["warm_test"], "sgd": _SGD},
        why="A gap counts as low where nothing was fitted, too.",
    ),
    Sentence(
        answers=("D21",),
        place="Figure 1, 5.2",
        printed="At the same levels of thermal noise, Entropy-SGD has lower risk than SGLD.",
        ours="At noise 0.001, 0.01 and 0.05 its test errors are {e0}, {e1} and {e2}, those of SGLD {s0}, {s1} and "
        "{s2}.",
        holds=Most([Below(_EQUAL[f"e{k}"], _EQUAL[f"s{k}"]) for k in range(3)]),
        evidence=_EQUAL,
        why="The rule asks for most of the three.",
    ),
)  # fmt: skip
_PRIVATE = {"algorithm": "Entropy-SGLD", "labels": "true"}
RANDOM_LABELS = Study(
    name="random-labels",
    title="SGD, SGLD and Entropy-SG(L)D on true and on random labels",
    paper="Dziugaite and Roy, 2018, Figure 1",
    jobs=jobs,
    rows=records,
    columns=LABEL_COLUMNS,
    figures={"figure": by_noise},
    sentences=SENTENCES,
    numbers=(
        Printed(
            answers=("D13", "D14", "D16"),
            place="Figure 1 and Section 5.2, tau = sqrt(n)",
            what="Entropy-SGLD",
            numbers={
                "epsilon at most": (0.0327, _end(exactly("epsilon", **_PRIVATE))),
                "thermal noise": (0.09, _end(cell("thermal_noise", **_PRIVATE))),
                "test error, mean": (0.02, _end(cell("test_error", **_PRIVATE))),
                "Gibbs": (0.02, _end(cell("gibbs_test_error", **_PRIVATE))),
                "PAC-Bayes bound": (0.03, _end(exactly("dp_pac_bayes_2018", **_PRIVATE))),
            },
            why="Our epsilon has the loss's exact oscillation, 3.98, for the paper's 4.",
        ),
    ),
)


def _ends() -> Iterator[Printed]:
    """Where the paths of the longest steps end; those of shorter ones stand in the table."""
    longest = (("Entropy-SGLD", "CONV", 8.0), ("Entropy-SGLD", "FC100", 8.0), ("SGLD", "FC100", 16.0))
    for algorithm, name, times in longest:
        where = _path(algorithm, name, times)
        errors: dict[str, tuple[float | None, Number]] = {
            what: (0.02 if algorithm == "Entropy-SGLD" else None, _end(cell(column, **where)))
            for what, column in {"test error, mean": "test_error", "Gibbs": "gibbs_test_error"}.items()
        }
        yield Printed(place="Section 5.2, over the printed path", what=f"{algorithm}, {name}, steps x {times:g}",
                      numbers=errors, why="Steps are longer than printed, over the same Langevin time.")  # fmt: skip


PRINTED = Study(
    name="entropy-sgld-printed",
    title="Entropy-SGLD and SGLD over the printed path of Langevin time",
    paper="Dziugaite and Roy, 2018, Section 5.2 and Appendix C",
    jobs=printed_jobs,
    rows=printed_rows,
    columns=PRINTED_COLUMNS,
    figures={"figure": along_paths},
    numbers=tuple(_ends()),
)
SECTION = Section(
    title="Random labels and temperature (Dziugaite and Roy 2018)",
    about="Figure 1 of the paper asks how much SGD, SGLD, Entropy-SGD and Entropy-SGLD fit true and random labels. "
    "Here 100 hidden units learn all 60,000 images of two-class MNIST, one run a setting; epsilon counts images and "
    "takes the chain for converged. The second table follows the printed steps instead of longer ones.",
    studies=(RANDOM_LABELS, PRINTED),
    beside={"temperature-map": PAPER},
    figure=("random-labels", "figure", "Errors at the end of runs by thermal noise, on true and on random labels."),
)
