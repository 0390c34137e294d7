"""What of a run may leave it, whichever kind of run that is: what :mod:`pacdp.cli.exporting` writes down."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from bounds.accounting import Event, PrivacyBound
from pacdp import Network, Private, Report, load_checkpoint, load_trained
from pacdp.certify import BoundSet
from pacdp.certify.reading import AtWeights
from pacdp.cli.config import Run
from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.rederived import require_rederived
from pacdp.cli.runtime import Runtime
from pacdp.cli.serial import record
from pacdp.errors import CheckpointError
from pacdp.resume import KIND
from pacdp.step.accountant import privacy_spent
from pacdp.step.langevin import accounted_privacy
from pacdp.step.planned_steps import ChargedSteps
from pacdp.store.checkpoint import Checkpoint


@record
class Leaving:
    """A run's checkpoint beside its data, and what of both may be told."""

    checkpoint: Checkpoint
    config: PrivateConfig | Run
    bound: BoundSet
    event: Event
    """What the certificates pay for."""
    charged: ChargedSteps
    source: Private
    predictor: Network
    """As deployed: weights, or an average over snapshots or draws."""

    @property
    def seeded(self) -> bool:
        """Whether a seed fixes the noise, or nothing shows that none does."""
        header, private = self.checkpoint.header, self.config.KIND == "private"
        shown = header.get("randomness") == "SystemRandomness" if private else "noise_key" in header
        return self.config.reproducible or not shown

    @property
    def snapshots(self) -> Tensor | None:
        """Weights kept on the way, which the event covers."""
        return self.checkpoint.state.get("extra.snapshots")

    def spent(self, event: Event) -> PrivacyBound:
        """Epsilon of an event at the run's own delta and adjacency."""
        return privacy_spent(event, **self.config.relation)

    def told(self, found: Report, **details: Any) -> Report:
        """The assessment with what the run spent, and with what shows that its steps were planned.

        ``found`` is made at a failure probability that was divided by the moments at which the run may have ended.
        """
        whole = self.charged.stopping_times * found.failure_prob
        spent = {"spent": self.spent(self.event).to_dict(), **details}
        found = found.at_any_of(self.charged, failure_prob=whole)
        return replace(found, details={**found.details, **spent})


def leaving(path: Path, runtime: Runtime) -> Leaving:
    """What of the run in a folder may leave.

    Raises:
        ValueError: the run promises nothing, or not to those whom its examples belong to.
        CheckpointError: there is no checkpoint, or it is not the run's or that of the data here.
    """
    header = load_checkpoint(path).header
    if header.get("kind") == KIND:
        from pacdp.cli.private.certify import released  # which is one of these

        return released(path, runtime)
    if (header.get("sampler") or {}).get("clip_norm") is None:
        raise ValueError(
            f"{path} holds no private run: only what a private recipe, or a chain with a clip norm, has trained may "
            "leave, and is exported"
        )
    runtime.apply()
    trained = load_trained(path, data_root=runtime.data_root)
    checkpoint, data = trained.checkpoint, trained.objective
    run = require_rederived(path, checkpoint.header, n=data.n)
    if not run.promising or trained.records is not None:
        why = (
            "hides examples, and its data are of people"
            if run.promising
            else "promises nothing of its steps"
        )
        raise ValueError(f"{path} cannot be exported: {run.algorithm} {why}")
    charged = trained.charged
    event = run.sampler.promise(data.n, charged.steps)
    if event is None:
        raise CheckpointError(
            f"{path} has no step: nothing was released that could be certified; train first"
        )
    bound = BoundSet.behind(data)
    claim = accounted_privacy(run.sampler, n=data.n, steps=charged.steps)
    return Leaving(
        checkpoint=checkpoint, config=run, bound=bound, event=event, charged=charged,
        source=Private(privacy=claim, rows=bound.rows, noise=trained.noise),
        predictor=Network(network=AtWeights(data.model, checkpoint.model), of="weights"),
    )  # fmt: skip
