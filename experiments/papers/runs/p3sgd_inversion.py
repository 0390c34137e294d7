"""The inversion of a trained network, as in the paper's Figure 3, and of its classes.

*Features*: the attacker holds the outputs of the last convolution's activation for an image (the paper: of the third
residual block) and searches for an image with the same ones. Images of the training set and of the test set are
attacked alike. *Class*: the attacker holds the network alone and climbs to a class; the result is compared with the
mean of the training images of that class, and with the one that comes closest.

Both start from the mean of test images that are not attacked, and its own ratio is recorded: what the attacker had
before asking the network.
"""

import base64
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from experiments.papers.runs.p3sgd_config import Attack
from experiments.papers.runs.p3sgd_material import Material
from experiments.papers.runs.p3sgd_networks import maps
from pacdp.audit.inversion import class_attack, closest_psnr, psnr, search_attack

Row = dict[str, Any]


def attacked(attack: Attack, module: nn.Sequential, found: Material, *, seed: int) -> list[Row]:
    """A row for each attacked image and, twice, each class: its ratio in decibels, and that of the start.

    Which images are attacked depends on data and ``seed`` alone, so that all networks are asked about the same ones.
    """
    module.eval()
    generator = torch.Generator().manual_seed(seed)
    train = _drawn(len(found.inputs), attack.images, generator)
    test = _drawn(len(found.test_inputs), attack.images, generator)
    others = torch.ones(len(found.test_inputs), dtype=torch.bool, device=found.inputs.device)
    others[test] = False
    start = found.test_inputs[others].mean(0)
    return [
        *_features(attack, module, "train", found.inputs[train], found.labels[train], start),
        *_features(attack, module, "test", found.test_inputs[test], found.test_labels[test], start),
        *_classes(attack, module, found, start),
    ]


def _drawn(n: int, count: int, generator: torch.Generator) -> Tensor:
    return torch.randperm(n, generator=generator)[:count]


def _features(
    attack: Attack, module: nn.Sequential, part: str, inputs: Tensor, labels: Tensor, start: Tensor
) -> list[Row]:
    begin = start.expand_as(inputs)
    made = search_attack(maps(module), inputs, begin, steps=attack.feature_steps,
                                 smoothness=attack.smoothness)  # fmt: skip
    before = psnr(begin, inputs)
    return [
        _row(attack, k, attack="features", part=part, reference="the image", label=int(labels[k]),
             psnr=made.psnr[k], start=before[k], original=inputs[k], made=made.reconstructed[k])
        for k in range(len(inputs))
    ]  # fmt: skip


def _classes(attack: Attack, module: nn.Sequential, found: Material, start: Tensor) -> list[Row]:
    present = found.labels.unique()
    begin = start.expand(len(present), *start.shape)
    made = class_attack(
        module,
        present,
        begin,
        steps=attack.class_steps,
        step_size=attack.class_step_size,
        smoothness=attack.class_smoothness,
    )
    rows = []
    for k, label in enumerate(present.tolist()):
        images = found.inputs[found.labels == label]
        mean, one, first = images.mean(0, keepdim=True), made[k : k + 1], begin[k : k + 1]
        ratios = {
            "class mean": (psnr(one, mean), psnr(first, mean)),
            "closest image": (closest_psnr(one, images), closest_psnr(first, images)),
        }
        rows += [
            _row(attack, k, attack="class", part="train", reference=reference, label=label, psnr=after[0],
                 start=before[0], original=mean[0], made=one[0])
            for reference, (after, before) in ratios.items()
        ]  # fmt: skip
    return rows


def _row(settings: Attack, example: int, *, psnr: Tensor, start: Tensor, original: Tensor, made: Tensor,
         **columns: Any) -> Row:  # fmt: skip
    shown = example < settings.pictures
    return columns | {
        "example": example, "psnr": min(float(psnr), 200.0), "start_psnr": min(float(start), 200.0),
        "height": made.shape[-2], "width": made.shape[-1],
        "original": _text(original) if shown else None, "made": _text(made) if shown else None,
    }  # fmt: skip


def _text(image: Tensor) -> str:
    """The first channel as bytes, in base64: a plain value that a table can hold."""
    grey = (image[0].clamp(0.0, 1.0) * 255.0).round().to(torch.uint8).cpu().numpy()
    return base64.b64encode(np.ascontiguousarray(grey).tobytes()).decode()
