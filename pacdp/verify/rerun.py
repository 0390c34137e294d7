"""A compression once more: a learner is run on the records that were kept, and on no others, by this loop.

Each round takes, of the records left, the worst under the network so far: by the share of their examples in error and
their mean margin, or the margin where each has one; ties by numbers of the seed. Picks and network must be those of the
file, bit for bit, and the network must err on the records listed and on no other that was not picked.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pacdp.verify.claim import (
    Statement,
    Unchecked,
    all_judged,
    require,
)
from pacdp.verify.compressed import rounds_of
from pacdp.verify.examples import Examples, margins
from pacdp.verify.files import Stored

_BATCH = 1000
"""Records whose outputs are computed at once: a sum's last bit may depend on it."""


def is_learner(thing: Any) -> bool:
    """Whether it can be trained, and not only asked for outputs."""
    names = ("view", "train", "outputs")
    return all(callable(getattr(thing, name, None)) for name in names)


def rerun(
    stored: Stored,
    learner: Any,
    data: Examples,
) -> list[Statement]:
    """Statements on the run and on the errors that it left."""
    again = Rerun(stored, learner, data)
    checks = {
        "run on the records kept": again.run,
        "errors left": again.check_errors,
    }
    return all_judged("recount", checks)


class Rerun:
    """A learner and the records that the checkpoint kept; the state is that of the learner after the last round."""

    def __init__(
        self,
        stored: Stored,
        learner: Any,
        data: Examples,
    ) -> None:
        self.stored = stored
        self.learner = learner
        self.data = data
        self.header = stored.header
        self.grouped = data.people is not None
        self.rounds = rounds_of(stored)[: self.header.compression.best]
        self.errors = stored.whole("errors")
        self.picks = stored.whole("picks")
        if self.header.compression.best is not None:
            self.picks = self.picks[: self.rounds[-1].picked]
        seed = np.random.default_rng([self.header.seed, 0])
        self.ties = seed.random(data.count)
        self.state: Any = None

    def run(self) -> None:
        """Each round picks what the file lists, and the last network is the file's, where its state is of tensors."""
        header = self.header
        if not header.compression.best or header.run.get("start_size"):
            raise Unchecked(
                "no round was reported, or the state of a head start is not in the folder"
            )
        kept = np.union1d(self.picks, self.errors)
        made = self.picks[:0]
        state = None
        for one in self.rounds:
            worst = self._worst_first(state, np.setdiff1d(kept, made))
            made = np.append(made, worst[: one.picked - len(made)])
            require(
                np.array_equal(made, self.picks[: one.picked]),
                f"round {one.number} of the run on the {len(kept)} records kept picks others",
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
            require(
                own == self.stored.tensors[f"model.{name}"].content,
                f"the tensor {name!r} of the network is not the file's, bit for bit",
            )

    def _worst_first(self, state: Any, left: np.ndarray) -> np.ndarray:
        """Records by the share of their examples in error, then by their mean margin, then by their numbers."""
        keys = [self.ties[left]]
        if state is not None:
            margin, share = self._scores(state, left)
            keys += [margin, -share] if self.grouped else [margin]
        return left[np.lexsort(keys)]

    def _scores(
        self, state: Any, records: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The mean margin over the examples of each record, and the share of them in error."""
        import torch

        inputs, labels, of = self.data.of(records)
        viewed = self.learner.view(inputs)
        missing = viewed.new_zeros(
            -len(viewed) % _BATCH, *viewed.shape[1:]
        )
        parts = torch.cat([viewed, missing]).split(_BATCH)
        outputs = [self.learner.outputs(state, part) for part in parts]
        found = torch.cat(outputs)[: len(inputs)].detach().numpy()
        margin = margins(found, labels.numpy()).astype(np.float64)
        margin = np.where(np.isnan(margin), -np.inf, margin)
        wrong = (~(margin > 0)).astype(np.float64)
        if not self.grouped:
            return margin, wrong
        sizes = np.bincount(of)
        mean = (
            np.bincount(of, weights=np.clip(-margin, -1e6, 1e6)) / sizes
        )
        return -mean, np.bincount(of, weights=wrong) / sizes

    def check_errors(self) -> None:
        """The network errs on the records listed, and on no other that was not picked."""
        if self.state is None:
            raise Unchecked("the network could not be made again")
        rest = np.setdiff1d(np.arange(self.data.count), self.picks)
        _, share = self._scores(self.state, rest)
        tolerance = self.header.tolerance if self.grouped else 0.0
        require(
            np.array_equal(
                rest[share > tolerance], np.sort(self.errors)
            ),
            "the network errs on other records than those listed",
        )
