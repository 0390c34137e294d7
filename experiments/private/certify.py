"""`pacdp certify` for private runs: what they released bounds its own risk on the examples that it was learnt from.

No example is held out and nothing is assumed of convergence: R ≤ kl⁻¹(R̂, Λ/n) for any predictor that is a function of
what the run released (weights, snapshots, draws from a seed), and kl⁻¹(R̂(Q), (ln ξ(n) + Λ)/n) for Gaussian weights
around it, Λ being the price of the run's privacy loss ("Bounds by the general transfer" in docs/guarantees.md).
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import bounds
from experiments.config import Runtime
from experiments.folder import provenance
from experiments.private.algorithms import Predict, Public, network, predictor
from experiments.private.config import PrivateConfig
from experiments.private.data import examples
from experiments.private.methods import by_person
from experiments.private.planning import charged_history
from experiments.serial import from_dict
from pacdp import (
    BoundSet,
    CheckpointError,
    GaussianPosterior,
    MonteCarlo,
    Prior,
    Private,
    assess_gaussian,
    load_checkpoint,
    private,
)
from pacdp.assess_gaussian import Progress
from pacdp.data import Dataset
from pacdp.single_networks import error_share

_BATCH = 1000


def certify_private(
    path: Path, runtime: Runtime, *, failure_prob: float, std: float, seed: int, progress: Progress | None = None
) -> dict[str, Any]:
    """The report ``pacdp-certificates/1`` of a private run's checkpoint.

    Args:
        std: of the Gaussian weights around what was released, where the released weights are not Gaussian by
            themselves; fixed before looking at the data.

    Raises:
        ValueError: privacy by person, whose unit is not the example; or other data than the run's.
        CheckpointError: the checkpoint does not say what it was trained on.
    """
    runtime.apply()
    checkpoint = load_checkpoint(path)
    about = checkpoint.header.get("about") or {}
    if "run" not in about:
        raise CheckpointError(f"{path} does not say which run it is from: train by a recipe, or use pacdp.certify")
    config = from_dict(PrivateConfig, about["run"])
    if by_person(config.method):
        raise ValueError(
            f"the privacy of {config.algorithm} is counted by person, certificates by example: none applies"
        )
    data = examples(config.dataset, features=config.features, by_person=False, root=runtime.data_root)
    if data.train.hash != about["data"]["train"]:
        raise CheckpointError(f"{path} was trained on other data than {config.dataset} is here")
    public = Public(input_shape=data.train.inputs.shape[1:], classes=data.train.classes, size=float(data.train.n))
    history, _ = charged_history(path, checkpoint.header, config, public)
    claim = private.privacy_claim(history, adjacency="add-remove")
    module = network(config, public, device="cpu")
    snapshots = checkpoint.state.get("extra.snapshots", torch.empty(0, 0))
    released = private.PrivateRun(weights=dict(checkpoint.model), history=history, snapshots=snapshots)
    predict = predictor(config, module, released)
    errors, test_errors = _errors(predict, data.train), _errors(predict, data.test)
    deployed = bounds.private_kl_chernoff(risk=error_share(errors, data.train.n), n=data.train.n, privacy=claim,
                                          failure_prob=failure_prob)  # fmt: skip
    deployed = replace(deployed, inputs={**deployed.inputs, "of": "predictor", "measures": "0-1 risk"})
    law = GaussianPosterior.around(private.with_weights(module, dict(checkpoint.model)), std=std)
    spent = private.privacy_spent(history, delta=config.budget.delta, adjacency=config.budget.adjacency)
    report = {
        "format": "pacdp-certificates/1", "n": data.train.n, "failure_prob": failure_prob,
        "empirical_risk": errors / data.train.n, "test_risk": test_errors / data.test.n, "kl_nats": 0.0,
        "privacy": spent.to_dict(), "gibbs_classifier": None, "diagnosis": None, "not_applicable": [],
        "mean_classifier": {"train": {"error": errors / data.train.n, "n": data.train.n},
                            "test": {"error": test_errors / data.test.n, "n": data.test.n}},
        "certificates": [deployed.to_dict()], "checkpoint": str(path), "algorithm": config.algorithm,
        "provenance": provenance(device=runtime.device, seed=seed),
    }  # fmt: skip
    if any(isinstance(getattr(layer, "generator", None), torch.Generator) for layer in module.modules()):
        reason = "the network draws weights or masks of its own; its averaged predictions are certified"
        report["not_applicable"] = [{"name": "Gaussian weights around what was released", "reason": reason}]
        return report
    found = assess_gaussian(
        law, module.eval(), BoundSet.part(data.train), prior=Prior(law=law, source=Private(privacy=claim)),
        test=BoundSet.part(data.test), failure_prob=failure_prob, monte_carlo=MonteCarlo(passes=2), seed=seed,
        progress=progress,
    )  # fmt: skip
    randomised = found.to_dict()
    report["certificates"] += randomised["certificates"]
    report["not_applicable"] = randomised["not_applicable"]
    return report | {name: randomised[name] for name in ("monte_carlo", "empirical_risk", "test_risk")} | {"std": std}


@torch.no_grad()
def _errors(predict: Predict, data: Dataset) -> int:
    """A tie for the largest probability is an error."""
    count = 0
    for start in range(0, data.n, _BATCH):
        probabilities = predict(torch.tensor(data.inputs[start : start + _BATCH]))
        labels = torch.tensor(data.labels[start : start + _BATCH])
        count += int((~_right(probabilities, labels)).sum())
    return count


def _right(probabilities: Tensor, labels: Tensor) -> Tensor:
    own = probabilities.gather(1, labels[:, None])
    return (probabilities.scatter(1, labels[:, None], -1.0) < own).all(1)
