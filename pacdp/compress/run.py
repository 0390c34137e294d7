"""The run: pick the worst records in groups, train on what was picked, score the rest ("Sample compression" in
docs/guarantees.md)."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from pacdp.certify.examples import require_labels
from pacdp.certify.outputs import classes_of
from pacdp.compress.learner import Groups, Learner, State, Stop, of_tensors
from pacdp.errors import CheckpointError
from pacdp.features.pooling import padded
from pacdp.losses import margins
from pacdp.store.canonical import canonical
from pacdp.store.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from pacdp.store.record import record

BATCH = 1000
"""Records whose outputs are computed at once, always as many."""
Indices = Int64[np.ndarray, "_"]
_NOW = "now."
"""Before the names of the tensors of a run's last state in its file."""


class Round(NamedTuple):
    """What a round came to."""

    number: int
    picked: int
    errors: int
    """Records on which the network errs, among those that were not picked."""
    kept: int
    """Both together: |κ(S)| where the run ends here."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Records:
    """The sample: independent records, which are examples, or people with all of theirs.

    Attributes:
        inputs, labels: of the examples.
        owner: the record of each example.
        n: how many records.
        tie_breakers: a number in [0, 1] for each record, drawn without the data.
        tolerance: the share of a record's examples that may be in error before the record counts as one.
    """

    inputs: Tensor
    labels: Tensor
    owner: Indices
    n: int
    tie_breakers: Float[np.ndarray, " n"]
    tolerance: float = 0.0

    @classmethod
    def of(
        cls, inputs: Any, labels: Any, people: Any = None, *, seed: int, tolerance: float = 0.0
    ) -> "Records":
        """Records of a sample; ties are broken by numbers of the seed, record by record."""
        inputs, labels = tensor_of(inputs), tensor_of(labels).long()
        whose = np.arange(len(labels)) if people is None else people
        names, owner = np.unique(whose, return_inverse=True)
        u = np.random.default_rng([seed, 0]).random(len(names))
        return cls(inputs=inputs, labels=labels, owner=owner.astype(np.int64), n=len(names),
                   tie_breakers=u, tolerance=tolerance)  # fmt: skip

    def subset(self, records: Indices) -> "Records":
        """Some of the records, in rising order, with their numbers."""
        records = np.sort(records)
        examples = np.flatnonzero(np.isin(self.owner, records))
        owner = np.searchsorted(records, self.owner[examples])
        return replace(self, inputs=self.inputs[examples], labels=self.labels[examples], owner=owner,
                       n=len(records), tie_breakers=self.tie_breakers[records])  # fmt: skip

    def examples(self, records: Indices) -> tuple[Tensor, Tensor]:
        """The examples of these records, record by record in the order given."""
        order = np.argsort(self.owner, kind="stable")
        first = np.searchsorted(self.owner[order], np.arange(self.n + 1))
        parts = (order[first[r] : first[r + 1]] for r in records)
        chosen = torch.from_numpy(np.concatenate([order[:0], *parts]))
        return self.inputs[chosen], self.labels[chosen]

    def viewed(self, learner: Learner) -> list[Tensor]:
        """What the learner's view makes of all examples, in batches of one size; computed once."""
        known = self.__dict__.get("_viewed")
        if known is None or known[0] is not learner:
            known = learner, padded(learner.view(self.inputs), BATCH)
            self.__dict__["_viewed"] = known
        return known[1]


def prefixed(tensors: Mapping[str, Tensor], before: str) -> dict[str, Tensor]:
    """Those whose names begin so, by the rest of their names."""
    return {
        name.removeprefix(before): one for name, one in tensors.items() if name.startswith(before)
    }


def tensor_of(values: Any) -> Tensor:
    """A tensor as it is, anything else as a tensor of its own."""
    return values if isinstance(values, Tensor) else torch.tensor(np.asarray(values))


class Scores(NamedTuple):
    """How badly a network does on each record; larger is worse, and every error outranks every record that is right."""

    error: Bool[np.ndarray, " n"]
    first: Float[np.ndarray, " n"]
    second: Float[np.ndarray, " n"]

    def worst(self, left: Indices, u: Float[np.ndarray, " n"], count: int) -> Indices:
        """The ``count`` worst of the records ``left``, the worst first."""
        order = np.lexsort((u[left], -self.second[left], -self.first[left]))
        return left[order[:count]]


def scored(learner: Learner, state: State, records: Records) -> Scores:
    """Scores of all records, in batches of one size."""
    outputs = torch.cat([learner.outputs(state, batch) for batch in records.viewed(learner)])
    require_labels(records.labels, classes_of(outputs))
    margin = margins(outputs[: len(records.labels)], records.labels).double().numpy()
    wrong, badness = ~(margin > 0.0), -np.where(np.isnan(margin), -np.inf, margin)
    if records.n < len(records.labels):
        badness = np.clip(badness, -1e6, 1e6)  # which are averaged
    sizes = np.bincount(records.owner)
    share, near = (np.bincount(records.owner, weights=one) / sizes for one in (wrong, badness))
    return Scores(share > records.tolerance, share, near)


@record
class Rule:
    """All that decides a run but the records.

    Attributes:
        start: a state that saw none of them; without one all records tie and are errors before the first round.
    """

    learner: Learner
    groups: Groups
    stop: Stop
    seed: int
    start: State | None = None

    def identity(self, n: int, about: Mapping[str, Any]) -> str:
        """By which the file of a run of this rule on n records is known."""
        groups, stop = self.groups, self.stop
        rules = {
            "groups": [groups.sizes, groups.starts],
            "stop": [stop.no_errors_left, stop.rounds],
        }
        return canonical(
            {**about, "learner": self.learner.record, "seed": self.seed, "n": n, **rules}
        )


_NONE = np.empty(0, dtype=np.int64)


@dataclass(slots=True, kw_only=True, eq=False)
class Trace:
    """What a run did, as far as it came.

    Attributes:
        picks: the records picked, in their order.
        rounds: a line a round.
        best: the round that kept the fewest records among the ends that the rule names; None where the sample ran out.
        best_state: the network's state there.
        errors: the records in error at ``best`` that were not picked by then.
        state: the network's state after the last round.
    """

    picks: Indices = field(default_factory=_NONE.copy)
    rounds: list[Round] = field(default_factory=list[Round])
    best: Round | None = None
    best_state: State = None
    errors: Indices = field(default_factory=_NONE.copy)
    state: State = None

    @property
    def end(self) -> Round:
        """``best``; ValueError where the sample ran out."""
        if self.best is None:
            raise ValueError(
                "the sample ran out before the run's end: choose smaller groups or more records"
            )
        return self.best

    @property
    def kept(self) -> Indices:
        """κ(S), in rising order; ValueError where the sample ran out."""
        return np.sort(np.concatenate([self.picks[: self.end.picked], self.errors]))

    @classmethod
    def of(cls, checkpoint: Checkpoint, file: Path) -> "Trace":
        """The run of a file's checkpoint, as far as it came.

        Raises:
            CheckpointError: it holds none, or counts that are not those of its lists.
        """
        try:
            best = checkpoint.header["compression"]["best"]
            rounds = [Round(*row) for row in checkpoint.state["rounds"].tolist()]
            picks, errors = (checkpoint.state[name].numpy() for name in ("picks", "errors"))
            found = {0: Round(0, 0, 0, 0), **{one.number: one for one in rounds}}.get(best)
            kept = [] if found is None else [*picks[: found.picked].tolist(), *errors.tolist()]
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"{file} holds no run of a compression ({error!r}): choose another"
            ) from error
        once = found is None or found[1:] == (found.picked, len(errors), len(kept))
        if not once or len(set(kept)) < len(kept):
            raise CheckpointError(
                f"round {best} of {file} counts other records than it lists: run it again"
            )
        return cls(
            picks=picks, rounds=rounds, best=found, best_state=dict(checkpoint.model), errors=errors
        )

    @classmethod
    def resumed(cls, file: Path, identity: str, rule: Rule, records: Records) -> "Trace":
        """The run of a file, ready to go on; where it holds no tensors they are made again from the picks.

        Raises:
            CheckpointError: it is that of another run, or its counts are not those of its records.
        """
        found = load_checkpoint(file)
        said = found.header.get("compression")
        if not isinstance(said, Mapping) or said.get("identity") != identity:
            raise CheckpointError(
                f"{file} holds a compression of other data or settings, or of other first weights: choose another "
                "place for this, and call torch.manual_seed before a network is made"
            )
        made = cls.of(found, file)
        if made.best is not None and not rule.stop.may_end(made.best.number, made.best.errors):
            raise CheckpointError(
                f"{file} ends after round {made.best.number}, where this run may not end: run it again"
            )
        if made.picks.max(initial=0) >= records.n:
            raise CheckpointError(
                f"{file} picks records that the data do not have: choose another place for this"
            )

        def again(rounds: list[Round]) -> State:
            state = rule.start
            for one in rounds:
                inputs, labels = records.examples(made.picks[: one.picked])
                state = rule.learner.train(state, inputs, labels, round=one.number, seed=rule.seed)
            return state

        now = prefixed(found.state, _NOW)
        if made.rounds:
            made.state = now or again(made.rounds)
            if not now:
                made.best_state = made.best and again(made.rounds[: made.best.number])
        require_counted(rule.learner, made, records, file)
        return made

    def write(self, file: Path, identity: str, about: Mapping[str, Any] | None) -> None:
        """Put it in a file, as a whole or not at all."""
        best = None if self.best is None else self.best.number
        own = {"step": len(self.rounds), "compression": {"identity": identity, "best": best}}
        header = {**(about or {}), **own}
        tensors = {
            "picks": torch.from_numpy(self.picks),
            "errors": torch.from_numpy(self.errors),
            "rounds": torch.tensor(self.rounds, dtype=torch.int64).reshape(-1, 4),
        }
        if of_tensors(self.state):
            tensors |= {f"{_NOW}{name}": one for name, one in self.state.items()}
        model = self.best_state if of_tensors(self.best_state) else {"none": torch.zeros(1)}
        save_checkpoint(file, Checkpoint(header=header, model=model, state=tensors))


def require_counted(learner: Learner, trace: Trace, records: Records, file: Path) -> None:
    """The records in error at the best end that were not picked by then are those that the run lists.

    Raises:
        CheckpointError: they are others.
    """
    if trace.best is None or not trace.best.number:
        return
    left = np.setdiff1d(np.arange(records.n), trace.picks[: trace.best.picked])
    error = scored(learner, trace.best_state, records).error
    if not np.array_equal(left[error[left]], trace.errors):
        raise CheckpointError(
            f"the network of {file} errs on other records than it says: run it again"
        )


def carry_out(
    rule: Rule,
    records: Records,
    *,
    file: Path | None = None,
    about: Mapping[str, Any] | None = None,
    every: float = 10.0,
    progress: Callable[[Round], None] | None = None,
) -> Trace:
    """The run on these records.

    Args:
        file: where the run is kept, at most every ``every`` seconds and at the end; it goes on from there if it exists.
        about: JSON values of the file's header.
        progress: told every round.

    Raises:
        CheckpointError: the file is another run's.
    """
    learner, stop, identity = rule.learner, rule.stop, rule.identity(records.n, about or {})
    at = Trace()
    if file is not None and file.exists():
        at = Trace.resumed(file, identity, rule, records)
    state = at.state if at.rounds else rule.start
    none = np.zeros(records.n)
    scores = Scores(none == 0, none, none) if state is None else scored(learner, state, records)
    saved = time.monotonic()
    while True:
        left = np.setdiff1d(np.arange(records.n), at.picks)
        errors = left[scores.error[left]]
        number, done = len(at.rounds), stop.no_errors_left and not len(errors)
        here = Round(number, len(at.picks), len(errors), len(at.picks) + len(errors))
        better = at.best is None or here.kept < at.best.kept
        if better and stop.may_end(number, len(errors)):
            at.best, at.best_state, at.errors = here, state, errors
        if done or number >= stop.last:
            break
        if (count := rule.groups.at(len(at.picks))) > len(left):
            at.best = None  # the sample ran out
            break
        at.picks = np.concatenate([at.picks, scores.worst(left, records.tie_breakers, count)])
        inputs, labels = records.examples(at.picks)
        state = at.state = learner.train(state, inputs, labels, round=number + 1, seed=rule.seed)
        scores = scored(learner, state, records)
        wrong = int(np.delete(scores.error, at.picks).sum())
        at.rounds.append(Round(number + 1, len(at.picks), wrong, len(at.picks) + wrong))
        if progress is not None:
            progress(at.rounds[-1])
        if file is not None and time.monotonic() - saved >= every:
            at.write(file, identity, about)
            saved = time.monotonic()
    if file is not None:
        at.write(file, identity, about)
    return at
