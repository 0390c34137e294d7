"""What a chain's run is: `Run` decides its numbers; and the named runs.

Those are at four scales: `smoke` (seconds, embedded digits), `cpu` (two cores), `gpu` (minutes of one GPU: steps as
for `cpu`, networks as for `paper`, light tracking), `paper` (the paper's settings, hours of a GPU).

Their numbers stand in ``recipes.json``, beside those of private runs and of compressions.

The paper is Dziugaite and Roy (2018), "Entropy-SGD optimizes the prior of a PAC-Bayes bound": two-class MNIST,
tau = sqrt(n), beta = 1, batches of 128, L = 20. Its outer base learning rate, 0.006, needs tens of thousands of epochs
to move; the smaller scales use a larger one, said in their configuration. The clipped recipes' settings were
found by comparing about a dozen on MNIST, and those of langevin-features, whose schedule is fixed beforehand, a few
dozen: ``pacdp certify --tried`` pays for such a choice. Their noise comes from the operating system; that of studies
comes from their seeds, so that their tables can be made again.

What a checkpoint's header says of its run is compared with the run: nothing is believed that follows from it.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, get_args

from bounds._check import open_probability
from pacdp.algorithms import KINDS, NOT_LISTED, SGD, Settings
from pacdp.certify.gibbs import GibbsSettings
from pacdp.cli.folder import Folder
from pacdp.cli.runtime import Scale
from pacdp.cli.serial import Values, digest, from_dict, later, record, to_dict
from pacdp.errors import CheckpointError, require_positive
from pacdp.models import Architecture
from pacdp.problem import Problem
from pacdp.step.langevin import DELTA
from pacdp.step.planned_steps import Plan, Stopping

TABLES: Values = json.loads(Path(__file__).with_name("recipes.json").read_text())
SIZES: dict[str, int] = {name: row["n"] for name, row in TABLES["data"].items() if "network" in row}
_FEATURES = "langevin-features"
CLIPPED = ("entropy-sgd-clipped", "entropy-sgld-clipped")
"""Their inner steps are private mechanisms: certificates need no stationarity. The privacy that they spend is the same,
and the outer noise of the second, at beta = 1, drowns most of what it learns."""
RECIPES = tuple(
    f"{algorithm}-{dataset}"
    for algorithm in (*TABLES["chain"]["algorithm"], _FEATURES)
    for dataset in SIZES
)


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
        if type(self.sampler) not in KINDS:
            raise ValueError(NOT_LISTED.format(self.sampler.name))
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


def merged(*tables: Mapping[str, Any]) -> Values:
    """Tables of values, of which later ones win; what two have of a table is merged, unless the later names a kind."""
    whole: Values = {}
    for table in tables:
        for name, value in table.items():
            both = isinstance(value, dict) and isinstance(whole.get(name), dict)
            if name != "about":
                whole[name] = merged(whole[name], value) if both and "kind" not in value else value
    return whole


def tau_of(thermal_noise: float) -> float:
    """Inverse temperature whose thermal noise √(2/τ) is the given one."""
    return 2.0 / thermal_noise**2


def run(
    algorithm: str,
    dataset: str,
    *,
    scale: Scale,
    tau: float | None = None,
    random_labels: float = 0.0,
    seed: int = 0,
) -> Run:
    """One run of one algorithm; ``tau`` None means the private setting √n."""
    known, data = TABLES["chain"], TABLES["data"][dataset]
    parts = (
        known["scale"][scale],
        {"sampler": merged(known["algorithm"][algorithm]), "seed": seed},
        known["at"].get(scale, {}).get(algorithm, {}),
    )
    made = from_dict(Run, merged(to_dict(Run()), *parts))
    numbers: Values = {"batch_size": data["batch_size"]}
    if algorithm != "sgd":
        numbers["tau"] = math.sqrt(data["n"]) if tau is None else tau
    small = scale in ("smoke", "cpu")
    network = Architecture(hidden=(100,)) if small else Architecture(name=data["network"])
    problem = Problem(
        dataset=dataset, architecture=network, random_labels=random_labels, label_seed=seed
    )
    return replace(made, problem=problem, sampler=replace(made.sampler, **numbers))


def recipe(name: str, *, scale: Scale, seed: int = 0) -> Run:
    """One of ``RECIPES``; a run that promises privacy draws its noise from the operating system."""
    algorithm, _, dataset = name.rpartition("-")
    if algorithm == _FEATURES:
        known, own = TABLES["features"], {"batch_size": SIZES[dataset]}
        named = {"problem": {"dataset": dataset}, "sampler": own, "seed": seed}
        parts = (known["run"], known[dataset], known.get(scale, {}), named)
        return from_dict(Run, merged(to_dict(Run()), *parts))
    made = run(algorithm, dataset, scale=scale, seed=seed)
    return replace(made, reproducible=not made.promising)


def require_own_run(path: Path, header: Mapping[str, Any], *, n: int) -> Run:
    """The run of a checkpoint, given as file or folder, compared with config.json where that is there, and its plan.

    Raises:
        CheckpointError: header, configuration and the steps that the run makes on ``n`` examples do not agree, or the
            header's run is no configuration of this version.
        ValueError: config.json is of another kind of run, or of another version.
    """
    folder = Folder(path if path.is_dir() else path.parent)
    checkpoint = folder.checkpoint if path.is_dir() else path
    try:
        run = from_dict(Run, header.get("run", {}))
    except ValueError as error:
        raise CheckpointError(
            f"{checkpoint} is of no run of pacdp train that this version reads ({error}): put the run's own back; a "
            "loop of your own is certified in Python, by load_trained(...).assess()"
        ) from error
    if folder.config.is_file() and checkpoint == folder.checkpoint and folder.config_of(Run) != run:
        raise CheckpointError(
            f"{checkpoint} is of another run or chain than {folder.config} says: put its own back, or start the run "
            "again with --force"
        )
    planned = run.plan(n).to_header()
    said = {name: header.get(name) for name in planned}
    if said != planned:
        raise CheckpointError(
            f"{checkpoint} says that it was planned with {said}, but its run on {n} examples makes {planned}: its "
            "header was changed; take it from its source again"
        )
    return run
