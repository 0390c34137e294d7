"""The runs behind Zhang, Bu et al.'s tables and figures: their settings, and the rates that were searched for."""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from experiments.runs.bayesian import CNN, BayesRun
from experiments.runs.bayesian_curves import DATASET, FIRST, LAST, REGRESS
from experiments.runs.bayesian_images import CLASSIFY
from experiments.runs.central_limit import ACCOUNT, Accounting
from pacdp.cli.private.config import Budget, PrivateConfig, Sampling
from pacdp.cli.private.methods import DPBBP, DPSGD, DPSGLD, DPMCDropout
from pacdp.cli.serial import digest
from pacdp.cli.sweep.jobs import Job

RATE, LANGEVIN_RATE = 0.25, 0.6
"""Of DP-SGD and, as n η, of DP-SGLD in Figure 1."""
IMAGE_RATES = {
    **{("BBP", "MLP", True): 0.25, ("MC Dropout", "MLP", True): 0.25, ("MC Dropout", "CNN", True): 0.25},
    ("SGD", "CNN", False): 0.1,
}
"""By method, network and privacy, where another was taken: the best of SEARCHED; SGD, which RATE left at chance."""
SEARCHED = (0.25, 0.5, 1.0, 2.0)
SIGMA, CLIP, DELTA, SIZE, BATCH = 1.3, 1.5, 1e-5, 60_000, 256
_DATA: dict[bool, dict[str, Any]] = {
    False: {"dataset": "mnist", "size": SIZE, "batch": BATCH},
    True: {"dataset": "digits", "size": 1437, "batch": 144},
}
"""By smoke."""
EITHER = (True, False)
"""With privacy and without."""
TWIN = ("SGD as SGLD", "normal", "MLP")
"""DP-SGD at DP-SGLD's numbers (Theorem 1)."""


def _config(
    algorithm: str, rate: float, *, size: int, batch: int, epochs: float, members: int, law: Mapping[str, Any],
    budget: Budget, sigma: float = SIGMA, clip: float = 0.0, drift: float = 1.0, **others: Any,
) -> PrivateConfig:  # fmt: skip
    """Of SGLD the rate is n η; with clip 0, C is what makes its noise multiplier B/(n √η C) equal ``sigma``."""
    match algorithm:
        case "SGLD":
            slot: dict[str, Any] = {"convention": "parameter-slot", "drift": drift, "noise": 1.0}
            method = DPSGLD(step_size=rate / size, snapshots=members, **slot, **law)
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
        noise_multiplier=0.0 if algorithm == "SGLD" else sigma,
    )
    return PrivateConfig(method=method, sampling=sampling, budget=budget, **others)


def _image_job(
    algorithm: str, prior: str, network: str, private: bool, seed: int, *, smoke: bool,
    rates: Mapping[tuple[str, str, bool], float] = IMAGE_RATES, held_out: int = 0,
) -> Job:  # fmt: skip
    langevin, law = "SGLD" in algorithm, {"prior": prior, "prior_std": 0.1}
    if (algorithm, prior) == ("BBP", "none"):
        law = {"prior": "normal", "prior_std": 100.0}
    rate = LANGEVIN_RATE if langevin else rates.get((algorithm, network, private), RATE)
    architecture, epochs = {"MLP": ("fc", 3.0), "CNN": (CNN, 2.0)}[network]
    config = _config(
        algorithm, rate, epochs=epochs, members=20, law=law, clip=0.0 if langevin else CLIP,
        drift=1.0 if private else 0.5, budget=Budget(epsilon=1000.0, delta=DELTA), architecture=architecture,
        hidden=(200, 200), seed=seed, **_DATA[smoke],
    )  # fmt: skip
    run = BayesRun(config=config, private=private, curve=int(algorithm == "SGLD"), image=18, held_out=held_out)
    own = {"algorithm": algorithm, "prior": prior, "network": network, "rate": rate}
    return Job(key=_key(run), kind=CLASSIFY, config=run, tags={**_tags(run), **own, "held_out": held_out})


def _key(run: BayesRun) -> str:
    return f"{run.config.algorithm}-{digest(run)}".lower()


def _tags(run: BayesRun) -> dict[str, Any]:
    return {"private": run.private, "seed": run.seed}


Cells = Sequence[tuple[str, str, str]]
"""Algorithm, prior, network."""


def table_1_jobs(cells: Cells, smoke: bool, seed: int) -> list[Job]:
    """Four seeds of each cell, with and without privacy; of another one the search."""
    found = [
        _image_job(*cell, private, number, smoke=smoke)
        for number, cell, private in product(range(seed, seed + 4), [*cells, TWIN], EITHER)
        if private or cell != TWIN
    ]
    return found[:2] if smoke else found + [
        _image_job(algorithm, "normal", network, True, seed + 100, smoke=False, rates={(algorithm, network, True): one},
                   held_out=10_000)
        for (algorithm, network, private), one in product(IMAGE_RATES, SEARCHED) if private
    ]  # fmt: skip


def table_2_jobs(cells: Cells, smoke: bool, seed: int) -> list[Job]:
    """Six seeds of each cell, with and without privacy, at the rate of DP-SGD."""
    found = [_image_job(*cell, private, number, smoke=smoke, rates={})
             for number, cell, private in product(range(seed, seed + 6), cells, EITHER)]  # fmt: skip
    return found[:2] if smoke else found


def figure_1_jobs(smoke: bool, seed: int) -> list[Job]:
    """DP-SGLD over C, which fixes its σ, and DP-SGD over σ and C; two epochs of the CNN, one seed."""
    cells = [("SGLD", SIGMA, clip, LANGEVIN_RATE) for clip in (0.5, 1.0, 1.5)]
    cells += [("SGD", sigma, clip, RATE) for sigma, clip in product((0.9, 2.0), (0.5, 1.5, 5.0))]
    found = list[Job]()
    for algorithm, sigma, clip, rate in cells[:1] if smoke else cells:
        config = _config(
            algorithm, rate, epochs=2.0, members=1, law={}, sigma=sigma, clip=clip,
            budget=Budget(epsilon=100_000.0, delta=DELTA), architecture=CNN, seed=seed, **_DATA[smoke],
        )  # fmt: skip
        run = BayesRun(config=config, members=1, curve=2, image=18)
        found.append(Job(key=_key(run), kind=CLASSIFY, config=run, tags={**_tags(run), "algorithm": algorithm}))
    return found


CURVE_RATES = (0.003, 0.01, 0.03, 0.1)
CHOSEN = {
    **{("SGLD", True): 0.1, ("SGLD", False): 0.1, ("BBP", True): 0.01, ("BBP", False): 0.01},
    **{("MC Dropout", True): 0.03, ("MC Dropout", False): 0.03},
}
"""On the regression, by method and privacy: the best of CURVE_RATES on the simulations that choose."""
JUDGING, CHOOSING = range(21), range(1000, 1006)
"""Seeds of simulations."""
DRAWN = 0
"""The simulation of Figure 4."""
CURVE_DELTA = 1e-3


def curve_jobs(smoke: bool, seed: int) -> list[Job]:
    """Each method at its rate on the simulations that judge, and at every rate on those that choose."""
    judging, choosing = ([DRAWN], ()) if smoke else (JUDGING, CHOOSING)
    found = [_curve_job(*cell, rate, seed + one, judges=True) for one, (cell, rate) in product(judging, CHOSEN.items())]
    return found[:2] if smoke else found + [
        _curve_job(*cell, rate, seed + one, judges=False) for one, cell, rate in product(choosing, CHOSEN, CURVE_RATES)
    ]  # fmt: skip


def _curve_job(algorithm: str, private: bool, rate: float, seed: int, *, judges: bool) -> Job:
    std, clip, hidden = {
        "SGLD": (50**-0.5, 0.0, (200, 200)), "BBP": (1.0, 5.0, (200,)), "MC Dropout": (10.0, 5.0, (200,)),
    }[algorithm]  # fmt: skip
    config = _config(
        algorithm, rate, size=LAST - FIRST, batch=LAST - FIRST, epochs=200.0, members=50, sigma=12.0, clip=clip,
        law={"prior": "normal", "prior_std": std}, budget=Budget(epsilon=1000.0, delta=CURVE_DELTA), dataset=DATASET,
        architecture="fc", hidden=hidden, seed=seed,
    )  # fmt: skip
    run = BayesRun(config=config, private=private, members=50)
    own = {"algorithm": algorithm, "rate": rate, "judges": judges}
    return Job(key=_key(run), kind=REGRESS, config=run, tags={**_tags(run), **own})


SIGMAS, LENGTHS = (0.5, 0.7, 0.9, 1.3, 2.0, 3.0), (3, 15)
"""Of Zhang and Bu's settings: σ over Figure 1's range; our epochs, and theirs."""


def accounting_jobs(smoke: bool, seed: int) -> list[Job]:
    """Epsilons of the papers' settings, and of what batch size, η and C do to DP-SGLD, batch size to DP-SGD."""
    del seed
    cells = [("Zhang, Bu", sigma, BATCH / SIZE, epochs, DELTA) for sigma, epochs in product(SIGMAS, LENGTHS)]
    cells += [("Knolle, MNIST", 3.296, 0.02, 10, DELTA), ("Knolle, X-rays", 1.225, 0.1, 20, 1e-4)]
    for name, times, rate, clip in (
        *(("DP-SGLD", 1, LANGEVIN_RATE, 1.0), ("DP-SGLD, twice |B|", 2, LANGEVIN_RATE, 1.0)),
        *(("DP-SGLD, a quarter of eta", 1, LANGEVIN_RATE / 4, 1.0), ("DP-SGLD, half of C", 1, LANGEVIN_RATE, 0.5)),
    ):
        cells.append((name, times * BATCH / (math.sqrt(rate * SIZE) * clip), times * BATCH / SIZE, 15, DELTA))
    cells += [("DP-SGD, twice |B|", SIGMA, 2 * BATCH / SIZE, 15, DELTA)]
    found = list[Job]()
    for name, sigma, q, epochs, delta in cells[:1] if smoke else cells:
        config = Accounting(sample_rate=q, noise_multiplier=sigma, steps=round(epochs / q), delta=delta)
        own = {"setting": name, "epochs": epochs, "noise_multiplier": sigma, "delta": delta}
        found.append(Job(key=f"accounting-{digest(config)}", kind=ACCOUNT, config=config, tags=own))
    return found
