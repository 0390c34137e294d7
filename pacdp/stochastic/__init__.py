"""Stochastic networks: Gaussian weights, fresh for every example, and what they cost on the data."""
