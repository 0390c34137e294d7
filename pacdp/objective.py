"""The empirical risk of a network as a function of one flat weight vector: what samplers see of networks and data.

The network's parameters are views of one contiguous buffer, and so are their gradients, so that a sampler's update is
a few passes over one vector whatever the number of layers.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pacdp.data import Dataset
from pacdp.losses import Loss, ramp, zero_one
from pacdp.models import batch_dependent_layers, random_layers


class Estimate(NamedTuple):
    """A minibatch's view of the risk at some weights; all on the device of the weights."""

    gradient: Float[Tensor, " dim"]
    """Estimate of the gradient of the mean loss. A buffer that the next call overwrites."""
    loss: Float[Tensor, ""]
    """Mean loss of the minibatch; unbiased for the empirical risk under uniform batches."""
    error: Float[Tensor, ""]
    """Mean 0-1 loss of the minibatch."""


class Risks(NamedTuple):
    """Means over a whole data set, accumulated in double precision."""

    loss: float
    error: float
    ramp: float
    errors: int
    """The number of examples in error, an exact count."""
    n: int


class Objective:
    """Mean loss of ``model`` over ``data``, by minibatches.

    With ``clip_norm`` None a batch is ``batch_size`` uniform draws with replacement. With a clip norm C the same chain
    becomes a private mechanism: each example joins the batch independently with probability batch_size/n (Poisson),
    each example's gradient is scaled into the ball of radius C, and the sum is divided by the fixed ``batch_size``,
    so that adding or removing one example moves the estimate by at most C / batch_size in Euclidean norm.

    Raises:
        ValueError: BatchNorm or active dropout in the model, or a batch size outside [1, n] under clipping.
    """

    def __init__(self, model: nn.Module, loss: Loss, data: Dataset, *, batch_size: int,
                 clip_norm: float | None = None, device: torch.device | str = "cpu") -> None:  # fmt: skip
        mixing = batch_dependent_layers(model)
        if mixing:
            raise ValueError(
                f"layers {', '.join(mixing)} normalise over the batch, so that no example has a loss of its own: "
                "use norm='group' or norm='none'"
            )
        drawing = random_layers(model)
        if drawing:
            raise ValueError(
                f"layers {', '.join(drawing)} draw random numbers in every pass, so that the weights alone have no "
                "loss: leave dropout out, or call eval() on the model first"
            )
        if data.n < 1 or batch_size < 1 or (clip_norm is not None and batch_size > data.n):
            raise ValueError(f"expected 1 <= batch_size <= n, got batch_size={batch_size}, n={data.n}")
        if clip_norm is not None and not clip_norm > 0:
            raise ValueError(f"expected clip_norm > 0, got {clip_norm}")
        self.model = model.to(device)
        self.loss = loss
        self.n = data.n
        self.batch_size = batch_size
        self.clip_norm = clip_norm
        self.device = torch.device(device)
        self.inputs = torch.tensor(data.inputs, device=device)
        self.labels = torch.tensor(data.labels, device=device)
        parameters = list(model.parameters())
        self.dim = sum(p.numel() for p in parameters)
        self._weights = torch.cat([p.detach().reshape(-1) for p in parameters]).contiguous()
        self._gradient = torch.zeros_like(self._weights)
        self._shapes = [(name, p.shape) for name, p in model.named_parameters()]
        for parameter, view, gradient in zip(
            parameters, self.views(self._weights), self.views(self._gradient), strict=True
        ):
            parameter.data = view
            parameter.grad = gradient
        self._zero_one = zero_one()
        self._ramp = ramp()

    def weights(self) -> Float[Tensor, " dim"]:
        """A copy of the weights that the network holds now."""
        return self._weights.clone()

    def views(self, flat: Float[Tensor, " dim"]) -> list[Tensor]:
        """The pieces of a flat vector, one a parameter, in the parameter's shape, sharing memory."""
        pieces = flat.split([shape.numel() for _, shape in self._shapes])
        return [piece.view(shape) for piece, (_, shape) in zip(pieces, self._shapes, strict=True)]

    def named(self, flat: Float[Tensor, " dim"]) -> dict[str, Tensor]:
        """A flat vector as a state dict: parameter name to view."""
        return {name: view for (name, _), view in zip(self._shapes, self.views(flat), strict=True)}

    def draw(self, generator: torch.Generator) -> Int[Tensor, " batch"]:
        """Indices of a minibatch, from ``generator`` alone; under clipping the batch may be empty."""
        if self.clip_norm is None:
            return torch.randint(self.n, (self.batch_size,), generator=generator, device=self.device)
        chosen = torch.rand(self.n, generator=generator, device=self.device) < self.batch_size / self.n
        return chosen.nonzero()[:, 0]

    def estimate(self, weights: Float[Tensor, " dim"], generator: torch.Generator) -> Estimate:
        """Gradient, loss and error at ``weights`` on a fresh minibatch."""
        indices = self.draw(generator)
        inputs, labels = self.inputs[indices], self.labels[indices]
        self._weights.copy_(weights)
        self._gradient.zero_()
        if self.clip_norm is None:
            logits = self.model(inputs)
            loss = self.loss(logits, labels).mean()
            loss.backward()
            return Estimate(self._gradient, loss.detach(), self._zero_one(logits.detach(), labels).mean())
        if len(indices) == 0:
            zero = weights.new_zeros(())
            return Estimate(self._gradient, zero, zero)
        return self._clipped(inputs, labels)

    def _clipped(self, inputs: Tensor, labels: Tensor) -> Estimate:
        def loss_of_one(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            logits = torch.func.functional_call(self.model, parameters, (x[None],))
            loss = self.loss(logits, y[None])[0]
            return loss, (loss.detach(), self._zero_one(logits.detach(), y[None])[0])

        per_example = torch.func.vmap(torch.func.grad(loss_of_one, has_aux=True), in_dims=(None, 0, 0))
        gradients, (losses, errors) = per_example(self.named(self._weights), inputs, labels)
        flat = torch.cat([g.flatten(1) for g in gradients.values()], dim=1)
        norms = flat.norm(dim=1)
        # a gradient that is not finite counts as zero: one example may never move the sum by more than clip_norm
        scale = torch.where(norms.isfinite(), self.clip_norm / norms.clamp(min=self.clip_norm), 0.0)  # type: ignore[operator]
        flat = torch.where(norms.isfinite()[:, None], flat, 0.0)
        torch.mv(flat.T, scale, out=self._gradient)
        self._gradient.div_(self.batch_size)
        return Estimate(self._gradient, losses.mean(), errors.mean())

    @torch.no_grad()
    def risks(self, weights: Float[Tensor, " dim"], *, chunk: int = 10_000) -> Risks:
        """Exact means over all n examples.

        Raises:
            ValueError: a loss is NaN or lies outside the interval that the loss declares.
        """
        self._weights.copy_(weights)
        loss = error = ramp_sum = 0.0
        smallest, largest = float("inf"), -float("inf")
        for start in range(0, self.n, chunk):
            labels = self.labels[start : start + chunk]
            logits = self.model(self.inputs[start : start + chunk])
            losses = self.loss(logits, labels)
            if not bool(torch.isfinite(losses).all()):
                raise ValueError(f"loss {self.loss.name} is NaN or infinite on the data: the weights have diverged")
            smallest, largest = min(smallest, float(losses.min())), max(largest, float(losses.max()))
            loss += float(losses.sum(dtype=torch.float64))
            error += float(self._zero_one(logits, labels).sum(dtype=torch.float64))
            ramp_sum += float(self._ramp(logits, labels).sum(dtype=torch.float64))
        self.loss.check(smallest, largest)
        return Risks(loss / self.n, error / self.n, ramp_sum / self.n, round(error), self.n)
