"""Whether a file's weights are those of the network that its run's settings name: as many layers, of these widths.

What kind of normalisation there is, no shape shows; that there is one, its weights do.
"""

from pacdp.verify.claim import Unchecked, same
from pacdp.verify.files import Folder

_LAYERS = {
    "fc": ([], None),
    "linear": ([], []),
    "fc600": ([], [600, 600]),
    "fc1200": ([], [1200, 1200]),
    "fc1024": ([], [1024, 1024]),
    "conv": ([20, 50], [500]),
    "cnn5": ([16, 32], [64, 32]),
    "cnn3": ([8, 16], []),
}
"""Filters of the convolutions, and widths of the hidden layers, by name; those of ``fc`` stand beside it."""


def check_network(f: Folder) -> None:
    """Convolutions, hidden layers and normalisations are as many, and as wide, as the settings say."""
    said = f.run or f.settings.run
    name = said["architecture"]
    if "problem" in said:
        said = said.problem.architecture
        name = said.name
    if name not in _LAYERS:
        raise Unchecked(f"this checker knows no network {name!r}")
    filters, hidden = _LAYERS[name]
    if hidden is None:
        hidden = said.hidden
    normalised = []
    if said["norm"] not in (None, "none"):
        normalised = filters or hidden
    widths = {1: [], 2: [], 4: []}
    for one in f.header.parameters:
        if one.endswith("weight"):
            shape = f.stored.tensors[f"model.{one}"].shape
            widths[len(shape)].append(shape[0])
    found = widths[4], widths[2][:-1], widths[1]
    due = filters, hidden, normalised
    what = "the widths of convolutions, hidden layers and normalisations"
    same(what, found, due)
