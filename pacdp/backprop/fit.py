"""Learning the mean of a prior: ordinary training of a network, on examples that the bound will not use.

Minibatch cross-entropy on augmented images; one cycle of the step size, up linearly and down
along a cosine; an exponential average of the weights (and of BatchNorm's statistics), which is the result.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import astuple, field
from functools import partial
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from bounds import _check
from pacdp.errors import Diverged
from pacdp.store.record import record

_CELLS = 4
"""Side of the coarse grid of displacements."""


@record
class Augmentation:
    """How far images are distorted; the defaults leave them as they are. Uniform in ± the given range each."""

    shift: float = 0.0
    """Pixels, in each direction."""
    rotation: float = 0.0
    """Degrees."""
    scale: float = 0.0
    """Share: 0.1 zooms each direction by a factor in [0.9, 1.1]."""
    shear: float = 0.0
    """Horizontal displacement per vertical unit."""
    elastic: float = 0.0
    """Standard deviation of the displacements in pixels."""

    def __post_init__(self) -> None:
        if not all(math.isfinite(size) and size >= 0 for size in astuple(self)):
            raise ValueError(f"expected ranges that are finite and >= 0, got {self}")
        if self.scale >= 1:
            raise ValueError(f"expected scale < 1, got {self.scale}")


def augmented(
    images: Float[Tensor, "batch channels height width"],
    settings: Augmentation,
    generator: torch.Generator,
) -> Float[Tensor, "batch channels height width"]:
    """A distorted copy of each image, every one by random numbers of its own.

    Args:
        generator: a CPU generator, whatever the device of the images.
    """
    if not any(astuple(settings)):
        return images
    batch, _, height, width = images.shape
    angle, zoom_x, zoom_y, shear, shift_x, shift_y = (
        2.0 * torch.rand(6, batch, generator=generator) - 1.0
    ).unbind()
    angle = angle * math.radians(settings.rotation)
    zoom_x, zoom_y = 1.0 + settings.scale * zoom_x, 1.0 + settings.scale * zoom_y
    shear = shear * settings.shear
    cos, sin = torch.cos(angle), torch.sin(angle)
    rows = [zoom_x * cos, shear * cos - sin, settings.shift * 2.0 / width * shift_x]
    rows += [zoom_y * sin, zoom_y * cos + shear * sin, settings.shift * 2.0 / height * shift_y]
    theta = torch.stack(rows, dim=1).view(batch, 2, 3)
    # where to look each pixel up, in units of half the image
    grid = F.affine_grid(theta, [batch, 1, height, width], align_corners=False)
    if settings.elastic:
        coarse = torch.randn(batch, 2, _CELLS, _CELLS, generator=generator)
        coarse *= settings.elastic * 2.0 / torch.tensor([width, height]).view(2, 1, 1)
        fine = F.interpolate(coarse, (height, width), mode="bicubic", align_corners=True)
        grid = grid + fine.permute(0, 2, 3, 1)
    return F.grid_sample(images, grid.to(images.device), align_corners=False)


_SEEDS = 2**63 - 1
_WARMUP, _MEMORY = 0.2, 200.0
"""The share of the steps in which the step size rises, and the steps that are averaged, at most a tenth of all."""


class Examples(NamedTuple):
    """Inputs and labels as tensors."""

    inputs: Float[Tensor, "n ..."]
    labels: Int64[Tensor, " n"]

    def require_some(self) -> int:
        """How many they are; ValueError where there are none, or labels of another number."""
        n = len(self.inputs)
        if n < 1 or len(self.labels) != n:
            raise ValueError(
                f"expected one label for each of n >= 1 inputs, got {n} inputs and {len(self.labels)} labels"
            )
        return n


@record
class FitSettings:
    """How the prior's mean is trained."""

    optimizer: Literal["adamw", "sgd"] = "adamw"
    epochs: int = 10
    batch_size: int = 128
    step_size: float = 3e-3
    """The largest; for ``sgd`` with Nesterov momentum 0.9."""
    weight_decay: float = 1e-2
    augmentation: Augmentation = field(default_factory=Augmentation)

    def __post_init__(self) -> None:
        _check.count(epochs=self.epochs, batch_size=self.batch_size)
        _check.positive(step_size=self.step_size)
        _check.nonnegative(weight_decay=self.weight_decay)


def fit(
    module: nn.Module, data: Examples, *, settings: FitSettings, generator: torch.Generator,
    device: torch.device | str = "cpu"
) -> nn.Module:  # fmt: skip
    """A trained copy of ``module`` in eval mode; the module itself stays as it is.

    Args:
        data: all that training sees. One logit a class, two classes included.
        generator: a CPU generator: order, distortions, and dropout where the module has any.

    Raises:
        ValueError: no examples, or labels of another number.
        Diverged: the training loss is not finite.
    """
    n = data.require_some()
    images = data.inputs.ndim == 4
    form = (
        torch.channels_last if images else torch.contiguous_format
    )  # channels last: twice as fast on CPUs
    trained = _in_form(copy.deepcopy(module).to(device), form).train()
    per_epoch = math.ceil(n / settings.batch_size)
    steps = settings.epochs * per_epoch
    decay = 1.0 - 1.0 / min(_MEMORY, max(1.0, steps / 10))
    average = AveragedModel(trained, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True)
    optimizer = _OPTIMIZERS[settings.optimizer](
        trained.parameters(), lr=settings.step_size, weight_decay=settings.weight_decay
    )
    with torch.random.fork_rng(devices=[]):
        seed = int(torch.randint(_SEEDS, (), generator=generator))
        torch.set_rng_state(
            torch.Generator().manual_seed(seed).get_state()
        )  # which dropout draws from, until the end
        order = torch.arange(n)
        for step in range(steps):
            if step % per_epoch == 0:
                order = torch.randperm(n, generator=generator)
            start = step % per_epoch * settings.batch_size
            least = min(
                n, settings.batch_size, 2
            )  # a last batch of one has no variance for BatchNorm
            rows = order[min(start, n - least) : start + settings.batch_size]
            optimizer.param_groups[0]["lr"] = settings.step_size * _cycle(step / steps)
            inputs = data.inputs[rows].to(device)
            if images:
                inputs = augmented(inputs, settings.augmentation, generator).contiguous(
                    memory_format=form
                )
            outputs = trained(inputs)
            if not isinstance(outputs, torch.Tensor):
                raise ValueError(
                    f"the network returned {type(outputs).__name__}, and this training takes its logits alone: wrap it "
                    "in one that returns them"
                )
            loss = F.cross_entropy(outputs, data.labels[rows].to(device))
            if not bool(torch.isfinite(loss)):
                raise Diverged(step)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            average.update_parameters(trained)
    return _in_form(average.module, torch.contiguous_format).eval()


def _in_form(module: nn.Module, form: torch.memory_format) -> nn.Module:
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            layer.weight.data = layer.weight.data.contiguous(memory_format=form)
    return module


def _cycle(done: float) -> float:
    """The step size over its largest, once this share of the steps is done."""
    if done < _WARMUP:
        return 0.05 + 0.95 * done / _WARMUP
    return 0.5 + 0.5 * math.cos(math.pi * (done - _WARMUP) / (1.0 - _WARMUP))


_OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": partial(torch.optim.AdamW, betas=(0.9, 0.99), fused=True),
    "sgd": partial(torch.optim.SGD, momentum=0.9, nesterov=True),
}
