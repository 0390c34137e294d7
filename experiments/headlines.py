"""The first page: ten sentences, and one table of the numbers that a reader may use."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from experiments.claims import Number, cell, exactly
from experiments.ours import all_data, calibration_frontier, certificates, private_priors, temperature_map
from experiments.papers import dziugaite_roy, knolle, p3sgd, random_labels
from experiments.study import Section

Evidence = Mapping[str, tuple[str, Number]]
"""By name: the study, and the number of its table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """A sentence with numbers of committed tables in it, beside what a paper prints."""

    said: str
    """Names of ``evidence`` stand in braces, as in :class:`experiments.claims.Sentence`."""
    evidence: Evidence = field(default_factory=dict)
    what: str = ""
    printed: str = ""
    """The paper's number with the paper's name."""
    why: str = ""


def of(section: Section, words: str, *names: str) -> Evidence:
    """The numbers of these names, or all, of the one sentence of a section whose printed text begins with the words.

    Raises:
        ValueError: no sentence does, or several.
    """
    asked = [*((one.name, one.sentences) for one in section.studies), *section.beside.items()]
    found = [(name, one) for name, own in asked for one in own if one.printed.startswith(words)]
    if len(found) != 1:
        raise ValueError(f"{len(found)} sentences of {section.title} begin with {words!r}: name one")
    ((study, sentence),) = found
    return {name: (study, sentence.evidence[name]) for name in names or sentence.evidence}


_AT_REST = of(temperature_map.SECTION, "An error of 2%") | {
    "error": ("temperature-map", temperature_map.law("Entropy-SGLD", **temperature_map.LADDER)),
}
_COUNT = {"count": ("certificates", exactly("value", dataset="mnist", recipe="held-out",
                                            certificate="prior_mean_clopper_pearson"))}  # fmt: skip
_TRAJECTORY = {"trajectory": ("trajectory", all_data.trajectory_of(
    "realised_sum_maurer", "mnist", learner="linear on fine-gradients"))}  # fmt: skip
_COMPRESSION = {"compression": ("compression", all_data.compression_of("mnist", "entropy-sgd"))}
_DATA_FREE = {"free": ("learnt-posteriors", all_data.learnt_of(all_data.GRADIENTS, "mnist"))}
