"""Runs that keep the norms of their noisy gradients, and are certified by them on all the examples that they used.

Langevin chains and Entropy-SG(L)D that take every record in every step ("Noisy sums" in docs/guarantees.md), a clipped
chain and private runs on secret batches ("Noisy sums on secret batches").
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.study import Row
from pacdp.algorithms import SGHMC, SGLD, EntropySGD
from pacdp.certify.gibbs import GibbsSettings
from pacdp.cli import certifying
from pacdp.cli.config import SIZES, Run, Scale, recipe
from pacdp.cli.folder import Folder
from pacdp.cli.private.config import PrivateConfig, Sampling, private_recipe
from pacdp.cli.run import train
from pacdp.cli.runtime import Certifying, Training
from pacdp.cli.sweep.jobs import Job, single
from pacdp.models import Architecture
from pacdp.problem import Problem

TRIED = 1000
"""More settings than were compared, on MNIST and on digits; each certificate pays for so many."""
TEMPERATURES = (250.0, 1000.0, 4000.0, 16000.0, 64000.0)
"""τ of Entropy-SGLD; the paper's is √n, 245 for MNIST."""
_SIZES = {**SIZES, "cifar10": 50_000, "xrays-mixed": 4672, "malaria": 21_947}


def _of_chain(run: Run, how: Training, folder: Path) -> Row:
    if not Folder(folder / "run").finished:
        train(run, folder / "run", how)
    return _anywhere(certifying.certify(folder / "run", how, Certifying(seed=run.seed, tried=TRIED), by="the study"))


def _of_private(config: PrivateConfig, how: Training, folder: Path) -> Row:
    from pacdp.cli.private.certify import certify_private  # brings Opacus
    from pacdp.cli.private.run import train_private

    if not Folder(folder / "run").finished:
        train_private(config, folder / "run", how)
    checkpoint = Folder(folder / "run").checkpoint
    report = certify_private(checkpoint, how, Certifying(failure_prob=0.05 / TRIED, seed=config.seed))
    return _anywhere(report)


def _anywhere(report: Row) -> Row:
    """The report without its provenance and the place of its checkpoint, which are others on another machine."""
    subject = {name: value for name, value in report["subject"].items() if name != "checkpoint"}
    return report | {"subject": subject, "provenance": None}


CHAIN, PRIVATE = single(_of_chain), single(_of_private)
_LINEAR, _HIDDEN, _CNN = Architecture(hidden=()), Architecture(hidden=(100,)), Architecture(name="cnn3")
_EFFORT = GibbsSettings(epochs=20.0, prior_draws=20, test_draws=20)


def _momentum(tau: float = 1000.0, step_size: float = 3.0, friction: float = 0.2, cooling: float = 0.5) -> SGHMC:
    return SGHMC(tau=tau, step_size=step_size, friction=friction, cooling=cooling, base_std=30.0)


def _entropy(tau: float, beta: float | None = 1.0) -> EntropySGD:
    """Ten inner steps of length 2, after which the weights move all the way to their average."""
    return EntropySGD(tau=tau, gamma=0.03, beta=beta, base_std=30.0, inner_steps=10, inner_step_size=6.0,
                      inner_decay=0.0, outer_step_size=2.0, outer_decay=0.0)  # fmt: skip


_COOLED = SGLD(tau=20000.0, step_size=3.0, base_std=30.0)
_CHAINS: tuple[tuple[str, str, str, Architecture, SGHMC | SGLD | EntropySGD, float], ...] = (
    ("langevin-pixels", "mnist", "pixels", _CNN, _momentum(1500.0, 1.0), 90.0),
    ("langevin-features", "mnist2", "waves", _LINEAR, _momentum(step_size=4.0), 300.0),
    ("sgld-features", "mnist2", "waves", _LINEAR, _COOLED, 250.0),
    ("langevin-pixels", "mnist2", "pixels", _HIDDEN, _momentum(2000.0, 1.0, friction=0.3), 100.0),
    ("langevin-patches", "cifar10", "patches", _LINEAR, _momentum(), 150.0),
    ("langevin-features", "mnist", "fine-gradients", _LINEAR, _momentum(), 200.0),
    ("langevin-features", "mnist+random", "fine-gradients", _LINEAR, _momentum(), 200.0),
    ("entropy-sgd-16000", "mnist2", "some-waves", _LINEAR, _entropy(16000.0, beta=None), 200.0),
    *((f"entropy-sgld-{tau:g}", "mnist2", "some-waves", _LINEAR, _entropy(tau), 120.0) for tau in TEMPERATURES),
    ("langevin-people", "xrays-mixed", "film-waves", _LINEAR, _momentum(30.0, 1.0), 60.0),
    ("langevin-people", "malaria", "spot-waves", _LINEAR, _momentum(0.7, cooling=1.0), 20.0),
    ("langevin-digits", "digits", "coarse-waves", _LINEAR, _momentum(300.0), 20.0),
)
"""Name, data, features, network, sampler and epochs; those that take long first."""


def jobs(smoke: bool, seed: int) -> list[Job]:
    """Every learner, on two-class and ten-class images and on patients' images; for ``smoke`` a private run on digits,
    since any chain has more than 100,000 draws of weights to make."""
    if smoke:
        short = _private("dp-sgd-mnist", "smoke", seed)
        return [replace(short, config=replace(short.config, sampling=Sampling(sample_rate=0.1, steps=4), records=1))]
    clipped = replace(recipe("entropy-sgd-clipped-mnist2", scale="cpu", seed=seed), reproducible=True)
    return [
        *(_chain(*one, seed) for one in _CHAINS),
        _job("entropy-sgd-clipped-mnist2", clipped, "mnist2", _HIDDEN, "pixels as they are"),
        *(_private(name, "cpu", seed) for name in ("dp-sgd-mnist", "dp-sgld-mnist", "user-dp-sgd-malaria")),
    ]


def _private(name: str, scale: Scale, seed: int) -> Job:
    config = private_recipe(name, scale=scale, seed=seed)
    tags = {"dataset": config.dataset, "learner": f"{config.architecture} on {config.features}"}
    tags |= {"sampler": config.algorithm, "steps": config.sampling.steps}
    return Job(key=name, kind=PRIVATE, config=replace(config, reproducible=True), tags=tags)


def _chain(name: str, data: str, features: str, network: Architecture, sampler: Any, epochs: float, seed: int) -> Job:
    dataset, _, random = data.partition("+")
    sampler = replace(sampler, batch_size=_SIZES[dataset], keep_norms=True, every_record=True)
    problem = Problem(dataset=dataset, architecture=network, max_loss=8.0, features=features,
                      random_labels=float(bool(random)))  # fmt: skip
    run = Run(problem=problem, sampler=sampler, epochs=epochs, records=1, seed=seed, track=_EFFORT, certify=_EFFORT)
    return _job(f"{name}-{data}", run, data, network, features)


def _job(key: str, run: Run, data: str, network: Architecture, features: str) -> Job:
    layers = "-".join(map(str, network.hidden)) if network.name == "fc" else network.name
    tags = {"dataset": data, "learner": f"{layers or 'linear'} on {features}", "sampler": run.sampler.name}
    return Job(key=key, kind=CHAIN, config=run, tags=tags | {"tau": getattr(run.sampler, "tau", None)})
