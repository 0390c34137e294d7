"""What is known of rows: who saw which of them, and what that proves of a prior, a predictor or a promise of privacy.

Whatever can be data can be evidence: :func:`rows_of` takes all of it, and refuses the rest.
"""

import os
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import UInt64

import bounds
from bounds.hypotheses import NOBODY, Hypothesis, declared, proved, settings_tried, unproved
from pacdp.certify.batches import Hashed
from pacdp.certify.examples import BoundSet, python_number, require_kinds
from pacdp.certify.loaders import batches_of, comes_again, require_steady
from pacdp.certify.priors import DataFree, HeldOut, NoisySum, Prior, Private, Source
from pacdp.certify.reading import Seen
from pacdp.data import DataError, require_disjoint
from pacdp.data.places import require_whole
from pacdp.data.rows import FEW, Rows, require_apart, require_covers, require_plain
from pacdp.errors import CheckpointError
from pacdp.store.record import Values, record

_PLURAL = {"example": "examples", "person": "people"}
Known = BoundSet | Seen
"""Examples of whose rows something is known."""
FIXED, UNSEEN = "settings fixed beforehand", "prior saw none of these rows"
NEW_TO_IT = "predictor saw none of these rows"
WHOEVER = "whoever chose the settings"
_DRAWS = proved("draws independent", "draws keyed by seed, pass and example")


def rows_of(data: Any, name: str) -> Rows:
    """The hashes of the rows of anything that can be data.

    Args:
        data: what ``certify`` takes as its data; or ``Rows``; or the folder or checkpoint of a
            chain, as a path, which is the data that it was trained on.
        name: of the argument, for the error's sentence.

    Raises:
        ValueError: nothing of the kind.
    """
    if isinstance(data, Rows):
        return data
    if isinstance(data, BoundSet):
        return data.read_again().rows
    if isinstance(data, str | os.PathLike):
        return _rows_of_run(data, name)
    require_whole(data, name)
    require_steady(data, name)
    pair = type(data) is list and len(data) == 2
    shapes = [tuple(getattr(one, "shape", ())) for one in data] if pair else []
    if shapes and len(shapes[0]) > 1 and shapes[0] == shapes[1]:
        raise ValueError(
            f"{name} is a list of two arrays of one shape, which may be inputs and targets or two sets of inputs: give "
            "the former as a tuple, and join the latter, with their labels, into one set"
        )
    hashed = Hashed()
    try:
        for one in batches_of(data):
            hashed.add(one)
    except ValueError as error:
        raise ValueError(f"{name} must be data, or the rows of data: {error}") from error
    if not hashed.pairs:
        raise ValueError(
            f"{name} must be data, or the rows of data, and it holds no examples: leave it out"
        )
    hashed.again = comes_again(data, hashed.inputs)
    return replace(hashed.rows, source=data)


def _rows_of_run(path: str | os.PathLike[str], name: str) -> Rows:
    """The rows that a chain was trained on, once the data found here are those that its checkpoint names."""
    from pacdp.certify.trained import load_trained

    try:
        return BoundSet.of_records(load_trained(os.fspath(path)).objective).rows
    except CheckpointError as error:
        raise ValueError(
            f"{name} must be data, or the rows of data, or a chain's folder, and {os.fspath(path)!r} is none: {error}"
        ) from error


def source_of(seen: Any) -> DataFree | HeldOut | None:
    """Where a network came from that is certified on examples which are new to it; None where nobody says.

    Raises:
        ValueError: a source that has a price, or nothing that can be data.
    """
    if seen is None or isinstance(seen, DataFree | HeldOut):
        return seen
    if isinstance(seen, Private | NoisySum | Prior | bounds.PrivacyClaim):
        raise ValueError(
            f"seen must be data, and {type(seen).__name__} has a price, which nobody pays here: call "
            "pacdp.certify(network, data, prior=pacdp.Private(...))"
        )
    return HeldOut(rows=rows_of(seen, "seen"))


def equal_inputs(
    seen: UInt64[np.ndarray, " k"],
    bound: UInt64[np.ndarray, " n"],
    *,
    whose: str = "people",
    most: float = 0.5,
    among: bool = False,
) -> tuple[Hypothesis, ...]:
    """What a count on examples that were set aside by place takes for true of those whose inputs training saw too.

    Under independent draws errors on such places are binomial whatever recurs, and leaving out what recurs would
    certify another law. Copies are no draws: up to one example in a hundred the caller vouches for, more is unproved.

    Args:
        seen: hashes of the inputs that training saw.
        bound: of the examples that are counted.
        whose: the argument that says whose each example is.
        most: the largest share that is counted at all.
        among: whether an input that an earlier example has counts like one that training saw.

    Raises:
        DataError: a larger share of the examples that are counted.
    """
    n, recurs = len(bound), np.isin(bound, seen)
    if among:
        recurs[np.setdiff1d(np.arange(n), np.unique(bound, return_index=True)[1])] = True
    if not (shared := int(recurs.sum())):
        return ()
    said = f"{shared:,} of the {n:,} examples that are counted have an input that training saw too"
    said += ", or that an earlier one has" if among else ""
    mend = f"where they are copies, say with {whose}= whose each example is"
    if shared > most * n:
        raise DataError(
            f"{said}, which says next to nothing of new ones: {mend}, or count other examples (numbers are compared to "
            "24 bits: of dates and the like beside which all differences are small, subtract what they share)"
        )
    name = "equal inputs are separate draws"
    if shared > FEW * n:
        return (unproved(name, f"{said}, and nothing shows that they are separate draws: {mend}"),)
    return (declared(name, f"the caller; {said} and count as separate draws: {mend}"),)


@record
class Evidence:
    """What is known of the rows behind certificates, and of who fixed the settings.

    Attributes:
        bound: of the examples that the bound rests on.
        test: of the test set, where there is one.
        fixed: who fixed the settings.
    """

    bound: tuple[Hypothesis, ...]
    test: tuple[Hypothesis, ...] = ()
    fixed: Hypothesis

    def on(self, made: bounds.Certificate) -> bounds.Certificate:
        """The certificate with what was found out about its hypotheses.

        Of a prior that saw some rows freely and these privately, that it saw none of these freely is needed too. What
        only whoever called a formula of ``bounds`` vouches for is unproved, since nobody but this package did.
        """
        rows = self.test if self.test and made.name.startswith("test_set") else self.bound
        known = {one.name: one for one in (*rows, _DRAWS)}
        if UNSEEN in known:
            known[NEW_TO_IT] = replace(known[UNSEEN], name=NEW_TO_IT)
        own = {one.name for one in made.hypotheses}
        own |= {UNSEEN} if "privacy covers these rows" in own else set()
        given = [one for name, one in known.items() if name in own]
        silent = [
            unproved(one.name, NOBODY)
            for one in made.hypotheses
            if one.name not in {*known, FIXED} and one.by.startswith("the caller of bounds.")
        ]
        return made.resting_on(*given, self.fixed, *silent)


def evidence_of(
    source: Source | None, data: Known, test: Known | None, settings: "Settings"
) -> Evidence:
    """What is known of the bound's rows, of the test set's, and of the choice of settings.

    Raises:
        DataError: copies among them, a test set that shares rows with the bound's or that the prior's maker has seen,
            settings that were chosen on rows of either, or as for :func:`standing`.
    """
    require_plain(data.rows)
    found = (*_everywhere(data), *standing(source, data))
    if test is None:
        return Evidence(bound=found, fixed=settings.standing(data))
    whose = "the test set's rows"
    require_plain(test.rows, name=whose)
    require_apart(test.rows, data.rows, (whose, "the bound's rows"))
    if isinstance(source, Private) and source.rows is not None:
        require_apart(source.rows, test.rows, ("the rows of the privacy claim", whose))
    if source is not None and source.seen is not None:
        _unseen(source.seen, test, "the test set's")
    said = "the caller; row hashes show that the bound's examples are not among them"
    own = (*_everywhere(test), declared(NEW_TO_IT, said))
    return Evidence(bound=found, test=own, fixed=settings.standing(data, test))


def require_comparable(source: Source | None, settings: "Settings", data: Any, test: Any) -> bool:
    """Refuse data of which hashes say nothing, where those that a prior, settings or a test set saw are compared.

    Returns:
        Whether they are compared.

    Raises:
        ValueError: as for :func:`pacdp.certify.loaders.require_steady`.
    """
    seen = None if source is None else source.seen
    rows = [getattr(one, "rows", None) for one in (source, seen)]
    compared = any(one is not None for one in (*rows, settings.elsewhere, test))
    if compared:
        require_steady(data, "data")
        require_steady(test, "test")
    return compared


def summaries(bound: Known, test: Known | None = None, prior: Rows | None = None) -> Values:
    """What a report says of the rows behind it."""
    rows = {"bound": bound.rows, "test": None if test is None else test.rows, "prior": prior}
    return {name: None if one is None else one.summary() for name, one in rows.items()}


def _everywhere(data: Known) -> tuple[Hypothesis, Hypothesis]:
    by = "the caller" if data.people is None else "the data set, which names its people"
    return declared("records independent", by, data.unit), declared(
        "new data follow the same law", "the caller"
    )


def standing(source: Source | None, data: Known) -> tuple[Hypothesis, ...]:
    """What is proved, and what only declared, of a prior's innocence of the bound's examples.

    Raises:
        DataError: a prior without privacy saw examples of the bound, or a privacy claim is about other examples.
        ValueError: nothing says which examples the bound's are, or privacy of examples stands for that of people.
    """
    if source is None or isinstance(source, DataFree):
        by = "the caller" if source is None else f"the caller: {source.description}"
        return (declared(UNSEEN, by),)
    if isinstance(source, NoisySum):
        if source.unit != data.unit:
            raise ValueError(
                f"the bound counts {_PLURAL[data.unit]} and the price was made from what {_PLURAL[source.unit]} added "
                "to the sums: keep the norms of the records that are counted"
            )
        return ()
    found = list[Hypothesis]()
    if (seen := source.seen) is not None:
        new = _unseen(seen, data, "the bound's")
        if new is None and data.indices is None:
            raise ValueError(
                "give data.indices, or the rows that the prior saw: the prior learnt from examples of this data set, "
                "and which ones the bound rests on decides whether it may be used"
            )
        if new is None:
            raise ValueError(
                f"the bound's data ({data.data_hash[:12]}) are not the data that the prior was learnt from "
                f"({seen.data_hash[:12]}), and indices mean nothing there: certify on those, or give the prior's rows"
            )
        found.append(new)
    if isinstance(source, Private):
        if data.unit == "person" and source.unit != "person":
            raise ValueError(
                "the bound's examples belong to people and the promise of privacy is to single examples, which are not "
                "independent: give the privacy of a mechanism that hides people, or a prior from other people"
            )
        covers = declared("privacy covers these rows", "the caller")
        if source.rows is not None:
            claim = source.rows
            require_covers(claim, data.rows)
            if (
                source.unit != "person"
            ):  # to replace one record was to replace all its copies, whoever's
                claim = Rows(examples=claim.examples, inputs=claim.inputs, key_mark=claim.key_mark)
            require_plain(claim, name="the rows of the privacy claim")
            covers = proved("privacy covers these rows", "row hashes")
        found += [covers, declared("noise secret or independent", source.noise)]
    return tuple(found)


def _of_other_people(rows: Rows, data: Known) -> bool:
    """Whether rows that share no example with the data are known to be nobody's whom the data count."""
    return data.rows.owners is None or rows.owners is not None


def _unseen(seen: HeldOut, data: Known, whose: str) -> Hypothesis | None:
    """What shows that these are others than those seen; None where nothing does. DataError where some are the same."""
    if seen.rows is not None:
        saw = "the rows that the network saw" if isinstance(data, Seen) else "the prior's rows"
        require_apart(seen.rows, data.rows, (saw, f"{whose} rows"))
        if not _of_other_people(seen.rows, data):
            said = (
                "the caller, for people: row hashes compare examples, and what it saw names nobody"
            )
            return declared(UNSEEN, said)
        if silent := seen.rows.silent(data.rows):
            return declared(UNSEEN, f"the caller: {silent}")
        return proved(UNSEEN, "row hashes, of all that the caller says it saw")
    other = bool(seen.data_hash and data.data_hash and seen.data_hash != data.data_hash)
    if seen.indices is None or data.indices is None or other:
        return None
    require_disjoint(seen.indices, data.indices, ("what the prior saw", f"{whose} examples"))
    return declared(UNSEEN, "the caller's indices, which are disjoint")


@record
class Settings:
    """How the settings behind a predictor were chosen.

    Attributes:
        count: J, among how many settings the bound's examples may have had a part in choosing. Each certificate is
            made at failure_prob / J, so that those of all J settings hold together.
        hypothesis: "settings fixed beforehand", and by what.
        elsewhere: the hashes of the rows that settings were chosen on, where these are apart from the bound's.
        alone: whether nothing else had a part in choosing them.
    """

    count: int = 1
    hypothesis: Hypothesis
    elsewhere: Rows | None = None
    alone: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 1:
            raise ValueError(
                f"expected a count of settings that is a whole number >= 1, got {self.count!r}"
            )
        require_kinds(self, hypothesis=Hypothesis, elsewhere=Rows | None)
        if self.hypothesis.name != FIXED:
            raise ValueError(f"expected a hypothesis {FIXED!r}, got {self.hypothesis.name!r}")
        paid = f"a list of {self.count} settings"  # by which certificates that are used further know it
        if self.count > 1 and paid not in self.hypothesis.by:
            said = f"{self.hypothesis.by}: {paid}, all paid for, written down after they were tried"
            object.__setattr__(self, "hypothesis", replace(self.hypothesis, by=said))

    @classmethod
    def declared(cls, by: str = WHOEVER) -> "Settings":
        """``by`` vouches that the bound's examples had no part in choosing the settings."""
        return cls(hypothesis=declared(FIXED, by))

    @classmethod
    def tried(cls, count: int, by: str = WHOEVER) -> "Settings":
        """``count`` settings were tried on the bound's examples, and all are paid for; with one, nothing was chosen."""
        if count == 1:
            return cls.declared(by)
        return cls(count=python_number(count), hypothesis=declared(FIXED, by))

    @classmethod
    def chosen_on(cls, rows: Any, by: str = "rows that the bound does not use") -> "Settings":
        """The settings were chosen on these data, or rows, alone; that the bound's are others is proved by hashes."""
        return cls(hypothesis=declared(FIXED, f"chosen on {by}"), elsewhere=rows_of(rows, "rows"))

    def require_pays_for(self, made: bounds.Certificate) -> None:
        """Refuse a certificate that was made at its share of the failure probability of more settings; ValueError."""
        if (count := settings_tried(made.hypotheses)) > self.count:
            raise ValueError(
                f"the surrogate's certificate is one of {count}, each of which may fail: pass settings=Settings.tried("
                f"{count}), by which this one pays for all of them"
            )

    def share(self, failure_prob: float) -> float:
        """failure_prob / J; ValueError where a double has no such number."""
        if self.count > failure_prob * 2.0**1000:
            digits = f"a count of settings of {self.count.bit_length()} bits"
            raise ValueError(f"failure_prob = {failure_prob!r} is too small to be divided by {digits}: give a larger "
                             "one, or fewer settings than 2**1000 times it")  # fmt: skip
        return failure_prob / self.count

    def standing(self, data: Known, test: Known | None = None) -> Hypothesis:
        """The hypothesis, with the rows compared; DataError when the settings were chosen on rows of either set."""
        if self.elsewhere is None:
            return self.hypothesis
        chosen = "the rows that the settings were chosen on"
        require_apart(self.elsewhere, data.rows, (chosen, "the bound's rows"))
        if test is not None:
            require_apart(self.elsewhere, test.rows, (chosen, "the test set's rows"))
        whose = "the bound's" if test is None else "the bound's or the test set's"
        for one in filter(None, (data, test)):
            silent = self.elsewhere.silent(one.rows) or not _of_other_people(self.elsewhere, one)
            if silent or not self.alone or self.count > 1:
                return self.hypothesis
        return proved(FIXED, f"{self.hypothesis.by}; row hashes show that these are not {whose}")
