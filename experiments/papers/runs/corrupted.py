"""Private training on partly random labels: one run, its errors, what it cost and what that says of its true error.

A run of :mod:`pacdp.cli.private` with the labels of training and test set drawn anew for the same share of the
examples, as :class:`pacdp.Problem` does it. Its bound is R(w) ≤ kl⁻¹(R̂(w), Λ/n) ("Bounds by the general transfer" in
docs/guarantees.md): Λ is the price of the privacy that was accounted for step by step, and nothing is assumed of
convergence. Noise from a seed serves the bound, which needs it independent of the examples and not unknown.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import bounds
from pacdp.cli.config import Runtime
from pacdp.cli.private.algorithms import Predict, Public, algorithm, network, predictor
from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.serial import to_dict
from pacdp.cli.sweep.jobs import single
from pacdp import Problem, private
from pacdp.certify.networks import error_share
from pacdp.data import Dataset

_BATCH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrupted:
    """A private run on labels of which a share is random."""

    training: PrivateConfig
    """With ``reproducible`` noise, so that the run can be repeated."""
    random_labels: float = 0.0
    """Share of the examples, in training and test set, whose labels are drawn anew."""
    train_size: int = 0
    """Examples to learn from, a seeded subset; 0 takes all."""
    seed: int = 0
    """Of labels and subset; the training's own seed draws weights, batches and noise."""
    failure_prob: float = 0.05

    def __post_init__(self) -> None:
        if not self.training.reproducible:
            raise ValueError("expected training with reproducible=True: a study's runs are repeated from their seed")
        if not 0 < self.failure_prob < 1:
            raise ValueError(f"expected 0 < failure_prob < 1, got {self.failure_prob}")
        self.problem  # noqa: B018 - its numbers are checked there

    @property
    def problem(self) -> Problem:
        """The examples and their labels."""
        return Problem(dataset=self.training.dataset, train_size=self.train_size, split_seed=self.seed,
                       random_labels=self.random_labels, label_seed=self.seed)  # fmt: skip


def train_corrupted(config: Corrupted, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """Train, count errors on both sets, account, bound.

    Formal guarantee: the true error of what was trained is at most ``bound`` with probability at least
    1 - failure_prob over examples, labels and mechanism; errors are exact counts.

    Raises:
        DataError: the data cannot be found.
        Diverged: a weight is not finite.
    """
    train, test = config.problem.data(root=runtime.data_root)
    given, budget = config.training, config.training.budget
    public = Public(input_shape=train.inputs.shape[1:], classes=train.classes, size=float(train.n))
    module = network(given, public, device=runtime.device)
    trained = private.train(
        algorithm(given, public), module, TensorDataset(torch.tensor(train.inputs), torch.tensor(train.labels)),
        loss=_loss, randomness=private.SeededRandomness(given.seed), checkpoint=folder / "checkpoint.safetensors",
        checkpoint_every=max(1, given.sampling.steps // given.records),
        about={"data": {"train": train.hash, "test": test.hash}, "run": to_dict(config)},
    )  # fmt: skip
    predict = predictor(given, module, trained)
    errors, wrong = _errors(predict, train), _errors(predict, test)
    spent = private.privacy_spent(trained.event, delta=budget.delta, adjacency=budget.adjacency)
    claim = private.privacy_claim(trained.event, adjacency="add-remove")
    bound = bounds.private_kl_chernoff(
        risk=error_share(errors, train.n), n=train.n, privacy=claim, failure_prob=config.failure_prob
    )
    return {
        "format": "pacdp-corrupted-result/1", "algorithm": given.algorithm, "n": train.n, "n_test": test.n,
        "steps": private.steps_of(trained.event), "halted": trained.halted, "train_error": errors / train.n,
        "test_error": wrong / test.n, "epsilon": spent.epsilon, "delta": budget.delta,
        "adjacency": budget.adjacency, "bound": {"name": bound.name, "value": bound.value, "status": bound.status},
    }  # fmt: skip


def _loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy(outputs, targets, reduction="none")


@torch.no_grad()
def _errors(predict: Predict, data: Dataset) -> int:
    """A tie for the largest probability is an error."""
    count = 0
    for start in range(0, data.n, _BATCH):
        probabilities = predict(torch.tensor(data.inputs[start : start + _BATCH])).cpu()
        labels = torch.tensor(data.labels[start : start + _BATCH])[:, None]
        own = probabilities.gather(1, labels)
        count += int((~(probabilities.scatter(1, labels, -1.0) < own).all(1)).sum())
    return count


CORRUPTED = single(train_corrupted)
"""The kind of these runs."""
