"""Randomised networks: Gaussian weights, fresh for every example, and what they cost on the data."""

from pacdp.stochastic.count import mean_risks as mean_risks
from pacdp.stochastic.forward import FreshPass as FreshPass
from pacdp.stochastic.forward import fresh_pass as fresh_pass
from pacdp.stochastic.layers import NotByExample as NotByExample
from pacdp.stochastic.noise import Draws as Draws
from pacdp.stochastic.risk import MonteCarloRisk as MonteCarloRisk
from pacdp.stochastic.risk import passes_for as passes_for
