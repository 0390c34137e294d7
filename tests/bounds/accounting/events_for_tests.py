"""Short names for schedules."""

from bounds.accounting import Gaussian, PoissonSampled, SelfComposed


def steps(noise_multiplier, sample_rate, count=1):
    one = PoissonSampled(sample_rate=sample_rate, event=Gaussian(noise_multiplier=noise_multiplier))
    return SelfComposed(event=one, count=count)


HEADLINE = steps(1.1, 256 / 60000, 3516)
