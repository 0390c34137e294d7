"""The reliability diagram shows the curve it is given."""

import numpy as np
from numpy.random import default_rng

from pacdp.calibration import reliability_curve
from pacdp.cli.figures import style
from pacdp.cli.figures.run import draw_reliability


def test_points_bands_and_counts_are_the_curve_s(tmp_path):
    drawn, ((axes,),) = style.figure(1, 1)
    generator = default_rng(0)
    probabilities = generator.dirichlet(np.ones(4), size=60)
    curve = reliability_curve(probabilities, generator.integers(0, 4, 60), bins=10)
    draw_reliability(axes, {**curve.columns(), "simultaneous": curve.simultaneous, "failure_prob": curve.failure_prob})
    filled = curve.counts > 0
    assert not filled.all(), "an empty bin is left out"
    (container,) = axes.containers
    points = container.lines[0].get_xydata()
    assert np.allclose(points, np.stack([curve.confidence[filled], curve.accuracy[filled]], axis=1))
    ends = np.array([segment[:, 1] for segment in container.lines[2][0].get_segments()])
    assert np.allclose(ends, np.stack([curve.lower[filled], curve.upper[filled]], axis=1))
    assert all(path.stat().st_size > 5_000 for path in style.save(drawn, tmp_path / "reliability"))
