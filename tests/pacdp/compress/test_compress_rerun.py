"""The checker's own loop, with the learner given, makes every learner's run again: examples, people, one logit."""

from dataclasses import replace

from compress_toys import LEARNERS, clouds, estimator

import pacdp
from pacdp.compress import Groups, Stop
from pacdp.verify.claim import CANNOT, DOES_NOT, FOLLOWS
from pacdp.verify.examples import Examples
from pacdp.verify.files import read_checkpoint
from pacdp.verify.rerun import rerun
from tests.marks import parametrize

CASES = {
    "kernel": (LEARNERS["kernel"], clouds(), Stop()),
    "entropy-sgd": (LEARNERS["entropy-sgd"], clouds(), Stop(rounds=(6, 9))),
    "one logit": (replace(LEARNERS["adam"], classes=2), clouds(classes=2), Stop(rounds=(8,))),
    "people": (LEARNERS["kernel"], clouds(people=60), Stop(rounds=(9,))),
    "estimator": (estimator(), clouds(), Stop(rounds=(9,))),
}


def verdicts(tmp_path, name, learner=None, labels=None):
    own, data, stop = CASES[name]
    file = tmp_path / "k.safetensors"
    if not file.exists():
        groups = Groups(sizes=(6, 3), starts=(0, 12))
        pacdp.compress(own, data, groups=groups, stop=stop, seed=4, tolerance=0.25 if data.people is not None else 0.0,
                       file=file, about={"kind": "compression/1", "seed": 4, "run": {}})  # fmt: skip
    labels = data.labels if labels is None else labels
    found = rerun(read_checkpoint(file), learner or own, Examples(data.inputs, labels, data.people))
    return [one.verdict for one in found]


@parametrize("name", CASES)
def test_every_kind_of_run_is_made_again(tmp_path, name):
    kept = CANNOT if name == "estimator" else FOLLOWS  # whose file holds no network
    assert verdicts(tmp_path, name) == [kept, FOLLOWS]


@parametrize("name", ["kernel", "one logit", "people"])
def test_another_learner_or_other_labels_do_not_follow(tmp_path, name):
    own, data, _ = CASES[name]
    changed = {"ridge": 0.5} if hasattr(own, "ridge") else {"learning_rate": 0.03}
    assert verdicts(tmp_path, name)[0] == FOLLOWS
    assert verdicts(tmp_path, name, learner=replace(own, **changed))[0] == DOES_NOT
    assert verdicts(tmp_path, name, labels=(data.labels + 1) % data.classes)[0] == DOES_NOT
