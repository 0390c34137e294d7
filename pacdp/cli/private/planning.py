"""What a private run was to do, from its configuration: the mechanisms that its certificates pay for.

A run that its budget halts stops by a rule of public numbers, known before the first step. One that was stopped by
hand, or whose checkpoint is certified midway, pays for the steps that it was to make.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bounds.accounting import Composed, Event, Gaussian, PoissonSampled
from pacdp.cli.private.algorithms import Public, mechanism
from pacdp.cli.private.config import PrivateConfig
from pacdp.errors import CheckpointError
from pacdp.resume import read_event
from pacdp.step.event import after, first, joined, runs_of, steps_of
from pacdp.step.planned_steps import ChargedSteps, Plan

_ROUNDING = 1e-9
"""Calibrated noise may differ by this share between machines."""


def charged_event(
    path: Path | str, header: Mapping[str, Any], config: PrivateConfig, public: Public
) -> tuple[Event | None, ChargedSteps]:
    """The mechanisms that certificates of a checkpoint pay for, and what shows that their number was fixed beforehand.

    These are the recorded ones, followed by those that the run had yet to make.

    Raises:
        CheckpointError: the header's event is not one that its configuration makes, or none at all.
    """
    numbers = mechanism(config, public)
    try:
        made = read_event(header)
    except ValueError as error:
        raise _not_its_own(path, "an event") from error
    steps = steps_of(made)
    said = {"clip_norm": numbers.clip_norm, "expected_batch_size": numbers.expected_batch_size}
    plan = config.method.promise(numbers, numbers.steps)
    own = header.get("step") == steps <= numbers.steps and header.get("public") == said
    if not (own and _same(made, first(plan, steps))):
        raise _not_its_own(path, f"{steps} steps")
    last = (
        numbers.steps
        if numbers.budget is None
        else max(steps, numbers.budget.affordable_steps(plan))
    )
    return joined(made, after(first(plan, last), steps)), Plan(steps=last).charged(steps)


def _not_its_own(path: Path | str, what: str) -> CheckpointError:
    return CheckpointError(
        f"{path} records {what} that its configuration does not make: its header was changed; take it from its source "
        "again, or train again"
    )


def _same(made: Event | None, planned: Event | None) -> bool:
    """Whether these are the same steps, but for the last digits of calibrated noise."""
    one, other = runs_of(made), runs_of(planned)
    return len(one) == len(other) and all(
        count == number and _close(step, plan)
        for (step, count), (plan, number) in zip(one, other, strict=True)
    )


def _close(step: Event, plan: Event) -> bool:
    if isinstance(step, Gaussian) and isinstance(plan, Gaussian):
        return math.isclose(step.noise_multiplier, plan.noise_multiplier, rel_tol=_ROUNDING)
    if isinstance(step, PoissonSampled) and isinstance(plan, PoissonSampled):
        return step.sample_rate == plan.sample_rate and _close(step.event, plan.event)
    if isinstance(step, Composed) and isinstance(plan, Composed):
        return len(step.events) == len(plan.events) and all(map(_close, step.events, plan.events))
    return step == plan
