"""Errors of regression as losses in [0, 1]: clipped at a size that is printed with every number."""

import sys
from dataclasses import dataclass
from numbers import Real
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedError:
    """The size of an error, or its square, over the size at which it is clipped: min(|y - f|, at)/at, or its square.

    Attributes:
        at: the size from which on all errors count alike; fixed before the examples were seen.
        kind: "absolute" or "squared".

    Where outputs have several numbers an example, the mean over these.
    """

    at: float
    kind: Literal["absolute", "squared"] = "absolute"

    def __post_init__(self) -> None:
        if (
            isinstance(self.at, bool)
            or not isinstance(self.at, Real)
            or not 0.0 < self.at <= sys.float_info.max
        ):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"expected ClippedError.at as a positive number, got {self.at!r}")
        if self.kind not in ("absolute", "squared"):
            raise ValueError(
                f"expected ClippedError.kind as 'absolute' or 'squared', got {self.kind!r}"
            )

    @property
    def name(self) -> str:
        """What the loss is called in certificates, with its clip."""
        share = "it" if self.kind == "absolute" else "its square"
        return f"{self.kind} error clipped at {self.at:g}, as a share of {share}"

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The losses [m] of outputs [m, ...] against targets of the same shape, up to a last axis of one."""
        flat, wanted = (
            outputs.reshape(len(outputs), -1).double(),
            targets.reshape(len(targets), -1).double(),
        )
        if flat.shape != wanted.shape:
            raise ValueError(
                f"expected outputs and targets of one shape, got {tuple(outputs.shape)} and {tuple(targets.shape)}"
            )
        if not bool(wanted.isfinite().all()):
            raise ValueError(
                "targets must be finite numbers, got NaN or infinity: leave these examples out"
            )
        share = torch.nan_to_num((flat - wanted).abs() / self.at, nan=1.0).clamp(max=1.0)
        return (share if self.kind == "absolute" else share.square()).mean(dim=1)

    def of_arrays(self, outputs: np.ndarray, targets: np.ndarray) -> Float64[np.ndarray, " m"]:
        """The same for arrays; ValueError where they hold anything but real numbers."""
        real = dict[str, Tensor]()
        for name, values in {
            "predictions": np.asarray(outputs),
            "targets": np.asarray(targets),
        }.items():
            try:
                if values.dtype.kind not in "biufO" or values.ndim == 0:
                    raise TypeError(f"{values.dtype} of shape {values.shape}")
                real[name] = torch.as_tensor(values.astype(np.float64))
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"{name} must be real numbers, one for each example: {error}"
                ) from error
        return self(real["predictions"], real["targets"]).numpy()
