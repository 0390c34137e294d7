"""From a learner and a sample to a certificate: ``pacdp.compress``."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

import bounds
from bounds import _check
from bounds.hypotheses import declared
from pacdp.certify.evidence import (
    Evidence,
    Settings,
    evidence_of,
    require_comparable,
    rows_of,
    standing,
    summaries,
)
from pacdp.certify.examples import BoundSet, python_number, require_kind, require_labels
from pacdp.certify.loaders import bound_set
from pacdp.certify.networks import Surrogate, fresh_certificates, knows_already
from pacdp.certify.outputs import error_share
from pacdp.certify.priors import HeldOut
from pacdp.certify.reading import Function, Network, Reading
from pacdp.certify.routes import certify
from pacdp.compress.blind import require_blind, require_nothing_left, require_replayed
from pacdp.compress.learner import (
    ANSWERS,
    Estimator,
    Groups,
    Learner,
    State,
    Stop,
    Torch,
    is_estimator,
    unfitted,
)
from pacdp.compress.run import BATCH, Records, Round, Rule, Trace, carry_out, tensor_of
from pacdp.data import Dataset
from pacdp.data.places import behind
from pacdp.data.rows import Rows
from pacdp.features.pooling import padded
from pacdp.layers.plain import ONE_AT_A_TIME
from pacdp.predictions.report import Measured, Refusal, Report, Reported
from pacdp.store.files import path_of
from pacdp.store.record import Values
from pacdp.trials import Unwritten, twin

_MOST_CLASSES = 1 << 16
"""Columns of an estimator's outputs, of which a batch takes half a gigabyte."""
REPLAYED = (
    "whoever wrote the learner, of its first weights and of parts that were fitted before too; the run on the records "
    "that it kept, and on no others, gave the same network, bit for bit"
)
_KNOWS_ALREADY = (
    "the learner errs on {errors} of {n} examples before it is trained: first weights, or parts fitted before, that "
    "other data taught may do so (start= and start_rows= name such rows), but where these examples taught them the "
    "certificate is false"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Compressed(Reported):
    """A learner that was run on records it picked, and what that says of its network.

    Attributes:
        report: certificates, measured errors, and what they rest on.
        learner: what was run, a copy where there is one.
        trace: what it did.
        data: the sample.
        test: other examples, or None.
        stop, expected, tolerance, settings, start_rows, failure_prob: as for :func:`compress`.
    """

    report: Report = field(init=False)
    learner: Learner
    trace: Trace
    data: BoundSet
    test: BoundSet | None
    stop: Stop
    expected: Sequence[int]
    tolerance: float
    settings: Settings
    start_rows: Rows | None
    failure_prob: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "report", self._reported())

    @property
    def kept(self) -> int:
        """|κ(S)|, how many records the network needed."""
        return len(self.trace.kept)

    def __call__(self, inputs: Any) -> Tensor:
        """The network's outputs for inputs."""
        return self.network(inputs)

    @property
    def network(self) -> Function:
        """The network that the run ended with, as a function of inputs, which holds nothing else of the run.

        Raises:
            ValueError: the sample ran out before the end, so that there is none.
        """
        _ = self.trace.end
        return partial(outputs_of, self.learner, self.trace.best_state)

    @property
    def saw(self) -> dict[str, Rows]:
        """The rows that the network depends on, by what to call them: sample, head start, those that chose settings."""
        named = {
            "the sample": self.data.rows,
            "the rows of the head start": self.start_rows,
            "the rows that the settings were chosen on": self.settings.elsewhere,
        }
        return {name: rows for name, rows in named.items() if rows is not None}

    @property
    def measures(self) -> str:
        """What the certificate is about: the 0-1 risk, or of a sample of people the share of people in error."""
        if self.data.people is None:
            return "0-1 risk"
        return f"share of people with more than {self.tolerance:g} of their examples in error"

    @cached_property
    def _looked_at(self) -> bool:
        """Whether settings were chosen on rows of the test set, which then certifies nothing."""
        chosen = self.settings.elsewhere
        return bool(self.test and chosen and chosen.shared(self.test.rows, "inputs"))

    @cached_property
    def _evidence(self) -> Evidence:
        source = None if self.start_rows is None else HeldOut(rows=self.start_rows)
        if not self._looked_at:
            return evidence_of(source, self.data, self.test, self.settings)
        # a test set that was looked at shares no rows with the sample all the same
        evidence_of(source, self.data, self.test, replace(self.settings, elsewhere=None))
        return evidence_of(source, self.data, None, self.settings)

    @property
    def _known_already(self) -> tuple[str, ...]:
        """A remark where the learner, which nobody trained yet, answers nearly all examples right."""
        match self.learner:
            case Torch():
                first = None
            case Estimator():
                first = unfitted(self.learner.estimator)
            case _:
                return ()
        try:
            law = Network(network=partial(outputs_of, self.learner, first), batch_size=2**30)
            errors = Reading(law=law).judged(self.data, None)["bound"].errors
        except Exception:  # a stranger's class, which says so as it likes that it is not fitted
            return ()
        if not knows_already(errors, self.data.labels):
            return ()
        return (_KNOWS_ALREADY.format(errors=errors, n=self.data.n),)

    @property
    def certificate(self) -> bounds.Certificate:
        """The bound on the network's error on a new record; ValueError where the sample ran out before the end."""
        return self.certificate_at(self.failure_prob)

    def certificate_at(self, failure_prob: float) -> bounds.Certificate:
        """``bounds.compression`` of the best of the run's ends, each of which has its share of the failure probability.

        Raises:
            ValueError: the sample ran out before the run ended, so that there is none.
        """
        n, whole = self.data.units, self.settings.share(failure_prob)
        share, weights = whole / self.stop.ends, None
        if self.expected:
            weights = bounds.compression_weights(n=n, expected=self.expected, failure_prob=share)
        made = bounds.compression(k=self.kept, n=n, failure_prob=share, weights=weights)
        if self.stop.ends > 1:
            made = made.charged("other ends of the run", whole - share)
        known = [declared("learner saw picked records alone", REPLAYED)]
        if self.start_rows is not None:
            known += [
                one for one in self._evidence.bound if one.name == "prior saw none of these rows"
            ]
        return self._evidence.on(replace(made, measures=self.measures).resting_on(*known))

    def _reported(self) -> Report:
        """What the run says of the network that it ended with."""
        data, test, best, rounds = self.data, self.test, self.trace.best, self.trace.rounds
        common: Values = {
            "route": "compression", "failure_prob": self.settings.share(self.failure_prob),
            "rows": summaries(data, test, self.start_rows), "choices": {"count": self.settings.count},
        }  # fmt: skip
        evidence = self._evidence
        if best is None:
            why = f"the sample of {data.units} records ran out after {len(rounds)} rounds, before the run's end"
            return Report.of([Refusal(name="compression", reason=why)], data, **common)
        network = Network(network=self.network, of="weights", batch_size=2**30)
        sets = Reading(law=network).judged(data, test)
        findings: list[Any] = [self.certificate]
        findings += [one.measured(on) for on, one in sets.items()]
        for on, one in sets.items():
            if data.people is not None and one.people is not None:
                share = np.bincount(one.people, weights=one.wrong) / np.bincount(one.people)
                mean = error_share(int((share > self.tolerance).sum()), one.units)
                findings.append(
                    Measured(of="weights", on=on, loss=self.measures, mean=mean, n=one.units)
                )
        if self._looked_at:
            why = "the settings were chosen on rows of the test set"
            findings.append(Refusal(name="test_set", reason=why))
        elif test is not None:
            fresh = fresh_certificates(sets["test"], failure_prob=common["failure_prob"])
            findings += map(evidence.on, fresh)
        told = {**best._asdict(), "rounds": [list(one) for one in rounds], "ends": self.stop.ends}
        common["remarks"] = (*data.told_by_order, *self._known_already)
        return Report.of(findings, data, details={"compression": told}, **common)

    def certify_other(
        self, network: Function, unlabelled: Tensor | Dataset, *, failure_prob: float = 0.05,
        seen: Any = None
    ) -> Report:  # fmt: skip
        """Certify another network, which may have learnt from the whole sample: R(f) ≤ R(h) + P(f ≠ h).

        Half of the failure probability is this network's certificate's, half that of the count of differences.

        Formal guarantee: that of :func:`bounds.disagreement`, with this network as h.

        Args:
            network: any network of the same classes, in eval mode, or a function from inputs to logits.
            unlabelled: examples that neither network saw; labels, where there are any, are not looked at.
            seen: the data that the network depends on, or their rows; without them the caller vouches for it.

        Raises:
            ValueError: the sample ran out, so that this network has no certificate; or as :func:`pacdp.certify`.
            DataError: unlabelled rows that either network saw, or that repeat each other.
        """
        _check.open_probability(failure_prob=failure_prob)
        made = self.certificate_at(0.5 * failure_prob)
        own = Surrogate(network=self.network, certificate=made, saw=self.saw)
        return certify(network, unlabelled, surrogate=own, seen=seen, failure_prob=failure_prob,
                       settings=self.settings)  # fmt: skip


def compress(
    learner: Learner | Any,
    data: Any,
    *,
    groups: Groups | int = 10,
    stop: Stop | None = None,
    failure_prob: float = 0.05,
    expected: Sequence[int] = (),
    seed: int = 0,
    tolerance: float = 0.0,
    test: Any = None,
    settings: Settings | None = None,
    start: State | None = None,
    start_rows: Any = None,
    file: Path | str | None = None,
    about: Mapping[str, Any] | None = None,
    every: float = 10.0,
    progress: Callable[[Round], None] | None = None,
) -> Compressed:
    """Run a learner on records that it picks itself, and certify the network it ends with, on all of the data.

    Each round picks the ``groups`` records on which the network does worst, and trains on all that were picked. Records
    picked, and records in error at the end, are the k that were kept; ``bounds.compression`` of k and n is the
    certificate.

    Formal guarantee: that of :func:`bounds.compression`, if training depends on the picked records alone. That is tried
    out before the run, and after it the run on the kept records alone must give the same network, bit for bit. A
    learner that fails is refused with what gave it away; first weights that the sample made pass, so that whoever
    wrote the learner vouches for it.

    Args:
        learner: a :class:`Learner` of :mod:`pacdp.compress`, or a classifier of scikit-learn.
        data: the sample, in any form that :func:`pacdp.certify` takes. Where it knows its people, people are the
            records; one counts as an error when more than ``tolerance`` of its examples are.
        groups: how many records a round picks.
        stop: by default, when no error is left.
        failure_prob: of the certificate; divided by the ends that ``stop`` names and the number of ``settings``.
        expected: numbers k that are expected, from a run on other records: the weights of the bound are then the best
            for these. Without, they are equal.
        seed: of ties and of training.
        test: examples for a test error and its exact bound.
        settings: who fixed the settings, and among how many.
        start: a state of the learner that was trained on other records, the head start.
        start_rows: the data that the head start saw, or their rows.
        file: where the run is kept as it goes, to be gone on with after a crash, bit for bit.
        about: JSON values for the file's header.
        every: least seconds between two writings of the file.
        progress: called after every round.

    Raises:
        Looks: the learner looks at records that it did not pick.
        ValueError: arguments that do not fit each other.
        DataError: copies among the rows, or rows that test set or head start share with them.
        CheckpointError: the file is another run's.
    """
    bound, fresh = bound_set(data), None if test is None else bound_set(test)
    known = isinstance(learner, Learner) or is_estimator(learner, by=ANSWERS)
    if isinstance(learner, type) or not known:
        raise ValueError(
            f"learner must be one of pacdp.compress or have fit and predict, got {learner!r:.80}; wrap a training "
            "function in pacdp.compress.Torch"
        )
    classes = data.classes if isinstance(data, Dataset) else max(2, int(bound.labels.max()) + 1)
    require_labels(bound.labels, learner.classes if isinstance(learner, Estimator) else classes)
    if not isinstance(learner, Learner):
        if classes > _MOST_CLASSES:
            raise ValueError(
                f"labels must be numbered from 0 on, since outputs have a column a class, got one of {classes - 1}: "
                "give torch.unique(labels, return_inverse=True)[1]"
            )
        learner = Estimator(estimator=learner, classes=classes)
    if not isinstance(groups, Groups):
        groups = Groups(sizes=(_check.count(groups=groups),))
    _check.nonnegative(every=every)
    seed = python_number(seed)
    kinds = {"tolerance": (tolerance, float | int), "seed": (seed, int),
             "expected": (expected, Sequence | None), "stop": (stop, Stop | None),
             "settings": (settings, Settings | None)}  # fmt: skip
    for name, (given, kind) in kinds.items():
        require_kind(name, given, kind)
    if seed < 0:
        raise ValueError(f"seed must be a whole number of at least 0, got {seed}")
    stop, settings, expected = stop or Stop(), settings or Settings.declared(), tuple(expected)
    start = copy.deepcopy(start)  # whose tensors may be those of a network that trains on
    rule = Rule(learner=learner, groups=groups, stop=stop, seed=seed, start=start)
    _check.open_probability(failure_prob=failure_prob)
    if not 0.0 <= tolerance < 1.0:
        raise ValueError(
            f"tolerance must lie in [0, 1), got {tolerance!r}; 0 lets no example of a person be in error"
        )
    if tolerance > 0.0 and bound.people is None:
        raise ValueError(
            "tolerance is a share of a person's examples, and the data name no people: leave it out"
        )
    if (start is None) != (start_rows is None):
        raise ValueError("start and start_rows go together: a head start says which rows it saw")
    start_rows = None if start_rows is None else rows_of(start_rows, "start_rows")
    source = None if start_rows is None else HeldOut(rows=start_rows)
    require_comparable(source, settings, data, test)
    standing(source, bound)  # none may be the sample's, before any work is done
    if expected:
        bounds.compression_weights(n=bound.units, expected=expected, failure_prob=failure_prob)
    records = Records.of(bound.inputs, bound.labels, bound.people, seed=seed, tolerance=tolerance)
    untouched = replace(rule, learner=twin(learner))
    if untouched.learner is learner:
        raise ValueError(
            "learner must be something that can be copied, since a copy that saw nothing goes through the run again: "
            "make locks, files and generators in train or fit"
        )
    copied, held = Unwritten(untouched.learner, around=True), behind(data)
    header = {**(about or {}), "rows": bound.rows.digest, "tolerance": tolerance}
    # global random numbers, and networks that learners share, are those of one run
    with ONE_AT_A_TIME:
        require_blind(rule, records, held.dataset if isinstance(held, DataLoader) else held)
        require_nothing_left(copied)
        trace = carry_out(rule, records, about=header, every=every, file=None if file is None else path_of(file=file),
                          progress=progress)  # fmt: skip
        require_nothing_left(copied)
        require_replayed(untouched, records, trace, used=learner)
    # copies, since the caller's own network or learner, and what is frozen in it, may go on
    trace.best_state = twin(trace.best_state)
    return Compressed(learner=untouched.learner, trace=trace, data=bound, test=fresh, stop=stop, expected=expected,
                      tolerance=tolerance, settings=settings, start_rows=start_rows,
                      failure_prob=failure_prob)  # fmt: skip


def outputs_of(learner: Learner, state: State, inputs: Any) -> Tensor:
    """The network's outputs for inputs, in batches of the size of the run."""
    rows = tensor_of(inputs)
    viewed = padded(learner.view(rows), BATCH)
    return torch.cat([learner.outputs(state, batch) for batch in viewed])[: len(rows)]
