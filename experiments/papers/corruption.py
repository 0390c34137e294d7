"""The random-labels study of Zhang et al. (2017) in wider form: four algorithms at increasing corruption of the labels.

SGD, Entropy-SGLD at tau = sqrt(n), DP-SGD and DP-SGLD learn two-class MNIST with a share of the labels of training and
test set drawn anew. With K classes no classifier's true error is then below share · (1 - 1/K), and none that guesses
does worse on average than 1 - 1/K; between the two lies what an algorithm has learnt, below them what it has memorised.
"""

import math
from pathlib import Path

import polars as pl

from experiments import recipes
from experiments.claims import Verdict
from experiments.config import Run
from experiments.figures import corruption as drawing
from experiments.figures import style
from experiments.papers import corruption_table
from experiments.papers.corruption_judging import judge
from experiments.papers.corruption_runs import CORRUPTED, Corrupted
from experiments.papers.entropy_sgld.settings import SMALL, Size, mnist, network_name, smoke
from experiments.private.config import Budget, PrivateConfig, Sampling
from experiments.private.methods import METHODS
from experiments.recipes import Scale
from experiments.serial import digest
from experiments.studies.kinds import sampler_job
from experiments.study import Job, Study
from pacdp import Architecture, GibbsSettings, Problem

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
SIZES: dict[Scale, Size] = {
    "smoke": smoke("digits2"),
    "cpu": Size(
        dataset="mnist2", train_size=20_000, epochs=100.0, records=4,
        track=GibbsSettings(epochs=2.0, prior_draws=5, test_draws=5),
    ),
    "paper": mnist("mnist2"),
}  # fmt: skip
NETWORKS: dict[Scale, Architecture] = {
    "smoke": SMALL, "cpu": Architecture(hidden=(100,)), "paper": Architecture(name="conv"),
}  # fmt: skip
SAMPLING: dict[Scale, Sampling] = {
    "smoke": Sampling(sample_rate=0.1, steps=40),
    "cpu": Sampling(sample_rate=0.02, steps=500),
    "paper": Sampling(sample_rate=0.02, steps=2000),
}
BUDGETS: dict[Scale, Budget] = {
    "smoke": Budget(epsilon=4.0, delta=1e-4), "cpu": Budget(epsilon=1.0), "paper": Budget(epsilon=1.0),
}  # fmt: skip


def jobs(scale: Scale, seed: int) -> list[Job]:
    """Every algorithm at every share."""
    chains = [_chain(name, scale, seed, share) for name in ("sgd", "entropy-sgld") for share in SHARES]
    return chains + [_private(name, scale, seed, share) for name in ("dp-sgd", "dp-sgld") for share in SHARES]


def draw(table: pl.DataFrame, out: Path) -> list[Path]:
    """A panel an algorithm."""
    drawn, grid = style.figure(2, 2, width=4.6)
    drawing.draw([axes for line in grid for axes in line], table)
    return style.save(drawn, out / "figure")


def _chain(algorithm: str, scale: Scale, seed: int, share: float) -> Job:
    size = SIZES[scale]
    settings = recipes.sampler(algorithm, scale=scale, dataset=size.dataset, tau=math.sqrt(size.n))
    problem = Problem(
        dataset=size.dataset, architecture=NETWORKS[scale], train_size=size.train_size, split_seed=seed,
        random_labels=share, label_seed=seed,
    )  # fmt: skip
    run = Run(problem=problem, sampler=settings, epochs=size.epochs, records=size.records, seed=seed,
              track=size.track, certify=size.track)  # fmt: skip
    return sampler_job(run, algorithm=run.algorithm, network=network_name(NETWORKS[scale]), random_share=share)


def _private(algorithm: str, scale: Scale, seed: int, share: float) -> Job:
    network = NETWORKS[scale]
    method = METHODS[algorithm]
    training = PrivateConfig(
        dataset=SIZES[scale].dataset, architecture=network.name, hidden=network.hidden, method=method,
        sampling=SAMPLING[scale], budget=BUDGETS[scale], seed=seed, reproducible=True, records=4,
    )  # fmt: skip
    config = Corrupted(training=training, random_labels=share, train_size=SIZES[scale].train_size, seed=seed)
    return Job(
        key=f"{algorithm}-{share:g}-{digest(config)}", kind=CORRUPTED, config=config,
        tags={"algorithm": training.algorithm, "network": network_name(network), "random_share": share},
    )  # fmt: skip


def _judged(table: pl.DataFrame, scale: Scale) -> Verdict:
    return judge(table, scale, SIZES[scale])


STUDY = Study(
    name="random-labels-corruption", title="Memorising random labels: four algorithms at increasing corruption",
    paper="Zhang et al. 2017, Understanding deep learning requires rethinking generalization, in wider form",
    jobs=jobs, table=corruption_table.table, draw=draw, judge=_judged,
)  # fmt: skip
STUDIES = (STUDY,)
