"""What a chain's run is: `Run` decides its numbers."""

from typing import ClassVar, get_args

from bounds._check import open_probability
from pacdp.algorithms import SGD, Settings
from pacdp.certify.gibbs import GibbsSettings
from pacdp.cli.serial import Values, digest, later, record
from pacdp.errors import require_positive
from pacdp.problem import Problem
from pacdp.step.langevin import DELTA
from pacdp.step.planned_steps import Plan, Stopping


@record
class Run:
    """One training run: everything that determines its numbers."""

    KIND: ClassVar[str] = "chain"
    problem: Problem = Problem()
    sampler: Settings = SGD()
    epochs: float = 10.0
    """Passes over the training set, counting every minibatch gradient."""
    records: int = 10
    """How often, evenly spaced, risks and bounds are recorded."""
    seed: int = 0
    """The seed of the first weights, and of the chain where it is ``reproducible``."""
    chain: int = 0
    """Which of the seed's independent chains this is."""
    track: GibbsSettings = GibbsSettings()
    """Effort on the Gibbs classifier at each record (Entropy-SG(L)D only)."""
    certify: GibbsSettings = GibbsSettings()
    """Effort on the Gibbs classifier when the checkpoint is certified."""
    failure_prob: float = 0.05
    stopping: Stopping = later("planned")
    """What certificates of a clipped chain pay for its number of steps. planned: all steps of the run, whenever it
    stops; listed: the steps made, at the failure probability over the number of records, at each of which it may end.
    """
    reproducible: bool = later(True)
    """Draw batches and noise from the seed too. Whoever knows the seed can subtract the noise: for tests and published
    benchmarks on public data alone. Without it they come from a key of the operating system, which the run's checkpoint
    keeps; with a clip norm only."""

    def __post_init__(self) -> None:
        require_positive(epochs=self.epochs, records=self.records)
        open_probability(failure_prob=self.failure_prob)
        if self.chain < 0:
            raise ValueError(f"expected chain >= 0, got {self.chain}")
        if self.stopping not in get_args(Stopping):
            raise ValueError(
                f"expected stopping to be 'planned' or 'listed', got {self.stopping!r}"
            )
        if not (self.reproducible or self.promising):
            raise ValueError(
                f"reproducible=False keeps the noise secret, of which {self.algorithm} without clip_norm promises "
                "nothing: set sampler.clip_norm, or leave reproducible"
            )

    @property
    def promising(self) -> bool:
        """Whether each step is a private mechanism, which a ledger counts."""
        if self.sampler.clip_norm is None:
            return False
        try:
            self.sampler.promise(self.sampler.batch_size, 0)
        except ValueError:
            return False
        return True

    def steps(self, n: int) -> int:
        """Sampler steps that make ``epochs`` passes over ``n`` examples."""
        gradients = self.epochs * n / self.sampler.batch_size
        return max(1, round(gradients / self.sampler.gradients_per_step))

    def marks(self, n: int) -> tuple[int, ...]:
        """The steps, in order, at which risks and bounds are recorded; the last is the last of the run."""
        steps = self.steps(n)
        return tuple(
            sorted({round(k * steps / self.records) for k in range(1, self.records + 1)} - {0})
        )

    def plan(self, n: int) -> Plan:
        """The number of steps over ``n`` examples, as checkpoints carry it."""
        listed = self.marks(n) if self.stopping == "listed" else ()
        return Plan(steps=self.steps(n), stopping=self.stopping, listed=listed)

    @property
    def key(self) -> str:
        """Ten hex digits of the run's JSON: the name of its folder in an experiment."""
        return digest(self)

    @property
    def relation(self) -> Values:
        """The delta and the neighbours of its epsilons, where it promises privacy."""
        return {"delta": DELTA, "adjacency": "replace-one"}

    @property
    def public(self) -> tuple[str, ...]:
        """What is told of the data beside what its epsilon is about, in sentences."""
        return (
            "an example joins a batch with probability batch_size/n: the number of examples, n, is public thereby: "
            "epsilon is for replace-one neighbours",
        )

    @property
    def title(self) -> str:
        """What is run, on what."""
        return f"{self.algorithm} on {self.problem}"

    @property
    def algorithm(self) -> str:
        """The algorithm's name as the field writes it."""
        return self.sampler.name
