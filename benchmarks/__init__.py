"""Side-by-side timings: ours and the plain way in the same run, medians and ratios."""
