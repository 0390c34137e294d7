"""Remarks: which are due by names, counts, hypotheses or settings, word for word, and which nothing here determines."""

import unicodedata
from collections.abc import Collection, Iterable, Iterator

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import log_choose
from pacdp.verify.claim import Fields, Unchecked, require

SEEDED = "The noise came from a seed and can be subtracted: this folder is for tests, and protects nobody."
PUBLIC_SIZE = (
    "sampling.public_size is 0: sums were divided by sample_rate times the data's own number of records, which is "
    "public thereby: epsilon is for replace-one neighbours"
)
PUBLIC_RATE = (
    "an example joins a batch with probability batch_size/n: the number of examples, n, is public thereby: epsilon is "
    "for replace-one neighbours"
)
PUBLIC_BATCHES = (
    "sample_rate is one over the number of batches of data_loader, so that the number of examples is public: epsilon "
    "is for replace-one neighbours; give sample_rate=, a number that you do not compute from the data, to have it for "
    "add-remove neighbours"
)
"""What may be remarked on weights that leave: other words could tell of the data."""


def require_due(said: Collection[str], due: Iterable[str]) -> None:
    """Raise Wrong where one that is due is not there, and Unchecked where there are others."""
    due = list(due)
    for one in due:
        require(one in said, f"there is no remark that {one}")
    told = [one for one in said if one not in due]
    if told:
        raise Unchecked(
            f"nothing in the file determines that {'; '.join(told)}"
        )


def of_equal_inputs(certificates: Iterable[Fields]) -> set[str]:
    """What certificates take for true of inputs that stand on both sides of a split."""
    return {
        f"{said.name}: {said.by}"
        for made in certificates
        for said in made.hypotheses
        if said.name == "equal inputs are separate draws"
    }


def of_names(kind: str, names: Iterable[str]) -> Iterator[str]:
    """The first two names, as Python writes them, that differ by a space, by case or by the form of a letter alone."""
    first = dict[str, str]()
    for name in names:
        other = first.setdefault(
            "".join(
                unicodedata.normalize("NFKC", name).casefold().split()
            ),
            name,
        )
        if other != name:
            yield (
                f"the {kind} {other} and {name} differ by a space or by case alone, and count as two: if they are one, "
                "write them alike"
            )
            return


def of_groups(
    model: str, whole: Fields, parts: list[Fields]
) -> Iterator[str]:
    """Groups each of which holds errors alone or none, where chance would bring that more rarely than 1e-6.

    k errors on n examples do in at most 2^groups of the n over k ways.

    Args:
        model: which errs.
        whole: the number k of errors on all n examples.
        parts: those of each group.
    """
    if (
        parts
        and all(one.k in (0, one.n) for one in parts)
        and arb(2) ** len(parts)
        < 1e-6 * log_choose(whole.n, whole.k).exp()
    ):
        yield (
            f"in every group {model} errs always or never: if groups were made from the errors, their rows say "
            "nothing, since groups must be settled beforehand"
        )
