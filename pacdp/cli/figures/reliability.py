"""Reliability diagram: accuracy against confidence with exact bands, and how many examples each bin holds."""

import numpy as np
from matplotlib.axes import Axes

from bounds import sentence
from pacdp.calibration import ReliabilityCurve


def draw(axes: Axes, curve: ReliabilityCurve) -> None:
    """Accuracy of each non-empty bin at its mean confidence, with its band; the diagonal; counts at the foot."""
    filled = curve.counts > 0
    confidence, accuracy = curve.confidence[filled], curve.accuracy[filled]
    widths = np.diff(curve.edges)
    axes.plot([0.0, 1.0], [0.0, 1.0], color="0.6", linewidth=0.8, label="calibrated")
    axes.vlines(
        confidence, confidence, accuracy, color="tab:red", linewidth=2.5, alpha=0.4, label="gap"
    )
    band = np.abs(np.stack([curve.lower[filled], curve.upper[filled]]) - accuracy)
    kind = "all bands" if curve.simultaneous else "each band"
    axes.errorbar(confidence, accuracy, yerr=band, fmt="o", color="tab:blue", markersize=3, linewidth=1, capsize=2,
                  label=f"accuracy, {kind} {sentence.confidence(curve.failure_prob)}")  # fmt: skip
    title = f"ECE (l1, {len(curve.counts)} bins) {curve.ece:.4f}, n = {curve.counts.sum()}"
    axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.04), xlabel="confidence", ylabel="accuracy", title=title)
    axes.legend()
    counts = axes.twinx()
    counts.bar(
        curve.edges[:-1],
        curve.counts,
        width=widths,
        align="edge",
        color="0.8",
        edgecolor="white",
        zorder=0,
    )
    counts.set_ylim(0.0, 4.0 * float(curve.counts.max()))
    counts.set_yticks([0, int(curve.counts.max())])
    counts.set_ylabel("examples", loc="bottom")
    axes.set_zorder(counts.get_zorder() + 1)
    axes.patch.set_visible(False)
