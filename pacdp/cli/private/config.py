"""What a private training run is: `PrivateConfig` decides its numbers; its algorithms, and the named runs.

The private algorithms that have recipes are a line each; what their numbers mean stands in the algorithm's own file.

Named private runs are at three scales. Sources of their settings: Knolle et al. (2021), Table 1: MNIST, a five-layer
network, epsilon 0.5 at delta 1e-5. Their text gives neither batch size nor step sizes; those here were found on MNIST,
whose tuning is not counted in any epsilon. Wu et al. (2019), Table 2: patients sampled at rate 0.1, 100 steps, clipping
as given, noise scales chosen from a set, (0.1)^½-private choices. `smoke` runs on scikit-learn's digits in seconds. The
numbers stand in ``recipes.json``.
"""

from typing import ClassVar, Literal, get_args

from bounds._check import nonnegative
from bounds.privacy import Adjacency
from pacdp.algorithms.dp_adam import DPAdam as DPAdam
from pacdp.algorithms.dp_bbp import DPBBP as DPBBP
from pacdp.algorithms.dp_mc_dropout import DPMCDropout as DPMCDropout
from pacdp.algorithms.dp_sgd import DPSGD as DPSGD
from pacdp.algorithms.dp_sgld import DPSGLD as DPSGLD
from pacdp.algorithms.dp_sgld_head import DPSGLDHead as DPSGLDHead
from pacdp.algorithms.p3sgd import P3SGD as P3SGD
from pacdp.algorithms.user_dp_sgd import UserDPSGD as UserDPSGD
from pacdp.cli.config import TABLES, merged
from pacdp.cli.serial import Values, from_dict, later, record, to_dict
from pacdp.errors import require_fraction, require_positive
from pacdp.models import Norm
from pacdp.step.budget import PrivacyBudget

Method = DPSGD | DPAdam | DPSGLD | DPSGLDHead | DPBBP | DPMCDropout | P3SGD | UserDPSGD
METHODS: dict[str, Method] = {
    name: from_dict(Method, settings) for name, settings in TABLES["private"]["method"].items()
}
"""Settings of the recipes, by the algorithm's name in them."""
NAMES: dict[str, str] = {one.__name__: one.NAME for one in get_args(Method)}
"""By what JSON calls the record, the algorithm's name as the field writes it."""
PEOPLE = ("mnist-writers", "malaria")
PRIVATE_RECIPES = tuple(
    f"{algorithm}-{dataset}"
    for algorithm, method in METHODS.items()
    for dataset in (PEOPLE if method.by_person else ("mnist",))
)


@record
class Sampling:
    """The mechanism of one step, and how many there are."""

    sample_rate: float = 0.02
    """Probability with which an example (or a person) takes part in a step."""
    steps: int = 400
    """Planned; a budget may halt training before."""
    clip_norm: float = 1.0
    clipping: Literal["flat", "automatic", "quantile"] = later("flat")
    """min(1, C/‖g‖), C/(‖g‖ + 0.01), or flat with a norm that follows a quantile of the norms."""
    quantile: float = later(0.5)
    """The share of examples (or people) that quantile clipping leaves as they are."""
    quantile_rate: float = later(0.2)
    """How fast it moves."""
    count_noise: float = later(0.0)
    """Standard deviation of the noise on its count; a twentieth of sample_rate · public_size is usual."""
    noise_multiplier: float = 0.0
    """σ; 0 takes the smallest with which all steps keep to the budget."""
    public_size: float = 0.0
    """The number of examples (or people) as far as it is public: sums are divided by sample_rate · public_size. 0 takes
    the data's own number, which every released weight then gives away: it is public, and whatever is printed of the run
    is for replace-one neighbours."""
    grad_sample_mode: Literal["auto", "ghost", "reference"] = "auto"
    """How clipped sums are taken: auto is ghost clipping for gradients of examples where the network allows it, and the
    reference elsewhere and for what people add."""
    max_physical: int = 512
    """Most examples (or people) at a time, for memory's sake."""


@record
class Budget(PrivacyBudget):
    """What training may cost; it halts before the step that would cost more."""

    epsilon: float = 0.5
    delta: float = 1e-5
    adjacency: Adjacency = "add-remove"
    """Whether neighbouring data sets differ by one example (or person) more, or by another one."""


@record
class PrivateConfig:
    """One private training run: everything that determines its law, and with ``reproducible`` its numbers."""

    KIND: ClassVar[str] = "private"
    promising: ClassVar[bool] = True
    dataset: str = "digits"
    features: Literal["pixels", "spots", "backbone", "fine-gradients", "coarse-gradients"] = (
        "pixels"
    )
    """What the network sees: the images, or fixed features of them, computed without looking at any other image; the
    backbone is a network frozen after training on ImageNet (:mod:`pacdp.features.backbone`), gradients are oriented
    ones (:mod:`pacdp.features.named`)."""
    architecture: str = "cnn5"
    """A network of ``pacdp.Architecture``: cnn5, cnn3, conv, fc, fc600 ...; linear for one layer."""
    hidden: tuple[int, ...] = (100,)
    """Widths of the hidden layers of ``fc``."""
    norm: Norm = later("none")
    """Of the network's layers; ``batch`` has no gradients by example."""
    method: Method = DPSGD()
    sampling: Sampling = Sampling()
    budget: Budget = Budget()
    seed: int = 0
    """The seed of the first weights."""
    reproducible: bool = False
    """Draw batches and noise from the seed too. Whoever knows the seed can subtract the noise: for tests and published
    benchmarks on public data alone."""
    records: int = 20
    """How often, evenly spaced, a checkpoint is written and the privacy spent recorded."""

    def __post_init__(self) -> None:
        sampling = self.sampling
        require_positive(
            records=self.records, steps=sampling.steps, max_physical=sampling.max_physical
        )
        require_fraction(sample_rate=sampling.sample_rate)
        nonnegative(noise_multiplier=sampling.noise_multiplier, public_size=sampling.public_size)
        plain, follows = Sampling(), sampling.clipping == "quantile"
        told = any(
            getattr(sampling, name) != getattr(plain, name)
            for name in ("count_noise", "quantile", "quantile_rate")
        )
        if told != follows or (sampling.count_noise != 0.0) != follows:
            raise ValueError(
                "give sampling.count_noise, which is part of the privacy spent, with sampling.clipping quantile, and "
                "none of count_noise, quantile and quantile_rate with another"
            )
        if self.method.FIXES_NOISE and self.sampling.noise_multiplier:
            raise ValueError(
                f"leave sampling.noise_multiplier at 0: the numbers of {self.algorithm} fix the noise"
            )
        if self.method.by_person and self.budget.adjacency != "add-remove":
            raise ValueError(
                f"{self.algorithm} is accounted for add-remove neighbours: leave budget.adjacency at that"
            )

    @property
    def neighbours(self) -> Adjacency:
        """The neighbours that whatever is printed of the run is about.

        Where the number of records is public, data sets of other numbers are told apart: then one record is replaced.
        """
        return self.budget.adjacency if self.sampling.public_size else "replace-one"

    @property
    def relation(self) -> Values:
        """The delta and the neighbours of its epsilons."""
        return {"delta": self.budget.delta, "adjacency": self.neighbours}

    @property
    def public(self) -> tuple[str, ...]:
        """What is told of the data beside what its epsilon is about, in sentences."""
        if self.sampling.public_size:
            return ()
        return (
            "sampling.public_size is 0: sums were divided by sample_rate times the data's own number of records, which "
            "is public thereby: epsilon is for replace-one neighbours",
        )

    @property
    def title(self) -> str:
        """What is run, on what."""
        return f"{self.algorithm} on {self.dataset}"

    @property
    def algorithm(self) -> str:
        """The algorithm's name as the field writes it."""
        return self.method.NAME


def private_recipe(name: str, *, scale: str, seed: int = 0) -> PrivateConfig:
    """One of ``PRIVATE_RECIPES``."""
    algorithm = max((one for one in METHODS if name.startswith(f"{one}-")), key=len)
    dataset, method = name.removeprefix(f"{algorithm}-"), METHODS[algorithm]
    known = TABLES["private"]
    parts = (
        to_dict(PrivateConfig(dataset=dataset, method=method, seed=seed)),
        known["people" if method.by_person else "examples"],
        known["last"] if method.RELEASES_LAST else {},
        known["at"].get(name, {}),
        known["smoke"] if scale == "smoke" else {},
        known["smoke of last"] if scale == "smoke" and method.RELEASES_LAST else {},
    )
    return from_dict(PrivateConfig, merged(*parts))
