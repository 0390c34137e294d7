"""A checkpoint put back together: problem, sampler, weights, and what the sampler promises about them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import bounds
from pacdp.certify import Assessment, assess
from pacdp.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from pacdp.data import Dataset
from pacdp.errors import CheckpointError
from pacdp.gibbs import GibbsSettings, Progress
from pacdp.objective import Objective
from pacdp.posterior import LocalGibbs, Point
from pacdp.prior import GaussianPrior, NoPrivacy
from pacdp.problem import Problem
from pacdp.samplers import SGD, SGLD, EntropySGD, Settings, restore

_SETTINGS: dict[str, type[SGD] | type[SGLD] | type[EntropySGD]] = {
    kind.__name__: kind for kind in (SGD, SGLD, EntropySGD)
}


def sampler_to_dict(settings: Settings) -> dict[str, Any]:
    """JSON values, with the algorithm under ``kind``."""
    return {"kind": type(settings).__name__, **asdict(settings)}


def sampler_from_dict(values: Mapping[str, Any]) -> Settings:
    """The inverse of :func:`sampler_to_dict`.

    Raises:
        ValueError: a kind of sampler that this version does not know.
    """
    fields = dict(values)
    kind = fields.pop("kind", None)
    if kind not in _SETTINGS:
        raise ValueError(f"expected a sampler of kind {', '.join(_SETTINGS)}, got {kind!r}")
    return _SETTINGS[kind](**fields)


def privacy_of(settings: Settings, *, oscillation: float, n: int) -> bounds.PureDP | NoPrivacy:
    """What the target distribution of the sampler promises, under replace-one adjacency.

    Entropy-SGLD targets exp(βF): epsilon = 2 β τ Δ / n with Δ the loss's oscillation (Dziugaite and Roy 2018,
    Theorem 4.4). SGLD targets exp(-τ R̂): epsilon = 2 τ Δ / n. Both promises assume stationarity.
    """
    match settings:
        case SGD():
            return NoPrivacy(reason="SGD adds no noise, so its weights reveal the data without limit")
        case EntropySGD(beta=None):
            return NoPrivacy(reason="Entropy-SGD adds no noise to its weights; only Entropy-SGLD does")
        case SGLD() | EntropySGD() if settings.clip_norm is not None:
            return NoPrivacy(
                reason="with clipped gradients the chain does not target the Gibbs distribution whose privacy is "
                "known; the mechanism's own accounting is not part of this version"
            )
        case SGLD() | EntropySGD():
            beta = 1.0 if isinstance(settings, SGLD) or settings.beta is None else settings.beta
    epsilon = bounds.exponential_mechanism_epsilon(beta=beta, tau=settings.tau, loss_range=oscillation, n=n)
    return bounds.PureDP(epsilon=epsilon, adjacency="replace-one", status="assumes stationarity")


def local_gibbs(settings: EntropySGD, weights: Tensor) -> LocalGibbs:
    """The Gibbs classifier of Entropy-SG(L)D around its weights."""
    return LocalGibbs(weights=weights, tau=settings.tau, gamma=settings.gamma)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What a checkpoint says, with its data and network rebuilt and checked against it."""

    checkpoint: Checkpoint
    problem: Problem
    settings: Settings
    objective: Objective
    test: Objective
    weights: Tensor
    state: Any
    """The sampler's state, ready to go on."""
    generator: torch.Generator
    """The chain's generator, where the checkpoint left it."""

    @property
    def privacy(self) -> bounds.PureDP | NoPrivacy:
        """See :func:`privacy_of`."""
        return privacy_of(self.settings, oscillation=self.objective.loss.oscillation, n=self.objective.n)

    def posterior(self) -> LocalGibbs | Point:
        """The Gibbs classifier of Entropy-SG(L)D; the weights themselves for SGD and SGLD."""
        if isinstance(self.settings, EntropySGD):
            return local_gibbs(self.settings, self.weights)
        return Point(weights=self.weights)

    def assess(
        self,
        *,
        failure_prob: float = 0.05,
        settings: GibbsSettings | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Assessment:
        """Certificates of the posterior, with fresh randomness from ``seed``."""
        posterior = self.posterior()
        prior: GaussianPrior | bounds.PureDP | NoPrivacy = self.privacy
        if isinstance(posterior, LocalGibbs):
            prior = GaussianPrior(mean=self.weights, std=posterior.prior_std, privacy=self.privacy)
        generator = torch.Generator(self.objective.device).manual_seed(seed)
        return assess(posterior, self.objective, prior=prior, failure_prob=failure_prob, test=self.test,
                      settings=settings, generator=generator, progress=progress)  # fmt: skip


def load_trained(
    path: Path | str, *, data_root: str | None = None, device: torch.device | str = "cpu", progressbar: bool = False
) -> Trained:
    """Read a checkpoint, find its data, rebuild its network.

    Raises:
        CheckpointError: the file is no checkpoint (see ``load_checkpoint``), or the data found here is not the data it
            was trained on.
    """
    checkpoint = load_checkpoint(path)
    try:
        problem = Problem.from_dict(checkpoint.header["problem"])
        settings = sampler_from_dict(checkpoint.header["sampler"])
        hashes, step = {role: checkpoint.header["data"][role] for role in ("train", "test")}, checkpoint.header["step"]
    except (KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path} does not say how it was trained ({error}): only checkpoints of a training run of this version can "
            "be certified or resumed"
        ) from error
    train, test = problem.data(root=data_root, progressbar=progressbar)
    for role, data in (("train", train), ("test", test)):
        if data.hash != hashes[role]:
            raise CheckpointError(
                f"{path} was trained on {role} data with hash {hashes[role][:12]}, but {problem.dataset} here has "
                f"{data.hash[:12]}: give the data it was trained on"
            )
    objective, held_out = objectives(problem, settings, train, test, seed=0, device=device)
    weights = checkpoint.flat_weights().to(device)
    state = restore(settings, {"weights": weights, **{k: t.to(device) for k, t in checkpoint.state.items()}},
                    step)  # fmt: skip
    generator = torch.Generator(device)
    try:
        generator.set_state(checkpoint.generator)
    except RuntimeError:
        generator.manual_seed(0)  # another kind of device: certifying is fine, resuming refuses (see resume checks)
    return Trained(checkpoint=checkpoint, problem=problem, settings=settings, objective=objective, test=held_out,
                   weights=weights, state=state, generator=generator)  # fmt: skip


def objectives(
    problem: Problem, settings: Settings, train: Dataset, test: Dataset, *, seed: int, device: torch.device | str
) -> tuple[Objective, Objective]:
    """The empirical risk on the training set, its network freshly drawn from ``seed``, and the one on the test set."""
    clip_norm = None if isinstance(settings, SGD) else settings.clip_norm
    generator = torch.Generator().manual_seed(seed)
    objective = problem.objective(
        train, generator=generator, batch_size=settings.batch_size, clip_norm=clip_norm, device=device
    )
    held_out = problem.objective(test, generator=generator, batch_size=settings.batch_size, device=device)
    return objective, held_out


def save_trained(
    path: Path | str,
    *,
    problem: Problem,
    settings: Settings,
    objective: Objective,
    hashes: Mapping[str, str],
    state: Any,
    generator: torch.Generator,
    run: Mapping[str, Any],
) -> None:
    """Write the chain as it stands, with all that certifying and resuming need. ``run`` is carried as it is."""
    tensors = {name: value for name, value in state._asdict().items() if isinstance(value, Tensor)}
    weights = tensors.pop("weights")
    loss = objective.loss
    header = {
        "problem": problem.to_dict(),
        "sampler": sampler_to_dict(settings),
        "step": state.step,
        "n": objective.n,
        "data": dict(hashes),
        "loss": {"name": loss.name, "low": loss.low, "high": loss.high, "oscillation": loss.oscillation},
        "device": objective.device.type,
        "run": dict(run),
    }
    checkpoint = Checkpoint(
        header=header, model=objective.named(weights), state=tensors, generator=generator.get_state()
    )
    save_checkpoint(path, checkpoint)
