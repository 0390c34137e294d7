"""What people write: Langevin steps as loops over a network's parameters. Timed against the engine, not used by it."""

import copy
import math
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.workload import BATCH, LOSS, TAU
from pacdp.data import Dataset


class Plain:
    """A network with autograd, its data on its device, and the loops."""

    def __init__(self, model: nn.Module, dataset: Dataset, *, device: str = "cpu") -> None:
        self.model = model.to(device)
        self.inputs = torch.tensor(dataset.inputs, device=device)
        self.labels = torch.tensor(dataset.labels, device=device)
        self.generator = torch.Generator(device).manual_seed(0)

    def batch(self) -> tuple[Tensor, Tensor]:
        """A minibatch."""
        device = self.inputs.device
        chosen = torch.randint(len(self.labels), (BATCH,), generator=self.generator, device=device)
        return self.inputs[chosen], self.labels[chosen]

    def forward_backward(self) -> None:
        """Gradients of one minibatch and nothing else."""
        inputs, labels = self.batch()
        self.model.zero_grad()
        LOSS(self.model(inputs), labels).mean().backward()

    def noise(self, like: Tensor) -> Tensor:
        """Standard normal numbers."""
        return torch.randn(like.shape, generator=self.generator, device=like.device)

    def sgld(self, rate: float = 0.1) -> None:
        """One SGLD step, parameter by parameter."""
        self.forward_backward()
        with torch.no_grad():
            for p in self.model.parameters():
                p.add_(-rate * (p.grad + p / TAU) + math.sqrt(2 * rate / TAU) * self.noise(p))

    def entropy_sgld(self, inner_steps: int = 20, gamma: float = 1.0, alpha: float = 0.75) -> None:
        """One outer step in the manner of the published optimiser: deep copies, then per-parameter inner steps.

        It follows the structure of Chaudhari et al.'s code as their experiments ran it (copies of weights, gradients
        and the running mean at every outer step; for each inner step and each parameter Nesterov momentum 0.9, a fresh
        noise tensor and separate updates), not its text.
        """
        parameters = list(self.model.parameters())
        self.forward_backward()
        centre, mean = ([copy.deepcopy(p.data) for p in parameters] for _ in range(2))
        kept = [copy.deepcopy(p.grad) for p in parameters]
        velocities = [torch.zeros_like(p.data) for p in parameters]
        for i in range(1, inner_steps + 1):
            rate = 1.0 / i
            self.forward_backward()
            with torch.no_grad():
                for p, c, m, v in zip(parameters, centre, mean, velocities, strict=True):
                    drift = copy.deepcopy(p.grad)
                    v.mul_(0.9).add_(drift)
                    drift.add_(v, alpha=0.9)
                    drift.add_(p - c, alpha=gamma)
                    drift.add_(self.noise(p), alpha=-math.sqrt(2.0 / (TAU * rate)))
                    p.add_(drift, alpha=-rate)
                    m.mul_(1 - alpha).add_(p, alpha=alpha)
        with torch.no_grad():
            for p, c, g, m in zip(parameters, centre, kept, mean, strict=True):
                p.copy_(c)
                g.copy_(c - m)
                p.add_(g, alpha=-0.5).add_(self.noise(p), alpha=1e-3)


def posteriors_sgld(plain: Plain, rate: float = 0.1) -> Callable[[], None]:
    """One SGLD step of the library ``posteriors``, on the same network and data.

    Its log posterior is R̂ and temperature 1/τ; it calls the network functionally and draws noise leaf by leaf.
    """
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", FutureWarning
        )  # of its dependency tensordict, while it is imported
        import posteriors

    parameters = {name: p.detach().clone() for name, p in plain.model.named_parameters()}

    def log_posterior(
        params: dict[str, Tensor], batch: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        inputs, labels = batch
        logits = torch.func.functional_call(plain.model, params, (inputs,))
        prior = sum(p.square().sum() for p in params.values()) / (2 * TAU)
        return -LOSS(logits, labels).mean() - prior, logits.detach()

    transform = posteriors.sgmcmc.sgld.build(log_posterior, lr=rate, temperature=1.0 / TAU)
    state = [transform.init(parameters)]

    def step() -> None:
        state[0], _ = transform.update(state[0], plain.batch(), inplace=True)

    return step
