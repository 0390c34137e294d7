"""What the temperature map says of the paper: laws by temperature, their bounds, and the sentences they decide."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import polars as pl

import bounds
from experiments.claims import Claim, Comparison, Point, below, every, point, say
from experiments.tables import part
from pacdp.cli.recipes import Scale

SAME = 0.03
"""Errors that differ by less are called the same."""
PRINTED = 0.02
ABOUT = 0.05
"""An error below is called "about 2%"."""
FAILURE_PROB = 0.05
WEIGHTS = ("dp_hoeffding_2018", "dp_chernoff_2018", "dp_hoeffding", "dp_chernoff", "dp_kl_chernoff")
GIBBS = ("dp_pac_bayes_2018", "dp_pac_bayes_max_information", "dp_pac_bayes", "dp_gibbs_pac_bayes")
MAIN: dict[str, Any] = {"about": "ladder", "network": "FC100"}


class Law(NamedTuple):
    """What chains of one temperature were seen to do."""

    times: float
    """τ over √n."""
    epsilon: float
    error: float
    """Mean over starts of the minibatches' error in the second half."""
    noise: float
    """Two standard errors of it."""
    apart: float
    """By how much starts differ."""
    test_error: float
    loss: float
    """The largest of the starts' mean losses, two standard errors above."""
    least_loss: float
    """The least, two standard errors below."""
    rows: list[dict[str, Any]]

    @property
    def met(self) -> bool:
        """Whether all starts stay at one error; of a single start nothing speaks against it."""
        return len(self.rows) < 2 or below(self.apart, SAME, self.noise) is True

    @property
    def most(self) -> float:
        """The largest of the starts' mean errors, two standard errors above."""
        return min(1.0, max(row["mean_error"] for row in self.rows) + self.noise)


def laws(table: pl.DataFrame, **where: Any) -> list[Law]:
    """One a temperature, from hot to cold, of the chains whose columns have these values."""
    own = part(table, **where)
    found = []
    for tau in sorted(own["tau"].unique().to_list()) if not own.is_empty() else []:
        rows = part(own, tau=tau).to_dicts()
        errors = [row["mean_error"] for row in rows]
        mcse = max(row["mean_error_mcse"] for row in rows)
        found.append(
            Law(
                times=rows[0]["times"],
                epsilon=rows[0]["epsilon"],
                error=sum(errors) / len(errors),
                noise=2 * mcse,
                apart=max(errors) - min(errors),
                test_error=sum(row["test_error"] for row in rows) / len(rows),
                loss=max(row["mean_loss"] + 2 * row["mean_loss_mcse"] for row in rows),
                least_loss=min(row["mean_loss"] - 2 * row["mean_loss_mcse"] for row in rows),
                rows=rows,
            )
        )
    return found


def at(found: Sequence[Law], times: float) -> Law | None:
    """The law at so many √n; None where it was not run."""
    near = [law for law in found if abs(law.times / times - 1.0) < 1e-6]
    return near[0] if near else None


def integrated(table: pl.DataFrame, **where: Any) -> list[tuple[Law, float]]:
    """Each law of a ladder with the divergence of its Gibbs law from the base measure, by the left Riemann sum of mean
    losses over temperatures; larger than the truth, were the means exact."""
    ladder = laws(table, **where)
    if not ladder:
        return []
    taus, means, found = [0.0], [ladder[0].rows[0]["prior_loss"]], []
    for law in ladder:
        taus.append(law.rows[0]["tau"])
        means.append(min(law.loss, means[-1]))
        whole = bounds.thermodynamic_integration(taus=taus, mean_losses=means)
        kl = bounds.gibbs_kl(mean_loss_nats=taus[-1] * law.least_loss, log_partition_nats=whole.log_partition_nats)
        found.append((law, kl.kl_nats))
    return found


def certified(table: pl.DataFrame) -> list[dict[str, Any]]:
    """Error, epsilon and every bound at the temperatures of the two ladders at which starts meet; all optimistic."""
    found = []
    for law, kl in integrated(table, **MAIN, algorithm="SGLD"):
        if not law.met:
            continue
        made = bounds.maurer(risk=law.most, kl_nats=kl, n=law.rows[0]["n"], failure_prob=FAILURE_PROB)
        every_bound = {"data-free PAC-Bayes": made.value}
        every_bound |= {name: max(row[name] for row in law.rows) for name in WEIGHTS}
        found.append({"algorithm": "SGLD", "law": law, "kl_nats": kl, "bounds": every_bound})
    for law in (one for one in laws(table, **MAIN, algorithm="Entropy-SGLD") if one.met):
        names = [name for name in (*WEIGHTS, *GIBBS) if all(row[name] is not None for row in law.rows)]
        every_bound = {name: max(row[name] for row in law.rows) for name in names}
        found.append({"algorithm": "Entropy-SGLD", "law": law, "kl_nats": None, "bounds": every_bound})
    return found


def coldest_needed(found: Sequence[Law], error: float) -> tuple[float, float] | None:
    """τ/√n and epsilon at which the error falls to ``error``, on a line between logarithms; None if it never does."""
    for hot, cold in pairwise(found):
        if hot.error > error >= cold.error:
            share = (math.log(hot.error) - math.log(error)) / (math.log(hot.error) - math.log(cold.error))
            return tuple(a ** (1 - share) * b**share for a, b in ((hot.times, cold.times), (hot.epsilon, cold.epsilon)))  # type: ignore[return-value]
    return None


def colder_by(found: Sequence[Law], law: Law | None) -> float | None:
    """How many times as cold the ladder is where its error is that of ``law``, which has something besides."""
    where = None if law is None else coldest_needed(found, law.error)
    return None if where is None or law is None else where[0] / law.times


_OTHERS = (("FC600", "none"), ("CONV", "none"), ("CONV", "group"), ("CONV", "batch"))
NETWORKS = (
    {"about": "ladder", "network": "FC100"},
    {"about": "ten classes", "network": "FC100"},
    *({"about": "networks", "network": network, "norm": norm} for network, norm in _OTHERS),
)


def called(where: Mapping[str, Any]) -> str:
    """The network of some chains, for sentences and legends."""
    norm = where.get("norm", "none")
    name = where["network"] + (" on ten classes" if where["about"] == "ten classes" else "")
    return name + ("" if norm == "none" else f" with {norm.capitalize()}Norm")


def claims(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """What the law's error is at τ = √n, and what moves it."""
    del scale
    for where in NETWORKS:
        for algorithm in ("SGLD", "Entropy-SGLD"):
            law = at(laws(table, **where, algorithm=algorithm), 1.0)
            if law is not None:
                yield from _at_root(f"{algorithm}, {called(where)}", law)
    yield from _steps(table)
    yield from _momentum(table)
    yield _contradiction(laws(table, **MAIN, algorithm="SGLD"))
    yield from _cold(table)


def _at_root(name: str, law: Law) -> Iterator[Claim]:
    starts = {row["start"]: row["mean_error"] for row in law.rows}
    if len(starts) > 1:
        told = ", ".join(f"{start} {error:.4f}" for start, error in starts.items())
        sentence = f"{name}: at tau = sqrt(n) chains from the base measure and from SGD's weights meet at an error."
        agreed = f", R-hat {law.rows[0]['r_hat']:.2f}" if law.rows[0].get("r_hat") is not None else ""
        yield Claim(sentence, below(law.apart, SAME, law.noise), f"{told}{agreed}; the same within {SAME:g}")
    if name.startswith("Entropy-SGLD") and "ten classes" not in name:
        sentence = f"{name}: at tau = sqrt(n) the error is about 2% (Section 5.2; here: below {ABOUT:g})."
        yield Claim(
            sentence, below(law.error, ABOUT, law.noise), f"{law.error:.4f}, two standard errors {law.noise:.4f}"
        )


_STEPS = {"SGLD": ("step_size",), "Entropy-SGLD": ("step_size", "inner_step_size", "inner_steps")}


def _steps(table: pl.DataFrame) -> Iterator[Claim]:
    for algorithm, columns in _STEPS.items():
        rows = part(part(table, about="steps", algorithm=algorithm), times=1.0).sort(*columns).to_dicts()
        if len(rows) < 2:
            continue
        errors = [row["mean_error"] for row in rows]
        noise = 2 * max(row["mean_error_mcse"] for row in rows)
        told = ", ".join(
            f"{' '.join(f'{name} {row[name]:g}' for name in columns)}: {row['mean_error']:.4f}" for row in rows
        )
        sentence = f"{algorithm}, FC100: at tau = sqrt(n) no step size brings the error to about 2%."
        yield Claim(sentence, every(below(ABOUT, error, noise) for error in errors), told)


def _momentum(table: pl.DataFrame) -> Iterator[Claim]:
    plain = laws(table, **MAIN, start="sgd", algorithm="SGLD")
    heavy = laws(table, about="momentum", algorithm="SGLD")
    pairs = [(law, _between(plain, 10.0 * law.times)) for law in heavy]
    pairs = [(law, error) for law, error in pairs if error is not None]
    told = ", ".join(f"tau {law.times:g} sqrt(n): {law.error:.4f} against {error:.4f}" for law, error in pairs)
    sentence = (
        "Momentum of 0.9 as the paper's code base has it, with the noise outside, makes SGLD's law 10 times colder."
    )
    holds = every(below(abs(law.error - error), 0.01, law.noise) for law, error in pairs)
    yield Claim(sentence, holds, f"{told}; the same within 0.01")
    ladder = laws(table, **MAIN, algorithm="Entropy-SGLD", start="sgd")
    for name, inner, outer in (("its inner loop", 0.9, 0.0), ("its outer loop", 0.0, 0.9), ("both loops", 0.9, 0.9)):
        law = at(laws(table, about="momentum", algorithm="Entropy-SGLD", momentum=inner, outer_momentum=outer), 1.0)
        if law is None:
            continue
        colder = colder_by(ladder, law)
        sentence = f"Momentum of 0.9 in {name} explains Entropy-SGLD's 2% (here: an error below {ABOUT:g})."
        told = f"{law.error:.4f}, two standard errors {law.noise:.4f}"
        told += f"; the error of a target {colder:.1f} times as cold" if colder else ""
        yield Claim(sentence, below(law.error, ABOUT, law.noise), told)


def _between(found: Sequence[Law], times: float) -> float | None:
    """The error at a temperature between two of a ladder, on a line between logarithms."""
    for hot, cold in pairwise(found):
        if hot.times <= times <= cold.times:
            share = math.log(times / hot.times) / math.log(cold.times / hot.times)
            return hot.error ** (1 - share) * cold.error**share
    return None


def _contradiction(found: Sequence[Law]) -> Claim:
    hot, cold = (_at_noise(found, noise) for noise in (0.1, 0.09))
    sentence = "SGLD's error falls from close to 50% at thermal noise 0.1 (Figure 1) to about 5% at 0.09 (Figure 3)."
    if hot is None or cold is None:
        return Claim(sentence, None, "not run at this scale")
    told = f"{hot.error:.4f} at 0.1, {cold.error:.4f} at 0.09, two standard errors {max(hot.noise, cold.noise):.4f}"
    return Claim(sentence, below(0.3, hot.error - cold.error, hot.noise + cold.noise), told)


def _at_noise(found: Sequence[Law], noise: float) -> Law | None:
    near = [law for law in found if abs(law.rows[0]["tau"] * noise**2 / 2.0 - 1.0) < 1e-9]
    return near[0] if near else None


def _cold(table: pl.DataFrame) -> Iterator[Claim]:
    for algorithm in ("SGLD", "Entropy-SGLD"):
        found = [law for law in laws(table, **MAIN, algorithm=algorithm) if len(law.rows) > 1]
        if not found:
            continue
        apart = [law for law in found if not law.met]
        told = ", ".join(f"{law.times:.3g} sqrt(n): {law.apart:.4f}" for law in apart) or "none"
        sentence = f"{algorithm}, FC100: at every temperature chains from both starts stay at the same error."
        yield Claim(
            sentence, not apart, f"{len(apart)} of {len(found)} temperatures differ by {SAME:g} or more: {told}"
        )


def numbers(table: pl.DataFrame, scale: Scale) -> Iterator[Comparison]:
    """Where the printed error belongs, and the best bounds."""
    del scale
    for algorithm in ("SGLD", "Entropy-SGLD"):
        found = laws(table, **MAIN, algorithm=algorithm, start="sgd")
        where = coldest_needed(found, PRINTED)
        what = f"{algorithm}, FC100, from SGD's weights: tau over sqrt(n) at which the error is 2%"
        why = "the paper has about 2% at 1; chains this cold do not leave the region where they start"
        yield Comparison(what, 1.0, where and where[0], why)
        what = f"{algorithm}, FC100: epsilon of the target there"
        yield Comparison(what, 0.0327, where and where[1], "2 tau Delta / n, replace-one, if the chain had converged")
    limit = zero_step(table)
    what, why = "SGLD, FC100, tau = sqrt(n): error extrapolated to steps of length 0", "a line through the step sizes"
    yield Comparison(what, PRINTED, limit, why)
    made = certified(table)
    for algorithm in ("SGLD", "Entropy-SGLD"):
        own = [(min(one["bounds"].values()), one) for one in made if one["algorithm"] == algorithm]
        if own:
            value, best = min(own, key=lambda pair: pair[0])
            name = min(best["bounds"], key=best["bounds"].get)
            law = best["law"]
            why = f"{name} at tau {law.times:.3g} sqrt(n), stationary error {law.error:.4f}; optimistic"
            what = f"{algorithm}, FC100: the least bound at any temperature at which both starts meet"
            yield Comparison(what, None, value, why)


def zero_step(table: pl.DataFrame) -> float | None:
    """SGLD's error at τ = √n on the least-squares line through its step sizes, at 0."""
    rows = part(part(table, about="steps", algorithm="SGLD"), times=1.0).to_dicts()
    if len(rows) < 3:
        return None
    xs, ys = [row["step_size"] for row in rows], [row["mean_error"] for row in rows]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / sum((x - mean_x) ** 2 for x in xs)
    return mean_y - slope * mean_x


def points(table: pl.DataFrame, scale: Scale, made: Sequence[Claim]) -> Iterator[Point]:
    """Why Entropy-SGLD stops where it does, and what momentum and temperature have to do with it."""
    law = at(laws(table, **MAIN, algorithm="Entropy-SGLD"), 1.0)
    if law is None or scale == "smoke":
        return
    where = coldest_needed(laws(table, **MAIN, algorithm="Entropy-SGLD", start="sgd"), PRINTED)
    said = (
        "Entropy-SGLD at tau = sqrt(n) stops where its own law does: chains from the base measure and from SGD's "
        "weights meet at an error of {error:.3f}; from SGD's weights 2% belongs to a target {times:.0f} times as cold, "
        "whose epsilon is {epsilon:.1f}"
    )
    numbers = {"error": law.error, "times": where and where[0], "epsilon": where and where[1]}
    yield point(made, "Entropy-SGLD, FC100: at tau = sqrt(n) chains from", say(said, **numbers))
    both = at(laws(table, about="momentum", algorithm="Entropy-SGLD", momentum=0.9, outer_momentum=0.9), 1.0)
    if both is not None:
        said = "Momentum of 0.9, which the paper's code base has, explains its 2%: with it the error is {error:.3f}"
        yield point(made, "both loops explains", say(said, error=both.error))


NOTES = (
    "An error is the mean over minibatches of the second half of a chain, steps of constant length, with the Monte "
    "Carlo standard error of its effective draws; a difference counts beyond two of them. Each chain has one noise "
    "seed.",
    "The base measure's standard deviation is part of the law and is 1 unless said; the paper's target has none and is "
    "no distribution.",
    "Every bound here takes the chain for an exact draw from its target and is optimistic. The divergence of SGLD's "
    "Gibbs law from the base measure is the left Riemann sum of mean losses over the ladder of temperatures, two "
    "standard errors on the large side; each bound has its failure probability of 0.05 by itself.",
    "With BatchNorm the loss of an example depends on its batch, and the law is that of no mean over examples: what is "
    "said of it rests on one hypothesis more, which is unproved.",
    "Where chains from two starts do not meet, an error is that of the start and not of the law.",
)
