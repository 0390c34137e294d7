"""A compression once more: a learner is run on the records that were kept, and on no others, by this loop.

Each round takes, of the records left, the worst under the network so far: by the share of their examples in error and
their mean margin, or the margin where each has one; ties by numbers of the seed. Picks and network must be those of the
file, bit for bit, and the network must err on the records listed and on no other that was not picked.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from pacdp.verify.claim import Statement, Unchecked, Wrong, judged
from pacdp.verify.compressed import whole
from pacdp.verify.files import Stored

_BATCH = 1000
"""Records whose outputs are computed at once: a sum's last bit may depend on it."""


class _Data(NamedTuple):
    """Examples, their places record by record, and where each record's begin."""

    inputs: np.ndarray
    labels: np.ndarray
    order: np.ndarray
    ends: np.ndarray


def is_learner(thing: Any) -> bool:
    """Whether it can be trained, and not only asked for outputs."""
    return all(callable(getattr(thing, name, None)) for name in ("view", "train", "outputs"))


def rerun(stored: Stored, learner: Any, inputs: Any, labels: Any, people: Any = None) -> list[Statement]:
    """Statements on the run and on the errors that it left."""
    owner = np.arange(len(labels)) if people is None else np.unique(people, return_inverse=True)[1]
    order, header = np.argsort(owner, kind="stable"), stored.header
    ends = np.searchsorted(owner[order], np.arange(int(owner.max()) + 2))
    data = _Data(np.asarray(inputs), np.asarray(labels), order, ends)
    picks, errors, rounds = whole(stored, "picks"), whole(stored, "errors"), whole(stored, "rounds").reshape(-1, 4)
    best, seed, tolerance = header["compression"]["best"], header["seed"], header["tolerance"]
    ties = np.random.default_rng([seed, 0]).random(len(ends) - 1)
    states: list[Any] = []

    def run() -> None:
        if not best or header["run"].get("start_size"):
            raise Unchecked("no round was reported, or the state of a head start is not in the folder")
        made, state = np.array([], dtype=np.int64), None
        kept = np.union1d(picks[: rounds[best - 1, 1]], errors)
        for number, until in enumerate(rounds[:best, 1].tolist(), start=1):
            left = np.setdiff1d(kept, made)
            keys = [np.zeros(len(left))] * 2 if state is None else _scores(learner, state, data, left)
            made = np.append(
                made, left[np.lexsort((ties[left], *(-key for key in reversed(keys))))][: until - len(made)]
            )
            if not np.array_equal(made, picks[:until]):
                raise Wrong(f"round {number} of the run on the {len(kept)} records kept picks others")
            state = learner.train(state, *_examples(data, made), round=number, seed=seed)
        states.append(state)
        _require_stored(stored, state)

    def left_over() -> None:
        if not states:
            raise Unchecked("the network could not be made again")
        rest = np.setdiff1d(np.arange(len(ties)), picks[: rounds[best - 1, 1]])
        share = _scores(learner, states[0], data, rest)[0 if people is not None else 2]
        if not np.array_equal(rest[share > (tolerance if people is not None else 0.0)], np.sort(errors)):
            raise Wrong("the network errs on other records than those listed")

    return [judged("recount", "run on the records kept", run), judged("recount", "errors left", left_over)]


def _examples(data: _Data, records: np.ndarray) -> Iterator[Any]:
    """Inputs and labels, record by record in the order given."""
    import torch

    places = np.concatenate([data.order[data.ends[one] : data.ends[one + 1]] for one in records])
    return (torch.from_numpy(np.array(part[places])) for part in data[:2])


def _scores(learner: Any, state: Any, data: _Data, records: np.ndarray) -> list[np.ndarray]:
    """What ranks records, the worse the larger, first and second; of single examples also which are in error."""
    import torch

    inputs, labels = _examples(data, records)
    viewed = learner.view(inputs)
    filled = torch.cat([viewed, viewed.new_zeros(-len(viewed) % _BATCH, *viewed.shape[1:])]).split(_BATCH)
    outputs = torch.cat([learner.outputs(state, part) for part in filled])[: len(inputs)].detach().numpy()
    if outputs.ndim == 1 or outputs.shape[1] == 1:
        margin = outputs.reshape(-1) * (2 * labels.numpy() - 1)
    else:
        rows = np.arange(len(outputs)), labels.numpy()
        own = outputs[rows].copy()
        outputs[rows] = -np.inf
        margin = own - outputs.max(axis=1)
    margin = np.where(np.isnan(margin), -np.inf, margin).astype(np.float64)
    wrong = (~(margin > 0)).astype(np.float64)
    sizes = np.diff(data.ends)[records]
    if len(data.order) == len(data.ends) - 1:
        return [-margin, np.zeros(len(records)), wrong]
    of = np.repeat(np.arange(len(records)), sizes)
    return [np.bincount(of, weights=each) / sizes for each in (wrong, np.clip(-margin, -1e6, 1e6))]


def _require_stored(stored: Stored, state: Any) -> None:
    """The tensors are those of the file; of a learner without tensors nothing is kept to be compared."""
    if not isinstance(state, Mapping):
        raise Unchecked("the learner's state is no table of tensors, so that the file does not hold it")
    for name, one in state.items():
        if one.contiguous().numpy().tobytes() != stored.tensors[f"model.{name}"][2]:
            raise Wrong(f"the tensor {name!r} of the network is not the file's, bit for bit")
