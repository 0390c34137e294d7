"""The private step: whose contributions are summed, how they are clipped, the noise, and the event that this is.

What it costs in epsilon is asked of ``accountant``; its price in a bound is made by ``bounds.noisy_runs``.
"""
