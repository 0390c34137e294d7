"""What the tables say of the paper's numbers and sentences."""

import polars as pl

from experiments.figures.numbers import up
from experiments.papers.knolle.benches import Bench, benches
from experiments.papers.knolle.evidence import Sample, difference, sample
from experiments.papers.knolle.tables import AVERAGED
from experiments.papers.knolle_plain import PlainConfig
from experiments.recipes import Scale
from experiments.studies.study import Claim, Comparison, Verdict

PRINTED: dict[str, dict[str, tuple[float, float, float]]] = {
    "MNIST": {"SGD": (0.984, 0.999, 0.0020), "DP-SGD": (0.967, 0.996, 0.0210), "DP-SGLD": (0.963, 0.995, 0.0044)},
    "X-rays": {"SGD": (0.857, 0.942, 0.0526), "DP-SGD": (0.783, 0.910, 0.1790), "DP-SGLD": (0.786, 0.920, 0.0833)},
}
"""Accuracy, AUC and ECE as Tables 1 and 2 print them."""
SCORES = {"accuracy": "accuracy", "macro_auc": "AUC", "ece": "ECE"}
FOLDS = {"MNIST": 5, "X-rays": 2}
"""The reductions of ECE that abstract and discussion name ("MNIST ~5-fold, PPD ~2-fold")."""

_SETTINGS = (
    "The text gives neither batch size, step sizes, clip norm, temperature, decay nor pre-noise: they are ours, found "
    "on MNIST, whose test images were looked at, and for the X-rays by a coarse search on 651 training images with "
    "patients held out; neither search is counted in any epsilon."
)
_ACCOUNTANT = (
    "Epsilon here is an upper bound (privacy loss distribution, add-remove neighbours). The paper's comes from the "
    "central limit theorem of Gaussian differential privacy, an approximation that proves nothing; what it makes of "
    "our runs stands beside each comparison."
)
_XRAYS = (
    "EfficientNet-Lite0 (1,280 features of 224x224 JPEG copies) stands in for EfficientNet B1, and the 16 official "
    "validation images are missing."
)
_UNIT = (
    'The unit of privacy of Table 2 is one image, as in the paper (neighbours "differ by at most one record"). A '
    "child has up to 30 images, so that DP for images promises a child far less; the rows by patient (figure, "
    "table.csv) spend the same epsilon on all images of a patient. 30 images occur more than once, byte for byte: "
    "their unit counts each copy."
)
_POINT = (
    'DP-SGLD\'s row is of its last weights, as in the paper; "averaged" is the mean of the predictions of weights from '
    "the second half of the same run, which costs no privacy more and is not in the paper. It stands beside single "
    "networks of DP-SGD, whose weights could be averaged as freely: a difference is averaging's, not that of Langevin "
    "dynamics."
)
_LAW = (
    "Without decay and pre-noise DP-SGLD's last weights are DP-SGD's in law, at a step size, clip norm and noise: what "
    "the two additions do not change (knolle-ablation) is not to be expected of the method."
)


def judge_table(table: pl.DataFrame, scale: Scale) -> Verdict:
    """Tables 1 and 2: whichever data the table holds."""
    found = [name for name in PRINTED if name in table["data"].to_list()]
    return Verdict(
        comparisons=tuple(one for name in found for one in _comparisons(table, name)),
        claims=tuple(one for name in found for one in _claims(table, name)),
        notes=notes(found, table["stands_for"].to_list(), scale),
    )


def notes(found: list[str], stands_for: list[str], scale: Scale) -> tuple[str, ...]:
    """What a reader must know of the data of these names, made from the data sets that stand for them."""
    said = [
        _SETTINGS,
        *(_training(bench) for bench in benches(scale) if bench.name in found),
        _POINT,
        _LAW,
        _ACCOUNTANT,
    ]
    if "digits" in stands_for:
        said.insert(0, "scikit-learn's 8x8 digits stand in for the paper's data: the numbers say nothing of it.")
    elif "X-rays" in found:
        said += [_XRAYS, _UNIT]
    if scale == "cpu":
        said.append("Cut for two cores: three seeds on MNIST and five on the X-rays, in the ablation two and three; "
                    "averages are over 4 weights, 20 at the paper's scale.")  # fmt: skip
    return tuple(said)


def _training(bench: Bench) -> str:
    sampling, budget = bench.run.sampling, bench.run.budget
    return (
        f"{bench.name}: epsilon {budget.epsilon:g} at delta {budget.delta:g}. SGD has {bench.plain_epochs} passes, a "
        f"step size of {bench.plain_rate:g} and momentum {PlainConfig().momentum:g}, private runs "
        f"{sampling.sample_rate * sampling.steps:g} passes without momentum: what differs is not privacy's alone."
    )


def _comparisons(table: pl.DataFrame, data: str) -> list[Comparison]:
    part = table.filter(pl.col("data") == data)
    found = []
    for procedure, printed in PRINTED[data].items():
        for (column, name), paper in zip(SCORES.items(), printed, strict=True):
            ours = sample(part, column, procedure=procedure)
            why = "runs are missing" if ours is None else f"{_why(part, procedure)}; {ours}"
            found.append(
                Comparison(
                    what=f"{data}, {procedure}: {name}", paper=paper, ours=None if ours is None else ours.mean, why=why
                )
            )
    return found


def _why(part: pl.DataFrame, procedure: str) -> str:
    rows = part.filter(pl.col("procedure") == procedure)
    made_of = {"mnist": "our own five-layer CNN", "xrays224": "EfficientNet-Lite0 instead of B1"}
    data = sorted(set(rows["stands_for"].to_list()))
    why = "; ".join(made_of.get(one, f"{one} instead of the paper's data") for one in data)
    spent, central = rows["epsilon"].max(), rows["epsilon_central_limit"].max()
    if not (isinstance(spent, float) and isinstance(central, float)):
        return why
    return f"{why}; epsilon at most {up(spent, 3)} by our accountant, {central:.3f} by the paper's"


def _claims(table: pl.DataFrame, data: str) -> list[Claim]:
    part = table.filter(pl.col("data") == data)
    plain, private, ours, averaged = (
        sample(part, "ece", procedure=name) for name in ("SGD", "DP-SGD", "DP-SGLD", f"DP-SGLD{AVERAGED}")
    )
    worse = difference("ECE of DP-SGD against SGD", private, plain)
    better = difference("ECE of DP-SGD against DP-SGLD", private, ours)
    mean = difference("ECE of DP-SGD against DP-SGLD, averaged", private, averaged)
    sentences = (
        (f"{data}: DP-SGD has a negative impact on model calibration compared to standard SGD", worse),
        (
            f"{data}: DP-SGLD provides [...] better calibrated predictive uncertainty than standard DP-SGD",
            better,
        ),
        (f"{data}: the same of DP-SGLD's averaged predictions (our addition)", mean),
    )
    found = [Claim(sentence=sentence, holds=seen.holds, evidence=f"{seen.evidence}{_by_class(part)}" if seen is worse
                   else seen.evidence) for sentence, seen in sentences]  # fmt: skip
    return [*found, _fold(part, data), _alike(part, data)]


def _by_class(part: pl.DataFrame) -> str:
    """What two other errors say of DP-SGD against SGD."""
    found = {name: [sample(part, name, procedure=one) for one in ("DP-SGD", "SGD")] for name in ("sce", "ace")}
    said = [
        f"{name.upper()}: {private.mean:.4f} against {plain.mean:.4f}"
        for name, (private, plain) in found.items() if private and plain
    ]  # fmt: skip
    return "".join(f"; {one}" for one in said)


def _fold(part: pl.DataFrame, data: str) -> Claim:
    private, ours = (sample(part, "ece", procedure=name) for name in ("DP-SGD", "DP-SGLD"))
    sentence = f"{data}: a reduction in ECE ~{FOLDS[data]}-fold against DP-SGD"
    if private is None or ours is None or ours.mean == 0.0:
        return Claim(sentence=sentence, holds=None, evidence="runs are missing")
    least = FOLDS[data] - 0.5
    enough = Sample(ours.mean * least, ours.variance * least**2, ours.seeds)
    seen = difference(f"ECE of DP-SGD against {least:g} times that of DP-SGLD", private, enough)
    evidence = f"{private.mean / ours.mean:.2f}-fold, at least {least:g} being asked; {seen.evidence}"
    return Claim(sentence=sentence, holds=seen.holds, evidence=evidence)


def _alike(part: pl.DataFrame, data: str) -> Claim:
    sentence = f"{data}: differences between ECE, SCE and ACE were negligible"
    worst, shown = 0.0, []
    for procedure in PRINTED[data]:
        found = [sample(part, name, procedure=procedure) for name in ("ece", "sce", "ace")]
        means = [one.mean for one in found if one is not None]
        if len(means) < 3 or max(means) == 0.0:
            return Claim(sentence=sentence, holds=None, evidence="runs are missing")
        worst = max(worst, 1.0 - min(means) / max(means))
        shown.append(f"{procedure} {means[0]:.4f}, {means[1]:.4f}, {means[2]:.4f}")
    evidence = f"ECE, SCE, ACE: {'; '.join(shown)}; they differ by up to {worst:.0%}, negligible being a tenth. "
    evidence += "SCE and ACE are Nixon et al.'s means over all classes, at most 2/K"
    return Claim(sentence=sentence, holds=worst <= 0.1, evidence=evidence)
