"""Runs on images: accuracy, calibration, uncertainty and privacy of the members' mean prediction."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bounds.accounting import clt_gdp
from pacdp.cli.config import Runtime
from experiments.papers.runs.bayesian_config import BayesRun
from experiments.papers.runs.bayesian_networks import network, standardised
from experiments.papers.runs.bayesian_posterior import Fitted, fit, member_outputs, outputs_at
from pacdp.cli.private.algorithms import Public
from pacdp.cli.sweep.jobs import single
from pacdp import private
from pacdp.calibration import reliability_curve, summary
from pacdp.data import load
from pacdp.uncertainty import class_uncertainty


def classify(run: BayesRun, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """Train, judge on test data; see :func:`judged` and :func:`privacy` for what is recorded.

    Raises:
        ValueError: the data, network or budget do not fit together.
        Diverged: a weight is not finite.
    """
    del folder
    train, test = load(run.config.dataset, root=runtime.data_root)
    public = Public(input_shape=train.inputs.shape[1:], classes=train.classes, size=float(train.n))
    module = network(run.config, public, device=runtime.device)
    inputs, labels = (torch.tensor(part).to(runtime.device) for part in (train.inputs, train.labels))
    fitted = fit(run, module, standardised(inputs, run.config.dataset), labels, loss=_loss, public=public)
    seen = standardised(torch.tensor(test.inputs).to(runtime.device), run.config.dataset)
    curve = [
        {"step": step, "epochs": step * run.config.sampling.sample_rate,
         "accuracy": float((outputs_at(fitted, step, seen).argmax(-1).cpu().numpy() == test.labels).mean()),
         **_epsilon(run, fitted, step)}
        for step in run.curve_steps()
    ]  # fmt: skip
    members = np.stack([_probabilities(outputs) for outputs in member_outputs(run, fitted, seen)])
    return {
        "steps": fitted.steps, "n": train.n, "parameters": sum(p.numel() for p in module.parameters()),
        "members": len(members), "seconds_per_epoch": fitted.seconds_per_pass, "privacy": privacy(run, fitted),
        "curve": curve, **judged(members, test.labels, image=run.image),
    }  # fmt: skip


CLASSIFY = single(classify)
"""Jobs on images."""


def judged(members: np.ndarray, labels: np.ndarray, *, image: int) -> dict[str, Any]:
    """Scores and reliability curve of the mean prediction; mean uncertainties of right and of wrong predictions; the
    members' predictions of one image.
    """
    found = class_uncertainty(members)
    right = found.probabilities.argmax(-1) == labels
    confidence = found.probabilities.max(-1)
    curve = reliability_curve(found.probabilities, labels)
    parts = {"confidence": confidence, "predictive_entropy_nats": found.predictive_entropy_nats,
             "mutual_information_nats": found.mutual_information_nats,
             "variation_ratio": found.variation_ratio}  # fmt: skip
    return {
        "test": dict(summary(found.probabilities, labels)),
        "reliability": {"failure_prob": curve.failure_prob, "simultaneous": curve.simultaneous, **curve.columns()},
        "uncertainty": {
            name: {"right": _mean(values[right]), "wrong": _mean(values[~right])} for name, values in parts.items()
        },
        "image": {"index": image, "label": int(labels[image]),
                  "probabilities": np.round(members[:, image], 5).tolist()},
    }  # fmt: skip


def privacy(run: BayesRun, fitted: Fitted) -> dict[str, Any] | None:
    """What the run cost, bracketed; None without privacy. ``epsilon_clt`` is what the paper's accountant says, the
    central limit theorem of Bu, Dong, Long and Su (2020): no bound.
    """
    if fitted.event is None:
        return None
    relation: dict[str, Any] = {"delta": run.config.budget.delta, "adjacency": run.config.budget.adjacency}
    spent = private.privacy_spent(fitted.event, **relation)
    mu = clt_gdp(event=fitted.event).mu
    limit = private.sampled_step([1.0 / mu], sample_rate=1.0)
    return {**spent.to_dict(), "epsilon_clt": private.epsilon(limit, **relation), "epsilon_clt_status": "optimistic",
            "noise_multiplier": fitted.noise_multiplier, "clip_norm": run.config.sampling.clip_norm,
            "unit": "example"}  # fmt: skip


def _epsilon(run: BayesRun, fitted: Fitted, step: int) -> dict[str, float]:
    if fitted.event is None:
        return {}
    budget, ran = run.config.budget, private.first(fitted.event, step)
    return {"epsilon": private.epsilon(ran, delta=budget.delta, adjacency=budget.adjacency)}


def _loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy(outputs, targets, reduction="none")


def _probabilities(outputs: Tensor) -> np.ndarray:
    return outputs.double().softmax(-1).cpu().numpy()


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None
