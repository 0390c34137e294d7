"""What a reader of these studies' pages must know."""

import polars as pl

from experiments.papers.bayesian_dp.config import CNN
from experiments.papers.bayesian_dp.plans import (
    DRIFT,
    MLP,
    PLAIN_CNN_RATE,
    PLAIN_DRIFT,
    RATE,
    SETTINGS,
    Setting,
)
from experiments.papers.bayesian_dp.tables import epsilon_shown
from experiments.recipes import Scale

SMOKE = (
    "Smoke scale: scikit-learn's 8x8 digits stand in for MNIST, a smaller CNN for Opacus's, few steps: the numbers say "
    "nothing of the paper."
)
SOURCES = (
    "The text at hand lacks the paper's appendix: widths, σ, C, dropout rate and prior scales are those of the "
    "authors' published notebooks; learning rates of BBP and MC Dropout are ours (DP-SGD's). No search was made. Two "
    f"steps were made smaller after the CNN had failed without privacy: SGLD's c is {PLAIN_DRIFT:g} rather than "
    f"{DRIFT:g}, SGD's step {PLAIN_CNN_RATE:g} rather than {RATE:g}.",
    f"DP-SGLD is the paper's Theorem 1 with gradient factor c = {DRIFT:g} and noise variance η, as in the authors' "
    f"code: Langevin dynamics at temperature {1 / (2 * DRIFT):g}, not the posterior. SGLD without privacy has c = "
    f"{PLAIN_DRIFT:g} on images, as in that code, hence temperature {1 / (2 * PLAIN_DRIFT):g}: drops from SGLD to "
    "DP-SGLD compare two targets. DP-SGLD's C is chosen so that σ, and hence epsilon, is the others'.",
    "Epsilon is the upper end of a proved bracket for Poisson batches, add-remove neighbours; the paper uses the "
    "central limit theorem of Gaussian differential privacy, which is no bound (column epsilon_clt_optimistic).",
)


def cut(scale: Scale, *, seeds: int) -> tuple[str, ...]:
    """What was cut of Tables 1 and 2 at this scale, and the sources of the settings."""
    if scale == "smoke":
        return (SMOKE, *SOURCES)
    ours, papers = SETTINGS[scale], SETTINGS["paper"]
    if ours == papers:
        return SOURCES
    epochs = f"{ours.epochs[MLP]:g} epochs (CNN: {ours.epochs[CNN]:g}) rather than {papers.epochs[MLP]:g}"
    said = ", ".join([_widths(ours, papers), epochs, _members(ours, papers), f"seeds: {seeds}"])
    return (f"Cut for two cores: {_share(ours, papers)} of {ours.dataset.upper()}, but {said}.", *SOURCES)


def differing(scale: Scale, *, network: str, several: bool) -> str:
    """What differs from the paper's settings in a run without privacy, of several members or one."""
    ours, papers = SETTINGS[scale], SETTINGS["paper"]
    if ours == papers:
        return "another run at the settings of the notes"
    data = [f"{ours.dataset} rather than {papers.dataset}, a smaller network"] if ours.dataset != papers.dataset else []
    width = [_widths(ours, papers)] if network == MLP and not data else []
    epochs = [f"{ours.epochs[network]:g} epochs rather than {papers.epochs[network]:g}"]
    return ", ".join([*data, *width, *epochs, *([_members(ours, papers)] if several else [])])


def numbers_of(table: pl.DataFrame) -> str:
    """The range of epsilon in the table, and delta."""
    if table.is_empty() or "epsilon" not in table.columns or table["epsilon"].drop_nulls().is_empty():
        return "No private run has finished."
    spent = sorted(set(table["epsilon"].drop_nulls().to_list()))
    least, most = (epsilon_shown(spent[k]) for k in (0, -1))
    return (f"Private runs: epsilon {least if least == most else f'{least} to {most}'} at delta "
            f"{table['delta'].drop_nulls().max():g}.")  # fmt: skip


def _widths(ours: Setting, papers: Setting) -> str:
    return f"hidden layers of {ours.hidden[0]} rather than {papers.hidden[0]}"


def _members(ours: Setting, papers: Setting) -> str:
    return f"{ours.members} members rather than {papers.members}"


def _share(ours: Setting, papers: Setting) -> str:
    return "all" if ours.size == papers.size else f"{ours.size:,} examples"
