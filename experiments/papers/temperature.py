"""The temperature map of SGLD and Entropy-SGLD: where chains stay at each temperature, and which bounds that allows.

Dziugaite and Roy (2018) report about 2% for Entropy-SGLD at τ = √n. Here chains run at constant steps from √n/256 to
1,000 √n, from starts on both sides, with several networks, step sizes and base measures, with and without momentum.
"""

import math
from collections.abc import Iterator
from typing import Any

import polars as pl

from experiments.claims import judging
from experiments.figures import temperature as figures
from experiments.papers import temperature_verdict as verdict
from experiments.papers.chains import BRIEF, EXAMPLES, network_name
from experiments.papers.runs.temperature import CLIMB, Ladder
from experiments.study import Done, Row, Study, columns, drawing, tabled
from pacdp import Architecture, GibbsSettings, Problem
from pacdp.cli.recipes import Scale
from pacdp.cli.sweep.jobs import Job

FC100 = Architecture(hidden=(100,))
GIBBS = GibbsSettings(epochs=2.0, prior_draws=5, test_draws=5)
ENTROPY: dict[str, Any] = {"algorithm": "Entropy-SGLD", "gibbs": GIBBS, "step_size": 0.5}
BOTH, ONE = ("base", "sgd"), ("sgd",)
LENGTH: dict[Scale, float] = {"smoke": 0.1, "cpu": 1.0, "paper": 25.0}
DATASETS: dict[Scale, str] = {"smoke": "digits2", "cpu": "mnist2", "paper": "mnist2"}
WIDE = tuple(2.0**k for k in range(-8, 11))
"""Multiples of √n of the ladder whose mean losses are integrated."""
FEW, LOW = (1.0, 10.0, 100.0, 1000.0), (1.0, 10.0, 100.0)
CONTRADICTION = (2.0 / 0.1**2, 2.0 / 0.09**2)
"""τ at the thermal noises .1 and .09."""


def jobs(scale: Scale, seed: int) -> list[Job]:
    """The wide ladder, then what is changed one at a time, then other networks; those that take long first."""
    root = math.sqrt(EXAMPLES[DATASETS[scale]])
    printed, every = tuple(tau / root for tau in CONTRADICTION), 4 if scale == "smoke" else 1
    entropy = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0)[::every]
    plan = {
        "fc100-sgld-cold": _plan("ladder", WIDE[9::every], BOTH, 40.0, step_size=0.2),
        "fc100-sgld-warm": _plan("ladder", (*WIDE[:9:every], *printed), BOTH, 40.0, step_size=0.2),
        "fc100-entropy": _plan("ladder", entropy, BOTH, 60.0, **ENTROPY),
        "fc100-sgld-step0.2": _plan("steps", LOW, ONE, 40.0, step_size=0.2),
        "fc100-entropy-step0.5": _plan("steps", LOW, ONE, 40.0, **ENTROPY),
    }
    if scale != "smoke":
        plan |= _changes() | _networks()
    return [
        Job(key=key, kind=CLIMB, config=ladder(scale, seed, root, **made), tags={"about": made["about"]})
        for key, made in plan.items()
    ]


def _plan(
    about: str, times: tuple[float, ...], starts: tuple[str, ...], epochs: float, **settings: Any
) -> dict[str, Any]:
    return {"about": about, "times": times, "starts": starts, "epochs": epochs, **settings}


def _changes() -> dict[str, dict[str, Any]]:
    """Base measures, step sizes and momentum, of FC100."""
    found = {}
    for std, step in ((0.1, 0.2), (0.3, 0.2), (3.0, 0.05)):
        found[f"fc100-sgld-base{std:g}"] = _plan("base", FEW, BOTH, 20.0, step_size=step, base_std=std)
    for step in (0.0125, 0.05, 0.8):
        found[f"fc100-sgld-step{step:g}"] = _plan("steps", LOW, ONE, 40.0, step_size=step)
    found["fc100-entropy-step2"] = _plan("steps", LOW, ONE, 40.0, **{**ENTROPY, "step_size": 2.0})
    found["fc100-entropy-short-steps"] = _plan("steps", LOW, ONE, 40.0, **ENTROPY, inner_step_size=0.5)
    found["fc100-entropy-long-loop"] = _plan("steps", LOW, ONE, 40.0, **ENTROPY, inner_steps=100)
    found["fc100-sgld-momentum"] = _plan("momentum", LOW, ONE, 20.0, step_size=0.02, momentum=0.9)
    for name, inner, outer in (("inner", 0.9, 0.0), ("outer", 0.0, 0.9), ("both", 0.9, 0.9)):
        own = {"momentum": inner, "outer_momentum": outer}
        found[f"fc100-entropy-momentum-{name}"] = _plan("momentum", LOW, ONE, 40.0, **ENTROPY, **own)
    return found


def _networks() -> dict[str, dict[str, Any]]:
    """The paper's networks, the convolutional one without and with normalisation."""
    found = {}
    for name in ("fc600", "conv"):
        own: dict[str, Any] = {"network": Architecture(name=name), "records": 3}  # type: ignore[arg-type]
        found[f"{name}-sgld"] = _plan("networks", FEW, BOTH, 12.0, step_size=0.1, **own)
        found[f"{name}-entropy"] = _plan("networks", FEW, ONE, 12.0, **ENTROPY, **own)
    ten = {"dataset": "mnist"}
    found["fc100-sgld-ten"] = _plan("ten classes", FEW, BOTH, 20.0, step_size=0.2, **ten)
    found["fc100-entropy-ten"] = _plan("ten classes", FEW, BOTH, 20.0, **ENTROPY, **ten)
    for norm in ("group", "batch"):
        own = {"network": Architecture(name="conv", norm=norm), "records": 2, "fit": 2.0}  # type: ignore[arg-type]
        found[f"conv-{norm}-sgld"] = _plan("networks", LOW, ONE, 4.0, step_size=0.1, **own)
        found[f"conv-{norm}-entropy"] = _plan("networks", LOW, ONE, 5.0, **ENTROPY, **own)
    return found


def ladder(
    scale: Scale, seed: int, root: float, *, about: str, times: tuple[float, ...], epochs: float,
    network: Architecture = FC100, dataset: str = "", random_labels: float = 0.0, **settings: Any,
) -> Ladder:  # fmt: skip
    """Chains at multiples of τ = ``root``; ``settings`` are fields of :class:`Ladder`."""
    del about
    if scale == "smoke":
        settings |= {"fit": 1.0, "records": 2, "inner_steps": 5}
        settings["gibbs"] = settings.get("gibbs") and BRIEF
    problem = Problem(dataset=dataset or DATASETS[scale], architecture=network, random_labels=random_labels)
    return Ladder(
        problem=problem, taus=tuple(root * one for one in times),
        epochs=epochs * LENGTH[scale], batch_size=32 if scale == "smoke" else 128, seed=seed, **settings,
    )  # fmt: skip


_BOUNDS = (
    "dp_hoeffding_2018 dp_chernoff_2018 dp_hoeffding dp_chernoff dp_kl_chernoff dp_pac_bayes_2018 "
    "dp_pac_bayes_max_information dp_pac_bayes dp_gibbs_pac_bayes"
)
_MEANS = "first_error r_hat mean_error mean_error_mcse mean_loss mean_loss_mcse prior_loss"
_EXACT = "train_error train_loss test_error last_error epsilon ramp"
_GIBBS = "gibbs_train_error gibbs_test_error kl_nats kl_raw_nats"
COLUMNS = columns(
    (pl.String, "run about network norm algorithm start"),
    (pl.Float64, "tau times base_std step_size inner_step_size momentum outer_momentum epochs"),
    (pl.Int64, "inner_steps n n_test dim steps"),
    (pl.Float64, f"{_MEANS} {_EXACT} {_GIBBS} {_BOUNDS} chain_seconds"),
)


def rows(done: Done) -> Iterator[Row]:
    """One row a chain."""
    config, result = done.job.config, done.result
    architecture = config.problem.architecture
    own = {name: getattr(config, name) for name in COLUMNS if hasattr(config, name)}
    own |= {"run": done.job.key, "network": network_name(architecture), "norm": architecture.norm}
    whole = {name: value for name, value in result.items() if name in COLUMNS}
    for chain in result["chains"]:
        yield {**chain, **own, **whole, **done.tags, "times": chain["tau"] / math.sqrt(result["n"])}


TEMPERATURE_MAP = Study(
    name="temperature-map",
    title="Where SGLD and Entropy-SGLD stay at each temperature, and what that allows to certify",
    paper="Dziugaite and Roy (2018), Section 5.2 and Figures 1 and 3, on the law that they take for reached",
    jobs=jobs,
    table=tabled(rows, COLUMNS),
    draw=drawing(figure=figures.draw),
    judge=judging(
        numbers=verdict.numbers, claims=verdict.claims, notes=lambda table, scale: verdict.NOTES, points=verdict.points
    ),
)
STUDIES = (TEMPERATURE_MAP,)
