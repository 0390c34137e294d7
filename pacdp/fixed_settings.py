"""What a run's certificates pay for the choice of its settings, and what shows it.

A run that a closed list covers (:mod:`pacdp.choices`) carries {"digest", "J", "index"} of that list from its first step
on. With the list at hand the hypothesis "settings fixed beforehand" is proved, and J is the price.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bounds.hypotheses import declared, proved
from pacdp.certify.settings import FIXED, Settings
from pacdp.choices import Choices


def fixed_settings(
    record: Mapping[str, Any] | None, settings: Mapping[str, Any] | None, *, choices: Choices | None
) -> Settings:
    """What ``record``, which a run took into its checkpoint before its first step, shows of its settings.

    Args:
        record: what :meth:`Choices.require` returned then; None for a run without a list.
        settings: the run's; None where nobody knows them, as of weights that pacdp did not train.
        choices: the list, if it is at hand.

    Raises:
        ValueError: the list is not the one that the record names, or does not have these settings.
    """
    if record is None:
        return _unrecorded(settings, choices)
    try:
        said, size = str(record["digest"]), int(record["J"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"expected a record of a list of settings with digest, J and index, got {record!r}") from error
    if choices is None:
        by = f"the checkpoint, which names a list of {size} settings (hash {said[:12]}) that is not at hand"
        return Settings(count=size, hypothesis=declared(FIXED, by), record=dict(record))
    if not choices.closed or choices.digest != said:
        raise ValueError(
            f"{choices.path} has the hash {choices.digest[:12]}, but the run was started with the list {said[:12]}: it "
            "was changed or extended after the run's first step; give the list that the run was started with"
        )
    if choices.require(settings or {}) != dict(record):
        raise ValueError(
            f"{choices.path} has these settings under another number or J than the checkpoint's {dict(record)}: its "
            "header was changed; take the checkpoint from its source again"
        )
    by = f"the list {choices.name!r} of {size} settings (hash {said[:12]}), closed before the run's first step"
    return Settings(count=size, hypothesis=proved(FIXED, by), record=dict(record))


def _unrecorded(settings: Mapping[str, Any] | None, choices: Choices | None) -> Settings:
    """A list that the weights do not name is paid for, and proves nothing."""
    if choices is None:
        return Settings.declared("whoever chose the settings; no list of them was written before the run")
    if settings is not None:
        choices.require(settings)
    record = {"digest": choices.digest, "J": choices.J}
    by = (
        f"whoever gives the list {choices.name!r} of {choices.J} settings (hash {choices.digest[:12]}), which the "
        "weights do not name: nothing shows that it was closed before they were made"
    )
    return Settings(count=choices.J, hypothesis=declared(FIXED, by), record=record)


def carried_on(
    before: Mapping[str, Any] | None, now: Mapping[str, Any] | None, *, where: Path | str
) -> Mapping[str, Any] | None:
    """The record that a resumed run goes on with: that of its first step.

    Raises:
        ValueError: ``now`` is given and is not that one.
    """
    if now is None or before == dict(now):
        return before
    started = f"with the list {str(before.get('digest'))[:12]}" if before else "without a list of settings"
    raise ValueError(
        f"{where} was started {started}, and a list counts from the first step on: resume it as it was started, or "
        "start the run again with --force"
    )
