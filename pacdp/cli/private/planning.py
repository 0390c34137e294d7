"""What a private run was to do, from its configuration: the mechanisms that its certificates pay for.

A run that its budget halts stops by a rule of public numbers, known before the first step. One that was stopped by
hand, or whose checkpoint is certified midway, pays for the steps that it was to make.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bounds.accounting import Event, event_to_dict
from pacdp.cli.private.algorithms import Public, mechanism
from pacdp.cli.private.config import PrivateConfig
from pacdp.errors import CheckpointError
from pacdp.resume import read_event
from pacdp.step.event import after, first, joined, runs_of, steps_of
from pacdp.step.planned_steps import ChargedSteps, Plan

_NOISE, _ROUNDING = "noise_multiplier", 1e-9
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
    if config.method.RELEASES_LAST and header.get("step") != numbers.steps:
        raise CheckpointError(
            f"{path} holds iterate {header.get('step')} of {numbers.steps}, and the run's epsilon is that of the last "
            "one alone: what came before stays in the run's folder, and neither leaves nor is certified; go on with "
            "pacdp train --resume"
        )
    changed = CheckpointError(
        f"{path} records an event that its configuration does not make: its header was changed; take it from its "
        "source again, or train again"
    )
    try:
        made = read_event(header)
    except ValueError as error:
        raise changed from error
    steps = steps_of(made)
    said = {"clip_norm": numbers.clip_norm, "expected_batch_size": numbers.expected_batch_size}
    plan = config.method.promise(numbers, numbers.steps)
    own = header.get("step") == steps <= numbers.steps and header.get("public") == said
    if not (own and _same(made, first(plan, steps))):
        raise changed
    last = (
        numbers.steps
        if numbers.budget is None
        else max(steps, numbers.budget.affordable_steps(plan))
    )
    return joined(made, after(first(plan, last), steps)), Plan(steps=last).charged(steps)


def _same(made: Event | None, planned: Event | None) -> bool:
    """Whether these are the same steps, but for the last digits of calibrated noise."""
    one, other = (
        [*_numbers([[event_to_dict(step), count] for step, count in runs_of(each)])]
        for each in (made, planned)
    )
    return len(one) == len(other) and all(
        own == plan
        or (own[0] == plan[0] == _NOISE and math.isclose(own[1], plan[1], rel_tol=_ROUNDING))
        for own, plan in zip(one, other, strict=True)
    )


def _numbers(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every plain value of JSON, after the name of the entry that it is in."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _numbers(inner, str(key))
    else:
        yield name, value
