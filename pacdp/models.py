"""The networks of the Entropy-SGLD paper (Dziugaite and Roy 2018, Appendices C.1, D and E), and plain ones.

Two-class networks end in one logit f, with p(label 1) = sigmoid(f); others in one logit a class. The default is no
normalisation: with BatchNorm the loss of one example depends on the rest of its batch, so that the empirical risk is
no mean over examples and the privacy of its Gibbs distribution is unproved. GroupNorm works on one example alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn
from torch.nn.parameter import is_lazy

Norm = Literal["none", "batch", "group"]

FULLY_CONNECTED: dict[str, tuple[int, ...]] = {
    "fc600": (600, 600),
    "fc1200": (1200, 1200),
    "fc1024": (1024, 1024),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """Which network: ``fc600``, ``fc1200``, ``fc1024`` and ``conv`` are the paper's; ``fc`` takes ``hidden``; ``cnn5``
    has two convolutions, three fully connected layers and tanh, which suits clipped and noisy gradients (Papernot et
    al. 2021); ``cnn3`` is a small one of two convolutions and a linear layer, for few people and much noise."""

    name: Literal["fc", "fc600", "fc1200", "fc1024", "conv", "cnn5", "cnn3"] = "fc"
    hidden: tuple[int, ...] = (100,)
    """Widths of the hidden layers of ``fc``, none for a linear network; the paper's networks fix their own."""
    norm: Norm = "none"

    def __post_init__(self) -> None:
        if self.name == "fc" and min(self.hidden, default=1) < 1:
            raise ValueError(f"expected hidden to list positive layer widths, got {self.hidden}")
        if self.name == "fc" and self.norm == "group" and min(self.hidden, default=2) < 2:
            raise ValueError(
                f"expected hidden widths of at least 2 with norm='group', got {self.hidden}"
            )


def build(
    architecture: Architecture, *, input_shape: tuple[int, ...], classes: int, generator: torch.Generator,
    outputs: int | None = None,
) -> nn.Module:  # fmt: skip
    """A network on the CPU with weights drawn from ``generator`` alone.

    Args:
        input_shape: shape of one example, such as (1, 28, 28).
        classes: 2 gives one logit, more give one logit each.
        outputs: another number of logits, such as 2 for two classes.
        generator: a CPU generator; every weight and bias is uniform in ±1/√fan_in (PyTorch's own law).

    Raises:
        ValueError: fewer than two classes, CONV on anything but one-channel 28x28 images, cnn5 or cnn3 on images
            with a side below 28 or with a normalisation.
    """
    if classes < 2:
        raise ValueError(f"expected classes >= 2, got {classes}")
    outputs = outputs or (1 if classes == 2 else classes)
    with torch.device("meta"):
        if architecture.name == "conv":
            if tuple(input_shape) != (1, 28, 28):
                raise ValueError(
                    f"CONV takes inputs of shape (1, 28, 28), got {tuple(input_shape)}: choose an fc network"
                )
            model = _conv(outputs, architecture.norm)
        elif architecture.name in ("cnn5", "cnn3"):
            if len(input_shape) != 3 or min(input_shape[1:]) < 28 or architecture.norm != "none":
                raise ValueError(
                    f"{architecture.name} takes images [channels, height, width] of at least 28x28 and norm='none', "
                    f"got {tuple(input_shape)} and norm={architecture.norm!r}: choose an fc network"
                )
            model = (_tanh_conv if architecture.name == "cnn5" else _small_conv)(
                input_shape, outputs
            )
        else:
            hidden = FULLY_CONNECTED.get(architecture.name, architecture.hidden)
            model = _fully_connected(math.prod(input_shape), hidden, outputs, architecture.norm)
    # to_empty would do the same by way of sympy, whose import takes 45 MB
    model = model._apply(lambda one: torch.empty(one.shape, dtype=one.dtype, device="cpu"))
    with torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, nn.Linear | nn.Conv2d):
                bound = 1.0 / math.sqrt(layer.weight[0].numel())
                for parameter in layer.parameters():
                    parameter.uniform_(-bound, bound, generator=generator)
            elif isinstance(layer, nn.GroupNorm | nn.modules.batchnorm._BatchNorm):
                layer.weight.fill_(1.0)
                layer.bias.zero_()
                if isinstance(layer, nn.modules.batchnorm._BatchNorm):
                    layer.reset_running_stats()
    return model


def batch_dependent_layers(model: nn.Module) -> list[str]:
    """Names of the layers that mix the examples of a batch (BatchNorm, affine or not)."""
    return [
        name
        for name, layer in model.named_modules()
        if isinstance(layer, nn.modules.batchnorm._BatchNorm)
    ]


def random_layers(model: nn.Module) -> list[str]:
    """Names of the layers in training mode that draw random numbers in every pass, dropout first of all."""
    return [name for name, layer in model.named_modules() if layer.training and _draws(layer)]


def mixes(model: nn.Module, *, allowed: bool) -> bool:
    """Whether the model normalises over the batch; refused unless that is allowed, and layers that draw always."""
    mixing = batch_dependent_layers(model)
    if mixing and not allowed:
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
    return bool(mixing)


def require_evaluation(model: nn.Module) -> None:
    """Refuse a network in which an example's output is not a function of that example and the weights.

    Raises:
        ValueError: a layer draws numbers in every pass, or normalises by statistics of the batch at hand.
    """
    mixing = [
        name
        for name, layer in model.named_modules()
        if isinstance(layer, nn.modules.batchnorm._BatchNorm)
        and (layer.training or layer.running_mean is None)
    ]
    odd = random_layers(model) + mixing
    if odd:
        raise ValueError(
            f"layers {', '.join(odd)} draw random numbers or mix the examples of the batch in every pass: call eval() "
            "first, or use norm='group'"
        )


def require_shapes(model: nn.Module, what: str) -> None:
    """Refuse a network to be trained with parameters that its first batch would make, or in which nothing can be added.

    Raises:
        ValueError: parameters that are lazy, without numbers or floats of 8 bits, or weights that a hook computes, of
            which there is no copy.
    """
    lazy = [name for name, p in model.named_parameters() if is_lazy(p)]
    if lazy:
        raise ValueError(
            f"parameter {lazy[0]} of {what} has no shape before the first batch, which may decide what it is: run "
            f"{what} once on zeros, {what}(torch.zeros(1, ...)), or build it without lazy layers"
        )

    bare = [name for name, p in model.named_parameters() if p.is_meta]
    if bare:
        raise ValueError(
            f"parameter {bare[0]} of {what} is on the device meta, where it has no numbers: build {what} on the device "
            f"that trains it, or give it weights by {what}.to_empty(device=...)"
        )
    small = [
        name for name, p in model.named_parameters() if p.is_floating_point() and p.itemsize == 1
    ]
    if small:
        raise ValueError(
            f"parameter {small[0]} of {what} has 8 bits, in which nothing can be computed: train {what}.float()"
        )
    for name, layer in model.named_modules():
        made = [k for k, x in vars(layer).items() if isinstance(x, torch.Tensor) and not x.is_leaf]
        if made:
            raise ValueError(
                f"{made[0]} of layer {name or what} is computed from other weights by a hook, as "
                "torch.nn.utils.weight_norm and prune do: take torch.nn.utils.parametrizations.weight_norm, or "
                "register a parametrization that multiplies by the mask"
            )


def require_clippable(module: nn.Module) -> None:
    """Refuse a network of which no gradient of single examples can be taken, or that would be told of none.

    Raises:
        ValueError: as for :func:`require_shapes`, complex parameters, or hooks of parameters.
    """
    require_shapes(module, "module")
    for name, p in module.named_parameters():
        if p.requires_grad and p.is_complex():
            raise ValueError(
                f"parameter {name} of module is complex, and noise would hide its real part alone: let it be a real "
                "parameter with both parts, nn.Parameter(torch.view_as_real(weight)), of which forward takes "
                "torch.view_as_complex"
            )
        if p._backward_hooks or getattr(p, "_post_accumulate_grad_hooks", None):
            raise ValueError(
                f"parameter {name} of module has a hook for its gradient, which would never be called, since "
                "examples' gradients are clipped without being shown: take it off, and put what it does into the "
                "network"
            )


def _draws(layer: nn.Module) -> bool:
    if isinstance(layer, nn.modules.dropout._DropoutNd):
        return layer.p > 0
    rate = getattr(layer, "dropout", 0.0)  # of recurrent and attention layers
    return isinstance(layer, nn.RReLU) or (isinstance(rate, float) and rate > 0)


def _conv(outputs: int, norm: Norm) -> nn.Module:
    # 126,571 parameters with one output; Chaudhari et al.'s MNIST network without dropout
    return nn.Sequential(
        nn.Conv2d(1, 20, 5), *_normalisation(norm, 20, nn.BatchNorm2d), nn.ReLU(), nn.MaxPool2d(3),
        nn.Conv2d(20, 50, 5), *_normalisation(norm, 50, nn.BatchNorm2d), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(200, 500), nn.ReLU(), nn.Linear(500, outputs),
    )  # fmt: skip


def _tanh_conv(input_shape: tuple[int, ...], outputs: int) -> nn.Module:
    # 44,506 parameters for MNIST; the pools of stride 1 are those of the network in TensorFlow Privacy's tutorial
    channels, *sides = input_shape
    left = [((side - 4) // 2 - 4) // 2 for side in sides]
    return nn.Sequential(
        nn.Conv2d(channels, 16, 8, stride=2, padding=2), nn.Tanh(), nn.MaxPool2d(2, stride=1),
        nn.Conv2d(16, 32, 4, stride=2), nn.Tanh(), nn.MaxPool2d(2, stride=1),
        nn.Flatten(), nn.Linear(32 * left[0] * left[1], 64), nn.Tanh(), nn.Linear(64, 32), nn.Tanh(),
        nn.Linear(32, outputs),
    )  # fmt: skip


def _small_conv(input_shape: tuple[int, ...], outputs: int) -> nn.Module:
    channels, *sides = input_shape
    left = [((side - 4) // 4 + 1) // 2 - 2 for side in sides]
    return nn.Sequential(
        nn.Conv2d(channels, 8, 8, stride=4, padding=2), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.Tanh(),
        nn.Flatten(), nn.Linear(16 * left[0] * left[1], outputs),
    )  # fmt: skip


def _fully_connected(inputs: int, hidden: tuple[int, ...], outputs: int, norm: Norm) -> nn.Module:
    layers: list[nn.Module] = [nn.Flatten()]
    for width in hidden:
        layers += [
            nn.Linear(inputs, width),
            *_normalisation(norm, width, nn.BatchNorm1d),
            nn.ReLU(),
        ]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


def _normalisation(
    norm: Norm, features: int, batch_norm: Callable[..., nn.Module]
) -> list[nn.Module]:
    if norm == "none":
        return []
    if (
        norm == "batch"
    ):  # always the batch's own statistics, so that the weights alone decide a batch's outputs
        return [batch_norm(features, track_running_stats=False)]
    groups = math.gcd(features, 20)
    if groups == features and batch_norm is nn.BatchNorm1d:
        groups = 1  # a group of one number is always normalised to 0
    return [nn.GroupNorm(groups, features)]
