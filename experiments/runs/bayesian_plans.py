"""The runs behind Zhang, Bu et al.'s tables and figures: their settings, and the rates that were searched for."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

from experiments.runs.bayesian import CNN, BayesRun
from experiments.runs.bayesian_curves import DATASET, FIRST, LAST, REGRESS
from experiments.runs.bayesian_images import CLASSIFY
from experiments.runs.central_limit import ACCOUNT, Accounting
from experiments.study import Row
from pacdp.cli.private.config import DPBBP, DPSGD, DPSGLD, Budget, DPMCDropout, PrivateConfig, Sampling
from pacdp.cli.serial import digest
from pacdp.cli.sweep.jobs import Job, Kind

RATE, LANGEVIN_RATE = 0.25, 0.6
"""Of DP-SGD and, as n η, of DP-SGLD in Figure 1."""
SEARCHED = {("BBP", "MLP"): 0.25, ("MC Dropout", "MLP"): 0.25, ("MC Dropout", "CNN"): 0.5}
"""On images with privacy, by method and network: the best of IMAGE_RATES on images that were held out."""
IMAGE_RATES = (0.125, 0.25, 0.5, 1.0, 2.0)
SIGMA, DELTA, SIZE, BATCH = 1.3, 1e-5, 60_000, 256
_DATA: dict[bool, Row] = {
    False: {"dataset": "mnist", "size": SIZE, "batch": BATCH},
    True: {"dataset": "digits", "size": 1437, "batch": 144},
}
"""By smoke."""
EITHER = (True, False)
"""With privacy and without."""
TWIN = ("SGD as SGLD", "normal", "MLP")
"""DP-SGD at DP-SGLD's numbers (Theorem 1)."""


def _job(
    kind: Kind, tags: Row, *, size: int, batch: int, epochs: float, law: Row, epsilon: float = 1000.0,
    delta: float = DELTA, sigma: float = SIGMA, clip: float = 0.0, drift: float = 1.0, run: Row, **data: Any,
) -> Job:  # fmt: skip
    """Of SGLD the rate is n η; with clip 0, C is what makes its noise multiplier B/(n √η C) equal ``sigma``."""
    rate, members = tags["rate"], run["members"]
    match tags["algorithm"]:
        case "SGLD":
            slot: Row = {"convention": "parameter-slot", "drift": drift, "noise": 1.0, "snapshots": members}
            method = DPSGLD(step_size=rate / size, **slot, **law)
        case "BBP":
            method = DPBBP(learning_rate=rate, initial_std=0.05, test_draws=members, **law)
        case "MC Dropout":
            method = DPMCDropout(rate=0.5, learning_rate=rate, test_draws=members, **law)
        case _:
            method = DPSGD(learning_rate=rate, **law)
    sampling = Sampling(
        sample_rate=batch / size,
        steps=round(epochs * size / batch),
        clip_norm=clip or batch / (math.sqrt(rate * size) * sigma),
        noise_multiplier=0.0 if isinstance(method, DPSGLD) else sigma,
    )
    budget = Budget(epsilon=epsilon, delta=delta)
    made = BayesRun(config=PrivateConfig(method=method, sampling=sampling, budget=budget, **data), **run)
    own = {"private": made.private, "seed": made.seed, **tags}
    return Job(key=f"{made.config.algorithm}-{digest(made)}".lower(), kind=kind, config=made, tags=own)


def _image_job(private: bool, seed: int, algorithm: str, prior: str, network: str, *, smoke: bool, rate: float = RATE,
               held_out: int = 0) -> Job:  # fmt: skip
    langevin, law = "SGLD" in algorithm, {"prior": prior, "prior_std": 0.1}
    if (algorithm, prior) == ("BBP", "none"):
        law = {"prior": "normal", "prior_std": 100.0}
    if langevin or (algorithm, network, private) == ("SGD", "CNN", False):
        rate = LANGEVIN_RATE if langevin else 0.1  # RATE left it at chance
    tags = {"algorithm": algorithm, "prior": prior, "network": network, "rate": rate, "held_out": held_out}
    run = {"private": private, "members": 20, "curve": int(algorithm == "SGLD"), "image": 18, "held_out": held_out}
    architecture, epochs = {"MLP": ("fc", 3.0), "CNN": (CNN, 2.0)}[network]
    return _job(CLASSIFY, tags, epochs=epochs, law=law, clip=0.0 if langevin else 1.5, drift=1.0 if private else 0.5,
                run=run, architecture=architecture, hidden=(200, 200), seed=seed, **_DATA[smoke])  # fmt: skip


def table_1_jobs(cells: Sequence[Sequence[str]], smoke: bool, seed: int) -> list[Job]:
    """Four seeds of each cell (algorithm, prior, network), with and without privacy; of another one the search."""
    found = [
        _image_job(private, number, *cell, smoke=smoke,
                   rate=SEARCHED.get((cell[0], cell[2]), RATE) if private else RATE)
        for number, cell, private in product(range(seed, seed + 4), [*cells, TWIN], EITHER) if private or cell != TWIN
    ]  # fmt: skip
    return found[:2] if smoke else found + [
        _image_job(True, seed + 100, algorithm, "normal", network, smoke=False, rate=rate, held_out=10_000)
        for (algorithm, network), rate in product(SEARCHED, IMAGE_RATES)
    ]  # fmt: skip


def table_2_jobs(cells: Sequence[Sequence[str]], smoke: bool, seed: int) -> list[Job]:
    """Six seeds of each cell, with and without privacy, at the rate of DP-SGD."""
    found = [_image_job(private, number, *cell, smoke=smoke)
             for number, cell, private in product(range(seed, seed + 6), cells, EITHER)]  # fmt: skip
    return found[:2] if smoke else found


def figure_1_jobs(smoke: bool, seed: int) -> list[Job]:
    """DP-SGLD over C, which fixes its σ, and DP-SGD over σ and C; two epochs of the CNN, one seed."""
    found = [
        _job(CLASSIFY, {"algorithm": algorithm, "rate": rate}, epochs=2.0, law={}, epsilon=100_000.0, sigma=sigma,
             clip=clip, run={"members": 1, "curve": 2, "image": 18}, architecture="fc" if smoke else CNN, seed=seed,
             **_DATA[smoke])
        for algorithm, rate, sigmas, clips in (
            ("SGLD", LANGEVIN_RATE, (SIGMA,), (0.5, 1.0, 1.5)), ("SGD", RATE, (0.9, 2.0), (0.5, 1.5, 5.0)),
        )
        for sigma, clip in product(sigmas, clips)
    ]  # fmt: skip
    return found[:1] if smoke else found


CURVE_RATES = (0.001, 0.003, 0.01, 0.03, 0.1)
CHOSEN = {"SGLD": (0.01, 0.01), "BBP": (0.01, 0.003), "MC Dropout": (0.03, 0.01)}
"""On the regression, with privacy and without: the best of CURVE_RATES on the simulations that choose."""
JUDGING, CHOOSING = range(41), range(1000, 1006)
"""Seeds of simulations."""
DRAWN = 37
"""The simulation of Figure 4: the median, by the mean log error of all methods."""


def curve_jobs(smoke: bool, seed: int) -> list[Job]:
    """Each method at its rate on the simulations that judge, and at every rate on those that choose."""
    judging = product([DRAWN] if smoke else JUDGING, CHOSEN, EITHER)
    asked: list[tuple[Any, ...]] = [(*cell, CHOSEN[cell[1]][not cell[2]], True) for cell in judging]
    asked += [(*cell, False) for cell in product(CHOOSING, CHOSEN, EITHER, CURVE_RATES)]
    return [_curve_job(seed + one, *others) for one, *others in (asked[:2] if smoke else asked)]


def _curve_job(seed: int, algorithm: str, private: bool, rate: float, judges: bool) -> Job:
    std, clip, hidden = {
        "SGLD": (50**-0.5, 0.0, (200, 200)), "BBP": (1.0, 5.0, (200,)), "MC Dropout": (10.0, 5.0, (200,)),
    }[algorithm]  # fmt: skip
    return _job(
        REGRESS, {"part": "run", "algorithm": algorithm, "rate": rate, "judges": judges}, size=LAST - FIRST,
        batch=LAST - FIRST, epochs=200.0, law={"prior": "normal", "prior_std": std}, delta=1e-3, sigma=12.0, clip=clip,
        run={"private": private, "members": 50}, dataset=DATASET, architecture="fc", hidden=hidden, seed=seed,
    )  # fmt: skip


SIGMAS, EPOCHS = (0.5, 0.7, 0.9, 1.3, 2.0, 3.0), (3, 15)
"""Of Zhang and Bu's settings: σ over Figure 1's range; our epochs and theirs."""
KNOLLE = {"batch": 1200, "noise_multiplier": 3.296, "epochs": 10}
"""DP-SGD at epsilon 0.5 on MNIST."""
EFFECTS = {
    "own": (BATCH, LANGEVIN_RATE, 1.0), "batch": (2 * BATCH, LANGEVIN_RATE, 1.0),
    "rate": (BATCH, LANGEVIN_RATE / 2, 1.0), "clip": (BATCH, LANGEVIN_RATE, 0.5),
}  # fmt: skip
"""Of DP-SGLD: batch size, n η and C, of which one is changed."""


def langevin(batch: int, rate: float, clip: float) -> Row:
    """The setting that 15 epochs of DP-SGLD are to the accountant."""
    return {"batch": batch, "noise_multiplier": batch / (math.sqrt(rate * SIZE) * clip), "epochs": 15}


def accounting_jobs(smoke: bool, seed: int) -> list[Job]:
    """Epsilons of the papers' settings and of EFFECTS, all for MNIST's 60,000 images."""
    cells = [{"batch": BATCH, "noise_multiplier": sigma, "epochs": epochs} for sigma, epochs in product(SIGMAS, EPOCHS)]
    cells += [KNOLLE, {**cells[-1], "batch": 2 * BATCH, "noise_multiplier": SIGMA}]
    cells += [langevin(*one) for one in EFFECTS.values()]
    found = list[Job]()
    for cell in cells[:1] if smoke else cells:
        config = Accounting(
            sample_rate=cell["batch"] / SIZE, noise_multiplier=cell["noise_multiplier"], delta=DELTA, seed=seed,
            steps=round(cell["epochs"] * SIZE / cell["batch"]),
        )  # fmt: skip
        found.append(Job(key=f"accounting-{digest(config)}", kind=ACCOUNT, config=config, tags=cell))
    return found
