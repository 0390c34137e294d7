"""Gibbs posteriors over a finite set and what is bounded of them, at 50 digits or by brute force."""

import numpy as np
from kl_by_mpmath import halved, kl
from mpmath import exp, fsum, log, mpf

from bounds import binary_kl_upper


def kl_lower(q, nats):
    """inf{p : kl(q‖p) ≤ nats} to 30 digits, by bisection of ln p; 0 below e^-700."""

    def possible(log_p):
        return kl(q, exp(log_p)) <= nats

    return mpf(0) if possible(-700) else exp(halved(possible, log(q), mpf(-700))[1])


def posterior(prior, losses, tau):
    """ln Z, E_Q R̂ and KL(Q‖P) of Q ∝ P e^(-tau R̂), and the weights of Q."""
    weights = [mpf(p) * exp(-mpf(tau) * mpf(loss)) for p, loss in zip(prior, losses, strict=True)]
    whole = fsum(mpf(p) for p in prior)
    partition = fsum(weights) / whole
    mean = fsum(w * mpf(loss) for w, loss in zip(weights, losses, strict=True)) / fsum(weights)
    return (log(partition), mean, -mpf(tau) * mean - log(partition), [w / fsum(weights) for w in weights])


def certificate_on_a_grid(log_partition, tau, low, high, error_loss, nats, n, points=20_001):
    """The largest kl⁻¹((x - low)/(error_loss - low), (-ln Z - tau x + nats)/n) over x on a grid."""
    log_partition = max(log_partition, -tau * high)
    x = np.linspace(low, min(high, -log_partition / tau), points)
    risk = np.clip((x - low) / (error_loss - low), 0, 1)
    kl_nats = np.maximum(0.0, -log_partition - tau * x)
    return float(np.max(binary_kl_upper(risk, (kl_nats + nats) / n)))
