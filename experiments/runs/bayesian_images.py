"""Bayesian networks on images: accuracy, calibration and privacy of the members' mean prediction."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.runs.bayesian import BayesRun, fit, member_outputs, network, outputs_at
from pacdp.calibration import reliability_curve, summary
from pacdp.cli.private.algorithms import Public
from pacdp.cli.runtime import Runtime
from pacdp.cli.sweep.jobs import single
from pacdp.data import load
from pacdp.losses import cross_entropies
from pacdp.uncertainty import class_uncertainty

MEAN, STD = 0.1307, 0.3081
"""Of MNIST's pixels: public constants, those of the paper's code."""
FEWEST = 0.01
"""A bin of the reliability curve is filled where it holds this share of the images."""


def classify(run: BayesRun, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """Train, judge on test data; see :func:`judged` for what is recorded."""
    train, test = load(run.config.dataset, root=runtime.data_root)
    if run.held_out:
        train, test = (replace(train, inputs=train.inputs[own], labels=train.labels[own])
                       for own in (slice(-run.held_out), slice(-run.held_out, None)))  # fmt: skip
    public = Public(input_shape=train.inputs.shape[1:], classes=train.classes, size=float(train.n))
    module = network(run.config, public, device=runtime.device)
    inputs, seen = ((torch.tensor(data.inputs).to(runtime.device) - MEAN) / STD for data in (train, test))
    labels = torch.tensor(train.labels).to(runtime.device)
    fitted = fit(run, module, inputs, labels, loss=cross_entropies, public=public)
    curve = [float((outputs_at(fitted, step, seen).argmax(-1).cpu().numpy() == test.labels).mean())
             for step in run.curve_steps()]  # fmt: skip
    members = np.stack([one.double().softmax(-1).cpu().numpy() for one in member_outputs(run, fitted, seen)])
    return {
        "steps": run.config.sampling.steps, "members": len(members), **fitted.spent,
        "curve": curve, "last_accuracy": curve[-1] if curve else None,
        "image": np.round(members[:, run.image], 5).tolist(), **judged(members, test.labels),
    }  # fmt: skip


CLASSIFY = single(classify)


def judged(members: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Accuracy and calibration errors of the mean prediction.

    ``filled_mce`` is the largest gap of the bins that hold FEWEST of the images: a MCE that no handful of images sets.
    ``one_bin_ece`` is |accuracy - mean confidence|.
    """
    probabilities = class_uncertainty(members).probabilities
    test: dict[str, Any] = {**summary(probabilities, labels)}
    curve: dict[str, Any] = {**reliability_curve(probabilities, labels).columns()}
    bins = zip(curve["count"], curve["confidence"], curve["accuracy"], strict=True)
    filled = [abs(accuracy - confidence) for count, confidence, accuracy in bins if count >= FEWEST * len(labels)]
    return {**{name: test[name] for name in ("accuracy", "ece", "mce", "n")}, "filled_mce": max(filled),
            "one_bin_ece": abs(test["accuracy"] - test["mean_confidence"])}  # fmt: skip
