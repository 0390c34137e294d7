"""The first page: ten sentences, and one table of the numbers that a reader may use."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from experiments.claims import Number, cell, exactly, largest
from experiments.ours import all_data, calibration_frontier, private_priors, temperature_map
from experiments.papers import knolle, p3sgd, random_labels, zhang_bu
from experiments.runs.small_samples import COUNT, NOTHING
from experiments.study import Section

Evidence = dict[str, tuple[str, Number]]
"""By name: the study, and the number of its table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """A sentence with numbers of committed tables in it, beside what a paper prints."""

    said: str
    """Names of ``evidence`` stand in braces, as in :class:`experiments.claims.Sentence`."""
    evidence: Mapping[str, tuple[str, Number]] = field(default_factory=dict)
    what: str = ""
    printed: str = ""
    """The paper's number with the paper's name."""
    why: str = ""


def of(section: Section, words: str, *names: str, **others: str) -> Evidence:
    """The numbers of these names, or all, of the one sentence of a section whose printed text begins with the words;
    ``others`` are numbers that get another name.

    Raises:
        ValueError: no sentence does, or several.
    """
    found = [(study, one) for study, own in section.asked() for one in own if one.printed.startswith(words)]
    if len(found) != 1:
        raise ValueError(f"{len(found)} sentences of {section.title} begin with {words!r}: name one")
    ((study, sentence),) = found
    wanted = {name: name for name in names} | others or {name: name for name in sentence.evidence}
    return {name: (study, sentence.evidence[own]) for name, own in wanted.items()}


_AT_REST = of(temperature_map.SECTION, "A training error of 2%") | {
    "error": ("temperature-map", temperature_map.law("Entropy-SGLD", "test_error", **temperature_map.LADDER))
}
_COUNT: Evidence = {"count": ("certificates", exactly("value", dataset="mnist", recipe="held-out",
                                            certificate="prior_mean_clopper_pearson"))}  # fmt: skip
_TRAJECTORY: Evidence = {"trajectory": ("trajectory", all_data.trajectory_of(
    "realised_sum_maurer", "mnist", learner="linear on fine-gradients"))}  # fmt: skip
_COMPRESSION: Evidence = {"compression": ("compression", all_data.compression_of("mnist", "entropy-sgd"))}
_LANGEVIN = of(knolle.SECTION, "DP-SGLD reduces the expected calibration error on MNIST")
_REGRESSION = of(zhang_bu.SECTION, "DP-SGLD has much better mean squared error")
_ACCURACIES = of(p3sgd.SECTION, "P3SGD outperforms", before="sgd0", after="own0")
_DATA_FREE: Evidence = {"free": ("learnt-posteriors", all_data.learnt_of(all_data.GRADIENTS, "mnist"))}
TEN = (
    Headline(
        said="At the temperature that would make it private, Entropy-SGLD errs on {error:.1%} of two-class MNIST, "
        "where the paper prints about 2%: chains from two starts meet there. From SGD's weights a "
        "training error of 2% is seen at a target {entropy:.0f} times as cold, whose epsilon would be {epsilon:up}.",
        evidence=_AT_REST,
    ),
    Headline(
        said="SGD partly fits random labels (training error {sgd:.2f}, test error {sgd_test:.2f}); Entropy-SGLD at "
        "that temperature does not ({own:.2f} and {own_test:.2f}), as the paper says.",
        evidence={
            name: ("random-labels", random_labels.at(column, algorithm, "random"))
            for name, column, algorithm in (
                ("sgd", "train_error", "SGD"),
                ("sgd_test", "test_error", "SGD"),
                ("own", "train_error", "Entropy-SGLD"),
                ("own_test", "test_error", "Entropy-SGLD"),
            )
        },
    ),
    Headline(
        said="A network that learnt from all of ten-class MNIST is certified to err on at most {compression:up} of new "
        "images by compression and {trajectory:up} by its trajectory; whoever can hold half of the images out counts "
        "errors on them and certifies {count:up}.",
        evidence=_COMPRESSION | _TRAJECTORY | _COUNT,
    ),
    Headline(
        said="From few records the count wins as well: with 120 patients of the malaria data, half held out, it "
        "certifies {count:up} in the worst of three draws, PAC-Bayes from a prior that saw nothing {free:up} on all.",
        evidence={
            name: ("small-samples", largest(cell("value", dataset="malaria", route=route, records=120)))
            for name, route in (("count", COUNT), ("free", NOTHING))
        },
    ),
    Headline(
        said="A prior that learnt privately from the bound's own rows certifies ten-class MNIST at {private:up}; "
        "one that 5,000 other rows taught certifies {one:up}, and one that saw nothing {free:up} on other features.",
        evidence=of(private_priors.SECTION, "A prior that learnt from the bound's own rows", "private")
        | of(private_priors.SECTION, "A prior that 5,000 other rows taught", "one")
        | _DATA_FREE,
    ),
    Headline(
        said="The clip norm, at one product with the step size, changes how well DP-SGD is calibrated: a small network "
        "on MNIST has an ECE of {ece_more:.3f} at 0.1 and {ece_less:.3f} at 10 after 800 steps, {short:.3f} and "
        "{short_less:.3f} after 200, at one epsilon.",
        evidence=of(calibration_frontier.SECTION, "MNIST: the clip norm", "ece_more", "ece_less")
        | {
            name: ("private-calibration", calibration_frontier.at(calibration_frontier.MNIST, clip_norm=clip))
            for name, clip in (("short", 0.1), ("short_less", 10.0))
        },
    ),
    Headline(
        said="Langevin dynamics adds little to that: at equal clip norm, noise and steps DP-SGLD's ECE on MNIST is "
        "{mnist:.2f} to {cnn:.2f} times DP-SGD's, and not a fifth of it.",
        evidence=_LANGEVIN,
    ),
    Headline(
        said="The central limit of Gaussian differential privacy, with which two of the papers print epsilon, is no "
        "upper bound: it says {limit:.4f} where at least {lower:.4f} is spent, for an image of "
        "MNIST at delta 1e-5.",
        evidence=of(zhang_bu.SECTION, "Gaussian differential privacy and", "limit", "lower"),
    ),
    Headline(
        said="With each method at its own best step size, private Bayesian networks regress nearly alike: "
        "DP-BBP's error is {bbp:.2f} times DP-SGLD's and DP-MC Dropout's {dropout:.2f} times.",
        evidence=_REGRESSION,
    ),
    Headline(
        said="P3SGD narrows the gap between training and testing on X-rays from {sgd0:.1f} to {own0:.1f} points and "
        "loses accuracy ({before:.1f} to {after:.1f} %); its adaptive choice of the noise is a coin toss.",
        evidence=of(p3sgd.SECTION, "SGD obviously overfits", "sgd0", "own0") | _ACCURACIES,
    ),
)
HEADLINES = (
    Headline(
        what="Test error of Entropy-SGLD at tau = sqrt(n), two-class MNIST",
        printed="about 2% (Dziugaite and Roy 2018)",
        said="{error:.1%}, where chains stay",
        evidence={"error": _AT_REST["error"]},
        why="measured: another start keeps it, a colder target lowers it",
    ),
    Headline(
        what="Epsilon of one such draw",
        printed="0.0327 (Dziugaite and Roy 2018)",
        said="{epsilon:up4}, if the chain has converged",
        evidence={"epsilon": ("random-labels", random_labels.at("epsilon", "Entropy-SGLD", "true"))},
        why="the loss's exact range, 3.98 for 4",
    ),
    Headline(
        what="Certificate on all of ten-class MNIST",
        printed="0.0306 (Bazinet et al. 2025)",
        said="{compression:up} by compression",
        evidence=_COMPRESSION,
        why="another learner and network",
    ),
    Headline(
        what="The same from a prior that saw nothing",
        printed="0.116, of a compressed network (Lotfi et al. 2022)",
        said="{free:up}",
        evidence=_DATA_FREE,
        why="fixed features and a learnt covariance",
    ),
    Headline(
        what="Certificate of ten-class MNIST by counting on a half",
        printed="0.0155 with PAC-Bayes and a prior from half (Pérez-Ortiz et al. 2021)",
        said="{count:up}",
        evidence=_COUNT,
        why="a count is tighter than any posterior that we learnt",
    ),
    Headline(
        what="ECE of DP-SGLD over that of DP-SGD, MNIST",
        printed="a fifth (Knolle et al. 2021)",
        said="{mnist:.2f} to {cnn:.2f}",
        evidence=_LANGEVIN,
        why="the paper's settings are unknown; ours are equal for both",
    ),
    Headline(
        what="ECE of DP-SGD on MNIST with one fitted temperature",
        printed="lower, without loss of accuracy (cited by Knolle et al. 2021)",
        said="{all_after} for {all_before}, means of five clip norms",
        evidence=of(knolle.SECTION, "Post-hoc calibration methods", "all_before", "all_after"),
        why="fitted to 500 other images",
    ),
    Headline(
        what="Regression error of DP-BBP over that of DP-SGLD",
        printed="2.5 (Zhang, Bu et al. 2021)",
        said="{bbp:.2f}",
        evidence={"bbp": _REGRESSION["bbp"]},
        why="measured: the step size, which was searched for each method",
    ),
    Headline(
        what="Epsilon of P3SGD with noise {3, 1}",
        printed="6.97 (Wu et al. 2019)",
        said="{proved1:up}, proved of the corrected algorithm",
        evidence=of(p3sgd.SECTION, "For the fixed strategy a larger", "proved1"),
        why="the printed proof does not pay for the choice; ours does",
    ),
    Headline(
        what="Test accuracy of P3SGD less that of SGD, X-rays",
        printed="+2.98 points on glomeruli (Wu et al. 2019)",
        said="{after:.1f} less {before:.1f} %",
        evidence=_ACCURACIES,
        why="other images, a network that starts pre-trained",
    ),
)
