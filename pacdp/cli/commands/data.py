"""The command about data sets: data."""

import tyro

from pacdp.cli.serial import Values, record
from pacdp.cli.terminal import answer


@record
class Data:
    """Find, verify and if need be download data sets; print what they are."""

    names: tyro.conf.Positional[tuple[str, ...]] = ()
    """By default all."""
    root: str | None = None
    """Folder to look in first; then PACDP_DATA, the user's cache, the mirrors."""
    json: bool = False

    def __call__(self) -> None:
        """Load the data sets and print what they are."""
        from pacdp.cli.console import Downloads
        from pacdp.data import NAMES, load

        found: list[Values] = []
        for name in self.names or NAMES:
            both = load(name, root=self.root, progressbar=Downloads())
            for role, data in zip(("train", "test"), both, strict=True):
                shape = "x".join(map(str, data.inputs.shape[1:]))
                found.append({"name": name, "role": role, "n": data.n, "shape": shape, "classes": data.classes,
                              "sha256": data.hash})  # fmt: skip
        line = (
            "{name:8} {role:6} {n:6} examples of {shape:8} {classes:3} classes sha256 {sha256:.16}"
        )
        answer(found, (line.format(**row) for row in found), as_json=self.json)
