"""Examples record by record: their hashes, by which a report names them, and whether a network errs on one."""

import hashlib
from typing import Any

import numpy as np
from numpy import ndarray

ROWS = "pacdp-rows/2"
"""The format of the hashes."""


class Examples:
    """Inputs and labels, and the record of each example: itself, or the person who gave it.

    Attributes:
        people: who gave each example; None where examples are the records.
        count: how many records there are.
        starts: where each record's examples begin in ``order``, and where the last ones end.
    """

    def __init__(
        self, inputs: Any, labels: Any, people: Any = None
    ) -> None:
        self._bfloat16 = "bfloat16" in str(
            getattr(inputs, "dtype", "")
        )  # a type that NumPy lacks
        self.inputs = np.asarray(
            inputs.float() if self._bfloat16 else inputs
        )
        self.labels = np.asarray(labels)
        if self.labels.size != len(self.labels):
            raise ValueError(
                f"labels must be one number an example, got an array of shape {self.labels.shape}"
            )
        self.labels = self.labels.reshape(-1)
        self.people = people
        owner = np.arange(len(self.labels))
        if people is not None:
            owner = np.unique(people, return_inverse=True)[
                1
            ].ravel()
        self.count = int(owner.max()) + 1
        self.order = np.argsort(owner, kind="stable")
        self.starts = np.searchsorted(
            owner[self.order], np.arange(self.count + 1)
        )

    def of(self, records: ndarray) -> tuple[Any, Any, ndarray]:
        """Inputs and labels of these records in the order given, and the place of each example's record in it."""
        import torch

        places = np.split(self.order, self.starts[1:-1])
        own = np.concatenate([places[one] for one in records])
        inputs = torch.from_numpy(self.inputs[own])
        return (
            inputs.bfloat16() if self._bfloat16 else inputs,
            torch.from_numpy(self.labels[own]),
            np.repeat(
                np.arange(len(records)),
                np.diff(self.starts)[records],
            ),
        )

    def digest(self) -> str:
        """SHA-256 of the sorted hashes of examples, of inputs and of people, after the name of their format."""
        seen = row_hashes(self.inputs)
        columns = {
            "examples": _digests(
                np.stack([seen, row_hashes(self.labels)], axis=1),
                "pair",
            ),
            "inputs": seen,
        }
        keys = [seen, columns["examples"]]
        if self.people is not None:
            columns["owners"] = row_hashes(
                np.asarray(self.people).astype(np.int64)
            )
            keys.insert(1, columns["owners"])
        order = np.lexsort(keys)
        found = hashlib.sha256(ROWS.encode())
        for name, column in columns.items():
            found.update(
                name.encode()
                + column[order].astype("<u8").tobytes()
            )
        return f"{ROWS}:{found.hexdigest()}"


def row_hashes(values: Any) -> ndarray:
    """The hash of each row, in single precision where that is exact."""
    rows = np.asarray(values)
    wide = rows.reshape(len(rows), -1).astype(
        {"f": "<f8", "u": "<u8"}.get(rows.dtype.kind, "<i8")
    )
    narrow = wide.astype("<f4")
    exact = (narrow.astype(wide.dtype) == wide) | (wide != wide)
    exact = exact.all(axis=1)
    hashes = np.empty(len(rows), dtype=np.uint64)
    for own, numbers in ((exact, narrow), (~exact, wide)):
        words = numbers[own] + numbers.dtype.type(0)
        if words.dtype.kind == "f":  # 0 is no -0
            words[words != words] = np.nan
        hashes[own] = _digests(
            words, f"{numbers.dtype.str}{numbers.shape[1]}"
        )
    return hashes


def _digests(rows: ndarray, person: str) -> ndarray:
    """BLAKE2b of 8 bytes, personalised, of each row's bytes."""
    how: dict[str, Any] = {
        "digest_size": 8,
        "person": person.encode(),
    }
    found = [
        hashlib.blake2b(row.tobytes(), **how).digest()
        for row in rows
    ]
    return np.frombuffer(b"".join(found), dtype="<u8")


def margins(outputs: ndarray, labels: ndarray) -> ndarray:
    """The output of the own class less the largest other; of one output, it or minus it. Not above 0: an error.

    Raises:
        ValueError: labels are no numbers of the network's classes, which count from 0.
    """
    given = labels
    labels = given.astype(np.int64)
    single = outputs.ndim == 1 or outputs.shape[1] == 1
    classes = 2 if single else outputs.shape[1]
    if not (
        (labels == given) & (labels >= 0) & (labels < classes)
    ).all():
        raise ValueError(
            f"labels must be numbers of the network's {classes} classes, from 0 on, got {np.unique(given)[:9]}"
        )
    if single:
        return outputs.reshape(-1) * (2 * labels - 1)
    rows = np.arange(len(outputs))
    others = outputs.copy()
    others[rows, labels] = -np.inf
    with np.errstate(invalid="ignore"):  # infinity less infinity
        return outputs[rows, labels] - others.max(axis=1)
