"""`pacdp certify` for private runs: what they released bounds its own risk on the examples that it was learnt from.

No example is held out and nothing is assumed of convergence: R ≤ kl⁻¹(R̂, Λ/n) for any predictor that is a function of
what the run released (weights, snapshots, draws from a seed), and kl⁻¹(R̂(Q), (ln ξ(n) + Λ)/n) for Gaussian weights
around it, Λ being the price of the run's privacy loss ("Bounds by the general transfer" in docs/guarantees.md). Where
the run hides people, n counts people and the risk is that on a new person.

Certificates pay for what the run was to do, by its configuration. A run that its budget halts stops by a rule of public
numbers, known before the first step. One that was stopped by hand, or whose checkpoint is certified midway, pays for
the steps that it was to make.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bounds import accounting
from bounds.accounting import Event, event_to_dict
from pacdp import (
    GaussianPosterior,
    Network,
    Prior,
    Private,
    Settings,
    certify,
    load_checkpoint,
)
from pacdp.certify import BoundSet, MonteCarlo, Refusal
from pacdp.certify.trajectory import poisson_sums
from pacdp.cli.exporting import Leaving
from pacdp.cli.folder import PRIVATE, reported
from pacdp.cli.private.algorithms import Public, mechanism, network, predictor
from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.private.data import Examples, examples, require_trained_on
from pacdp.cli.runtime import Certifying, Runtime
from pacdp.cli.serial import Values, from_dict, record
from pacdp.errors import CheckpointError
from pacdp.layers.predict import with_weights
from pacdp.resume import read_event
from pacdp.step.event import after, first, joined, runs_of, steps_of
from pacdp.step.planned_steps import ChargedSteps, Plan

_BATCH = 1000
_NOISE = "the run, which kept its noise secret or drew it from a seed of its own"
_NOISE_FIELD, _FIELD_ROUNDING = "noise_multiplier", 1e-9
"""Calibrated noise may differ by this share between machines."""


def certify_private(path: Path, runtime: Runtime, how: Certifying) -> Values:
    """The report ``pacdp-certificates/2`` of a private run's checkpoint.

    Raises:
        ValueError, CheckpointError: as :func:`released`.
    """
    one = released(path, runtime)
    common: Values = {
        "test": BoundSet.part(one.data.test), "failure_prob": how.failure_prob or 0.05,
        "settings": Settings.tried(how.tried),
    }  # fmt: skip
    found = certify(one.predictor, one.bound, prior=one.source, **common)
    generators = (getattr(layer, "generator", None) for layer in one.module.modules())
    if any(isinstance(each, torch.Generator) for each in generators):
        reason = (
            "the network draws weights or masks of its own; its averaged predictions are certified"
        )
        refused = Refusal(name="Gaussian weights around what was released", reason=reason)
        found = replace(found, refusals=(*found.refusals, refused))
    else:
        trained = with_weights(one.module, dict(one.checkpoint.model))
        law = GaussianPosterior.around(trained, std=how.spread)
        found = found.joined(certify(
            law, one.bound, prior=Prior(law=law, source=one.source), network=one.module.eval(),
            monte_carlo=MonteCarlo(passes=2), seed=how.seed, progress=how.progress, **common,
        ))  # fmt: skip
    found = found.resting_on(one.charged.hypothesis, beside="privacy covers these rows")
    own = {"spent": one.spent(one.event).to_dict(), "std": how.spread, "private": PRIVATE}
    return reported(
        replace(found, details={**found.details, **own}), device=runtime.device, seed=how.seed, checkpoint=str(path),
        content_hash=one.checkpoint.content_hash, algorithm=one.config.algorithm,
    )  # fmt: skip


@record
class Released(Leaving):
    """A private run's checkpoint beside its data: all that its certificates need."""

    data: Examples
    module: nn.Module


def released(path: Path, runtime: Runtime) -> Released:
    """What a private run's checkpoint and its data say, compared with each other.

    Raises:
        ValueError: the run's examples belong to people whom it does not hide, or to people who were made up.
        CheckpointError: the checkpoint does not say what it was trained on, was trained on other data, or its history
            is not the run's.
    """
    runtime.apply()
    checkpoint = load_checkpoint(path)
    about = checkpoint.header.get("about") or {}
    if "run" not in about:
        raise CheckpointError(
            f"{path} does not say which run it is from: train by a recipe, or use pacdp.certify"
        )
    config = from_dict(PrivateConfig, about["run"])
    by_person, root = config.method.by_person, runtime.data_root
    data = examples(config.dataset, features=config.features, by_person=by_person, root=root)
    require_trained_on(data.train, path, checkpoint.header)
    if data.people is not None and data.train.people is None:
        raise ValueError(
            f"{config.dataset} does not say whose its examples are, and the people that {config.algorithm} hid were "
            "made up: train on data with people, such as malaria, to certify the risk on new ones"
        )
    public = Public.of(data)
    event, charged = charged_event(path, checkpoint.header, config, public)
    if event is None:
        raise CheckpointError(
            f"{path} has no step: nothing was released that could be certified; train first"
        )
    bound, unit = BoundSet.part(data.train), "example" if data.people is None else "person"
    claim = accounting.privacy_record(event=event, adjacency="add-remove")
    whose = f"the settings of {config.method.NAME}"
    sums = poisson_sums(event, whose=whose, noise=_NOISE) if config.method.NOISY_SUMS else None
    module = network(config, public, device="cpu")
    snapshots = checkpoint.state.get("extra.snapshots", torch.empty(0, 0))
    answers = predictor(config, module, checkpoint.model, snapshots, alone=True)
    return Released(
        checkpoint=checkpoint, config=config, data=data, bound=bound, event=event, charged=charged, module=module,
        source=Private(privacy=claim, rows=bound.rows, unit=unit, noise=_NOISE, sums=sums),
        predictor=Network(network=answers, of="predictor", scores=True, batch_size=_BATCH),
    )  # fmt: skip


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
        or (
            own[0] == plan[0] == _NOISE_FIELD
            and math.isclose(own[1], plan[1], rel_tol=_FIELD_ROUNDING)
        )
        for own, plan in zip(one, other, strict=True)
    )


def _numbers(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every plain value of JSON, after the name of the entry that it is in."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _numbers(inner, str(key))
    else:
        yield name, value
