"""The command about data sets: data."""

import json
from dataclasses import dataclass
from typing import Any

import tyro

from pacdp.cli.parsing import no_more


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Find, verify and if need be download data sets; print what they are."""

    names: tyro.conf.Positional[tuple[str, ...]] = ()
    """By default all."""
    root: str | None = None
    """Folder to look in first; then PACDP_DATA, the user's cache, the mirrors."""
    json: bool = False

    def __call__(self, rest: list[str]) -> None:
        """Load the data sets and print what they are."""
        from pacdp.cli.console import DownloadBar
        from pacdp.data import NAMES, load

        no_more(rest)
        found: list[dict[str, Any]] = []
        for name in self.names or NAMES:
            for role, data in zip(
                ("train", "test"),
                load(name, root=self.root, progressbar=DownloadBar()),
                strict=True,
            ):
                shape = "x".join(str(size) for size in data.inputs.shape[1:])
                found.append({"name": name, "role": role, "n": data.n, "shape": shape, "classes": data.classes,
                              "sha256": data.hash})  # fmt: skip
        if self.json:
            print(json.dumps(found))
            return
        for row in found:
            size = f"{row['n']:6} examples of {row['shape']:8} {row['classes']:3} classes"
            print(f"{row['name']:8} {row['role']:6} {size} sha256 {row['sha256'][:16]}")
