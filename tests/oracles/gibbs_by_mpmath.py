"""Gibbs posteriors over a finite set and what is bounded of them, at 50 digits or by brute force."""

import mpmath as mp
import numpy as np
from kl_by_mpmath import kl

import bounds


def kl_lower(q, nats):
    """inf{p : kl(q‖p) ≤ nats} to 30 digits, by bisection of ln p; 0 below e^-700."""
    low, high, nats = mp.mpf(-700), mp.log(q), mp.mpf(nats)
    if kl(q, mp.exp(low)) <= nats:
        return mp.mpf(0)
    for _ in range(110):
        middle = (low + high) / 2
        low, high = (low, middle) if kl(q, mp.exp(middle)) <= nats else (middle, high)
    return mp.exp(low)


def posterior(prior, losses, tau):
    """ln Z, E_Q R̂ and KL(Q‖P) of Q ∝ P e^(-tau R̂), and the weights of Q."""
    weights = [mp.mpf(p) * mp.exp(-mp.mpf(tau) * mp.mpf(loss)) for p, loss in zip(prior, losses, strict=True)]
    whole = mp.fsum(mp.mpf(p) for p in prior)
    partition = mp.fsum(weights) / whole
    mean = mp.fsum(w * mp.mpf(loss) for w, loss in zip(weights, losses, strict=True)) / mp.fsum(weights)
    return mp.log(partition), mean, -mp.mpf(tau) * mean - mp.log(partition), [w / mp.fsum(weights) for w in weights]


def certificate_on_a_grid(log_partition, tau, low, high, error_loss, nats, n, points=20_001):
    """The largest kl⁻¹((x - low)/(error_loss - low), (-ln Z - tau x + nats)/n) over x on a grid."""
    log_partition = max(log_partition, -tau * high)
    x = np.linspace(low, min(high, -log_partition / tau), points)
    risk = np.clip((x - low) / (error_loss - low), 0, 1)
    kl_nats = np.maximum(0.0, -log_partition - tau * x)
    return float(np.max(bounds.binary_kl_upper(risk, (kl_nats + nats) / n)))
