"""Gaps between training and test error beyond chance, bounds on errors, and what studies of chains claim of both.

A generalisation gap is a test error minus a training error. Both are counts, so that a gap is said to be there, or not
to be there, only beyond two standard deviations of the difference of two counts; in between the claim is left open.

That there is no gap counts only where something was learnt (:func:`learns`): a network that guesses has none either.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from experiments.claims import (
    TEST_FAILURE_PROB,
    Claim,
    Measured,
    Point,
    above,
    below,
    by_seeds,
    count_noise,
    every,
    least_risk,
    say,
)
from experiments.papers.chains import Line, Size, final, noise_up_to, pick, private
from pacdp.cli.config import Run
from pacdp.cli.figures import names
from pacdp.cli.figures.numbers import up
from pacdp.cli.recipes import Scale

HIGH = 0.1
"""A gap that is called high."""
OVERFITS = 0.05
"""A gap above which random labels are called overfitted, and below which a generalization error is called low."""
HARMLESS = 0.02
"""A gap that counts as almost none."""
VACUOUS = 0.999
"""A bound from here on can hardly lie below a test error, and says nothing by not doing so."""
LEARNT = 0.5
"""The share of the error of guessing below which a training error on true labels shows that something was learnt."""
LITTLE = "open where little was learnt"
UNFINISHED = "no such run has finished"
_SETTING = ("algorithm", "network", "thermal_noise", "gamma", "beta", "n")
"""The columns in which a run on random labels agrees with its twin on true ones."""
LETTERS = {"dp_pac_bayes_2018": "PAC-Bayes bound", "dp_hoeffding_2018": "H-bound", "dp_chernoff_2018": "C-bound"}
"""The bounds as the paper states and names them."""
CONVERGENCE = (
    "Every bound here is optimistic: it takes the weights for a draw from the chain's private target, and nothing "
    "shows that a chain has reached it."
)
EXPECTED = "No bound is violated more frequently than it is expected to be (Section 5)."
_ONE_RUN = (
    "One run a setting: what another seed would change is not measured. Differences of errors within two standard "
    "errors of the counts decide nothing; beyond them they may still be the seed's."
)
_WEAK = 1.0 / 3.0
"""The share of the error of guessing above which a training error on true labels is remarked upon."""
_HOW = ((0.8, "Hardly anything"), (0.5, "Little"), (0.0, "Only part"))
"""What was learnt where the least such error exceeds this share."""
_WORDS = {"train_error": "training error", "test_error": "test error", "dp_chernoff_2018": "C-bound"}


def gap(row: Line, prefix: str = "") -> float:
    """Test minus training error, of the weights or, with ``gibbs_``, of the Gibbs classifier."""
    return row[f"{prefix}test_error"] - row[f"{prefix}train_error"]


def noise_of(row: Line, prefix: str = "") -> float:
    """Two standard deviations of a gap between the two counts of this row."""
    return count_noise((row[f"{prefix}train_error"], row["n"]), (row[f"{prefix}test_error"], row["n_test"]))


def noise_between(one: Line, other: Line, name: str, other_name: str | None = None) -> float:
    """Two standard deviations of the difference of two runs' errors; of bounds, that of their training errors."""
    counted = []
    for row, of in ((one, name), (other, other_name or name)):
        of = of if of.endswith("_error") else "train_error"
        counted.append((row[of], row["n_test" if of.endswith("test_error") else "n"]))
    return count_noise(*counted)


def lower(one: Line, other: Line, name: str, other_name: str | None = None) -> bool | None:
    """Whether the first run's error or bound is lower, beyond the noise of counts."""
    return below(one[name], other[other_name or name], noise_between(one, other, name, other_name))


def named(row: Line) -> str:
    """A run in a sentence."""
    network = f", {row['network']}" if row.get("network") is not None else ""
    temperature = f", noise {row['thermal_noise']:.3g}" if row.get("tau") is not None else ""
    labels = row["labels"] if "labels" in row else f"{row['random_share']:.0%} random"
    return f"{row['algorithm']} on {labels} labels{network}{temperature}"


def _prefixes(row: Line) -> list[str]:
    """The classifiers whose errors are judged: the weights', and Entropy-SGLD's Gibbs classifier's (Section 5)."""
    gibbs = row["algorithm"] == "Entropy-SGLD" and None not in (row["gibbs_train_error"], row["gibbs_test_error"])
    return ["", "gibbs_"] if gibbs else [""]


def _twins(row: Line, among: Sequence[Line]) -> list[Line]:
    """The runs on true labels at a run's own settings, itself included if its labels are true."""
    true = (one for one in among if one.get("labels", "true") == "true" and not one.get("random_share"))
    return [one for one in true if all(one.get(name) == row.get(name) for name in _SETTING)]


def learns(row: Line, among: Sequence[Line], chance: float, prefix: str = "") -> bool:
    """Whether a run's settings learn: their training error on true labels is below half of that of guessing, beyond
    chance. False where no run on true labels shows it."""
    errors = [(one[f"{prefix}train_error"], one["n"]) for one in _twins(row, among)]
    return bool(errors) and all(below(error, LEARNT * chance, count_noise((error, n))) is True for error, n in errors)


def learnt_share(rows: Sequence[Line], chance: float) -> str:
    """For sentences on a gap that is missing: how much the same settings learn of true labels, and the limit."""
    errors = [row["train_error"] for row in rows]
    told = "" if not errors else f"{min(errors):.3f}" if len(errors) < 2 else f"{min(errors):.3f} to {max(errors):.3f}"
    return f"its training error on true labels is {told}, below {LEARNT * chance:g} being asked" if told else ""


def unlearnt(rows: Sequence[Line], among: Sequence[Line], chance: float) -> str:
    """For evidence: which runs' settings were not seen to learn; nothing where all were."""
    told = []
    for row in rows:
        if not all(learns(row, among, chance, prefix) for prefix in _prefixes(row)):
            own = ", ".join(f"{one['train_error']:.3f}" for one in _twins(row, among)) or "none"
            told.append(f"{named({**row, 'labels': 'true'})}: {own}")
    limit = f"training error on true labels not below {LEARNT * chance:g}, half of guessing"
    return f"; {LITTLE} ({limit}): {'; '.join(dict.fromkeys(told))}" if told else ""


def _gaps(
    rows: Sequence[Line], least: float | None, most: float | None, *, among: Sequence[Line], chance: float
) -> list[bool | None]:
    found = list[bool | None]()
    for row, prefix in ((one, prefix) for one in rows for prefix in _prefixes(one)):
        over, noise = gap(row, prefix), noise_of(row, prefix)
        holds = above(over, least, noise) if least is not None else below(over, most or 0.0, noise)
        missing = holds is (least is None)  # what holds or fails because there is no gap
        found.append(None if missing and not learns(row, among, chance, prefix) else holds)
    return found


def gaps_claim(
    sentence: str,
    rows: Sequence[Line],
    *,
    among: Sequence[Line],
    chance: float,
    least: float | None = None,
    most: float | None = None,
) -> Claim:
    """Whether the gaps of all rows are above, or below, a value, beyond chance; None within it, and without rows.

    Entropy-SGLD has two gaps, of its mean and of its Gibbs classifier. A gap that is missing says something only where
    the same settings learn (:func:`learns`).

    Args:
        among: the last records of all runs, in which the twins on true labels are looked for.
        chance: the error of guessing.
    """
    if not rows:
        return Claim(sentence, None, UNFINISHED)
    limit = f"above {least:g}" if least is not None else f"below {most:g}"
    told = []
    for row in rows:
        errors = ((prefix, row[f"{prefix}train_error"], row[f"{prefix}test_error"]) for prefix in _prefixes(row))
        shown = (f"{'Gibbs ' if prefix else ''}train {train:.3f}, test {test:.3f}" for prefix, train, test in errors)
        told.append(f"{named(row)}: {', '.join(shown)}")
    evidence = f"test minus train {limit}, beyond two standard errors? {'; '.join(told)}"
    seen = _gaps(rows, least, most, among=among, chance=chance)
    left = [row for row, one in zip(rows, _by_row(rows, seen), strict=True) if None in one]
    return Claim(sentence, every(seen), evidence + unlearnt(left, among, chance))


def _by_row(rows: Sequence[Line], seen: Sequence[bool | None]) -> Iterator[list[bool | None]]:
    answers = iter(seen)
    return ([next(answers) for _ in _prefixes(row)] for row in rows)


def contrast_claim(rows: Sequence[Line], *, chance: float) -> Claim:
    """The paper's findings on random labels in one: which algorithms fit them, and that the private one does not."""
    cold_ones = "SGD and Entropy-SGD at thermal noise 0.005 and below"
    sentence = f"{cold_ones} fit random labels, Entropy-SGLD at tau = sqrt(n) does not."
    sgd, cold = pick(rows, "SGD", "random"), pick(rows, "Entropy-SGD", "random", noise_up_to(0.005))
    harmless = pick(rows, "Entropy-SGLD", "random", private)
    if not (sgd and cold and harmless):
        return Claim(sentence, None, "not all of these runs have finished")
    told = "; ".join(
        f"{named(row)}: {', '.join(f'{gap(row, prefix):.3f}' for prefix in _prefixes(row))}"
        for row in (*sgd, *cold, *harmless)
    )
    asked = f"test minus train, beyond two standard errors above {OVERFITS:g} or below {HARMLESS:g}?"
    where: dict[str, Any] = {"among": rows, "chance": chance}
    holds = every(_gaps([*sgd, *cold], OVERFITS, None, **where) + _gaps(harmless, None, HARMLESS, **where))
    return Claim(sentence, holds, f"{asked} {told}{unlearnt(harmless, **where)}")


def tested(bound: str) -> str:
    """The column with the test error of the classifier which the bound speaks of."""
    return "gibbs_test_error" if bound in names.GIBBS_BOUNDS else "test_error"


def excess(row: Line, bound: str) -> float:
    """Bound minus the test error of its classifier."""
    return row[bound] - row[tested(bound)]


def compared_bounds(table: pl.DataFrame) -> list[tuple[dict[str, Any], str, float, float]]:
    """Each recorded row, bound, its value, and the test error of the classifier it speaks of."""
    rows = table.iter_rows(named=True)
    pairs = ((row, name, row.get(name), row[tested(name)]) for row in rows for name in names.CONVERGED)
    return [(row, name, value, test) for row, name, value, test in pairs if value is not None and test is not None]


def violations(table: pl.DataFrame) -> list[dict[str, Any]]:
    """Every recorded row and bound where the bound lies below the test error of the classifier it speaks of.

    A test error is itself an estimate: ``test_error_at_least`` is its lower confidence limit at 0.05 (kl-Chernoff),
    and a bound above that limit is ``within_test_noise``. It is listed all the same.
    """
    found = []
    for row, name, value, test in compared_bounds(table):
        if value < test:
            least = least_risk(test, row["n_test"])
            where = {key: row[key] for key in ("algorithm", "labels", "thermal_noise", "run", "step")}
            what = {"bound": name, "value": value, "test_error": test, "n_test": row["n_test"]}
            found.append(where | what | {"test_error_at_least": least, "within_test_noise": value >= least})
    return found


def violation_notes(table: pl.DataFrame, *, listed: int = 12) -> Iterator[str]:
    """Each bound below its test error, the first dozen one by one."""
    broken = violations(table)
    for one in broken[:listed]:
        where = f"{one['algorithm']}, {one['labels']} labels, run {one['run']}, step {one['step']}"
        noise = ", within the test set's own error" if one["within_test_noise"] else ""
        bound = f"{names.CHAIN_BOUNDS[one['bound']]} {one['value']:.4f} < {one['test_error']:.4f}"
        yield f"Bound below a test error: {bound} ({where}{noise})."
    if len(broken) > listed:
        yield f"{len(broken) - listed} more bounds lie below a test error; the table has them all."


def violations_claim(table: pl.DataFrame, sentence: str, *, share: float | None = None) -> Claim:
    """Whether at most a share of the recorded bounds below 0.999 lies below the test error of its classifier, beyond
    the test set's own error; ``share`` None takes the probability with which each bound may fail."""
    failure_prob = Run().failure_prob
    values = [value for _, _, value, _ in compared_bounds(table)]
    able = sum(value < VACUOUS for value in values)
    broken = [one for one in violations(table) if one["value"] < VACUOUS]
    beyond = sum(not one["within_test_noise"] for one in broken)
    told = (
        f"{len(broken)} of {able} bounds below {VACUOUS:g} lie below the test error of their classifier, {beyond} of "
        f"them below the {1.0 - TEST_FAILURE_PROB:.0%} Chernoff limit of that error; {len(values) - able} more are "
        f"vacuous and cannot. Each may fail with probability {failure_prob:g}, those of a run not independently"
    )
    return Claim(sentence, beyond <= (failure_prob if share is None else share) * able if able else None, told)


def nonvacuous_claim(sentence: str, rows: Sequence[Line], *, among: Sequence[Line], guessing: float) -> Claim:
    """Whether the paper's bounds of all rows lie below 1; told beside it how many lie below the error of guessing.

    None where bounds lie between the two and nothing was learnt: any network that guesses has such bounds.
    """
    found = [(row, {word: row[name] for name, word in LETTERS.items() if row[name] is not None}) for row in rows]
    values = [value for _, bounds in found for value in bounds.values()]
    if not values:
        return Claim(sentence, None, UNFINISHED)
    shown = (f"{named(row)}: {', '.join(f'{word} {up(value)}' for word, value in own.items())}" for row, own in found)
    told = "; ".join(shown)
    better = sum(value < guessing for value in values)
    beside = f"below 1; {better} of {len(values)} also below the error of guessing, {guessing:g}"
    if any(row["labels"] == "random" for row in rows):
        beside += ", as none on random labels should be"
    idle = [row for row, own in found if own and max(own.values()) >= guessing and not learns(row, among, guessing)]
    if max(values) >= 1.0 or not idle:
        return Claim(sentence, max(values) < 1.0, f"{told} ({beside})")
    return Claim(sentence, None, f"{told} ({beside}){unlearnt(idle, among, guessing)}")


def tightness_claim(sentence: str, rows: Sequence[Line]) -> Claim:
    """Whether the PAC-Bayes bound exceeds the test error of its classifier, the Gibbs classifier, by less than H- and
    C-bound exceed theirs, the mean's; None within the noise of the errors."""
    rows = [row for row in rows if all(row[name] is not None for name in (*LETTERS, "gibbs_test_error"))]
    if not rows:
        return Claim(sentence, None, UNFINISHED)
    seen, told, apart = [], [], []
    for row in rows:
        over = {name: excess(row, name) for name in LETTERS}
        counts = [(row[f"{kind}test_error"], row["n_test"]) for kind in ("", "gibbs_")]
        noise = count_noise(*counts, *((row[f"{kind}train_error"], row["n"]) for kind in ("", "gibbs_")))
        seen += [below(over["dp_pac_bayes_2018"], value, noise) for value in list(over.values())[1:]]
        apart += [Measured(value - over["dp_pac_bayes_2018"], noise) for value in list(over.values())[1:]]
        values = ", ".join(f"{LETTERS[name]} {value:.4f}" for name, value in over.items())
        told.append(f"{named(row)}: {values}, two standard errors {noise:.4f}")
    return Claim(sentence, every(seen), f"bound minus test error: {'; '.join(told)}", by_seeds(*apart))


def epsilon_why(row: Line | None, *, paper_n: int) -> str:
    """Why epsilon = 2 beta tau oscillation / n is not the paper's: the oscillation, and n where it differs."""
    if row is None or row["epsilon"] is None:
        return "not run"
    oscillation = row["epsilon"] * row["n"] / (2.0 * (row.get("beta") or 1.0) * row["tau"])
    size = "" if row["n"] == paper_n else f", and n is {row['n']}"
    return f"ours has the loss's exact oscillation, {oscillation:.3g}, for the paper's 4{size}"


def learning_notes(rows: Sequence[Line], chance: float, *, listed: int = 3) -> Iterator[str]:
    """What high training errors of private algorithms on true labels leave open; none where they are low.

    Entropy-SGLD counts at every temperature, SGLD at tau = sqrt(n).
    """
    told, best = [], math.inf
    for name in ("Entropy-SGLD", "SGLD"):
        own = [row for row in rows if row["algorithm"] == name and row.get("labels", "true") == "true"]
        own = [row for row in own if name == "Entropy-SGLD" or private(row)]
        weak = [row for row in own if row["train_error"] > _WEAK * chance]
        if not weak:
            continue
        errors = [row["train_error"] for row in weak]
        best = min(best, *errors)
        nets = [f" ({row['network']})" if row.get("network") else "" for row in weak]
        shown = ", ".join(f"{error:.3f}{net}" for error, net in zip(errors, nets, strict=True))
        if len(weak) > listed:
            shown = f"{min(errors):.3f} to {max(errors):.3f} in {len(weak)} of {len(own)} runs"
        told.append(f"{name} {shown}")
    if told:
        how = next(word for share, word in _HOW if best > share * chance)
        yield (
            f"{how} of the true labels was learnt. Training errors: {'; '.join(told)} (guessing: {chance:g}). A gap "
            "near zero, or an error near guessing on random labels, is then that of a run which has fitted little; "
            "whether a longer run overfits is not shown."
        )


def worse(sentence: str, sgld: Line | None, entropy: Line | None, names: Sequence[str], chance: float) -> Claim:
    """Whether SGLD's errors or bounds of these names exceed Entropy-SGLD's, its Gibbs classifier's errors included.

    Left open where SGLD has learnt nothing: its errors are then those of any network.
    """
    if sgld is None or entropy is None:
        return Claim(sentence, None, "one of the two runs has not finished")
    own = {name: [name, f"gibbs_{name}"] if name.endswith("_error") else [name] for name in names}
    told = "; ".join(
        f"{_WORDS[name]}: SGLD {sgld[name]:.4f}, Entropy-SGLD "
        + ", ".join(f"{'Gibbs ' if of != name else ''}{entropy[of]:.4f}" for of in both)
        for name, both in own.items()
    )
    error = sgld["train_error"]
    if below(error, chance, count_noise((error, sgld["n"]))) is not True:
        told += f". SGLD's training error of {error:.4f} is not below that of guessing, {chance:g}"
        return Claim(sentence, None, f"{told}: it has learnt nothing, and decides nothing")
    return Claim(sentence, every(lower(entropy, sgld, of, name) for name, both in own.items() for of in both), told)


def little_learnt(rows: Sequence[Line], chance: float, what: str, claims: Sequence[Claim]) -> Point:
    """That a figure's sentences wait for networks that have learnt, and what its open claims wait for; nothing said
    where all have."""
    true = [row for row in rows if row["algorithm"] == "Entropy-SGLD" and row["labels"] == "true"]
    errors = [row["train_error"] for row in true if not learns(row, true, chance)]
    said = (
        "{what}: Entropy-SGLD's training error on true labels is {least:.3f} to {most:.3f} in {count} of {all} runs, "
    )
    ends = {"least": min(errors, default=None), "most": max(errors, default=None)}
    said = say(said + "guessing {chance:g}", what=what, **ends, count=len(errors), all=len(true), chance=chance)
    waiting = dict.fromkeys(claim.settled_by for claim in claims if claim.holds is None)
    return Point(said, None, "; ".join(waiting))


def scale_notes(scale: Scale, size: Size, table: pl.DataFrame, *others: str) -> Iterator[str]:
    """What was cut, what that means, how much was learnt, and which bounds lie below a test error."""
    rows = final(table).to_dicts()
    yield CONVERGENCE
    if scale != "paper":
        part = f"{size.train_size} examples of {size.dataset}, chosen at random," if size.train_size else size.dataset
        yield (
            f"Scale {scale}: {part} and {size.epochs:g} epochs, where the paper has all of MNIST (thousands of epochs, "
            f"it says) or of CIFAR-10 (2000). {_examples(rows)}How near a chain is to its target is not measured."
        )
        yield "Outer steps are larger than the paper's, which hardly move in a short run, and so are those of SGLD."
    yield _ONE_RUN
    yield from learning_notes(rows, size.guessing)
    yield from others
    yield from violation_notes(table)


def _examples(rows: Sequence[Line]) -> str:
    """n in the bounds of each algorithm that has any, and whether its tau is sqrt(n)."""
    found: dict[str, list[str]] = {}
    bounded = [row for row in rows if row["epsilon"] is not None]
    for name in dict.fromkeys(row["algorithm"] for row in bounded):
        own = pick(bounded, name)
        root = " with tau = sqrt(n)" if all(private(row) for row in own) else ""
        found.setdefault(f"{', '.join(str(n) for n in sorted({row['n'] for row in own}))}{root}", []).append(name)
    told = ", ".join(f"{what} for {' and '.join(names)}" for what, names in found.items())
    return f"In bounds n is {told}. " if told else ""
