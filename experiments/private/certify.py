"""`pacdp certify` for private runs: what they released bounds its own risk on the examples that it was learnt from.

No example is held out and nothing is assumed of convergence: R ≤ kl⁻¹(R̂, Λ/n) for any predictor that is a function of
what the run released (weights, snapshots, draws from a seed), and kl⁻¹(R̂(Q), (ln ξ(n) + Λ)/n) for Gaussian weights
around it, Λ being the price of the run's privacy loss ("Bounds by the general transfer" in docs/guarantees.md).
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bounds.accounting import event_to_dict
from experiments.config import Runtime
from experiments.folder import provenance
from experiments.private.algorithms import Public, network, predictor
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
    Network,
    Prior,
    Private,
    certify,
    load_checkpoint,
    private,
)
from pacdp.certify import Refusal
from pacdp.certify.gaussian import Progress
from pacdp.certify.routes import privacy_to_dict
from pacdp.rederived import settings_of

_BATCH = 1000


def certify_private(
    path: Path, runtime: Runtime, *, failure_prob: float, std: float, seed: int, progress: Progress | None = None
) -> dict[str, Any]:
    """The report ``pacdp-certificates/2`` of a private run's checkpoint.

    Args:
        std: of the Gaussian weights around what was released, where the released weights are not Gaussian by
            themselves; fixed before looking at the data.

    Raises:
        ValueError: the history is not one of the run's settings.
        CheckpointError: the checkpoint does not say what it was trained on, or was trained on other data.
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
    history, charged = charged_history(path, checkpoint.header, config, public)
    fixed = settings_of(path, {**checkpoint.header, "run": about["run"]})
    claim = private.privacy_claim(history, adjacency="add-remove")
    module = network(config, public, device="cpu")
    snapshots = checkpoint.state.get("extra.snapshots", torch.empty(0, 0))
    released = private.PrivateRun(weights=dict(checkpoint.model), history=history, snapshots=snapshots)
    bound, test = BoundSet.part(data.train), BoundSet.part(data.test)
    noise = "the run, which kept its noise secret or drew it from a seed of its own"
    source = Private(privacy=claim, rows=bound.rows, noise=noise)
    deployed = Network(network=predictor(config, module, released), of="predictor", scores=True, batch_size=_BATCH)
    found = certify(deployed, bound, prior=source, test=test, failure_prob=failure_prob, settings=fixed)
    if any(isinstance(getattr(layer, "generator", None), torch.Generator) for layer in module.modules()):
        reason = "the network draws weights or masks of its own; its averaged predictions are certified"
        refused = Refusal(name="Gaussian weights around what was released", reason=reason)
        found = replace(found, refusals=(*found.refusals, refused))
    else:
        law = GaussianPosterior.around(private.with_weights(module, dict(checkpoint.model)), std=std)
        around = certify(
            law, bound, prior=Prior(law=law, source=source), network=module.eval(), test=test,
            failure_prob=failure_prob, monte_carlo=MonteCarlo(passes=2), seed=seed, progress=progress, settings=fixed,
        )  # fmt: skip
        found = found.joined(around)
    spent = private.privacy_spent(history, delta=config.budget.delta, adjacency=config.budget.adjacency)
    event = event_to_dict(private.privacy_event(history))
    found = found.resting_on(charged.hypothesis, beside="privacy covers these rows")
    found = replace(
        found, privacy=privacy_to_dict(claim, event), details={**found.details, "std": std, "spent": spent.to_dict()}
    )
    subject = {"checkpoint": str(path), "content_hash": checkpoint.content_hash, "algorithm": config.algorithm}
    return found.to_dict(subject=subject, provenance=provenance(device=runtime.device, seed=seed))
