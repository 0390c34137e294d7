"""How often certificates fail when examples come in groups: people of three data sets, drawn again and again.

A quick predictor learns from the training people. The test people are then taken for the whole population, so that the
risks are known; as many people as there are are drawn from it with replacement, and every bound is asked at 0.05.
The exact bound that counts examples as independent is compared with those that count people.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

import bounds
from benchmarks.timing import publish
from bounds import PeopleSample, people_sample
from pacdp.data import load

FAILURE_PROB = 0.05
TRIALS = 2000
AS_EXAMPLES = "clopper_pearson of examples"
Bounds = Mapping[str, Callable[..., Any]]


def contrasts(images: np.ndarray) -> np.ndarray:
    """Of a cell: how dark its darkest spots are, how sharp its edges, how large it is."""
    cells = images[:, 0]
    blocks = cells.reshape(len(cells), 25, 2, 25, 2).mean((2, 4))
    inside = np.ma.masked_equal(cells.reshape(len(cells), -1), 0.0)
    usual = np.asarray(np.ma.median(inside, axis=1).filled(0.0))[:, None]
    spots = np.sort(blocks[:, 4:21, 4:21].reshape(len(cells), -1) - usual, axis=1)
    edges = [
        np.sort(np.abs(np.diff(blocks, axis=axis))[:, 4:20, 4:20].reshape(len(cells), -1), axis=1)
        for axis in (1, 2)
    ]
    sharp = [edge[:, [-1, -5, -15, -40]] for edge in edges]
    return np.concatenate([spots[:, [0, 1, 3, 6, 12, 25, 50, 100, 200, -1]], *sharp, usual], axis=1)


def coarse(images: np.ndarray, side: int) -> np.ndarray:
    """Means over squares of pixels, ``side`` of them in a row."""
    n, width = len(images), images.shape[-1] // side
    return images[:, 0].reshape(n, side, width, side, width).mean((2, 4)).reshape(n, -1)


PREDICTORS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], Any]] = {
    "malaria": (contrasts, HistGradientBoostingClassifier(max_iter=60, random_state=0)),
    "mnist-writers": (partial(coarse, side=14), LogisticRegression(C=0.1, max_iter=100)),
    "xrays": (
        partial(coarse, side=16),
        HistGradientBoostingClassifier(max_iter=40, random_state=0),
    ),
}


def losses_of(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """0-1 losses on the test people of a predictor that met the training people alone, and both sets' people."""
    train, test = load(name)
    assert train.people is not None
    assert test.people is not None
    features, model = PREDICTORS[name]
    seen, new = features(train.inputs), features(test.inputs)
    centre, spread = seen.mean(axis=0), seen.std(axis=0) + 1e-3
    picked = np.random.default_rng(0).permutation(len(seen))[:25_000]
    model.fit((seen[picked] - centre) / spread, train.labels[picked])
    losses = (model.predict((new - centre) / spread) != test.labels).astype(np.float64)
    return losses, test.people, train.people


def as_examples(*, sample: PeopleSample, failure_prob: float) -> float:
    errors = round(float(sample.sums.sum()))
    return bounds.clopper_pearson_upper(errors, sample.examples, failure_prob)


def new_example_kl(*, most_examples: int, sample: PeopleSample, failure_prob: float) -> Any:
    return bounds.new_example_kl(
        risk=sample.example_risk, n=sample.n, examples=sample.examples, most_examples=most_examples,
        failure_prob=failure_prob,
    )  # fmt: skip


def tried(people: PeopleSample, truth: float, asked: Bounds) -> dict[str, Any]:
    """How often each bound lies below the truth when people are drawn with replacement, and its value for them all."""
    rng, found = np.random.default_rng(0), dict[str, Any](risk=truth)
    drawn = [rng.integers(people.n, size=people.n) for _ in range(TRIALS)]
    samples = [PeopleSample(sizes=people.sizes[own], sums=people.sums[own]) for own in drawn]
    for name, bound in {AS_EXAMPLES: as_examples, **asked}.items():
        values = [float(bound(sample=one, failure_prob=FAILURE_PROB)) for one in (people, *samples)]
        found[name] = {
            "missed": float(np.mean(np.array(values[1:]) < truth)),
            "value on the test people": values[0],
        }
    return found


def of_an_example(people: PeopleSample, most: int) -> dict[str, Any]:
    """The risk of a new example, where nobody may have more than ``most``."""
    truth = float(people.sums.sum() / people.examples)
    asked = {
        "new_example_betting": partial(bounds.new_example_betting, most_examples=most),
        "new_example_kl": partial(new_example_kl, most_examples=most),
    }
    return {"most": most, **tried(people, truth, asked)}


def experiment(name: str) -> dict[str, Any]:
    """One data set: the risk of a new person, of a new example, and of one when people keep fewer examples."""
    began = time.process_time()
    losses, owners, others = losses_of(name)
    people = people_sample(losses=losses, people=owners)
    sizes = np.unique(others, return_counts=True)[1]
    most = int(sizes.max())  # people who do not count say how many examples anyone may have
    few = min(most, int(np.ceil(2 * sizes.mean())))
    kept = bounds.thinned(people=owners, most_examples=few, seed=0)
    thin = people_sample(losses=losses[kept], people=owners[kept])
    kinds = ("new_person_kl", "new_person_betting")
    of_a_person = {kind: getattr(bounds, kind) for kind in kinds}
    return {
        "people": people.n,
        "examples": people.examples,
        "examples of one person": [people.smallest, people.largest],
        "new person": tried(people, float(np.mean(people.sums / people.sizes)), of_a_person),
        "new example": of_an_example(people, most),
        "new example, thinned": of_an_example(thin, few),
        "processor seconds": round(time.process_time() - began, 1),
    }


def main() -> None:
    publish("people_coverage", {name: experiment(name) for name in PREDICTORS})


if __name__ == "__main__":
    main()
