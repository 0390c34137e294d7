"""The runs behind the paper's tables and figure; studies that need the same run name it by the same key."""

from dataclasses import replace
from typing import Any

from experiments.papers.knolle.benches import Bench, benches
from experiments.papers.knolle_plain import PLAIN, PlainConfig
from experiments.private.config import PrivateConfig
from experiments.recipes import Scale
from experiments.serial import digest
from experiments.studies.kinds import private_job
from experiments.studies.study import Job

SEEDS: dict[Scale, dict[str, int]] = {
    "smoke": {"MNIST": 2, "X-rays": 2}, "cpu": {"MNIST": 3, "X-rays": 5}, "paper": {"MNIST": 10, "X-rays": 10},
}  # fmt: skip
ABLATION_SEEDS: dict[Scale, dict[str, int]] = {
    "smoke": {"MNIST": 2, "X-rays": 2}, "cpu": {"MNIST": 2, "X-rays": 3}, "paper": {"MNIST": 10, "X-rays": 10},
}  # fmt: skip
_SNAPSHOTS: dict[Scale, int] = {"smoke": 4, "cpu": 4, "paper": 20}


def mnist_jobs(scale: Scale, seed: int) -> list[Job]:
    """SGD, DP-SGD and DP-SGLD of Table 1."""
    return _table(benches(scale)[0], scale, seed)


def xray_jobs(scale: Scale, seed: int) -> list[Job]:
    """SGD, DP-SGD and DP-SGLD of Table 2, and DP-SGD that protects patients instead of images."""
    bench, people = benches(scale)[1], list[Job]()
    if bench.people is not None:
        seeds = _seeds(SEEDS, bench, scale, seed)
        people = [_private(bench, "DP-SGD by patient", replace(bench.people, seed=one)) for one in seeds]
    return _table(bench, scale, seed) + people


def figure_jobs(scale: Scale, seed: int) -> list[Job]:
    """Those of both tables, but for the rows by patient."""
    return [job for bench in benches(scale) for job in _table(bench, scale, seed)]


def ablation_jobs(scale: Scale, seed: int) -> list[Job]:
    """DP-SGLD with and without pre-noise, with and without decay; one cell is DP-SGLD's of the tables."""
    return [
        _sgld(bench, scale, one, pre_noise=pre_noise, decay=decay)
        for bench in benches(scale)
        for pre_noise in (False, True)
        for decay in (False, True)
        for one in _seeds(ABLATION_SEEDS, bench, scale, seed)
    ]


def _table(bench: Bench, scale: Scale, seed: int) -> list[Job]:
    found = []
    for one in _seeds(SEEDS, bench, scale, seed):
        found.append(_plain(bench, one))
        found.append(_private(bench, "DP-SGD", replace(bench.run, seed=one)))
        found.append(_sgld(bench, scale, one, pre_noise=True, decay=True))
    return found


def _seeds(counts: dict[Scale, dict[str, int]], bench: Bench, scale: Scale, first: int) -> range:
    return range(first, first + counts[scale][bench.name])


def _plain(bench: Bench, seed: int) -> Job:
    run = bench.run
    config = PlainConfig(dataset=run.dataset, features=run.features, architecture=run.architecture, hidden=run.hidden,
                         learning_rate=bench.plain_rate, epochs=bench.plain_epochs, seed=seed)  # fmt: skip
    return Job(key=_key(bench, "SGD", config), kind=PLAIN, config=config, tags=_tags(bench, "SGD", seed))


def _sgld(bench: Bench, scale: Scale, seed: int, *, pre_noise: bool, decay: bool) -> Job:
    config = bench.sgld(pre_noise=pre_noise, decay=decay, snapshots=_SNAPSHOTS[scale])
    return _private(bench, "DP-SGLD", replace(config, seed=seed), pre_noise=pre_noise, decay=decay)


def _private(bench: Bench, procedure: str, config: PrivateConfig, **tags: bool) -> Job:
    key = _key(bench, procedure, replace(config, reproducible=True))
    return private_job(key, config, **_tags(bench, procedure, config.seed), **tags)


def _tags(bench: Bench, procedure: str, seed: int) -> dict[str, Any]:
    return {"data": bench.name, "procedure": procedure, "seed": seed, "stands_for": bench.run.dataset}


def _key(bench: Bench, procedure: str, config: PlainConfig | PrivateConfig) -> str:
    words = f"knolle {bench.name} {procedure} seed {config.seed} {digest(config, digits=8)}".lower()
    return words.replace(" ", "-")
