"""Layers with random weights or masks, priors on weights, and predictions averaged over draws of them."""
