"""What chains that stay where they are say of Figures 1 to 4 of Dziugaite and Roy (2018)."""

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from experiments.claims import Claim, Measured, Point, by_seeds, every, point, say
from experiments.costs import of_seconds
from experiments.job_costs import cost
from experiments.papers.entropy_sgld_verdict import COLDEST, TIGHTER, guessing_claim, order_claim
from experiments.papers.gaps import HARMLESS, LETTERS, LITTLE, gap, gaps_claim, nonvacuous_claim, tightness_claim, worse
from experiments.study import Row
from experiments.tables import part
from pacdp.cli.recipes import Scale

TIED = 0.001
"""Training errors that differ by less are both the smallest: two of Figure 1's 2,000 examples."""
CONV_TEN, DENSE_TEN = "conv-group-ten", "fc1024-ten"
"""The chains that sentences about ten classes are asked of."""
_ERRORS = ("train_error", "test_error")
_AVERAGED = ("train_error", "test_error", "gibbs_train_error", "gibbs_test_error", *LETTERS)


def laws(table: pl.DataFrame, **where: Any) -> list[dict[str, Any]]:
    """A row for all chains of one kind: their mean errors and bounds."""
    found = []
    for run in part(table, **where).drop_nulls("chain")["run"].unique(maintain_order=True).to_list():
        own = part(table, run=run).to_dicts()
        means = {name: None if None in (seen := [row[name] for row in own]) else sum(seen) / len(seen)
                 for name in _AVERAGED}  # fmt: skip
        found.append({**own[0], **means, "network": called(own[0])})
    return found


def called(row: Row) -> str:
    """The network of a row, in words."""
    norm = row["norm"] if row["norm"] != "none" else ""
    return row["network"] + (f" with {norm.capitalize()}Norm" if norm else "")


def claims(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """The sentences that the figures' own runs leave open."""
    yield _smallest(table)
    two, ten = ([row for row in laws(table) if row["dataset"].endswith("2") is own] for own in (True, False))
    conv = [row for row in two if row["run"].startswith("conv-")]
    entropy, sgld = ([row for row in conv if row["algorithm"] == name] for name in ("Entropy-SGLD", "SGLD"))
    hot = [row for row in sgld if row["run"].startswith("conv-hot")]
    sgld = [row for row in sgld if row not in hot]
    true, random = (lambda found: [row for row in found if row["labels"] == "true"],
                    lambda found: [row for row in found if row["labels"] == "random"])  # fmt: skip
    where: dict[str, Any] = {"among": two, "chance": 0.5}
    for sentence, found in (
        ("Figure 1: on random labels, Entropy-SGLD does not overfit.", random(entropy)),
        ("Figure 1: on true labels the generalization error of Entropy-SGLD is close to zero.", true(entropy)),
        ("Figure 1: at 0.05 thermal noise SGLD has almost zero generalization error on true and random labels.", hot),
        ("Figure 3: SGLD does not overfit on random labels.", random(sgld)),
    ):
        yield gaps_claim(sentence, found, **where, most=HARMLESS)
    one, other = (next(iter(true(found)), None) for found in (sgld, entropy))
    for sentence, names in (
        ("Figure 3: on true labels SGLD has a higher training and test error than Entropy-SGLD.", _ERRORS),
        ("Figure 3: the C-bound of SGLD's network is worse than that of Entropy-SGLD's mean.", ("dp_chernoff_2018",)),
    ):
        yield worse(sentence, one, other, names, 0.5)
    yield tightness_claim(f"Figure 1: the {TIGHTER}", true(entropy))
    yield _similar(table)
    where = {"among": ten, "chance": 0.9}
    kinds = {row["run"]: row for row in ten}
    for network, run in {"CONV": CONV_TEN, "FC1024": DENSE_TEN}.items():
        for sentence, labels, most in (
            ("on true labels the generalization gap is close to zero.", "true", HARMLESS),
            ("on random labels Entropy-SGLD overfits by about 2% at most (here: less than 3%).", "random", 0.03),
        ):
            found = [row for row in ten if row["run"] == f"{run}-{labels}"]
            yield gaps_claim(f"Figure 4, {network}: {sentence}", found, **where, most=most)
    yield guessing_claim(kinds.get(f"{CONV_TEN}-random"), **where)
    yield order_claim(kinds.get(f"{CONV_TEN}-true"), kinds.get(f"{DENSE_TEN}-true"), **where)
    yield nonvacuous_claim("Figure 4: on true labels all bounds are nonvacuous.", true(ten), among=ten, guessing=0.9)


def _smallest(table: pl.DataFrame) -> Claim:
    """SGD beside the SGLD that is nearest to it, in pairs of one seed."""
    sentence = "Figure 1: SGD achieves the smallest training and test error on true labels, of SGD and SGLD."
    own = {name: {row["seed"]: row for row in part(table, algorithm=name).drop_nulls("seed").to_dicts()}
           for name in ("SGD", "SGLD")}  # fmt: skip
    train, test = (
        Measured.between(*({seed: row[error] for seed, row in own[name].items()} for name in ("SGD", "SGLD")))
        for error in _ERRORS
    )
    if train is None or test is None:
        return Claim(sentence, None, "no such run has finished")
    told = f"SGD less SGLD at noise {COLDEST:g}: training error {train}, the same within {TIED:g}; test error {test}"
    return Claim(sentence, every([train.below(TIED), test.below(0.0)]), told, by_seeds(test.scaled(-1.0)))


def _similar(table: pl.DataFrame) -> Claim:
    """FC600 beside FC1200, seed by seed: chains of one seed share their start, so that their mean is one value."""
    sentence = "Figure 2: training error and generalization error are similar for both network architectures."
    narrow, wide = (
        {row["run"].removeprefix(name): row for row in laws(table) if row["run"].startswith(f"{name}-")}
        for name in ("fc600", "fc1200")
    )
    differences = {
        name: Measured.between(*({seed: of(row) for seed, row in one.items()} for one in (narrow, wide)))
        for name, of in (("training error", lambda row: row["train_error"]), ("generalization error", gap))
    }
    known = {name: one for name, one in differences.items() if one is not None}
    if len(known) < 2:
        return Claim(sentence, None, "one of the networks has not finished")
    told = "; ".join(f"{name}, FC600 less FC1200: {one}" for name, one in known.items())
    left = [one._replace(mean=HARMLESS - abs(one.mean)) for one in known.values()]
    holds = every(one.above(0.0) for one in left)
    return Claim(sentence, holds, f"{told}; similar below {HARMLESS:g}", by_seeds(*left))


def settled_by(figure_4: Any, table: pl.DataFrame, scale: Scale, claim: Claim) -> str:
    """More chains of the kinds that a claim compares, with what those of the table took; where chains stay at an error
    that is too large to show anything, the paper's own runs, whose jobs ``figure_4`` makes."""
    del scale
    if claim.sentence.startswith("Figure 4, FC1024") and LITTLE in claim.evidence:
        return (
            "no chain of this network at this temperature, where those of the table stay at an error of half of "
            "guessing and above; what the paper's network shows before it has come there would be told by "
            f"entropy-sgld-figure-4 at scale paper, {cost(figure_4('paper', 0))}"
        )
    own = table.drop_nulls("chain_seconds")
    if claim.sentence.startswith("Figure 2"):
        own = own.filter(pl.col("run").str.contains("^fc(600|1200)-"))
    taken = of_seconds(float(str(own["chain_seconds"].sum())))
    return f"{claim.settled_by or 'four times the chains, or longer ones'}; those of this table took {taken}"


def notes(table: pl.DataFrame, scale: Scale) -> Iterator[str]:
    """How chains begin, and how far those of one kind agree."""
    del scale
    yield (
        "Chains begin at SGD's weights, which fit more than the law does; errors are means over records of the second "
        "half and over the chains of a kind, which share their start and test set; FC600 and FC1200 have four seeds of "
        "four chains, three of which were added when four chains of one had left Figure 2 open. Steps are constant and "
        "larger than the paper's. The convolutional network has GroupNorm, as the paper's has batch normalisation; on "
        "ten classes it was first run without, and with it when those chains had shown too large an error to decide "
        "anything."
    )
    yield (
        "Every bound takes the weights for a draw from the chain's target and is optimistic. Noise is two standard "
        "errors of the counts, or of pairs of seeds."
    )
    agreed = part(table, start="sgd").drop_nulls("r_hat").group_by("run", maintain_order=True).first()
    far = [f"{run} {value:.2f}" for run, value in agreed.select("run", "r_hat").iter_rows() if value > 1.1]
    if far:
        yield (
            "R-hat of the minibatches' errors, over the halves of all chains of a kind, exceeds 1.1 in: "
            f"{', '.join(far)}. Such chains may still be on their way from SGD's weights, below their law's error."
        )


def points(table: pl.DataFrame, scale: Scale, made: Sequence[Claim]) -> Iterator[Point]:
    """What Figure 3 compares, where both algorithms have learnt."""
    del scale
    found = {row["run"]: row for row in laws(table)}
    names = {"conv-sgld-true": "sgld", "conv-entropy-true": "entropy"}
    errors = {name: found[run]["test_error"] if run in found else None for run, name in names.items()}
    said = (
        "SGLD at Entropy-SGLD's privacy is worse, where both have learnt (CONV with GroupNorm): test error {sgld:.3f} "
        "against {entropy:.3f}"
    )
    yield point(made, "Figure 3: on true labels SGLD", say(said, **errors))
    random = found.get("conv-entropy-random")
    said = "Where it stays, Entropy-SGLD at tau = sqrt(n) does not overfit random labels: test minus train {gap:.3f}"
    yield point(made, "Figure 1: on random labels, Entropy", say(said, gap=random and gap(random)))
