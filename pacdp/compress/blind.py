"""Does the learner look at more than the records it picked? Trials before a run, and the run once more on what it kept.

The theorem needs that training sees picked records alone, and that the score of a record depends on the network and on
that record. Trials can refute this; they cannot prove it of a function that a user wrote.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pacdp.compress.learner import Learner, State, Stop, of_tensors
from pacdp.compress.run import BATCH, Records, Rule, Trace, carry_out, scored
from pacdp.data.hashing import row_hashes
from pacdp.data.places import relatives
from pacdp.features.pooling import padded
from pacdp.trials import Unwritten
from pacdp.trials.buffers import Holdings, where_whole

_TRIAL = 3  # rounds of the trial
_ROWS = 2000  # examples of the trial, or twice the people that it picks


class Looks(ValueError):
    """A learner whose network depends on more than the records it picked."""


def require_blind(rule: Rule, records: Records, source: Any = None) -> None:
    """Try the learner on some of the records, and refuse it where anything but its picks decides what it becomes.

    Args:
        source: the data set that the records come from, where there is one.

    Raises:
        Looks: it holds records of the sample, all of their labels or the data set; equal calls give other networks;
            scoring changes what training makes; a score depends on the records beside it; or records that were never
            picked change what is picked.
    """
    learner = rule.learner
    if found := Holdings(learner, around=True).of(records.inputs):
        # in attributes, closures, or global variables that its functions read
        raise Looks(
            f"{found[0].where} of the learner holds {found[0].rows} records of the sample: "
            "it may be given none but those that it picks"
        )
    where = where_whole(learner, records.labels.cpu().numpy(), relatives(source)[0])
    if where is not None:
        raise Looks(
            f"the learner refers to all labels of the sample, or to the data set itself ({where.strip()}): let "
            "training use the inputs and labels that it is called with, and no others"
        )
    rng = np.random.default_rng([rule.seed, 1])
    trial, used = replace(rule, stop=Stop(no_errors_left=False, rounds=(_TRIAL,))), 0
    for _ in range(_TRIAL):
        used += rule.groups.at(used)
    few = _ROWS * records.n // len(records.labels)  # people with so many examples together
    chosen = few if few == _ROWS else max(few, 2 * used)
    small = records.subset(rng.permutation(records.n)[:chosen])
    if used >= small.n:
        return  # the run would use them all up: nothing is certified then
    trace = carry_out(trial, small)
    state = trace.best_state
    _require_own_scores(learner, state, small, rng)
    _require_same(learner, small, trace, carry_out(trial, small), "two equal runs on the same records differ: training "
                  "draws random numbers that are not seeded, or remembers earlier calls")  # fmt: skip
    others = np.setdiff1d(np.arange(small.n), trace.picks)
    fewer = np.sort(np.concatenate([trace.picks, rng.permutation(others)[: len(others) // 2]]))
    again = _replayed(trial, small, fewer)
    _require_same(learner, small, trace, again, "the run on the same picks without half of the other records differs: "
                  "the learner depends on records that it did not pick")  # fmt: skip
    unpicked, picked = (small.examples(one)[0] for one in (others, trace.picks))
    recurs = np.isin(
        row_hashes(unpicked), row_hashes(picked)
    )  # a draw may recur, and one of its places was picked
    unpicked = unpicked[torch.from_numpy(~recurs)]
    if len(unpicked) and (held := Holdings(state).of(unpicked)):
        raise Looks(f"after training the state ({held[0].where}) holds {held[0].rows} records that were not picked: "
                    "the learner looks at the whole sample")  # fmt: skip


def require_nothing_left(copied: Unwritten) -> None:
    """A copy of the learner that nobody called is what it was, with what all copies share: classes, closures, globals.

    Raises:
        Looks: it is not, so that a replay by it would not be one without the other records.
    """
    if left := copied.changed():
        raise Looks(
            f"training or scoring leaves something in {left[0]}, which no copy of the learner is without, so that a "
            "run on fewer records may know of the others: keep nothing in global variables, classes or closures"
        )


def require_replayed(rule: Rule, records: Records, trace: Trace, *, used: Learner) -> None:
    """The run on κ(S) alone picks the same records and ends with the same network, bit for bit, whose scores are own.

    Args:
        rule: with a copy of the learner that was made before it saw anything.
        used: the learner of the run, which scores as that copy does.

    Raises:
        Looks: it does not, or a score of the last network depends on the records beside it.
    """
    if trace.best is None:
        return
    if trace.best.number:
        rule = replace(rule, stop=replace(rule.stop, rounds=(trace.best.number,)))
    again = _replayed(rule, records, trace.kept)
    _require_same(rule.learner, records, trace, again, "the run on the records that it kept, and on nothing else, ends "
                  "with another network: the learner depends on other records, or did not begin its file")  # fmt: skip
    if not np.array_equal(trace.kept, again.kept):
        raise Looks(
            "the run on the records that it kept keeps others: the learner depends on other records"
        )
    if trace.best_state is not None:
        rng = np.random.default_rng([rule.seed, 2])
        _require_own_scores(rule.learner, trace.best_state, records, rng)
        scores = (scored(one, trace.best_state, records) for one in (used, rule.learner))
        if not all(np.array_equal(a, b) for a, b in zip(*scores, strict=True)):
            raise Looks(
                "the learner scores otherwise than a copy that saw other records first: it remembers earlier calls"
            )


def _replayed(rule: Rule, records: Records, kept: np.ndarray) -> Trace:
    """The run on some records, its picks numbered as in all of them."""
    made = carry_out(rule, records.subset(kept))
    return replace(made, picks=kept[made.picks], errors=kept[made.errors])


def _require_same(learner: Learner, records: Records, one: Trace, other: Trace, why: str) -> None:
    assert one.best is not None
    picked, state = one.best.picked, one.best_state
    same = other.best is not None and other.best.picked == picked
    if not same or not np.array_equal(one.picks[:picked], other.picks[:picked]):
        raise Looks(f"{why} (it picks other records)")
    if of_tensors(state):
        odd = [name for name, tensor in state.items() if not _equal(tensor, other.best_state[name])]
        if odd:
            raise Looks(f"{why} (its tensor {odd[0]!r} is not the same, bit for bit)")
    elif state is not None:
        viewed = padded(learner.view(records.examples(one.picks[:picked])[0]), BATCH)
        pairs = ((learner.outputs(at, x) for at in (state, other.best_state)) for x in viewed)
        if not all(_equal(*pair) for pair in pairs):
            raise Looks(f"{why} (its outputs are not the same, bit for bit)")


def _equal(one: Tensor, other: Tensor) -> bool:
    bits = (of.contiguous().flatten().view(torch.uint8) for of in (one, other))
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(*bits)


def _require_own_scores(
    learner: Learner, state: State, records: Records, rng: np.random.Generator
) -> None:
    """Each record's score is the same, bit for bit, in another place of another batch."""
    own = scored(learner, state, records)
    for size in (records.n, max(1, records.n // 3)):
        chosen = np.sort(rng.permutation(records.n)[:size])
        found = scored(learner, state, records.subset(chosen))
        odd = [a[chosen] != b for a, b in zip(own, found, strict=True)]
        if np.any(odd):
            place = int(chosen[np.argmax(np.any(odd, axis=0))])
            raise Looks(
                f"the score of record {place} depends on the records beside it in a batch, or on earlier calls: "
                "normalise no batch, draw no random numbers, and call eval() on the network"
            )
