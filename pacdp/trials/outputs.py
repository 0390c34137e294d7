"""Whether an example's outputs, losses and slopes are its own, tried on batches of several sizes and orders."""

import copy
import math
import pickle
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64, Shaped
from torch import Tensor

from pacdp.data.hashing import require_no_mask
from pacdp.losses import Loss
from pacdp.trials.made_up import MOST, SIZES, batches, made_up_labels, pool
from pacdp.trials.reachable import reachable

_OF_OUTPUTS, _OF_LOSSES, _OF_SLOPES = 1e-3, 1e-5, 1e-4
"""Rounding allowed, relative to the outputs' spread, to the interval of the loss, to the largest slope."""
_OF_ANSWERS, _OF_SINGLE, _MOST_OF_SCALE = 1e-6, 1e-4, 1e-3
"""Of a regressor's answer, and of the size at which its errors are clipped."""
_UNITS, _MOST_OF_UNITS, _OF_ITSELF = 16, 2.0**-6, 1e-5
"""Units in the last place of outputs that are rounding too, a fraction that these stay below in half precision, and
what rounding may do to a single number that decides nothing."""
_DECIDES = 60.0
"""Outputs by so much below the largest of their row decide no loss, such as logits of -1e9 that mask a class."""
_LOST = 0.05
"""Rounding of outputs by less hides nothing."""
_SPOTS = 3
"""Examples of each batch that are run once more, by themselves."""


def require_own_outputs(
    run: Callable[[Int64[Tensor, " batch"]], Tensor], *, size: int = MOST, least: float = 0.0
) -> Tensor:
    """Refuse a network in which an example's output depends on the others of its batch, their order or their number.

    Args:
        run: the outputs for a batch of examples, given as places in a :func:`pool` of that size.
        least: outputs count as this large, where smaller ones decide nothing, as losses do.

    Returns:
        The outputs of the pool's first half.

    Raises:
        ValueError: an output moved between batches, or the outputs are no tensor with a row an example.
    """
    expected = _rows(run(torch.arange(size)), size)
    allowed = _rounding(expected, least)
    for places, kept in batches(size):
        found, rows = _rows(run(places), len(places))[kept], places[kept]
        _require_same(found, expected[rows], allowed[rows], rows)
    return expected


def require_alone(
    outputs: Tensor, run: Callable[[Int64[Tensor, " batch"]], Tensor], *, least: float = 0.0
) -> None:
    """Refuse the outputs of a batch of which a few examples by themselves have others.

    Trials before a run are of its first batches. What mixes at other sizes, beyond values that come later or after
    some calls is seen here.

    Args:
        outputs: of the batch.
        run: the outputs for some of its examples, given as places in it.
        least: as for :func:`require_own_outputs`.

    Raises:
        ValueError: an output moved.
    """
    spots = np.linspace(0, len(outputs) - 1, min(_SPOTS, max(1, len(outputs) - 1)))
    rows = torch.from_numpy(spots.round().astype(np.int64))
    found = _rows(run(rows), len(rows))
    _require_same(found, outputs[rows], _rounding(outputs, least)[rows], rows)


def own_answers(
    predictor: Any, answers: Callable[[Any, np.ndarray], Any], n: int, *, scale: float = 0.0
) -> tuple[np.ndarray, Bool[np.ndarray, " n"]]:
    """What an estimator answers for each of n examples, and which of these move with the examples beside them.

    Rounding may move an answer or two in a hundred of those that are asked for together, which count as errors; a batch
    that is scaled or ranked as a whole moves more.

    Args:
        predictor: all are asked of a copy of it, where it has one, and parts of another; it is asked nothing itself.
        answers: of a predictor, for the examples at these places.
        scale: of errors, where answers are numbers, see :func:`same_answers`; 0 where they name classes.

    Raises:
        ValueError: no answer for each example, fractions that name no class, or answers that moved when halves of the
            examples, a few at a time, or single ones were asked for.
    """
    whole, parted = twin(predictor), twin(predictor)

    def asked(one: Any, places: np.ndarray) -> np.ndarray:
        found = answers(one, places)
        require_no_mask(found, "answers of the estimator")
        found = column(found)
        if found.shape[:1] != places.shape:
            raise ValueError(
                f"predict must answer once for each of {len(places)} examples, got an array of shape {found.shape}"
            )
        if not scale and found.dtype.kind == "f" and (found % 1.0 > 0.0).any():
            raise ValueError(
                "predictions must be whole numbers or text, got fractions: give a classifier, and a regressor to "
                "pacdp.CertifiedRegressor"
            )
        return found

    said = asked(whole, np.arange(n))
    order = np.random.default_rng(0).permutation(n)
    moved = np.zeros(n, dtype=np.bool_)
    few = [part for part in np.split(order, np.cumsum(SIZES))[:-1] if len(part)]
    for parts in (np.array_split(order, min(2, n)), few, order[:MOST, None]):
        places = np.concatenate(parts)
        found = np.concatenate([asked(parted, part) for part in parts])
        others = ~same_answers(found, said[places], scale=scale)
        moved[places] |= others
        if others.sum() > max(1, len(places) // 50):
            raise ValueError(
                "what the estimator answers for an example depends on the examples beside it, or on random numbers or "
                "calls before: scale and rank by what fit saw, not by the batch, and compute in double precision"
            )
    return said, moved


def same_answers(found: np.ndarray, own: np.ndarray, *, scale: float) -> Bool[np.ndarray, " n"]:
    """Which answers, of a row each, are the same up to rounding.

    A millionth of ``scale``, the size at which errors are clipped, is rounding, of answers in single precision a
    ten-thousandth; and so is a millionth of the answer while it is below a thousandth of ``scale``: of answers far from
    zero it may exceed every error. Names of classes, whose scale is 0, are the same or not.
    """
    same: Any = found == own
    if found.shape == own.shape and found.dtype.kind == own.dtype.kind == "f":
        sizes = np.fmin(_OF_ANSWERS * np.abs(own.astype(np.float64)), _MOST_OF_SCALE * scale)
        least = _OF_ANSWERS if own.dtype == np.float64 else _OF_SINGLE
        same = np.isclose(found, own, 0.0, sizes + least * scale, equal_nan=True)
    same = np.asarray(same) if np.shape(same) == own.shape else np.zeros(own.shape, np.bool_)
    return same.reshape(len(own), -1).all(axis=1)


def later_answers(found: Any, before: np.ndarray, why: str, *, scale: float = 0.0) -> np.ndarray:
    """Which answers to the same examples, asked for once more, are others than before.

    Raises:
        ValueError: more than one, or one in five hundred, which rounding may move; the sentence is ``why``.
    """
    others = ~same_answers(column(found), before, scale=scale)
    if others.sum() > max(1, len(others) // 500):
        raise ValueError(why)
    return others


def twin(predictor: Any) -> Any:
    """A copy, which may be asked what the predictor is not to remember; itself where it has none.

    Tensors of a graph, as a module may keep of its last batch in training, are copied as numbers.
    """
    with suppress(Exception):  # not all can be copied
        return copy.deepcopy(predictor)
    with suppress(Exception):
        tensors = (one for _, one in reachable(predictor, around=False) if isinstance(one, Tensor))
        memo = {id(one): one.detach().clone() for one in tensors if not one.is_leaf}
        return copy.deepcopy(predictor, memo)
    return predictor


def own_rows(rows: Any) -> Any:
    """Some rows of an array, tensor, data frame, sparse matrix or list in memory of their own, to be written on.

    All rows in their order share pandas' memory, and cells that are arrays are references in any copy.
    """
    if hasattr(rows, "iloc"):
        with suppress(Exception):
            if object in np.ravel(rows.dtypes):
                return pickle.loads(pickle.dumps(rows))  # noqa: S301 - what was pickled here
        return rows.copy()
    if isinstance(rows, list | tuple):
        return [twin(one) for one in rows]
    return twin(rows) if getattr(rows, "dtype", None) == np.dtype(object) else rows


def settle(predictor: Any, learnt: Any) -> None:
    """Ask a predictor that has no copy what it says of inputs it learnt from, since it may keep what it is asked first.

    What it keeps is then of no example that is counted.
    """
    if twin(predictor) is predictor:
        predictor.predict(learnt)


def column(values: Any) -> np.ndarray:
    """A copy of an array, which the next answers may overwrite, or of one column of a table as a column.

    Raises:
        ValueError: NumPy takes no array of these, such as of a tensor with a gradient.
    """
    try:
        array = np.asarray(values).copy()
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"predict must answer with what NumPy takes for an array, got {type(values).__name__}: {error}"
        ) from error
    return array.ravel() if array.shape[1:] == (1,) else array


def _rounding(outputs: Tensor, least: float) -> Shaped[Tensor, "n numbers"]:
    """How far rounding may move each number; by what differs within rows, among the numbers that decide.

    One far example hides no other's move, and one far number no other's in its row.

    Raises:
        ValueError: rounding hides what differs, in every row.
    """
    flat = outputs.reshape(len(outputs), -1)
    if not flat.numel():
        return torch.zeros_like(flat)
    finite = torch.where(flat.isfinite(), flat, 0.0)
    largest = torch.where(flat.isfinite(), flat, -math.inf).amax(dim=1, keepdim=True)
    near = flat.isfinite() & (flat >= largest - _DECIDES)
    sizes = torch.where(near, finite.abs(), 0.0).amax(dim=1)
    if flat.shape[1] == 1:
        spreads = sizes
    else:
        least_near = torch.where(near, flat, math.inf).amin(dim=1)
        whole = finite.amax(dim=1) - finite.amin(dim=1)
        spreads = torch.where(near.sum(dim=1) > 1, largest[:, 0] - least_near, whole) / 2
    sizes, spreads = (one.clamp(min=one.median()) for one in (sizes, spreads))
    of_sizes = min(_UNITS * torch.finfo(flat.dtype).eps, _MOST_OF_UNITS) * sizes
    if bool((of_sizes > (least + spreads / 8).clamp(min=_LOST)).all()):
        raise ValueError(
            f"the network's outputs, about {float(sizes.median()):.2g}, are so far from zero that rounding hides what "
            "tells them apart, and whether examples of a batch decide it: subtract their common part"
        )
    if flat.shape[1] > 1:
        spreads = spreads.clamp(max=_DECIDES / 2)
    of_row = (_OF_OUTPUTS * (least + spreads) + of_sizes)[:, None]
    return of_row + torch.where(near, 0.0, _OF_ITSELF * finite.abs())


def _require_same(
    found: Tensor, own: Tensor, allowed: Shaped[Tensor, "n numbers"], rows: Int64[Tensor, " n"]
) -> None:
    found, own = (one.reshape(len(rows), -1) for one in (found, own))
    same = (found == own) | (found.isnan() & own.isnan()) | ((found - own).abs() <= allowed)
    if not bool(same.all()):
        which = int(rows[~same.all(dim=1).cpu()][0])
        raise ValueError(
            f"output {which} of the network depends on the other examples of its batch, or on random numbers or "
            "calls besides the weights: no example has a loss of its own (nn.TransformerEncoder under a padding mask "
            "cuts rows at the longest: pass enable_nested_tensor=False; dynamic quantisation scales by the batch: pass "
            "lambda x: torch.cat([network(one[None]) for one in x]); a loss= of outputs [n, 1] less labels [n] "
            "pairs all with all: drop the axis of one)"
        )


def _rows(outputs: Tensor, size: int) -> Tensor:
    if not isinstance(outputs, Tensor) or outputs.shape[:1] != (size,):
        found = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise ValueError(
            f"the network must return one row of outputs an example, got {found} for a batch of {size}, so that no "
            "example has a loss of its own: return the tensor of logits alone, with the axis of examples"
        )
    return outputs.detach().clone()  # which the next run may overwrite


def require_own_losses(
    loss: Loss, outputs: Float[Tensor, "n ..."], labels: Int64[Tensor, " m"], *, size: int = MOST
) -> None:
    """Refuse a loss in which an example's value depends on the others of its batch or on their labels.

    Weights by how often a class occurs, the hardest examples of a batch, pairs: with any of them the sum is no mean of
    independent terms.

    Args:
        outputs: of some examples.
        labels: of all examples; which values occur is what matters.
        size: of the largest batch.

    Raises:
        ValueError: a loss moved between batches, or as for a call of the loss.
    """
    both = pool(outputs, size=size)
    slack = _OF_LOSSES * max(1.0, loss.oscillation)
    for own in made_up_labels(labels, len(both)):
        expected = loss(both[:size], own[:size])
        for places, kept in batches(size):
            found = loss(both[places], own[places])[kept]
            own_of = expected[places[kept]].double()
            if not torch.allclose(found.double(), own_of, rtol=0.0, atol=slack, equal_nan=True):
                raise ValueError(
                    f"loss {loss.name} of an example depends on the other examples of its batch or on their labels: "
                    "write it as a function of one example's outputs and label"
                )


def require_true_slope(
    loss: Loss, outputs: Float[Tensor, "n ..."], labels: Int64[Tensor, " m"]
) -> None:
    """Refuse a loss whose compiled form has another mean, error or gradient than its function has.

    Raises:
        ValueError: they differ beyond rounding.
    """
    if loss.compiled is None or outputs.device.type != "cpu":
        return
    outputs = outputs[:MOST].detach()
    for own in made_up_labels(labels, len(outputs)):
        mean, error, slope = loss.slope(outputs, own)
        by_function = replace(loss, compiled=None).slope(outputs, own)
        scale = float(by_function[2].abs().max())
        if not (
            abs(mean - by_function[0]) <= _OF_LOSSES * max(1.0, loss.oscillation)
            and error == by_function[1]
            and torch.allclose(
                slope,
                by_function[2],
                rtol=0.0,
                atol=_OF_SLOPES * max(scale, 0.01 * loss.oscillation),
            )
        ):
            raise ValueError(
                f"the compiled form of loss {loss.name} differs from its function: pass compiled=None, which leaves "
                "the derivative to autograd"
            )
