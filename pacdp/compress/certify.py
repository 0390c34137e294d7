"""From a learner and a sample to a certificate: ``pacdp.compress``."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import bounds
from bounds import _check
from bounds.hypotheses import declared
from pacdp.certify.batches import bound_set
from pacdp.certify.evidence import Settings, evidence_of, rows_of, standing, summaries
from pacdp.certify.examples import BoundSet, require_kind
from pacdp.certify.networks import Surrogate, fresh_certificates
from pacdp.certify.outputs import error_share
from pacdp.certify.priors import HeldOut
from pacdp.certify.reading import Function, Network, Reading, Seen
from pacdp.certify.routes import certify
from pacdp.compress.blind import require_blind, require_replayed
from pacdp.compress.learner import Estimator, Groups, Learner, State, Stop
from pacdp.compress.run import BATCH, Records, Round, Rule, Trace, carry_out, tensor_of
from pacdp.compress.view import padded
from pacdp.data import Dataset
from pacdp.data.rows import Rows
from pacdp.predictions.report import Measured, Refusal, Report, Reported

REPLAYED = (
    "whoever wrote the learner; the run on the records that it kept, and on no others, gave the same network, bit for "
    "bit"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compressed(Reported):
    """A learner that was run on records it picked, and what that says of its network.

    Attributes:
        report: certificates, measured errors, and what they rest on.
        trace: the run.
        learner: what was run.
        saw: the rows that the network depends on, by what to call them: sample, head start, those that chose settings.
        again: the certificate at another failure probability.
    """

    trace: Trace
    learner: Learner
    saw: Mapping[str, Rows]
    again: Callable[[float], bounds.Certificate]

    @property
    def certificate(self) -> bounds.Certificate:
        """The bound on the network's error on a new record.

        Raises:
            ValueError: the sample ran out before the run ended, so that there is none.
        """
        return self.report.certificate(of="weights", measures=self.report.certificates[0].measures)

    @property
    def kept(self) -> int:
        """|κ(S)|, how many records the network needed."""
        return len(self.trace.kept)

    def __call__(self, inputs: Any) -> Tensor:
        """The network's outputs for inputs."""
        return outputs_of(self.learner, self.trace.best_state, tensor_of(inputs))

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
        if self.trace.best is None:
            raise ValueError(
                "the sample ran out, so that nothing is certified: choose smaller groups or more records"
            )
        own = Surrogate(network=self, certificate=self.again(0.5 * failure_prob), saw=self.saw)
        return certify(network, unlabelled, surrogate=own, seen=seen, failure_prob=failure_prob)


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
    classes = data.classes if isinstance(data, Dataset) else int(bound.labels.max()) + 1
    own: Learner = learner if isinstance(learner, Learner) else _estimator(learner, classes)
    groups = groups if isinstance(groups, Groups) else Groups(sizes=(groups,))
    kinds = {"tolerance": (tolerance, float | int), "seed": (seed, int),
             "stop": (stop, Stop | None), "settings": (settings, Settings | None)}  # fmt: skip
    for name, (given, kind) in kinds.items():
        require_kind(name, given, kind)
    stop, settings = stop or Stop(), settings or Settings.declared()
    rule = Rule(learner=own, groups=groups, stop=stop, seed=seed, start=start)
    _check.open_probability(failure_prob=failure_prob)
    if not 0.0 <= tolerance < 1.0:
        raise ValueError(
            f"tolerance must lie in [0, 1), got {tolerance!r}; 0 lets no example of a person be in error"
        )
    if (start is None) != (start_rows is None):
        raise ValueError("start and start_rows go together: a head start says which rows it saw")
    start_rows = None if start_rows is None else rows_of(start_rows, "start_rows")
    source = None if start_rows is None else HeldOut(rows=start_rows)
    standing(
        source, bound
    )  # which refuses a head start that saw rows of the sample, before any work is done
    records = Records.of(bound.inputs, bound.labels, bound.people, seed=seed, tolerance=tolerance)
    require_blind(rule, records)
    header = {**(about or {}), "rows": bound.rows.digest, "tolerance": tolerance}
    trace = carry_out(rule, records, about=header, every=every, file=None if file is None else Path(file),
                      progress=progress)  # fmt: skip
    require_replayed(rule, records, trace)
    return known_of(own, trace, bound, fresh, stop=stop, failure_prob=failure_prob, expected=expected,
                    settings=settings, tolerance=tolerance, start_rows=start_rows)  # fmt: skip


def known_of(
    learner: Learner, trace: Trace, data: BoundSet, test: BoundSet | None, *, stop: Stop, failure_prob: float,
    expected: Sequence[int], settings: Settings, tolerance: float = 0.0, start_rows: Rows | None = None
) -> Compressed:  # fmt: skip
    """A run that was carried out, and what it says of its network."""
    found = assess(learner, trace, data, test, stop=stop, failure_prob=failure_prob, expected=expected,
                   settings=settings, tolerance=tolerance, start_rows=start_rows)  # fmt: skip

    def again(prob: float) -> bounds.Certificate:
        assert trace.best is not None
        made = certificate(k=trace.best.kept, n=data.units, failure_prob=settings.share(prob), ends=stop.ends,
                           expected=expected)  # fmt: skip
        return replace(
            made,
            measures=found.certificates[0].measures,
            hypotheses=found.certificates[0].hypotheses,
        )

    saw = rows_behind(data, start_rows, settings)
    return Compressed(report=found, trace=trace, learner=learner, saw=saw, again=again)


def rows_behind(data: BoundSet, start_rows: Rows | None, settings: Settings) -> dict[str, Rows]:
    """The rows that the network depends on, by what to call them: sample, head start, those that chose settings."""
    named = {
        "the sample": data.rows,
        "the rows of the head start": start_rows,
        "the rows that the settings were chosen on": settings.elsewhere,
    }
    return {name: rows for name, rows in named.items() if rows is not None}


def assess(
    learner: Learner, trace: Trace, data: BoundSet, test: BoundSet | None, *, stop: Stop, failure_prob: float,
    expected: Sequence[int], settings: Settings, tolerance: float = 0.0, start_rows: Rows | None = None
) -> Report:  # fmt: skip
    """What a run says of the network that it ended with."""
    chosen, share = settings.elsewhere, settings.share(failure_prob)
    looked_at = bool(test is not None and chosen is not None and chosen.shared_inputs(test.rows))
    source = None if start_rows is None else HeldOut(rows=start_rows)
    if looked_at:  # which shares no rows with the sample all the same
        evidence_of(source, data, test, replace(settings, elsewhere=None))
    evidence = evidence_of(source, data, None if looked_at else test, settings)
    common: dict[str, Any] = {"route": "compression", "failure_prob": share}
    common |= {"rows": summaries(data, test, start_rows), "choices": {"count": settings.count}}
    best = trace.best
    if best is None:
        why = f"the sample of {data.units} records ran out after {len(trace.rounds)} rounds, before the run's end"
        return Report.of([Refusal(name="compression", reason=why)], data, **common)
    made = certificate(k=best.kept, n=data.units, failure_prob=share, ends=stop.ends, expected=expected)  # fmt: skip
    known = [declared("learner saw picked records alone", REPLAYED)]
    known += [
        one for one in evidence.bound if source and one.name == "prior saw none of these rows"
    ]
    measures = "0-1 risk" if data.people is None else people_in_error(tolerance)

    outputs = partial(outputs_of, learner, trace.best_state)
    network = Network(network=outputs, of="weights", batch_size=2**30)
    sets = Reading(law=network).judged(data, test)
    findings: list[Any] = [evidence.on(replace(made, measures=measures).resting_on(*known))]
    findings += [one.measured(on) for on, one in sets.items()]
    findings += _by_person(sets, tolerance) if data.people is not None else []
    if looked_at:
        findings.append(
            Refusal(name="test_set", reason="the settings were chosen on rows of the test set")
        )
    elif test is not None:
        findings += map(evidence.on, fresh_certificates(sets["test"], failure_prob=share))
    told = {**best._asdict(), "rounds": [list(one) for one in trace.rounds], "ends": stop.ends}
    return Report.of(findings, data, details={"compression": told}, **common)


def people_in_error(tolerance: float) -> str:
    """What the certificate of a sample of people is about."""
    return f"share of people with more than {tolerance:g} of their examples in error"


def _by_person(sets: Mapping[str, Seen], tolerance: float) -> Iterator[Measured]:
    """That share among the people of the sample and of the test set."""
    for on, one in sets.items():
        if one.people is not None:
            _, owner, sizes = np.unique(one.people, return_inverse=True, return_counts=True)
            count = int((np.bincount(owner, weights=one.wrong) / sizes > tolerance).sum())
            mean, loss = error_share(count, len(sizes)), people_in_error(tolerance)
            yield Measured(of="weights", on=on, loss=loss, mean=mean, n=len(sizes))


def certificate(
    *, k: int, n: int, failure_prob: float, ends: int, expected: Sequence[int]
) -> bounds.Certificate:
    """``bounds.compression`` of the best of some ends, each of which has its share of the failure probability."""
    share = failure_prob / ends
    weights = (
        bounds.compression_weights(n=n, expected=expected, failure_prob=share) if expected else None
    )
    made = bounds.compression(k=k, n=n, failure_prob=share, weights=weights)
    return made.charged("other ends of the run", failure_prob - share) if ends > 1 else made


def outputs_of(learner: Learner, state: State, inputs: Tensor) -> Tensor:
    """The network's outputs, in batches of the size of the run."""
    viewed = padded(learner.view(inputs), BATCH)
    return torch.cat([learner.outputs(state, batch) for batch in viewed])[: len(inputs)]


def _estimator(learner: Any, classes: int) -> Learner:
    if not hasattr(learner, "fit") or not any(
        hasattr(learner, f) for f in ("decision_function", "predict_proba", "predict")
    ):
        raise ValueError(
            f"learner must be one of pacdp.compress or have fit and predict, got {type(learner).__name__}; wrap a "
            "training function in pacdp.compress.Torch"
        )
    return Estimator(estimator=learner, classes=classes)
