"""Images moved, sheared and scaled to standard moments, each by its own pixels alone.

With pixel values as masses, an image has a centre of mass, a slant (the regression of the horizontal on the vertical
position) and two spreads (standard deviations along the sides, the slant removed). Deskewing is the oldest remedy for
handwriting: LeCun et al. (1998), "Gradient-based learning applied to document recognition", section III.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def aligned(
    images: Float[Tensor, "n 1 height width"],
    *,
    strength: float,
    spreads: tuple[float, float] = (0.19, 0.15),
) -> Float[Tensor, "n 1 height width"]:
    """Centred images without slant, scaled by (spread / own spread)^strength along each side, bilinearly.

    Scales are kept between 1/2 and 5/2; an empty image stays empty.

    Args:
        images: values of zero or more.
        strength: 0 keeps the size, 1 makes all spreads equal.
        spreads: vertical and horizontal, as shares of height and width.
    """
    height, width = images.shape[2:]
    y, x = (
        torch.arange(size, dtype=images.dtype, device=images.device) for size in (height, width)
    )
    mass = images.sum((1, 2, 3)).clamp_min(1e-6)
    along_y, along_x = images.sum((1, 3)) / mass[:, None], images.sum((1, 2)) / mass[:, None]
    centre_y, centre_x = along_y @ y, along_x @ x
    var_y = (along_y @ y**2 - centre_y**2).clamp_min(0.25)
    covariance = torch.einsum("nhw,h,w->n", images[:, 0], y, x) / mass - centre_x * centre_y
    slant = covariance / var_y
    var_x = (along_x @ x**2 - centre_x**2 - slant * covariance).clamp_min(0.25)
    scale_y = ((var_y.sqrt() / (spreads[0] * height)) ** strength).clamp(0.4, 2.0)
    scale_x = ((var_x.sqrt() / (spreads[1] * width)) ** strength).clamp(0.4, 2.0)
    maps = torch.zeros((len(images), 2, 3), dtype=images.dtype, device=images.device)
    maps[:, 0, 0], maps[:, 1, 1] = scale_x, scale_y
    maps[:, 0, 1] = slant * scale_y * height / width
    maps[:, 0, 2] = (2.0 * centre_x + 1.0) / width - 1.0
    maps[:, 1, 2] = (2.0 * centre_y + 1.0) / height - 1.0
    return F.grid_sample(
        images, F.affine_grid(maps, list(images.shape), align_corners=False), align_corners=False
    )
