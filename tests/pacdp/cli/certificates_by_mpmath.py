"""The certificates of a report worked out again at 50 digits, from the papers' formulas and the report's raw numbers.

Shares no code with ``bounds`` or ``pacdp``. d is the failure probability; Theorem numbers are of Dziugaite and Roy.
"""

import mpmath as mp
from mpmath import exp, log, mpf, sqrt

from tests.oracles.kl_by_mpmath import kl_upper as inverse_kl
from tests.oracles.kl_by_mpmath import xi


def oscillation(max_loss):
    """Of -ln psi(p), psi(p) = e^-L + (1 - 2 e^-L) p: largest minus smallest value over p in [0, 1]."""
    floor = exp(-mpf(max_loss))
    return -log(floor) + log(floor + (1 - 2 * floor))


def epsilon(*, tau, beta, max_loss, n):
    """Theorem 4.4 (ICML 2018): 2 beta tau (oscillation of the loss) / n."""
    return 2 * mpf(beta) * mpf(tau) * oscillation(max_loss) / n


def transfer(*, n, eps, d):
    """docs/guarantees.md, sharp transfer."""
    return (sqrt(log(1 / d)) + eps * sqrt(mpf(n) / 8)) ** 2


def pac_bayes(name, *, risk, kl_nats, n, eps, d):
    """The three PAC-Bayes bounds with a private prior."""
    nats = {
        # ICML 2018, Theorem 4.3
        "dp_pac_bayes_2018": lambda: log(2 * sqrt(n)) + 2 * max(log(3 / d), n * eps**2),
        # NeurIPS 2018, Theorem 4.2
        "dp_pac_bayes_max_information": lambda: (
            log(2 * sqrt(n)) + log(2 / d) + n * eps**2 / 2 + eps * sqrt(n * log(4 / d) / 2)
        ),
        "dp_pac_bayes": lambda: log(xi(n)) + transfer(n=n, eps=eps, d=d),
    }[name]()
    return inverse_kl(risk, (kl_nats + nats) / n)


def weights(name, *, risk, n, eps, d):
    """H-, C- and kl-Chernoff bounds on the released weights: ICML 2018, Theorem 4.2, and docs/guarantees.md."""
    c = (eps / sqrt(8) + sqrt(log(1 / d) / n)) ** 2
    bar = max(eps, sqrt(log(3 / d) / n))
    value = {
        "dp_hoeffding_2018": lambda: risk + bar + 1 / sqrt(n),
        "dp_chernoff_2018": lambda: risk + sqrt(6 * risk) * (bar + 1 / sqrt(n)) + 6 * (bar**2 + mpf(1) / n),
        "dp_hoeffding": lambda: risk + eps / 4 + sqrt(log(1 / d) / (2 * n)),
        "dp_chernoff": lambda: risk + c + sqrt(c**2 + 2 * c * risk),
        "dp_kl_chernoff": lambda: inverse_kl(risk, c),
    }[name]()
    return min(mpf(1), value)


def clopper_pearson(k, n, d):
    """The p at which P(Bin(n, p) <= k) = 1 - I_p(k + 1, n - k) falls to d."""
    low, high = mpf(k) / n, mpf(1)
    for _ in range(120):
        middle = (low + high) / 2
        if 1 - mp.betainc(k + 1, n - k, 0, middle, regularized=True) >= d:
            low = middle
        else:
            high = middle
    return high


def without_draws(certificate, *, tau, eps, n):
    """The bound on the exact Gibbs posterior at its worst mean loss, from the log-partition bound it was given."""
    low, error = -log(1 - exp(-4)), log(2)
    given = certificate["inputs"]
    v, d = mpf(given["log_partition_lower_nats"]), mpf(given["failure_prob"])
    constant, cap = log(xi(n)) + transfer(n=n, eps=eps, d=d), mpf(certificate["terms"]["kl_cap_nats"])

    def at(x):
        kl_nats = min(cap, max(mpf(0), -v - tau * x))
        return inverse_kl(min(mpf(1), (x - low) / (error - low)), (kl_nats + constant) / n)

    left, right = low, min(mpf(4), -v / tau)
    for _ in range(60):  # rising, then falling
        a, b = left + (right - left) / 3, right - (right - left) / 3
        left, right = (a, right) if at(a) < at(b) else (left, b)
    return at((left + right) / 2)


def certificates(report, *, tau, beta, max_loss):
    """Name to value of every certificate of a report, from risks, counts, n and the failure probability."""
    n, d = report["n"], mpf(report["failure_prob"])
    gibbs, mean = report["gibbs"], report["details"]["weights"]
    eps = epsilon(tau=tau, beta=beta, max_loss=max_loss, n=n)
    found = {"test_set_clopper_pearson": clopper_pearson(mean["test"]["errors"], mean["test"]["n"], d)}
    for name in ("dp_hoeffding_2018", "dp_chernoff_2018", "dp_hoeffding", "dp_chernoff", "dp_kl_chernoff"):
        found[name] = weights(name, risk=mpf(mean["train"]["ramp"]), n=n, eps=eps, d=d)
    if gibbs:
        drawless = next((c for c in report["certificates"] if c["name"] == "dp_gibbs_pac_bayes"), None)
        if drawless:
            found["dp_gibbs_pac_bayes"] = without_draws(drawless, tau=tau, eps=eps, n=n)
        kl_nats = max(mpf(0), -tau * mpf(gibbs["loss"]) - mpf(gibbs["log_partition_nats"]))
        for name in ("dp_pac_bayes_2018", "dp_pac_bayes_max_information", "dp_pac_bayes"):
            found[name] = pac_bayes(name, risk=mpf(gibbs["error"]), kl_nats=kl_nats, n=n, eps=eps, d=d)
    return found
