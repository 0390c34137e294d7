"""Runs of the command and of recipes at smoke size, on the digits that scikit-learn brings: weights, certificates."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from experiments.papers.runs.finite import FiniteConfig, finite
from experiments.papers.runs.held_out import held_out, held_out_config
from experiments.papers.runs.private_prior import SMOKE, conduct
from pacdp import Architecture, BoundSet, GibbsSettings, Problem, load_checkpoint
from pacdp.algorithms import PSGLD, SGHMC, SGLD
from pacdp.backprop import FitSettings, PosteriorSettings
from pacdp.cli.config import Run, Runtime
from pacdp.cli.foreign import Foreign, certify_foreign
from pacdp.cli.main import main
from pacdp.cli.private.certify import certify_private
from pacdp.cli.private.config import Budget, PrivateConfig
from pacdp.cli.private.methods import DPSGLD
from pacdp.cli.private.recipes import PRIVATE_RECIPES, private_recipe
from pacdp.cli.private.run import train_private
from pacdp.cli.recipes import run
from pacdp.cli.run import train
from pacdp.data import Split, index_hash
from tests.golden.records import Frozen, model_digest, report

RUNTIME = Runtime(threads=1)
EFFORT = GibbsSettings(epochs=1.0, prior_draws=2, test_draws=2)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def _chain_runs() -> dict[str, Run]:
    recipes = ("sgd", "sgld", "entropy-sgd", "entropy-sgld", "entropy-sgd-clipped", "entropy-sgld-clipped")
    runs = {name: run(name, "digits2", scale="smoke") for name in recipes}
    others = {
        "psgld": PSGLD(tau=500.0, batch_size=32, freeze_after=40, stabiliser=0.1),
        "sghmc": SGHMC(tau=500.0, batch_size=32),
        "sgld-clipped": SGLD(tau=5.0, step_size=0.2, batch_size=32, clip_norm=1.0),
    }
    runs |= {name: replace(runs["sgld"], sampler=sampler) for name, sampler in others.items()}
    runs["random labels"] = replace(runs["sgld"], problem=replace(runs["sgld"].problem, random_labels=1.0))
    small = {"epochs": 2.0, "records": 1, "track": EFFORT, "certify": EFFORT}
    return {
        name: replace(each, problem=replace(each.problem, architecture=Architecture(hidden=(8,))), **small)
        for name, each in runs.items()
    }


def commands() -> Frozen:
    """``pacdp train`` and ``pacdp certify`` for every chain: its weights and its report."""
    found: Frozen = {}
    for name, each in _chain_runs().items():
        with _folder() as folder:
            train(each, folder, RUNTIME)
            found[f"{name}/weights"] = model_digest(load_checkpoint(folder).model)
            found |= report(name, lambda folder=folder: _certified(folder, "--seed", "4", "--failure-prob", "0.1"))
    return found


def _certified(folder: Path, *options: str) -> dict[str, Any]:
    """The report that ``pacdp certify`` leaves; ValueError when it refuses."""
    try:
        with redirect_stdout(StringIO()):
            main(["certify", str(folder), "--threads", "1", *options])
    except SystemExit as stop:
        if stop.code:
            raise ValueError("pacdp certify refused") from None
    return json.loads((folder / "certificates.json").read_text())


def _private_config(name: str, *, quiet: bool = False) -> PrivateConfig:
    """Six steps with seeded noise; quiet ones are private enough for certificates below 1."""
    config = private_recipe(name, scale="smoke", seed=1)
    config = replace(config, sampling=replace(config.sampling, steps=6), records=1, reproducible=True)
    if quiet:
        config = replace(config, budget=Budget(epsilon=0.1, delta=1e-3))
        if isinstance(config.method, DPSGLD):
            config = replace(config, method=replace(config.method, temperature=500.0))
    return config


def private() -> Frozen:
    """Private recipes: weights, what they spent, and the certificates of what they released."""
    found: Frozen = {}
    for name in PRIVATE_RECIPES:
        with _folder() as folder:
            result = train_private(_private_config(name), folder, RUNTIME)
            found[f"{name}/weights"] = model_digest(load_checkpoint(folder).model)
            found[f"{name}/result"] = _judged(result)
    for name in ("dp-sgd-mnist", "dp-sgld-mnist", "dp-bbp-mnist", "user-dp-sgd-malaria", "p3sgd-malaria"):
        with _folder() as folder:
            train_private(_private_config(name, quiet="mnist" in name), folder, RUNTIME)
            found |= report(
                f"{name}/certified",
                lambda folder=folder: certify_private(folder, RUNTIME, failure_prob=0.1, std=0.01, seed=2),
            )
    return found


def _judged(result: dict[str, Any]) -> Frozen:
    spent = {name: result["privacy"][name] for name in ("lower", "upper", "status", "unit", "units")}
    scores = {name: result["test"][name] for name in ("accuracy", "ece", "nll_nats", "brier")}
    return {"steps": result["steps"], "n": result["n"], "n_test": result["n_test"], **spent, **scores}


def _digits(start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
    data, test = Problem(dataset="digits").data()
    inputs = np.concatenate([data.inputs, test.inputs])[start:stop]
    return torch.tensor(inputs.reshape(len(inputs), -1)), torch.tensor(
        np.concatenate([data.labels, test.labels])[start:stop]
    )


def network() -> nn.Module:
    """A stranger's network."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))


def bound_set() -> BoundSet:
    """Examples that the prior did not see."""
    indices = np.arange(900, 1400)
    inputs, labels = _digits(900, 1400)
    return BoundSet(inputs=inputs, labels=labels, indices=Split(indices, index_hash(indices)))


def new_set() -> tuple[torch.Tensor, torch.Tensor]:
    """Examples that nothing saw."""
    return _digits(1400, 1797)


def foreign() -> Frozen:
    """Weights that pacdp did not train, with a prior that learnt from other examples."""
    with torch.random.fork_rng():
        module = network()
    inputs, labels = _digits(0, 900)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(inputs), labels).backward()
        optimizer.step()
    found: Frozen = {"weights": model_digest(module.state_dict())}
    here = "tests.golden.of_runs"
    with _folder() as folder:
        save_file(module.state_dict(), folder / "prior.safetensors")
        moved = {name: value + 1e-3 for name, value in module.state_dict().items()}
        save_file(moved, folder / "weights.safetensors")
        np.save(folder / "seen.npy", np.arange(900))
        np.save(folder / "overlap.npy", np.arange(950))
        given = Foreign(
            model=f"{here}:network", data=f"{here}:bound_set", test=f"{here}:new_set",
            prior=folder / "prior.safetensors", prior_indices=folder / "seen.npy", std=0.02, passes=2,
        )  # fmt: skip
        cases = {
            "held out": given,
            "wider prior": replace(given, prior_std=0.03),
            "data-free": replace(given, prior_indices=None, prior_is_data_free=True, test=None),
            "overlap": replace(given, prior_indices=folder / "overlap.npy"),
            "unsaid": replace(given, prior_indices=None),
        }
        for name, each in cases.items():
            with torch.random.fork_rng():
                found |= report(
                    name,
                    lambda g=each: certify_foreign(
                        folder / "weights.safetensors", g, failure_prob=0.1, seed=2, device="cpu"
                    ),
                )
    return found


def studies() -> Frozen:
    """The recipes of the study of certificates: held-out prior, private prior, finitely many networks."""
    quick = replace(
        held_out_config("digits", scale="smoke"), fit=FitSettings(epochs=2, batch_size=32),
        posterior=PosteriorSettings(steps=10, batch_size=128), passes=1,
    )  # fmt: skip
    found = report("held out", lambda: held_out(quick).to_dict())
    found |= report("held out, compared", lambda: held_out(replace(quick, compared=100, seed=1)).to_dict())
    features = {"orientations": 8, "cells": 4, "scale": 0.7}
    found |= report("finite", lambda: finite(FiniteConfig(dataset="digits", networks=3, iterations=15, **features)))
    made = conduct(replace(SMOKE, passes=2, iterations=1, steps=10), references=False).to_dict()
    head = [one for one in made["certificates"] if one["of"] == "private head"]
    rest = [one for one in made["certificates"] if one["of"] != "private head"]
    found |= report("private prior", lambda: {**made, "certificates": rest})
    found |= report("private head", lambda: {**made, "certificates": head})
    return found
