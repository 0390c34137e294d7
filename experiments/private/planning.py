"""What a private run was to do, from its configuration: the mechanisms that its certificates pay for.

A run that its budget halts stops by a rule of public numbers, known before the first step. One that was stopped by
hand, or whose checkpoint is certified midway, pays for the steps that it was to make.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.private.algorithms import Public, algorithm, person_algorithm
from experiments.private.config import PrivateConfig
from experiments.private.methods import by_person
from pacdp import CheckpointError, private
from pacdp.patient_loop import affordable_steps
from pacdp.steps import ChargedSteps, Plan

_ROUNDING = 1e-9
"""Calibrated noise may differ by this share between machines."""


def charged_history(
    path: Path | str, header: Mapping[str, Any], config: PrivateConfig, public: Public
) -> tuple[private.Event | private.PatientHistory, ChargedSteps]:
    """The mechanisms that certificates of a checkpoint pay for, and what shows that their number was fixed beforehand.

    These are the recorded ones, followed by those that the run had yet to make.

    Raises:
        CheckpointError: the header's history is not one that its configuration makes.
        ValueError: the header's history is none.
    """
    if by_person(config.method):
        return _charged_patients(path, header, config, public)
    made = private.Event.from_dict(header["history"])
    recipe = algorithm(config, public).recipe()
    mechanism = recipe.mechanism
    plan = private.planned(recipe.noise, sample_rate=mechanism.sample_rate, steps=mechanism.steps)
    said = tuple(header.get(name) for name in ("step", "clip_norm", "expected_batch_size"))
    own = said == (made.steps, mechanism.clip_norm, mechanism.expected_batch_size)
    if not (own and _same(made, plan.first(made.steps))):
        raise _not_its_own(path, made.steps)
    last = plan.steps if mechanism.budget is None else max(made.steps, mechanism.budget.affordable_steps(plan))
    if last == made.steps:
        return made, Plan(steps=last).charged(last)
    rest = private.planned(recipe.noise, sample_rate=mechanism.sample_rate, steps=last, done=made.steps)
    return made.followed_by(rest), Plan(steps=last).charged(made.steps)


def _charged_patients(
    path: Path | str, header: Mapping[str, Any], config: PrivateConfig, public: Public
) -> tuple[private.PatientHistory, ChargedSteps]:
    """The same where people are hidden; what a step costs does not depend on what the steps before it chose."""
    settings, made = person_algorithm(config, public), len(header["chosen"])
    planned = [list(run) for run in private.planned_patients(settings, steps=made).runs]
    if made > config.sampling.steps or header["history"] != planned:
        raise _not_its_own(path, made)
    budget = private.PrivacyBudget(epsilon=config.budget.epsilon, delta=config.budget.delta)
    last = max(made, affordable_steps(settings, budget))
    return private.planned_patients(settings, steps=last), Plan(steps=last).charged(made)


def _not_its_own(path: Path | str, steps: int) -> CheckpointError:
    return CheckpointError(
        f"{path} records {steps} steps that its configuration does not make: its header was changed; take it from its "
        "source again, or train again"
    )


def _same(made: private.Event, planned: private.Event) -> bool:
    return len(made.runs) == len(planned.runs) and all(
        (one.sample_rate, one.steps) == (other.sample_rate, other.steps)
        and math.isclose(one.noise_multiplier, other.noise_multiplier, rel_tol=_ROUNDING)
        for one, other in zip(made.runs, planned.runs, strict=True)
    )
