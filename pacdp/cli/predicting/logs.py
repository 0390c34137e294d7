"""Evaluation logs of language models as examples: samples of lm-evaluation-harness (jsonl), logs of inspect_ai.

A score becomes a loss by its range and direction (``scores``). Tasks are groups; a document that was answered more than
once, in several epochs or as several questions, is one unit. Several logs in a folder are several tasks, or several
models on the same documents: lm-evaluation-harness has a folder for each.
"""

import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bounds._check import json_value
from pacdp.cli.predicting.scores import Range, is_score, losses_of
from pacdp.cli.predicting.tables import Table
from pacdp.cli.serial import Values, record
from pacdp.cli.terminal import refusing
from pacdp.data.errors import DataError
from pacdp.data.unpacking import members
from pacdp.predictions.columns import coded
from pacdp.predictions.examples import MODEL

if sys.version_info >= (3, 14):
    import zipfile
else:
    from backports.zstd import (
        zipfile,
    )  # which reads members packed by Zstd, as inspect_ai writes them

_SAMPLES = re.compile(r"samples_(.+?)(_\d{4}-\d{2}-\d{2}T[\d.:-]+)?\.jsonl")
_NO_SCORES = {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash",
              "prompt_hash", "target_hash"}  # fmt: skip
_IN_SAMPLES = {"resps", "metrics"}
"""Of samples each has the first, and where that was dropped the second; a table may well call its ids doc_id."""
_PASSAGE = 100
"""Letters of a text that several questions may be about."""
_LETTER = re.compile(r"\W?[A-Z]\W?")
_AGAIN = "write it anew, or as .json"
SUFFIXES = (".jsonl", ".json", ".eval")


@record
class Scored:
    """One answer: the scores that a document got in a task, as they stand in the log.

    Attributes:
        scores: by name, each with whether the log says that less of it is better.
        document: the same in whatever task, if the log says what it holds.
        texts: of 20 letters and more that stand alone in the document, such as a question.
        failed: whether the sample has an error beside its scores, or was declared invalid.
    """

    model: str
    task: str
    document: str
    repeat: str
    scores: dict[str, tuple[Any, bool]]
    texts: tuple[str, ...] = ()
    failed: bool = False


def is_log(path: Path) -> bool:
    """Whether this is a folder, or a file of a kind that tables do not have: a document in a line, or one object."""
    if path.is_dir() or _SAMPLES.fullmatch(path.name):
        return True
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES or suffix == ".eval":
        return suffix == ".eval"
    with path.open("rb") as file:
        start = file.readline(1 << 20)
        more = file.read(1).strip()
    if suffix == ".jsonl":
        return b'"doc_id"' in start and any(f'"{one}"'.encode() in start for one in _IN_SAMPLES)
    lined = start.endswith((b"}\n", b"}\r\n")) and more  # a record a line, which is a table
    return start.lstrip().startswith(b"{") and not lined


def read_logs(path: Path, metric: str | None = None, within: Range | None = None) -> Table:
    """The answers in a log, or in all logs of a folder, as a table: a row for each document, repeat and model.

    Args:
        path: a log or a folder.
        metric: the score to certify; by default all that every task has, the first of them for the first row, and
            where tasks share none the first of each task.
        within: the range of the score; by default that which its name or its type says.

    Raises:
        ValueError: no log, a line that is none, or scores that do not fit together.
    """
    files = sorted(filter(_log, path.rglob("*"))) if path.is_dir() else [path]
    if not files:
        raise ValueError(
            f"{path} holds no logs: give a folder of samples_*.jsonl, *.eval or *.json, or one such file"
        )
    answers = {file: list(_read(file, path)) for file in files}
    found = [one for own in answers.values() for one in own]
    if not found:
        raise ValueError(f"{path} holds no answers: log the samples of the evaluation")
    tasks = [one.task for one in found]
    with refusing(f"{path} cannot be certified", ValueError):
        chosen = losses_of([one.scores for one in found], tasks, metric=metric, within=within)
    passed = [file.name for file, own in answers.items() if not own]
    failed = [f"{one.task} {one.repeat}" for one in found if one.failed]
    named = {
        "model": [one.model or MODEL for one in found],
        "id": [f"{one.task} {one.document} {one.repeat}" for one in found],
        "person": [one.document for one in found],
        "group": tasks,
    }
    answered = Counter(zip(named["model"], named["group"], named["id"], strict=True))
    (model, task, _), times = answered.most_common(1)[0]
    if times > 1:
        raise ValueError(
            f"{path} holds answers of {model} to the same samples of {task} twice, as two runs in one folder leave "
            "them: keep the logs of one run, or certify each by itself"
        )
    repeated = len({*zip(named["model"], named["person"], strict=True)}) < len(found)
    left_out = ["person"] * (not repeated) + ["group"] * (len(set(tasks)) == 1)
    shared, passages = _shared(found), _passages(found)
    remarks = {
        f"{len(shared)} texts stand in documents of several tasks, such as {shared[:1]}, and these count as different "
        "ones: if they ask the same, certify each task by itself": shared,
        f"{len(passages)} texts stand in several documents of a task each, such as {passages[:1]}: if documents ask "
        "about one passage, they are not independent and n counts each of them; write a table with the passage as "
        "person": passages,
        f"passed over, for they hold no samples: {', '.join(passed)}": passed,
        f"{len(failed)} samples have an error beside their scores, or were declared invalid, such as {failed[:1]}: "
        "these count as they stand in the log": failed,
        "documents were answered more than once: each counts as one record": repeated,
    }
    return Table(
        rows=len(found),
        named={name: coded(name, own, known=own) for name, own in named.items() if name not in left_out},
        numbers=dict(chosen.losses), record="document", range_by=chosen.by,
        remarks=(*(said for said, so in remarks.items() if so), *chosen.remarks),
    )  # fmt: skip


def _shared(found: Sequence[Scored]) -> list[str]:
    """The texts that stand in one document of each of several tasks, and in no other."""
    where = dict[str, set[tuple[str, str]]]()
    for one in found:
        for text in one.texts:
            where.setdefault(text, set()).add((one.task, one.document))
    return [
        text[:60]
        for text, places in where.items()
        if len(places) == len({task for task, _ in places})
        and len({name for _, name in places}) > 1
    ]


def _passages(found: Sequence[Scored]) -> list[str]:
    """Long texts that several documents of a task hold, where a tenth of all do; not those of half a task or more."""
    where, of_task = (dict[Any, set[str]]() for _ in range(2))
    for one in found:
        of_task.setdefault(one.task, set()).add(one.document)
        for text in filter(lambda text: len(text) >= _PASSAGE, one.texts):
            where.setdefault((one.task, text), set()).add(one.document)
    shared = {at: own for at, own in where.items() if 1 < len(own) < len(of_task[at[0]]) / 2}
    rare = 10 * len(set[str]().union(*shared.values())) < len(set[str]().union(*of_task.values()))
    return [] if rare else [text[:60] for _, text in shared]


def _log(path: Path) -> bool:
    """Whether a file of a folder is a log of samples: not a table of results, nor a report that was written here."""
    others = path.name.startswith(("results_", "certificates.json"))
    return path.suffix in SUFFIXES and path.is_file() and not others


def _read(path: Path, whole: Path) -> Iterator[Scored]:
    kinds = (KeyError, TypeError, AttributeError, UnicodeDecodeError, RecursionError)
    with refusing(f"{path} is no log that this reads", *kinds, or_else=_AGAIN):
        if path.suffix == ".jsonl":
            yield from _harness(path, "" if whole in (path, path.parent) else path.parent.name)
        else:
            yield from _inspect(path, manifests=whole != path)


def _unpacked(path: Path) -> dict[str, bytes]:
    """The header and the samples of a zip."""
    with path.open("rb") as raw:
        try:
            with zipfile.ZipFile(raw) as stored:
                names = members(path, stored, _AGAIN)
                samples = [
                    one for one in names if one.startswith("samples/") and one.endswith(".json")
                ]
                wanted = ("header.json", *samples)
                return {one: _member(stored, one, stored.getinfo(one).file_size) for one in wanted}
        except DataError:
            raise
        except Exception as error:  # zipfile raises whatever the bytes of a damaged file lead it to
            raise ValueError(f"{path} cannot be read as a log ({error}): {_AGAIN}") from error


def _member(stored: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """What a member holds, unpacked in pieces and up to ``limit`` bytes."""
    content = bytearray()
    with stored.open(name) as packed:
        while piece := packed.read(4096):
            content += piece
            if len(content) > limit:
                raise ValueError(f"{name} unpacks to more than {limit} bytes")
    return bytes(content)


def _harness(path: Path, model: str) -> Iterator[Scored]:
    """Lines of lm-evaluation-harness (--log_samples): one document under one filter a line."""
    named = _SAMPLES.fullmatch(path.name)
    task = named[1] if named else path.stem
    less = _less_is_better(path.with_name(f"results{(named and named[2]) or ''}.json"), task)
    seen = dict[tuple[str, str], Scored]()
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            row = _object(path, line, f"line {number}")
            if "doc_id" not in row or not row.keys() & _IN_SAMPLES:
                raise ValueError(
                    f"{path} must be samples of lm-evaluation-harness, and line {number} has no doc_id, or neither "
                    "resps nor metrics: write other tables as .csv or .parquet"
                )
            metrics = row.get("metrics") or sorted(row.keys() - _NO_SCORES)
            if not metrics:
                raise ValueError(
                    f"{path} has no scores in line {number}: log samples with their metrics"
                )
            name = row.get("filter", "none")
            whole = sorted(_said(row.get("doc")))
            document = (
                _hash(whole) if whole else str(row.get("doc_hash") or f"{task} {row['doc_id']}")
            )
            key = str(row["doc_id"]), document
            own = row["doc"].values() if isinstance(row.get("doc"), dict) else ()
            texts = tuple(text for text in own if isinstance(text, str) and len(text) >= 20)
            one = Scored(
                model=model, task=task, document=document, repeat=key[0], scores={}, texts=texts
            )
            one = seen.setdefault(key, one)
            for score in metrics:
                called = score if name == "none" else f"{score},{name}"
                if called in one.scores:
                    raise ValueError(
                        f"{path} has document {row['doc_id']} again in line {number}: drop the copies"
                    )
                if is_score(row.get(score)):
                    one.scores[called] = row[score], score in less
    yield from seen.values()


def _less_is_better(results: Path, task: str) -> frozenset[str]:
    """The scores of which lm-evaluation-harness says so, in the results that it writes beside its samples."""
    if not results.is_file():
        return frozenset()
    told = _object(results, results.read_text(encoding="utf-8"), "it").get("higher_is_better", {})
    return frozenset(name for name, higher in told.get(task, {}).items() if higher is False)


def _inspect(path: Path, *, manifests: bool) -> Iterator[Scored]:
    """A log of inspect_ai, as JSON or as its zip of JSON; nothing for other JSON where ``manifests`` may lie there."""
    if path.suffix == ".eval":
        parts = _unpacked(path)
        header = _object(path, parts.pop("header.json"), "header.json")
        samples = [_object(path, parts[name], name) for name in sorted(parts)]
    else:
        text = path.read_text(encoding="utf-8")
        if manifests and text.lstrip().startswith("["):
            return
        header = _object(path, text, "it")
        if manifests and "eval" not in header:
            return
        samples = header.get("samples") or []
    if "eval" not in header:
        raise ValueError(
            f"{path} is no log of inspect_ai: it has no entry 'eval'; write a table as records"
        )
    if header.get("status", "success") != "success" or not samples:
        raise ValueError(
            f"{path} is a log of an evaluation that did not finish, or holds no samples: finish it"
        )
    stopped = (header.get("results") or {}).get("early_stopping") or {}
    if any(stopped.get(name) for name in ("early_stops", "stopped_samples")):
        raise ValueError(
            f"{path} is a log of an evaluation that left samples out by the scores of others: run it without early "
            "stopping, since those that are left are no random part of all"
        )
    about, texts = header["eval"], dict[str, str]()
    for sample in samples:
        if not sample.get("scores"):
            raise ValueError(
                f"{path} has sample {sample.get('id')!r} without a score: score it, since samples that fail are no "
                "random part of all"
            )
        scores = dict(_values(sample["scores"]))
        repeat = f"{sample['id']} {sample.get('epoch', 1)}"
        # the same in all epochs
        text = texts.setdefault(str(sample["id"]), _question(sample, about["task"]))
        yield Scored(model=str(about["model"]), task=str(about["task"]), document=text, repeat=repeat,
                     scores=scores, failed=bool(sample.get("error") or sample.get("invalidation")))  # fmt: skip


def _question(sample: Values, task: Any) -> str:
    """A name for what a sample of inspect_ai asks, the same in whatever task; messages have ids of their own."""
    asked = sample.get("input")
    if not asked:
        return f"{task} {sample['id']}"
    if isinstance(asked, str):
        asked = [{"role": "user", "content": asked}]
    asked = [(one.get("role"), _content(one.get("content"))) for one in asked]
    # choices may be shuffled anew in every run, and the target, a letter, moves with them
    among = sorted(sample.get("choices") or []) or sample.get("target")
    return _hash([asked, among, sample.get("files"), sample.get("setup")])


def _content(content: Any) -> Any:
    """What a message holds: a text alone stands in a list or by itself."""
    alone = content[0] if isinstance(content, list) and len(content) == 1 else None
    return alone["text"] if isinstance(alone, dict) and alone.get("type") == "text" else content


def _said(document: Any) -> set[str]:
    """What a document of the harness holds, wherever it stands there, but the letter of the right choice.

    Choices may be shuffled anew in every task and run, as those of GPQA are, of which one task holds another.
    """
    if isinstance(document, dict | list):
        parts = document.values() if isinstance(document, dict) else document
        return set[str]().union(*map(_said, parts))
    text = document if isinstance(document, str) else json.dumps(document)
    return set() if document is None or _LETTER.fullmatch(text) else {text}


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _values(scores: Values) -> Iterator[tuple[str, tuple[Any, bool]]]:
    """The scores by their names; those in parts by the names of both."""
    for name, score in scores.items():
        value = score["value"]
        for part, one in value.items() if isinstance(value, dict) else [("", value)]:
            if is_score(one):
                yield (f"{name}/{part}" if part else name), (one, False)


def _object(path: Path, text: str | bytes, where: str) -> Values:
    with refusing(f"{path} is no JSON, {where}", ValueError, or_else="write it anew"):
        found = json_value(text)
    if not isinstance(found, dict):
        raise ValueError(f"{path} must hold a JSON object, and {where} is none: write it anew")
    return found
