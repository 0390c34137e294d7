"""A compression once more: a learner is run on the records that were kept, and on no others, by this loop.

Each round takes, of the records left, the worst under the network so far: by the share of their examples in error and
their mean margin, or the margin where each has one; ties by numbers of the seed. Picks and network must be those of the
file, bit for bit, and the network must err on the records listed and on no other that was not picked.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pacdp.verify.claim import Statement, Unchecked, Wrong, judged
from pacdp.verify.examples import Examples, margins
from pacdp.verify.files import Stored
from pacdp.verify.folder.compressed import rounds_of

_BATCH = 1000
"""Records whose outputs are computed at once: a sum's last bit may depend on it."""


def is_learner(thing: Any) -> bool:
    """Whether it can be trained, and not only asked for outputs."""
    return all(
        callable(getattr(thing, name, None))
        for name in ("view", "train", "outputs")
    )


def rerun(
    stored: Stored,
    learner: Any,
    inputs: Any,
    labels: Any,
    people: Any = None,
) -> list[Statement]:
    """Statements on the run and on the errors that it left."""
    again = Rerun(stored, learner, Examples(inputs, labels, people))
    return [
        judged("recount", "run on the records kept", again.run),
        judged("recount", "errors left", again.check_errors),
    ]


class Rerun:
    """A learner and the records that the checkpoint kept."""

    def __init__(
        self,
        stored: Stored,
        learner: Any,
        data: Examples,
    ) -> None:
        self.stored, self.learner, self.data = stored, learner, data
        self.header = stored.header
        self.best = self.header.compression.best
        self.rounds = rounds_of(stored)
        self.errors = stored.whole("errors")
        self.picks = stored.whole("picks")
        if self.best is not None:
            self.picks = self.picks[: self.rounds[self.best - 1].picked]
        self.ties = np.random.default_rng([self.header.seed, 0]).random(
            data.count
        )
        self.state: Any = None

    def run(self) -> None:
        """Each round picks what the file lists, and the last network is the file's."""
        if not self.best or self.header.run.get("start_size"):
            raise Unchecked(
                "no round was reported, or the state of a head start is not in the folder"
            )
        kept = np.union1d(self.picks, self.errors)
        made, state = self.picks[:0], None
        for one in self.rounds[: self.best]:
            left = np.setdiff1d(kept, made)
            worst = self._worst_first(state, left)
            made = np.append(made, worst[: one.picked - len(made)])
            if not np.array_equal(made, self.picks[: one.picked]):
                raise Wrong(
                    f"round {one.number} of the run on the {len(kept)} records kept picks others"
                )
            inputs, labels, _ = self.data.of(made)
            state = self.learner.train(
                state,
                inputs,
                labels,
                round=one.number,
                seed=self.header.seed,
            )
        self.state = state
        self._check_state()

    def _worst_first(
        self,
        state: Any,
        left: np.ndarray,
    ) -> np.ndarray:
        """Records by the share of their examples in error, then by their mean margin, then by their numbers."""
        if state is None:
            return left[np.argsort(self.ties[left], kind="stable")]
        margin, share = self._scores(state, left)
        if not self.data.grouped:
            return left[np.lexsort((self.ties[left], margin))]
        return left[np.lexsort((self.ties[left], margin, -share))]

    def _scores(
        self,
        state: Any,
        records: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The mean margin over the examples of each record, and the share of them in error."""
        import torch

        inputs, labels, of = self.data.of(records)
        viewed = self.learner.view(inputs)
        missing = viewed.new_zeros(-len(viewed) % _BATCH, *viewed.shape[1:])
        parts = torch.cat([viewed, missing]).split(_BATCH)
        outputs = torch.cat(
            [self.learner.outputs(state, part) for part in parts]
        )
        margin = margins(
            outputs[: len(inputs)].detach().numpy(), labels.numpy()
        )
        margin = np.where(np.isnan(margin), -np.inf, margin).astype(np.float64)
        wrong = ~(margin > 0)
        if not self.data.grouped:
            return margin, wrong.astype(np.float64)
        sizes = np.bincount(of)
        mean = np.bincount(of, weights=np.clip(-margin, -1e6, 1e6)) / sizes
        return -mean, np.bincount(of, weights=wrong) / sizes

    def _check_state(self) -> None:
        """The tensors are those of the file; of a learner without tensors nothing is kept to be compared."""
        if not isinstance(self.state, Mapping):
            raise Unchecked(
                "the learner's state is no table of tensors, so that the file does not hold it"
            )
        for name, tensor in self.state.items():
            kept = self.stored.tensors[f"model.{name}"].content
            if tensor.contiguous().numpy().tobytes() != kept:
                raise Wrong(
                    f"the tensor {name!r} of the network is not the file's, bit for bit"
                )

    def check_errors(self) -> None:
        """The network errs on the records listed, and on no other that was not picked."""
        if self.state is None:
            raise Unchecked("the network could not be made again")
        rest = np.setdiff1d(np.arange(self.data.count), self.picks)
        _, share = self._scores(self.state, rest)
        tolerance = self.header.tolerance if self.data.grouped else 0.0
        if not np.array_equal(rest[share > tolerance], np.sort(self.errors)):
            raise Wrong("the network errs on other records than those listed")
