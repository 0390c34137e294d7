"""What a reader of these studies' pages must know."""

import polars as pl

from experiments.recipes import Scale

_SOURCES = (
    "The text at hand lacks the paper's appendix: widths, σ, C, dropout rate and prior scales are those of the "
    "authors' published notebooks; learning rates of BBP and MC Dropout are ours (DP-SGD's). Nothing was tuned here.",
    "DP-SGLD is the paper's Theorem 1 with gradient factor c = 1 and noise variance η, as in the authors' code: "
    "Langevin dynamics at temperature 1/2, not the posterior. Its C is chosen so that σ, and hence epsilon, is the "
    "others'. On images SGLD without privacy has c = 1/2, as in that code: unclipped, the larger step takes the CNN "
    "apart; for the same reason SGD's step on the CNN is 0.1 without privacy and 0.25 with it.",
    "Epsilon is the upper end of a proved bracket for Poisson batches, add-remove neighbours; the paper uses the "
    "central limit theorem of Gaussian differential privacy, which is no bound (column epsilon_clt_optimistic).",
)
_CUTS = {
    "smoke": "Smoke scale: scikit-learn's 8x8 digits stand in for MNIST, a smaller CNN for Opacus's, few steps: the "
             "numbers say nothing of the paper.",
    "cpu": "Cut for two cores: MNIST in full, but hidden layers of 200 rather than 1200, 3 epochs (CNN: 2) rather than "
           "15, 20 members rather than 100, two seeds.",
    "paper": "",
}  # fmt: skip


def cut(scale: Scale) -> tuple[str, ...]:
    """Sources of the settings and what was cut at this scale."""
    return tuple(note for note in (_CUTS[scale], *_SOURCES) if note)


def numbers_of(table: pl.DataFrame) -> str:
    """The range of epsilon in the table, and delta."""
    if table.is_empty() or "epsilon" not in table.columns or table["epsilon"].drop_nulls().is_empty():
        return "No private run has finished."
    column = table["epsilon"].drop_nulls()
    return (f"Private runs: epsilon {column.min():.4g} to {column.max():.4g} at delta "
            f"{table['delta'].drop_nulls().max():g}.")  # fmt: skip
