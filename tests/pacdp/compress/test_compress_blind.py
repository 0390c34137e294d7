"""A learner that looks at records it did not pick is refused, with what gave it away; one that does not, is not."""

from dataclasses import dataclass, replace
from threading import Lock
from typing import ClassVar, Literal

import numpy as np
import torch
from compress_toys import (
    SEEN,
    Nearest,
    Remembering,
    batched,
    closed_over,
    clouds,
    descend,
    estimator,
    global_variable,
    network,
    noisy,
    trained_on_memory,
    trained_on_the_first,
    unseeded,
    written,
)
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as Examples

import pacdp
from pacdp.compress import Estimator, Groups, Looks, Stop, Torch
from pacdp.compress.blind import require_blind, require_replayed
from pacdp.compress.run import Records, Rule, carry_out
from pacdp.trials.writes import Unwritten
from tests.marks import every_case, parametrize, refusal


def ruled(learner, data=None, **stop):
    """A rule for groups of four, and the records that it is for."""
    data = data or clouds()
    rule = Rule(learner=learner, groups=Groups(sizes=(4,)), stop=Stop(**stop), seed=0)
    return rule, Records.of(data.inputs, data.labels, seed=0)


def tried(learner, data=None):
    require_blind(*ruled(learner, data))


DIFFER, DEPENDS = ("two equal runs on the same records differ", "depends on the records beside it in a batch")
PLANTED = {
    "a closure": (lambda: closed_over(clouds()), r"train_network<inputs> of the learner holds 300 records"),
    "a global variable": (lambda: written(global_variable), r"global WHOLE.* of the learner holds 300"),
    "a memory of what was scored": (lambda: written(trained_on_memory, Remembering()), DIFFER),
    "statistics of a batch": (lambda: written(model=batched()), DEPENDS),
    "noise in every pass": (lambda: written(model=noisy()), DEPENDS),
    "random numbers nobody seeded": (lambda: written(unseeded), DIFFER),
}


@every_case("what", PLANTED)
def test_planted_looks_are_caught(what):
    make, said = PLANTED[what]
    with refusal(said, Looks):
        tried(make())
    with refusal(said):
        pacdp.compress(make(), clouds(), groups=4)


class Rows(Examples):
    """Keeps each example by itself, in another form than it is handed on."""

    def __init__(self, data):
        self.rows = [{"at": at / 4.0, "is": int(label)} for at, label in zip(data.inputs, data.labels, strict=True)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, place):
        return torch.from_numpy(self.rows[place]["at"] * 4.0), self.rows[place]["is"]


@every_case("what", ("all labels", "the data set", "its loader"))
def test_training_that_reads_all_labels_or_the_data_set_is_refused(what):
    rows, labels = Rows(clouds()), torch.tensor(clouds().labels)
    loader = DataLoader(rows, 50)
    read = {"all labels": labels, "the data set": rows, "its loader": rows}[what]

    def train(model, inputs, own):
        descend(model, inputs, own, steps=len(read) // 100)

    with refusal("all labels of the sample, or to the data set itself", Looks):
        pacdp.compress(written(train), loader if what == "its loader" else rows, groups=4)


class Hoarding(Torch):
    """Keeps a record of everything it was asked to score, in the state that it hands on."""

    def outputs(self, state, viewed):
        state["hoard"] = viewed[: len(viewed)].clone()
        return super().outputs({name: one for name, one in state.items() if name != "hoard"}, viewed)

    def train(self, state, inputs, labels, *, round, seed):
        known = {name: one for name, one in (state or {}).items() if name != "hoard"}
        return super().train(known or None, inputs, labels, round=round, seed=seed)


def test_a_state_that_holds_other_records_is_refused():
    with refusal(r"records that were not picked|not the same", Looks):
        tried(Hoarding(network=network(), train_network=descend))


def test_a_picked_record_that_was_drawn_more_than_once_is_no_look():
    data = clouds()
    inputs, labels = data.inputs.copy(), data.labels.copy()
    inputs[:5], labels[:5] = (
        inputs[5],
        np.arange(5) % 2,
    )  # some are errors whatever is learnt, and so are picked first
    tried(Estimator(estimator=KNeighborsClassifier(1), classes=3), replace(data, inputs=inputs, labels=labels))


class Counting(Nearest):
    """Stops being itself when it was asked about more records than the trial has."""

    asked = 0

    def predict(self, inputs):
        Counting.asked += 1
        said = super().predict(inputs)
        return said if Counting.asked < 40 else np.roll(said, 1)


class Logging(Nearest):
    """Writes down how many records it was fitted on, once these are more than the trial picks."""

    log: ClassVar[list[int]] = []

    def fit(self, inputs, labels):
        super().fit(inputs, labels)
        self.log.extend([len(labels)] if len(labels) > 12 else [])


LEFT = {
    "SEEN": lambda: written(trained_on_the_first, Remembering()),
    "asked": lambda: estimator(Counting()),
    "log": lambda: estimator(Logging()),
}


@every_case("where", LEFT)
def test_what_all_copies_share_is_left_as_it_was(where):
    """The first run leaves there what every later one finds, the replay too: all of them agree.

    What the trial leaves is said before the run, which may take hours.
    """
    SEEN.clear()
    Counting.asked = -1_000_000
    rounds = []
    with refusal(f"leaves something in .*{where}", Looks):
        pacdp.compress(LEFT[where](), clouds(), groups=4, progress=rounds.append)
    assert bool(rounds) == (where == "log")


@dataclass(frozen=True)
class Named:
    """Refers to `typing`'s words through its annotation, as settings do."""

    name: Literal["a"] = "a"


def test_caches_of_typing_are_no_traces_of_a_learner():
    copied = Unwritten(Named(), around=True)
    assert Literal["a word that nobody", "had used"]
    assert copied.changed() == []


class Late(Nearest):
    """Says how sure it is by the size of the batch, once it has learnt from more records than the trial picks."""

    def decision_function(self, inputs):
        found = 1.0 * (self.predict(inputs)[:, None] == self.classes_)
        return found * len(np.unique(inputs, axis=0)) if len(self.labels) > 12 else found


def test_the_scores_of_the_last_network_are_its_records_own():
    rule, records = ruled(estimator(Late()), no_errors_left=False, rounds=(4,))
    with refusal(DEPENDS, Looks):
        require_replayed(rule, records, carry_out(rule, records), used=rule.learner)


def test_what_the_trial_missed_the_replay_finds():
    rule, records = ruled(estimator(Counting()), no_errors_left=False, rounds=(12,))
    Counting.asked = 0
    trace = carry_out(rule, records)
    Counting.asked = 35
    with refusal("the run on the records that it kept, and on nothing else", Looks):
        require_replayed(rule, records, trace, used=rule.learner)


class Locked(Nearest):
    """A learner that there is no copy of."""

    def __init__(self):
        super().__init__()
        self.lock = Lock()


def test_a_learner_that_has_no_copy_is_refused():
    """One that remembers earlier calls would go through the run once more with what it remembers."""
    with refusal("learner must be something that can be copied, .* make locks, files and generators in train"):
        pacdp.compress(Locked(), clouds(), groups=4)


def test_what_is_certified_does_not_move_with_a_frozen_part_of_the_callers():
    data = clouds(60)
    frozen = PCA(2).fit(data.inputs)
    found = pacdp.compress(make_pipeline(FrozenEstimator(frozen), KNeighborsClassifier(1)), data)
    points = torch.tensor(data.inputs)
    before = found(points)
    frozen.fit(data.inputs[::-1] ** 3 - 5.0)
    assert torch.equal(found(points), before)


@parametrize("learner", ("untaught", "a network", "a frozen estimator", "a fresh estimator"))
def test_what_knows_the_sample_before_it_is_trained_is_remarked_upon(learner):
    """No replay shows it: first weights and frozen parts go through every run."""
    data, made = clouds(120), network()
    if learner == "a network":
        for _ in range(10):
            descend(made, torch.tensor(data.inputs), torch.tensor(data.labels))
    tree = DecisionTreeClassifier(random_state=0)
    own = {
        "a frozen estimator": FrozenEstimator(tree.fit(data.inputs, data.labels)),
        "a fresh estimator": DecisionTreeClassifier(random_state=0),
    }
    found = pacdp.compress(own.get(learner, Torch(network=made, train_network=lambda *_: None)), data, groups=20,
                           stop=Stop(no_errors_left=False, rounds=(2,)))  # fmt: skip
    said = [one for one in found.report.remarks if "before it is trained" in one]
    assert len(said) == (learner in ("a network", "a frozen estimator"))
    (own_word,) = (one.by for one in found.certificate.hypotheses if one.name == "learner saw picked records alone")
    assert "first weights" in own_word
    assert "its first weights too" in found.headline()
