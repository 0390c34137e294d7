"""The private step, part by part. :mod:`pacdp.step.noise` holds its Gaussian noise and its Poisson batches."""
