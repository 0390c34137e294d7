"""How much of the true labels was learnt, without which no gap on random labels says much; SGLD beside Entropy-SGLD."""

import math
from collections.abc import Sequence

from experiments.claims import Claim, below, count_noise, every
from experiments.random_labels_gaps import Row, lower, private

_WEAK = 1.0 / 3.0
"""The share of the error of guessing above which a training error on true labels is remarked upon."""
_HOW = ((0.8, "Hardly anything"), (0.5, "Little"), (0.0, "Only part"))
"""What was learnt where the least such error exceeds this share."""
_LISTED = 3
_WORDS = {"train_error": "training error", "test_error": "test error", "dp_chernoff_2018": "C-bound"}
_ONE_MISSING = "one of the two runs has not finished"


def guessing(dataset: str) -> float:
    """The error of guessing uniformly among the classes of a data set."""
    return 1.0 - 1.0 / (2 if dataset.endswith("2") else 10)


def learnt(row: Row, chance: float) -> bool:
    """Whether the training error is below that of guessing, beyond the noise of counts."""
    return below(row["train_error"], chance, count_noise((row["train_error"], row["n"]))) is True


def learning_notes(last: Sequence[Row], chance: float) -> tuple[str, ...]:
    """What high training errors of private algorithms on true labels leave open; () where they are low.

    Entropy-SGLD counts at every temperature, SGLD at tau = sqrt(n).
    """
    told, best = [], math.inf
    for name in ("Entropy-SGLD", "SGLD"):
        rows = [row for row in last if row["algorithm"] == name and row.get("labels", "true") == "true"]
        rows = [row for row in rows if name == "Entropy-SGLD" or private(row)]
        weak = [row for row in rows if row["train_error"] > _WEAK * chance]
        if weak:
            told.append(f"{name} {_errors(weak, len(rows))}")
            best = min(best, *(row["train_error"] for row in weak))
    if not told:
        return ()
    how = next(word for share, word in _HOW if best > share * chance)
    return (
        f"{how} of the true labels was learnt. Training errors: {'; '.join(told)} (guessing: {chance:g}). A gap near "
        "zero, or an error near guessing on random labels, is then that of a run which has fitted little; whether a "
        "longer run overfits is not shown.",
    )


def _errors(weak: list[Row], runs: int) -> str:
    if len(weak) > _LISTED:
        errors = [row["train_error"] for row in weak]
        return f"{min(errors):.3f} to {max(errors):.3f} in {len(weak)} of {runs} runs"
    networks = [f" ({row['network']})" if row.get("network") else "" for row in weak]
    return ", ".join(f"{row['train_error']:.3f}{where}" for row, where in zip(weak, networks, strict=True))


def worse(sentence: str, sgld: Row | None, entropy: Row | None, names: Sequence[str], chance: float) -> Claim:
    """Whether SGLD's errors or bounds of these names exceed Entropy-SGLD's, its Gibbs classifier's errors included.

    Left open where SGLD has learnt nothing: its errors are then those of any network.
    """
    if sgld is None or entropy is None:
        return Claim(sentence=sentence, holds=None, evidence=_ONE_MISSING)
    pairs = [(f"{prefix}{name}", name) for name in names for prefix in ("", "gibbs_")
             if not prefix or name.endswith("_error")]  # fmt: skip
    told = "; ".join(
        f"{_WORDS[name]}: SGLD {sgld[name]:.4f}, Entropy-SGLD "
        + ", ".join(f"{'Gibbs ' if own != name else ''}{entropy[own]:.4f}" for own, of in pairs if of == name)
        for name in names
    )
    if not learnt(sgld, chance):
        told += (f". SGLD's training error of {sgld['train_error']:.4f} is not below that of guessing, {chance:g}: it "
                 "has learnt nothing, and decides nothing")  # fmt: skip
        return Claim(sentence=sentence, holds=None, evidence=told)
    holds = every([lower(entropy, sgld, own, name) for own, name in pairs])
    return Claim(sentence=sentence, holds=holds, evidence=told)
