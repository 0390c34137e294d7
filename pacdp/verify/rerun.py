"""A compression once more: a learner is run on the records that were kept, and on no others, by this loop.

Each round takes, of the records left, the worst under the network so far: by the share of their examples in error and
their mean margin, or the margin where each has one; ties by numbers of the seed. Picks and network must be those of the
file, bit for bit, and the network must err on the records listed and on no other that was not picked.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy import ndarray

from pacdp.verify.claim import Statement, Unchecked, judged, require
from pacdp.verify.compressed import rounds_of
from pacdp.verify.examples import Examples, margins
from pacdp.verify.files import Stored
from pacdp.verify.given import with_given

_BATCH = 1000
"""Records whose outputs are computed at once: a sum's last bit may depend on it."""


def is_learner(thing: Any) -> bool:
    """Whether it can be trained, and not only asked for outputs."""
    names = ("view", "train", "outputs")
    return all(
        callable(getattr(thing, name, None)) for name in names
    )


def rerun(
    stored: Stored, learner: Any, data: Examples
) -> list[Statement]:
    """Statements on the run and on the errors that it left."""
    again = Rerun(stored, learner, data)
    checks = {
        "run on the records kept": again.run,
        "errors left": again.check_errors,
    }
    return judged("recount", with_given(checks))


class Rerun:
    """A learner and the records that the checkpoint kept; the state is that of the learner after the last round."""

    state: Any = None

    def __init__(
        self, stored: Stored, learner: Any, data: Examples
    ) -> None:
        self.stored = stored
        self.learner = learner
        self.data = data
        self.grouped = data.people is not None
        best = stored.header.compression.best
        self.rounds = rounds_of(stored)[:best]
        self.errors = stored.numbers("state.errors")
        ends = [0, *(one.picked for one in self.rounds)]
        self.picks = stored.numbers("state.picks")[: ends[-1]]
        seeded = np.random.default_rng([stored.header.seed, 0])
        self.ties = seeded.random(data.count)

    def run(self) -> None:
        """Each round picks what the file lists, and the last network is the file's, where its state is of tensors."""
        header = self.stored.header
        if not header.compression.best or header.run["start_size"]:
            raise Unchecked(
                "no round was reported, or the state of a head start is not in the folder"
            )
        kept = np.union1d(self.picks, self.errors)
        made = self.picks[:0]
        state = None
        for one in self.rounds:
            worst = self._worst_first(
                state, np.setdiff1d(kept, made)
            )
            made = np.append(made, worst[: one.picked - len(made)])
            require(
                np.array_equal(made, self.picks[: one.picked]),
                f"round {one.number} on the {len(kept)} records kept picks others, or --data has another order",
            )
            inputs, labels, _ = self.data.of(made)
            how = {"round": one.number, "seed": header.seed}
            state = self.learner.train(state, inputs, labels, **how)
        self.state = state
        if not isinstance(state, Mapping):
            raise Unchecked(
                "the learner's state is no table of tensors, so that the file does not hold it"
            )
        for name, tensor in state.items():
            own = tensor.contiguous().numpy().tobytes()
            said = self.stored.tensors[f"model.{name}"].content
            why = f"the tensor {name!r} of the network is not the file's, bit for bit"
            require(own == said, why)

    def _worst_first(self, state: Any, left: ndarray) -> ndarray:
        """Records by the share of their examples in error, then by their mean margin, then by their numbers."""
        keys = [self.ties[left]]
        if state is not None:
            margin, share = self._scores(state, left)
            keys += [margin, -share][: 1 + self.grouped]
        return left[np.lexsort(keys)]

    def _scores(
        self, state: Any, records: ndarray
    ) -> tuple[ndarray, ndarray]:
        """The mean margin over the examples of each record, and the share of them in error."""
        import torch

        inputs, labels, of = self.data.of(records)
        viewed = self.learner.view(inputs)
        rest = -len(viewed) % _BATCH
        missing = viewed.new_zeros(rest, *viewed.shape[1:])
        parts = torch.cat([viewed, missing]).split(_BATCH)
        outputs = [
            self.learner.outputs(state, part) for part in parts
        ]
        found = torch.cat(outputs)[: len(inputs)].detach().numpy()
        margin = margins(found, labels.numpy()).astype(np.float64)
        margin = np.where(np.isnan(margin), -np.inf, margin)
        wrong = 1.0 - (margin > 0)
        if self.grouped:
            capped = np.clip(-margin, -1e6, 1e6)
            sizes = np.bincount(of)
            margin = -np.bincount(of, capped) / sizes
            wrong = np.bincount(of, wrong) / sizes
        return margin, wrong

    def check_errors(self) -> None:
        """The network errs on the records listed, and on no other that was not picked."""
        if self.state is None:
            raise Unchecked("the network could not be made again")
        rest = np.setdiff1d(np.arange(self.data.count), self.picks)
        share = self._scores(self.state, rest)[1]
        tolerance = (
            self.stored.header.tolerance if self.grouped else 0.0
        )
        wrong = rest[share > tolerance]
        require(
            np.array_equal(wrong, np.sort(self.errors)),
            "the network errs on other records than those listed",
        )
