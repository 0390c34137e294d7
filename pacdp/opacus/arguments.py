"""Opacus's arguments: what this engine takes, what it chooses itself, and what would break its account."""

import math
from typing import Any, Literal, NamedTuple

import numpy as np
from opacus.utils.uniform_sampler import UniformWithReplacementSampler
from torch import Tensor, nn, optim
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    RandomSampler,
    SequentialSampler,
)

from bounds import _check
from pacdp.errors import require_finite, require_fraction
from pacdp.opacus.accountant import NAME
from pacdp.step.mechanism import (
    GradSampleMode,
    QuantileClipping,
    require_clipping,
    require_mode,
)
from pacdp.step.units import size

PUBLIC_SIZE = (
    "sample_rate is one over the number of batches of data_loader, so that the number of examples is public: epsilon "
    "is for replace-one neighbours; give sample_rate=, a number that you do not compute from the data, to have it for "
    "add-remove neighbours"
)
_CHOSEN_BY_ITSELF = ("hooks", "functorch", "ew")
"""Opacus's other ways to a clipped sum, of the same value."""
SAMPLING = ("data_loader", "dataset", "sample_rate", "expected_batch_size", "steps")
"""Arguments of :func:`sampling_of`, in its order."""
_LOADING = ("dataset", "collate_fn", "num_workers", "pin_memory", "worker_init_fn")
_AS_OURS = (NAME, "prv", "rdp")
_ONLY = {
    "poisson_sampling": (
        True,
        "no theorem here covers a shuffled list or batches of a fixed size, in which the places of examples depend on "
        "each other: leave it out, and take the loader that is returned; PrivateEngine(sampling='once-an-epoch') meets "
        "each example exactly once an epoch",
    ),
    "batch_first": (
        True,
        "examples are told apart along the first dimension: let the network take its inputs so, and transpose inside",
    ),
    "noise_generator": (
        None,
        "noise is the system's: give PrivateEngine(randomness=SeededRandomness(seed)) for a test",
    ),
    "wrap_model": (True, "the loop calls the module that make_private returns: leave it out"),
    "rand_on_empty": (
        False,
        "a made-up example in place of an empty batch moves the sum by up to 2 max_grad_norm: leave it out, an empty "
        "batch is a step with noise alone",
    ),
}


Drawn = Literal["poisson", "once-an-epoch"]
"""Each example is in every batch by a coin of its own, or in exactly one batch of every pass."""


class Sampling(NamedTuple):
    """How batches are drawn and loaded, and what their sums are divided by."""

    loading: dict[str, Any]
    """Data set, sample rate, batches of one pass, collate function and workers."""
    expected_batch_size: float
    public_size: bool
    """Whether the rate tells the number of examples."""


def sampling_of(
    data_loader: DataLoader[Any] | None,
    dataset: Dataset[Any] | None,
    sample_rate: float | None,
    expected_batch_size: float | None,
    steps: int | None,
    *,
    drawn: Drawn = "poisson",
) -> Sampling:
    """What the caller says, and for the rest what a loader implies: one pass of it meets each example once on average.

    The divisor is the batch size that the loader was given, and no function of the number of examples. With
    "once-an-epoch" one pass meets each example exactly once, and the rate is one over its batches.

    Raises:
        ValueError: a loader and a data set, neither, or a number that nothing says or that is out of range.
    """
    if (dataset is None) == (data_loader is None):
        raise ValueError("give either dataset or data_loader")
    counted, loading = sample_rate is None, {"dataset": dataset}
    if drawn == "once-an-epoch":
        if sample_rate is not None:
            raise ValueError(
                f"sample_rate is for Poisson batches, got {sample_rate!r}: once an epoch an example is in one of as "
                "many batches as steps= says"
            )
        if steps is not None:
            _check.count(steps=steps)
            counted, sample_rate = False, 1.0 / steps
    if isinstance(dataset, DataLoader):
        raise ValueError("dataset is a DataLoader: give it as data_loader=")
    if isinstance(dataset, Tensor | np.ndarray):
        raise ValueError(
            f"dataset is a {type(dataset).__name__}, whose rows have no targets: give TensorDataset(inputs, targets), "
            "or TensorDataset(inputs) where a loss needs none"
        )
    if data_loader is not None:
        _require_whole(data_loader)
        loading = {name: getattr(data_loader, name) for name in _LOADING}
        if sample_rate is None:
            steps = len(data_loader) if steps is None else steps
            sample_rate = 1.0 / max(1, len(data_loader))
        if expected_batch_size is None:
            expected_batch_size = data_loader.batch_size
    if sample_rate is None or expected_batch_size is None:
        raise ValueError(
            "give sample_rate= (once an epoch: steps=) and expected_batch_size=, two public numbers, or a data_loader "
            "that has a batch_size, as one that make_private returned has not: build module, optimizer and loader anew"
        )
    require_finite(expected_batch_size=expected_batch_size)
    require_fraction(sample_rate=sample_rate)
    sample_rate = float(sample_rate)
    steps = math.ceil(1.0 / sample_rate) if steps is None else steps
    _check.count(steps=steps)
    loading |= {"sample_rate": sample_rate, "steps": steps}
    return Sampling(loading, float(expected_batch_size), counted)


def _require_whole(data_loader: DataLoader[Any]) -> None:
    """Refuse a loader whose sampler leaves out examples or prefers some, which Poisson batches of all would not."""
    if not isinstance(data_loader, DataLoader):
        raise ValueError(
            f"data_loader must be a DataLoader, got a {type(data_loader).__name__}: give a data set as dataset="
        )
    n = size(data_loader.dataset)
    drawn, batches = data_loader.sampler, data_loader.batch_sampler
    if batches is None:
        raise ValueError(
            "data_loader has batch_size=None, and puts no examples together: give it a batch_size, and a data set of "
            "single examples"
        )
    if len(data_loader) == 0:
        raise ValueError(
            f"data_loader has no batch, since drop_last=True leaves out all of its {n} examples: leave it out"
        )
    once = type(drawn) is SequentialSampler or (
        type(drawn) is RandomSampler and not drawn.replacement and drawn.num_samples == n
    )
    if (type(batches) is BatchSampler and once) or isinstance(
        batches, UniformWithReplacementSampler
    ):
        return
    name = type(batches if once else drawn).__name__
    raise ValueError(
        f"data_loader has a {name}, which batches of this engine do not follow: each example of the data set is in "
        "them at the same rate; give the examples to train on as a data set of their own, such as "
        "torch.utils.data.Subset(dataset, indices)"
    )


def require_kinds(module: object, optimizer: object, data_free_gradient: object) -> None:
    """Refuse, by raising ValueError, what is no module, no function and no optimizer, or one that needs a closure."""
    if not isinstance(module, nn.Module):
        raise ValueError(f"module must be a torch.nn.Module, got a {type(module).__name__}")
    if not isinstance(optimizer, optim.Optimizer):
        raise ValueError(
            f"optimizer must be a torch.optim.Optimizer, got a {type(optimizer).__name__}"
        )
    if not (data_free_gradient is None or callable(data_free_gradient)):
        raise ValueError(
            "data_free_gradient must be a function without arguments that adds to p.grad, got a "
            f"{type(data_free_gradient).__name__}"
        )
    if isinstance(optimizer, optim.LBFGS):
        raise ValueError(
            "LBFGS looks at a batch several times in one step, for which one price is paid: take another optimizer"
        )
    if isinstance(optimizer, optim.SparseAdam):
        raise ValueError(
            "SparseAdam takes sparse gradients, and noise is dense: take torch.optim.Adam"
        )


def require_sound(arguments: dict[str, Any]) -> None:
    """Refuse what the account would not hold for.

    Raises:
        ValueError: an argument of Opacus's at another value than the only one that is sound here.
        TypeError: no argument of Opacus's or of ours.
    """
    for name, value in arguments.items():
        if name not in _ONLY:
            raise TypeError(f"make_private takes no argument {name!r}")
        only, why = _ONLY[name]
        if value != only:
            raise ValueError(f"{name} must be {only!r}, got {value!r}: {why}")


def require_rule(clipping: object) -> None:
    """Refuse clipping that is none of an engine's, by raising ValueError."""
    if clipping == "adaptive" or isinstance(clipping, QuantileClipping):
        raise ValueError(
            "a clip norm that adapts is for pacdp.private.train, whose steps account for the noisy count: give its "
            "Mechanism clipping=QuantileClipping(...), and a loop of one's own clipping='flat' or 'automatic'"
        )
    require_clipping(clipping)


def require_accountant(name: str) -> None:
    """Refuse an accountant whose number is no bound; the others of Opacus estimate what ours proves."""
    if name not in _AS_OURS:
        raise ValueError(
            f"accountant must be one of {', '.join(_AS_OURS)}, which all mean pacdp's own, got {name!r}: a Gaussian "
            "limit ('gdp') may lie below the truth"
        )


def mode_of(asked: str | None) -> GradSampleMode | None:
    """Which way to a clipped sum is asked for, None for the engine's own choice."""
    mode = None if asked in _CHOSEN_BY_ITSELF else asked
    require_mode(mode)
    return mode  # pyright: ignore[reportReturnType]
