"""The runs behind all tables and figures, by scale: what two studies ask for is one run with one key.

The text at hand lacks the paper's appendix. Figure 1's caption gives delta, batch size, both step sizes, number of
epochs and the ranges of C and σ; the authors' published notebooks give two hidden layers of 1200, σ = 1.3, C = 1.5,
dropout 0.5 and priors of scale 0.1. Learning rates of BBP and MC Dropout, and the initial deviation of BBP, are ours
and were not searched for. All private runs have one σ and sample rate, hence one epsilon: DP-SGLD's
σ = B/(n √η C) fixes its C.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from experiments.papers.runs.bayesian import CNN, BayesRun
from experiments.papers.runs.bayesian_runs import CLASSIFY
from experiments.study import Done, Row
from experiments.tables import column, epsilon_shown
from pacdp.cli.private.config import Budget, PrivateConfig, Sampling
from pacdp.cli.private.methods import DPBBP, DPSGD, DPSGLD, DPMCDropout, Method
from pacdp.cli.recipes import Scale
from pacdp.cli.serial import digest
from pacdp.cli.sweep.jobs import Job, Kind

DELTA = 1e-5
SIGMA, CLIP, RATE = 1.3, 1.5, 0.25
PLAIN_CNN_RATE = 0.1
"""Of SGD on the CNN without privacy: unclipped, RATE left it at chance at one of two seeds."""
LANGEVIN_RATE = 0.6
"""n η: DP-SGD's learning rate in the paper's Theorem 1; η = 1e-5 at n = 60,000."""
DRIFT, PLAIN_DRIFT = 1.0, 0.5
"""The factor c before the gradient in SGLD on images, with and without privacy; the temperature is 1/(2c)."""
PRIOR_SCALE, FLAT_SCALE = 0.1, 100.0
"""FLAT_SCALE makes BBP's prior flat: its KL is then the posterior's negative entropy and a constant."""
MLP = "fc"
FEWEST = 0.01
"""A bin counts where it holds this share of the test images."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A scale."""

    dataset: str
    size: int
    hidden: tuple[int, ...]
    batch: int
    epochs: dict[str, float]
    """By network."""
    members: int
    seeds: int
    """Of Table 1."""
    calibration_seeds: int
    """Of Table 2."""
    diagram_seeds: int
    """Of Figures 3 and 7, the first ones of Table 2's."""
    image: int = 18
    """The eighteenth test image of MNIST, a 3 that networks take for 8 or 5."""


SETTINGS: dict[Scale, Setting] = {
    "smoke": Setting(
        dataset="digits",
        size=1437,
        hidden=(16, 16),
        batch=144,
        epochs={MLP: 0.8, CNN: 0.4},
        members=2,
        seeds=1,
        calibration_seeds=1,
        diagram_seeds=1,
        image=3,
    ),
    "cpu": Setting(
        dataset="mnist",
        size=60_000,
        hidden=(200, 200),
        batch=256,
        epochs={MLP: 3.0, CNN: 2.0},
        members=20,
        seeds=4,
        calibration_seeds=6,
        diagram_seeds=6,
    ),
    "paper": Setting(
        dataset="mnist",
        size=60_000,
        hidden=(1200, 1200),
        batch=256,
        epochs={MLP: 15.0, CNN: 15.0},
        members=100,
        seeds=5,
        calibration_seeds=10,
        diagram_seeds=5,
    ),
}


def langevin_clip(*, batch: int, size: int, rate: float, sigma: float) -> float:
    """The clipping norm C at which DP-SGLD's noise multiplier B/(n √η C) is ``sigma``, η being rate / n."""
    return batch / (math.sqrt(rate * size) * sigma)


def method(algorithm: str, prior: str, network: str, *, private: bool, members: int, size: int) -> Method:
    """An algorithm of the tables with a prior: "normal", "laplace", or "none" for a flat one.

    SGLD without privacy has Welling and Teh's factor ½ before the gradient, as in the authors' notebooks: unclipped,
    the private runs' step of n η = 0.6 takes the CNN apart.
    """
    law: dict[str, Any] = {"prior": prior, "prior_std": PRIOR_SCALE}
    match algorithm:
        case "SGLD":
            return DPSGLD(
                convention="parameter-slot",
                step_size=LANGEVIN_RATE / size,
                noise=1.0,
                drift=DRIFT if private else PLAIN_DRIFT,
                snapshots=members,
                **law,
            )
        case "BBP":
            flat = {"prior": "normal", "prior_std": FLAT_SCALE}
            return DPBBP(learning_rate=RATE, initial_std=0.05, test_draws=members, **(flat if prior == "none" else law))
        case "MC Dropout":
            return DPMCDropout(rate=0.5, learning_rate=RATE, test_draws=members, **law)
        case "SGD":
            return DPSGD(learning_rate=RATE if private or network != CNN else PLAIN_CNN_RATE, **law)
        case "SGD as SGLD":
            return DPSGD(learning_rate=LANGEVIN_RATE, **law)
        case _:
            raise ValueError(f"expected SGLD, BBP, MC Dropout, SGD or SGD as SGLD, got {algorithm!r}")


def image_run(algorithm: str, prior: str, network: str, *, private: bool, scale: Scale, seed: int) -> BayesRun:
    """A run of Tables 1 and 2."""
    setting = SETTINGS[scale]
    langevin = algorithm in ("SGLD", "SGD as SGLD")
    clip = langevin_clip(batch=setting.batch, size=setting.size, rate=LANGEVIN_RATE, sigma=SIGMA) if langevin else CLIP
    config = PrivateConfig(
        dataset=setting.dataset,
        architecture=network,
        hidden=setting.hidden,
        seed=seed,
        method=method(algorithm, prior, network, private=private, members=setting.members, size=setting.size),
        sampling=sampling(
            setting,
            batch=setting.batch,
            epochs=setting.epochs[network],
            clip_norm=clip,
            sigma=0.0 if algorithm == "SGLD" else SIGMA,
        ),
        budget=Budget(epsilon=1000.0, delta=DELTA),
    )
    return BayesRun(
        config=config,
        private=private,
        members=setting.members,
        image=setting.image,
        curve=1 if algorithm == "SGLD" else 0,
    )


def sampling(setting: Setting, *, batch: int, epochs: float, clip_norm: float, sigma: float) -> Sampling:
    """Batches of a size, for a number of passes; σ = 0 where the method fixes it."""
    return Sampling(
        sample_rate=batch / setting.size,
        steps=max(1, round(epochs * setting.size / batch)),
        clip_norm=clip_norm,
        noise_multiplier=sigma,
    )


def image_jobs(cells: list[tuple[str, str, str]], scale: Scale, seed: int, *, seeds: int) -> list[Job]:
    """A private run of each (algorithm, prior, network) and its twin without privacy, for each of several seeds."""
    found = []
    for number in range(seeds):
        for algorithm, prior, network in cells:
            for private in (True, False) if algorithm != "SGD as SGLD" else (True,):
                run = image_run(algorithm, prior, network, private=private, scale=scale, seed=seed + number)
                found.append(
                    named(run, CLASSIFY, algorithm=algorithm, prior=prior, network="CNN" if network == CNN else "MLP")
                )
    return found


def named(run: BayesRun, kind: Kind, **tags: str | float | bool | None) -> Job:
    """The job of a run, under a key made of its algorithm and its configuration's hash."""
    stem = f"{'dp-' if run.private else ''}{run.algorithm.lower().replace(' ', '-')}-{run.config.architecture}"
    tags = {"private": run.private, "seed": run.seed, **tags}
    return Job(key=f"{stem}-{digest(run)}", kind=kind, config=run, tags=tags)


def image_rows(done: Done) -> Iterator[Row]:
    """A row a run on images: its tags, accuracy, calibration, uncertainty, privacy and time."""
    result = done.result
    test, parts = result["test"], result["uncertainty"]
    yield {
        **done.tags,
        **{name: test[name] for name in ("accuracy", "ece", "mce", "rmsce", "nll_nats", "n")},
        "filled_mce": filled_mce(result["reliability"], test["n"]),
        "one_bin_ece": abs(test["accuracy"] - test["mean_confidence"]),
        "last_accuracy": result["curve"][-1]["accuracy"] if result["curve"] else None,
        **{f"confidence_{kind}": parts["confidence"][kind] for kind in ("right", "wrong")},
        **{f"mutual_information_{kind}_nats": parts["mutual_information_nats"][kind] for kind in ("right", "wrong")},
        **privacy_columns(result["privacy"] or {}),
        **{name: result[name] for name in ("steps", "members", "parameters", "seconds_per_epoch")},
        "run": done.job.key,
    }


def filled_mce(curve: Row, n: int) -> float:
    """The largest gap of the bins that hold at least FEWEST of the n images: a MCE that no handful of images sets."""
    bins = zip(curve["count"], curve["confidence"], curve["accuracy"], strict=True)
    return max(abs(accuracy - confidence) for count, confidence, accuracy in bins if count >= FEWEST * n)


def privacy_columns(spent: Row) -> Row:
    """What a run cost, without the bracket's lower end."""
    own = {name: spent.get(name) for name in ("delta", "noise_multiplier", "clip_norm")}
    return {"epsilon": spent.get("upper"), "epsilon_clt_optimistic": spent.get("epsilon_clt"), **own}


SMOKE = (
    "Smoke scale: scikit-learn's 8x8 digits stand in for MNIST, a smaller CNN for Opacus's, few steps: the numbers say "
    "nothing of the paper."
)
SOURCES = (
    "The text at hand lacks the paper's appendix: widths, σ, C, dropout rate and prior scales are those of the "
    "authors' published notebooks; learning rates of BBP and MC Dropout are ours (DP-SGD's). No search was made. Two "
    f"steps were made smaller after the CNN had failed without privacy: SGLD's c is {PLAIN_DRIFT:g} rather than "
    f"{DRIFT:g}, SGD's step {PLAIN_CNN_RATE:g} rather than {RATE:g}.",
    f"DP-SGLD is the paper's Theorem 1 with gradient factor c = {DRIFT:g} and noise variance η, as in the authors' "
    f"code: Langevin dynamics at temperature {1 / (2 * DRIFT):g}, not the posterior. SGLD without privacy has c = "
    f"{PLAIN_DRIFT:g} on images, as in that code, hence temperature {1 / (2 * PLAIN_DRIFT):g}: drops from SGLD to "
    "DP-SGLD compare two targets. DP-SGLD's C is chosen so that σ, and hence epsilon, is the others'.",
    "Epsilon is the upper end of a proved bracket for Poisson batches, add-remove neighbours; the paper uses the "
    "central limit theorem of Gaussian differential privacy, which is no bound (column epsilon_clt_optimistic).",
)


def cut(scale: Scale, *, seeds: int) -> tuple[str, ...]:
    """What was cut of Tables 1 and 2 at this scale, and the sources of the settings."""
    if scale == "smoke":
        return (SMOKE, *SOURCES)
    ours, papers = SETTINGS[scale], SETTINGS["paper"]
    if ours == papers:
        return SOURCES
    epochs = f"{ours.epochs[MLP]:g} epochs (CNN: {ours.epochs[CNN]:g}) rather than {papers.epochs[MLP]:g}"
    said = ", ".join([_widths(ours, papers), epochs, _members(ours, papers), f"seeds: {seeds}"])
    return (f"Cut for two cores: {_share(ours, papers)} of {ours.dataset.upper()}, but {said}.", *SOURCES)


def differing(scale: Scale, *, network: str, several: bool) -> str:
    """What differs from the paper's settings in a run without privacy, of several members or one."""
    ours, papers = SETTINGS[scale], SETTINGS["paper"]
    if ours == papers:
        return "another run at the settings of the notes"
    data = [f"{ours.dataset} rather than {papers.dataset}, a smaller network"] if ours.dataset != papers.dataset else []
    width = [_widths(ours, papers)] if network == MLP and not data else []
    epochs = [f"{ours.epochs[network]:g} epochs rather than {papers.epochs[network]:g}"]
    return ", ".join([*data, *width, *epochs, *([_members(ours, papers)] if several else [])])


def numbers_of(table: pl.DataFrame) -> str:
    """The range of epsilon in the table, and delta."""
    spent = column(table, "epsilon", {})
    if not spent:
        return "No private run has finished."
    ends = list(dict.fromkeys(epsilon_shown(end) for end in (min(spent), max(spent))))
    return f"Private runs: epsilon {' to '.join(ends)} at delta {max(column(table, 'delta', {})):g}."


def _widths(ours: Setting, papers: Setting) -> str:
    return f"hidden layers of {ours.hidden[0]} rather than {papers.hidden[0]}"


def _members(ours: Setting, papers: Setting) -> str:
    return f"{ours.members} members rather than {papers.members}"


def _share(ours: Setting, papers: Setting) -> str:
    return "all" if ours.size == papers.size else f"{ours.size:,} examples"
