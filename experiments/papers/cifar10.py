"""CIFAR-10 on a GPU: certificates of a ResNet-18 that learnt from half of the images, and DP-SGD at epsilon 1 to 8.

Two cores would need days; scale `smoke` sees on small digits that everything works. No setting was tried on CIFAR-10
before these plans were written down, so that certificates pay for no list.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from experiments.claims import Claim, Comparison, above, count_noise, decide, every, judging, rises
from experiments.figures import certificates as certificate_figures
from experiments.figures import cifar10 as figures
from experiments.job_costs import on_a_gpu
from experiments.papers import certificates
from experiments.papers.certificates import COUNT, HELD_OUT
from experiments.papers.runs.held_out import HeldOutConfig
from experiments.study import Done, Row, Study, columns, drawing, tabled
from experiments.tables import column, part
from pacdp.backprop import Augmentation, FitSettings, PosteriorSettings
from pacdp.backprop.network import SmallCNN
from pacdp.cli.figures.numbers import up
from pacdp.cli.private.config import Budget, PrivateConfig, Sampling
from pacdp.cli.private.methods import DPSGD
from pacdp.cli.recipes import Scale
from pacdp.cli.sweep.jobs import Job
from pacdp.cli.sweep.kinds import private_job

AIM = 0.10
"""What a certificate of CIFAR-10 should not exceed."""
CERTIFIED = {
    "randomised": (0.246, "prior from 70% of all 60,000 images (pacbb, 2025, Table 1: the best of a grid, unpaid)"),
    "one draw": (0.304, "prior from half of the data (Viallard et al. 2023, one network drawn from the posterior)"),
}
"""Published certificates of CIFAR-10."""
DATASETS: dict[Scale, str] = {"smoke": "digits", "gpu": "cifar10", "paper": "cifar10"}
SCALES: tuple[Scale, ...] = ("smoke", "gpu", "paper")
_COLOURS = Augmentation(shift=4.0, flip=True)
_FIT = FitSettings(optimizer="sgd", epochs=200, step_size=0.1, weight_decay=5e-4, augmentation=_COLOURS)
_HALF = HeldOutConfig(
    dataset="cifar10",
    architecture="resnet18",
    prior_std=0.001,
    fit=_FIT,
    posterior=PosteriorSettings(steps=0),
    passes=4,
)
_SMALL = HeldOutConfig(
    dataset="digits", network=SmallCNN(channels=(4, 8), hidden=16), fit=FitSettings(epochs=2, batch_size=32),
    posterior=PosteriorSettings(steps=0), passes=2,
)  # fmt: skip
PLANS: dict[Scale, tuple[HeldOutConfig, int]] = {
    "smoke": (_SMALL, 5),
    "gpu": (_HALF, 2000),
    "paper": (replace(_HALF, fit=replace(_FIT, epochs=600), passes=16), 10_000),
}
"""The prior with its count, and the steps of the posterior that leaves it."""


def certified(scale: Scale, seed: int) -> list[Job]:
    """One prior, twice: as it is, with its errors counted, and with a posterior that descends a PAC-Bayes objective."""
    base, steps = PLANS[scale]
    base = replace(base, seed=seed)
    learnt = replace(base, posterior=replace(base.posterior, steps=steps))
    return [
        Job(
            key=f"cifar10-{name}-{base.dataset}",
            kind=HELD_OUT,
            config=config,
            tags={"dataset": base.dataset, "recipe": name},
        )
        for name, config in (("held-out", base), ("posterior", learnt))
    ]


def _value(table: pl.DataFrame, recipe: str, of: str) -> float | None:
    risks = table.filter(pl.col("measures") == "0-1 risk", pl.col("status") == "rigorous")
    own = part(risks.filter(~pl.col("certificate").str.starts_with("test_set")), recipe=recipe, of=of)
    return min(own["value"].to_list(), default=None)


def certified_numbers(table: pl.DataFrame, scale: Scale) -> Iterator[Comparison]:
    """Published certificates of the same data."""
    for of, (printed, origin) in CERTIFIED.items():
        why = f"{origin}; ours: ResNet-18 with group normalisation, prior from half of the training images"
        yield Comparison(f"CIFAR-10, {of}: certificate", printed, _value(table, "posterior", of), why)


def certified_claims(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """Whether either reaches the aim, and whether each lies above its test error."""
    idle = {recipe for _, recipe in certificates.idle(table.filter(pl.col("measures") == "0-1 risk"))}
    count = _value(table, *COUNT)
    said = f"ResNet-18 from half of the images is certified at most {AIM:g}"
    yield Claim(f"{said} by a count of its errors on the other half.", decide(lambda v: v <= AIM, count), _told(count))
    learnt = _value(table, "posterior", "randomised")
    holds = None if "posterior" in idle else decide(lambda v: v <= AIM, learnt)
    told = f"{_told(learnt)}{'; KL = 0, no posterior was learnt' if 'posterior' in idle else ''}"
    yield Claim(f"{said} by PAC-Bayes, with a posterior that left its prior.", holds, told)
    rigorous = table.filter(pl.col("measures") == "0-1 risk", pl.col("status") == "rigorous")
    yield certificates.above("Every rigorous certificate is at least its test error.", rigorous)


def _told(value: float | None) -> str:
    return "missing" if value is None else up(value)


def certified_notes(table: pl.DataFrame, scale: Scale) -> Iterator[str]:
    """What was trained."""
    base, steps = PLANS[scale]
    yield (
        f"The prior learns from half of the images for {base.fit.epochs} epochs, the posterior makes {steps} steps on "
        "the other half, which alone the certificates count. No setting was compared on this data."
    )
    if scale == "smoke":
        yield "Small digits and a small network stand in for CIFAR-10 and ResNet-18."


EPSILONS = (1.0, 2.0, 4.0, 8.0)
PRINTED = {8.0: 81.4}
"""Test accuracy of a Wide-ResNet of 40 layers in percent, by epsilon, without other data (De et al. 2022, abstract)."""
_BATCH = 4096
_TRAINING = PrivateConfig(
    dataset="cifar10", architecture="allcnn", norm="group", method=DPSGD(learning_rate=2.0),
    sampling=Sampling(sample_rate=_BATCH / 50_000, steps=1000, grad_sample_mode="hooks"),
    budget=Budget(epsilon=8.0, delta=1e-5), records=5,
)  # fmt: skip
_DIGITS = replace(
    _TRAINING, dataset="digits", architecture="fc", hidden=(32,), norm="none", method=DPSGD(learning_rate=0.5),
    sampling=Sampling(sample_rate=0.1, steps=6), budget=Budget(epsilon=8.0, delta=1e-3), records=2,
)  # fmt: skip
PRIVATE: dict[Scale, PrivateConfig] = {
    "smoke": _DIGITS,
    "gpu": _TRAINING,
    "paper": replace(_TRAINING, sampling=replace(_TRAINING.sampling, steps=2500)),
}
SEEDS: dict[Scale, int] = {"smoke": 1, "gpu": 2, "paper": 5}


def private(scale: Scale, seed: int) -> list[Job]:
    """DP-SGD at each epsilon, some seeds of each."""
    base = PRIVATE[scale]
    return [
        private_job(
            f"dp-sgd-{base.dataset}-{epsilon:g}-{own}",
            replace(base, seed=own, budget=replace(base.budget, epsilon=epsilon)),
            **{"asked": epsilon, "seed": own},
        )
        for epsilon in EPSILONS
        for own in range(seed, seed + SEEDS[scale])
    ]


COLUMNS = columns(
    (pl.Float64, "asked"),
    (pl.Int64, "seed n n_test steps parameters"),
    (pl.Float64, "epsilon delta accuracy ece seconds"),
)


def by_run(done: Done) -> Iterator[Row]:
    """A row a run."""
    result = done.result
    spent = {name: result["privacy"][name] for name in ("epsilon", "delta")}
    yield {**result, **done.tags, **spent, **{name: result["test"][name] for name in ("accuracy", "ece")}}


def private_numbers(table: pl.DataFrame, scale: Scale) -> Iterator[Comparison]:
    """The accuracy that is printed."""
    for epsilon, printed in PRINTED.items():
        found = column(table, "accuracy", {"asked": epsilon})
        why = "All-CNN-C with group normalisation, plain DP-SGD; theirs a Wide-ResNet of 40 layers on augmented images"
        ours = 100.0 * sum(found) / len(found) if found else None
        yield Comparison(f"CIFAR-10, DP-SGD at epsilon {epsilon:g}: test accuracy, %", printed, ours, why)


def private_claims(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """What a larger budget buys, and that the budget is kept."""
    found = {epsilon: column(table, "accuracy", {"asked": epsilon}) for epsilon in EPSILONS}
    known = {epsilon: sum(values) / len(values) for epsilon, values in found.items() if values}
    n = min(column(table, "n_test", {}), default=1)
    told = ", ".join(f"epsilon {epsilon:g}: {value:.3f}" for epsilon, value in known.items())
    noises = [count_noise((value, n)) for value in known.values()]
    yield Claim("Accuracy rises with epsilon, from 1 to 8.", rises(list(known.values()), noises), told or "none")
    learnt = every(above(value, 0.1, noise) for value, noise in zip(known.values(), noises, strict=True))
    yield Claim("Every private network is more accurate than guessing among ten classes.", learnt, told or "none")
    spent = [(row["epsilon"], row["asked"]) for row in table.iter_rows(named=True)]
    worst = max((one / most for one, most in spent), default=None)
    kept = decide(lambda share: share <= 1.0, worst)
    yield Claim("No run spends more than its budget.", kept, "none" if worst is None else f"at most {up(worst)} of it")


def private_notes(table: pl.DataFrame, scale: Scale) -> Iterator[str]:
    """What is missing of the best known recipe."""
    sampling = PRIVATE[scale].sampling
    yield (
        f"{sampling.steps} steps in which an example takes part with probability {sampling.sample_rate:.3g}; noise as "
        "small as the budget allows, add-remove neighbours. No augmentation, no average of the weights, no tuning."
    )
    if scale == "smoke":
        yield "Small digits and a small network stand in for CIFAR-10 and All-CNN-C."


_JUDGED: dict[str, Any] = {"claims": certified_claims, "numbers": certified_numbers, "notes": certified_notes}
CERTIFICATES = Study(
    name="certificates-cifar10",
    title="Certificates of CIFAR-10: a ResNet-18 from half of the images",
    paper="Pérez-Ortiz et al. 2021 and Viallard et al. 2023, on a larger network",
    jobs=certified,
    table=tabled(certificates.rows),
    draw=drawing(figure=partial(certificate_figures.draw, test_set="test_set_clopper_pearson", idle=())),
    judge=judging(**_JUDGED, settled_by=on_a_gpu(certified)),
    scales=SCALES,
)
_JUDGED = {"claims": private_claims, "numbers": private_numbers, "notes": private_notes}
PRIVATE_TRAINING = Study(
    name="private-cifar10",
    title="DP-SGD on CIFAR-10 at epsilon 1 to 8",
    paper="De et al. 2022, Unlocking high-accuracy differentially private image classification through scale",
    jobs=private,
    table=tabled(by_run, COLUMNS),
    draw=drawing(figure=figures.accuracy_by_budget),
    judge=judging(**_JUDGED, settled_by=on_a_gpu(private)),
    scales=SCALES,
)
STUDIES = (CERTIFICATES, PRIVATE_TRAINING)
