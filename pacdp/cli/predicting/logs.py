"""Evaluation logs of language models as examples: samples of lm-evaluation-harness (jsonl), logs of inspect_ai.

A score from 0 to 1 is a loss of one minus the score. Tasks are groups; a document that was answered more than once, in
several epochs or as several questions, is one unit. Several logs in a folder are several tasks, or several models on
the same documents: lm-evaluation-harness has a folder for each.
"""

import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bounds._check import json_value
from pacdp.data.errors import DataError
from pacdp.data.unpacking import members
from pacdp.predictions.answers import Answers
from pacdp.predictions.columns import coded
from pacdp.predictions.examples import MODEL, Examples, described

_SAMPLES = re.compile(r"samples_(.+?)(_\d{4}-\d{2}-\d{2}T[\d.:-]+)?\.jsonl")
_WORDS = {"c": 1.0, "i": 0.0, "p": 0.5, "n": 0.0, "yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0}
"""Scores in words, as inspect_ai turns them into numbers."""
_NO_SCORES = {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash",
              "prompt_hash", "target_hash"}  # fmt: skip
SUFFIXES = (".jsonl", ".json", ".eval")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One answer: the scores from 0 to 1 that a document got in a task."""

    model: str
    task: str
    document: str
    repeat: str
    scores: dict[str, float]


def is_log(path: Path) -> bool:
    """Whether this is a folder, or a file of a kind that tables do not have."""
    return path.is_dir() or path.suffix.lower() in SUFFIXES


def read_logs(path: Path, metric: str | None = None) -> Examples:
    """The examples in a log, or in all logs of a folder.

    Args:
        metric: the score to certify; by default all that every task has, the first of them for the first row.

    Raises:
        ValueError: no log, a line that is none, or scores that do not fit together.
    """
    files = sorted(filter(_log, path.rglob("*"))) if path.is_dir() else [path]
    if not files:
        raise ValueError(f"{path} holds no logs: give a folder of samples_*.jsonl, *.eval or *.json, or one such file")
    return _examples(path, [one for file in files for one in _read(file, path)], metric)


def _log(path: Path) -> bool:
    """Whether a file of a folder is a log of samples: not a table of results, nor a report that was written here."""
    others = path.name.startswith(("results_", "certificates.json"))
    return path.suffix in SUFFIXES and path.is_file() and not others


def _read(path: Path, whole: Path) -> Iterator[Scored]:
    try:
        if path.suffix == ".jsonl":
            yield from _harness(path, "" if path.parent == whole or path == whole else path.parent.name)
        else:
            yield from _inspect(path)
    except (UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read as a log ({error}): write it anew, or as .json") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no log that this reads ({type(error).__name__} {error})") from error


def _unpacked(path: Path) -> dict[str, bytes]:
    """The header and the samples of a zip."""
    with path.open("rb") as raw:
        try:
            with zipfile.ZipFile(raw) as stored:
                names = members(path, stored, "write it anew, or as .json")
                samples = (name for name in names if name.startswith("samples/") and name.endswith(".json"))
                return {name: stored.read(name) for name in ("header.json", *samples)}
        except DataError:
            raise
        except Exception as error:  # zipfile raises whatever the bytes of a damaged file lead it to
            raise ValueError(f"{path} cannot be read as a log ({error}): write it anew, or as .json") from error


def _harness(path: Path, model: str) -> Iterator[Scored]:
    """Lines of lm-evaluation-harness (--log_samples): one document under one filter a line."""
    task = found[1] if (found := _SAMPLES.fullmatch(path.name)) else path.stem
    seen = dict[tuple[str, str], Scored]()
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            row = _object(path, line, f"line {number}")
            if "doc_id" not in row:
                raise ValueError(
                    f"{path} must be samples of lm-evaluation-harness, and line {number} has no doc_id: write other "
                    "tables as .csv or .parquet"
                )
            metrics = row.get("metrics") or sorted(row.keys() - _NO_SCORES)
            if not metrics:
                raise ValueError(f"{path} has no scores in line {number}: log samples with their metrics")
            name, document = row.get("filter", "none"), str(row.get("doc_hash") or row["doc_id"])
            key = str(row["doc_id"]), document
            one = seen.setdefault(key, Scored(model=model, task=task, document=document, repeat=key[0], scores={}))
            for score in metrics:
                called = score if name == "none" else f"{score},{name}"
                if called in one.scores:
                    raise ValueError(f"{path} has document {row['doc_id']} again in line {number}: drop the copies")
                value = row.get(score)
                if isinstance(value, bool | int | float) and 0.0 <= value <= 1.0:
                    one.scores[called] = float(value)
    yield from seen.values()


def _inspect(path: Path) -> Iterator[Scored]:
    """A log of inspect_ai, as JSON or as its zip of JSON."""
    if path.suffix == ".eval":
        parts = _unpacked(path)
        header = _object(path, parts.pop("header.json"), "header.json")
        samples = [_object(path, parts[name], name) for name in sorted(parts)]
    else:
        header = _object(path, path.read_text(encoding="utf-8"), "it")
        samples = header.get("samples") or []
    if "eval" not in header:
        raise ValueError(f"{path} is no log of inspect_ai: it has no entry 'eval'")
    if header.get("status", "success") != "success" or not samples:
        raise ValueError(f"{path} is a log of an evaluation that did not finish, or holds no samples: finish it")
    about = header["eval"]
    for sample in samples:
        if sample.get("error") or not sample.get("scores"):
            raise ValueError(
                f"{path} has sample {sample.get('id')!r} without a score: score it, since samples that fail are no "
                "random part of all"
            )
        scores = dict(_values(sample["scores"]))
        repeat = f"{sample['id']} {sample.get('epoch', 1)}"
        yield Scored(model=str(about["model"]), task=str(about["task"]), document=str(sample["id"]), repeat=repeat,
                     scores=scores)  # fmt: skip


def _values(scores: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """The scores from 0 to 1 by their names; others are left to whoever asks for them."""
    for name, score in scores.items():
        value = score["value"]
        for part, one in value.items() if isinstance(value, dict) else [("", value)]:
            number = _WORDS.get(one.lower()) if isinstance(one, str) else one
            if isinstance(number, bool | int | float) and 0.0 <= number <= 1.0:
                yield (f"{name}/{part}" if part else name), float(number)


def _examples(path: Path, found: list[Scored], metric: str | None) -> Examples:
    if not found:
        raise ValueError(f"{path} holds no answers: log the samples of the evaluation")
    models = list(dict.fromkeys(one.model for one in found))
    answered = {model: {(one.task, one.document, one.repeat): one for one in found if one.model == model}
                for model in models}  # fmt: skip
    keys = list(answered[models[0]])
    for model, own in answered.items():
        if len(own) < sum(one.model == model for one in found):
            raise ValueError(f"{path} has a document of {model or 'the model'} twice in one task and epoch: drop a log")
        if own.keys() != set(keys):
            raise ValueError(
                f"{path} must have the same documents for every model, and {model!r} has others than {models[0]!r}: "
                "give a folder with the logs of one model, or of several on the same tasks"
            )
    names = _metrics(path, found, metric)
    said = {model or MODEL: Answers(losses={f"1 - {name}": np.array([1.0 - own[key].scores[name] for key in keys])
                                            for name in names}) for model, own in answered.items()}  # fmt: skip
    tasks, documents = [key[0] for key in keys], [f"{key[0]} {key[1]}" for key in keys]
    repeated = len(set(documents)) < len(documents)
    remarks = ("documents were answered more than once: each counts as one record, called a person here",) * repeated
    remarks += _left_out(found, names) if metric is None else ()
    made = Examples(n=len(keys), models=said, remarks=remarks)
    return described(
        made, groups=coded("task", tasks) if len(set(tasks)) > 1 else None,
        people=coded("document", documents) if repeated else None, weights=None,
    )  # fmt: skip


def _metrics(path: Path, found: list[Scored], metric: str | None) -> list[str]:
    """The scores that every answer has, or the one that was named."""
    common = [name for name in found[0].scores if all(name in one.scores for one in found)]
    if metric is not None and metric not in common:
        raise ValueError(f"--metric {metric} is no score from 0 to 1 of every answer in {path}: choose among "
                         f"{', '.join(common) or 'none'}")  # fmt: skip
    if not common:
        raise ValueError(f"{path} has no score from 0 to 1 that all of its tasks share: give the logs of fewer tasks")
    return common if metric is None else [metric]


def _left_out(found: list[Scored], names: list[str]) -> tuple[str, ...]:
    """A remark on every score that some answers have and others lack."""
    have = Counter(name for one in found for name in one.scores if name not in names)
    return tuple(f"the score {name} is left out: {len(found) - k} of {len(found)} answers have none from 0 to 1"
                 for name, k in sorted(have.items()))  # fmt: skip


def _object(path: Path, text: str | bytes, where: str) -> dict[str, Any]:
    try:
        found = json_value(text)
    except ValueError as error:
        raise ValueError(f"{path} is no JSON, {where} ({error}): write it anew") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} must hold a JSON object, and {where} is none: write it anew")
    return found
