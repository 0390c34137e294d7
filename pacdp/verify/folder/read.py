"""A run's folder, each of its files read once, and which version can check it."""

from functools import cached_property
from pathlib import Path
from typing import Any

from pacdp.verify.claim import Fields, other_format
from pacdp.verify.files import (
    CHECKPOINT,
    Stored,
    chain_of,
    lines_of,
    maker_of,
    read_checkpoint,
    read_json,
)

_RESULTS = ("pacdp-result/1", "pacdp-private-result/1")
COMPRESSION = "compression/1"
"""The kind of a compression's checkpoint."""


class Folder:
    """A run's files.

    Attributes:
        stored, header: the checkpoint and its header; empty where there is none.
        config, result: the contents of config.json and result.json; None where there is no such file.
        report: the contents of certificates.json; empty where there is no such file.
        run: the configuration that the checkpoint names.
        listed: whether the checkpoint names a list of settings, as those of an earlier version do.
    """

    def __init__(
        self,
        path: Path,
        report: Any,
    ) -> None:
        self.path, self.report = path, report or Fields()
        self.stored = Stored(Fields(), {})
        checkpoint = path / "checkpoint.safetensors"
        if checkpoint.is_file():
            self.stored = read_checkpoint(checkpoint)
        self.header = self.stored.header
        self.config = read_json(path / "config.json")
        self.result = read_json(path / "result.json")
        about = self.header.part("about")
        self.run: Any = about.get("run", self.header.get("run"))
        self.listed = bool(about.get("choices", self.header.get("choices")))

    @property
    def private(self) -> bool:
        """Whether the run was private: its header names the mechanisms that ran."""
        return "event" in self.header

    @property
    def compression(self) -> bool:
        """Whether the run compressed its records."""
        return self.header.get("kind") == COMPRESSION

    @property
    def certificates(self) -> list[Fields]:
        """The report's."""
        return self.report.get("certificates", [])

    @property
    def paying_for_norms(self) -> list[Fields]:
        """The certificates at a price of norms that the run kept."""
        return [
            one
            for one in self.certificates
            if "sum_contributions" in one.inputs
        ]

    @cached_property
    def rows(self) -> list[Fields]:
        """The lines of metrics.jsonl. Wrong if one is not what was written."""
        return chain_of(self.path / "metrics.jsonl")

    def another_version(self) -> str:
        """Why the folder is not one of this version's; empty if it is."""
        maker = maker_of(read_json(self.path / "provenance.json"))
        form = self.header.get("format")
        if self.header and form != CHECKPOINT:
            return f"the checkpoint: {other_format(form, CHECKPOINT, maker)}"
        if self.listed:
            return f"the checkpoint names a list of settings: check it with {maker or 'what wrote it'}"
        if self.result is not None:
            form = self.result.get("format")
            if form not in _RESULTS:
                return f"result.json: {other_format(form, ' or '.join(_RESULTS), maker)}"
            if "rests_on" not in self.result:
                return f"result.json does not name the files that it rests on: check it with {maker or 'what wrote it'}"
        lines = lines_of(self.path / "metrics.jsonl")
        if lines and not any("hash" in line for line in lines):
            return f"metrics.jsonl has no hashes: check it with {maker or 'what wrote it'}"
        return ""
