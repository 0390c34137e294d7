"""Logs of lm-evaluation-harness and inspect_ai are tables of scores: tasks are groups, documents are counted."""

import json

from cli_tools import read, succeed
from report_pages import changed, write

import pacdp as library
from pacdp.cli.predicting.logs import _member, zipfile
from pacdp.verify.claim import CANNOT
from pacdp.verify.report import check_report
from tests.marks import every_case, near, parametrize, refusal


def _harness(folder, task, scores, *, filters=("none",), metric="exact_match"):
    """Samples as lm-evaluation-harness 0.4 writes them; under a second filter every other answer is right."""
    path = folder / f"samples_{task}_2025-08-03T12-36-20.123456.jsonl"
    lines = [
        {
            "doc_id": k, "doc": {"question": f"{task} {k}?"}, "target": "A", "arguments": [], "resps": [["A"]],
            "filtered_resps": ["A"], "filter": name, "metrics": [metric, "perplexity"], "doc_hash": f"{task}{k}",
            "prompt_hash": "p", "target_hash": "t", metric: score if place == 0 else float(k % 2),
            "perplexity": 7.5,
        }
        for place, name in enumerate(filters)
        for k, score in enumerate(scores)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def _inspect(
    path, values, *, model="openai/gpt", task="quiz", epochs=1, scorer="match", packed=zipfile.ZIP_STORED, asked=None
):
    samples = [
        {
            "id": k,
            "epoch": epoch,
            "input": f"{task} {k}?" if asked is None else asked(k),
            "target": "A",
            "scores": {scorer: {"value": value, "answer": "A"}},
        }
        for epoch in range(1, epochs + 1)
        for k, value in enumerate(values)
    ]
    header = {"version": 2, "status": "success", "eval": {"task": task, "model": model}}
    if path.suffix == ".json":
        write(path, {**header, "samples": samples})
    else:
        with zipfile.ZipFile(path, "w", packed) as stored:
            stored.writestr("header.json", json.dumps(header))
            for one in samples:
                stored.writestr(f"samples/{one['id']}_epoch_{one['epoch']}.json", json.dumps(one))
    return path


def _certified(path, *words):
    succeed("certify", "--predictions", path, *words)
    return read((path if path.is_dir() else path.parent) / "certificates.json")


def _rows(path, *words):
    """What is stated, by what it is about."""
    return {row["quantity"]: row for row in _certified(path, *words)["details"]["statements"]}


def _row(path, *words):
    """The one statement."""
    (row,) = _rows(path, *words).values()
    return row


def test_samples_of_the_harness_are_one_minus_their_scores(tmp_path):
    scores = [1.0] * 170 + [0.0] * 30
    report = _certified(_harness(tmp_path, "arc_easy", scores))
    expected = library.certify_predictions(losses={"1 - exact_match": [one == 0.0 for one in scores]})
    assert [row["upper"] for row in report["details"]["statements"]] == [row.upper for row in expected.statements]
    assert report["unit"] == "example"
    assert "perplexity is left out" in report["details"]["remarks"][0]
    (ranged,) = [one["by"] for one in report["certificates"][0]["hypotheses"] if "range" in one["name"]]
    assert ranged == "known of scores of this name or type: exact_match is 0 or 1, and more is better"


def test_filters_are_scores_of_their_own_and_one_can_be_chosen(tmp_path):
    path = _harness(tmp_path, "gsm8k", [1.0] * 90 + [0.0] * 10, filters=("strict-match", "flexible-extract"))
    rows = _rows(path)
    assert {name: (row["measured"], row["n"]) for name, row in rows.items()} == {
        "1 - exact_match,strict-match": (near(0.1), 100),
        "1 - exact_match,flexible-extract": (near(0.5), 100),
    }
    assert _row(path, "--metric", "exact_match,flexible-extract")["measured"] == near(0.5)


def test_a_folder_of_samples_is_grouped_by_task(tmp_path):
    _harness(tmp_path, "arc", [1.0] * 80 + [0.0] * 20)
    _harness(tmp_path, "boolq", [1.0] * 120 + [0.0] * 80)
    (tmp_path / "results_2025-08-03T12-36-20.json").write_text("{}")
    rows = _rows(tmp_path)
    assert rows["1 - exact_match in group 'arc'"]["measured"] == near(0.2)
    assert rows["1 - exact_match in group 'boolq'"]["n"] == 200
    assert "largest gap between groups" in rows


def test_a_document_of_two_tasks_is_one_record_where_the_log_tells(tmp_path):
    path = _harness(tmp_path, "arc", [1.0] * 30)
    (tmp_path / "samples_chat.jsonl").write_text(path.read_text())
    report = _certified(tmp_path)
    assert (report["n"], report["unit"], report["examples"]) == (30, "document", 60)
    assert report["details"]["statements"][-2]["n"] == 30
    for one in (path, tmp_path / "samples_chat.jsonl"):
        one.write_text(one.read_text().replace('"doc_hash"', '"other"'))
    assert _certified(tmp_path)["n"] == 30, "whose question is the same"
    for one in (path, tmp_path / "samples_chat.jsonl"):
        one.write_text(one.read_text().replace('"doc"', '"else"'))
    assert _certified(tmp_path)["n"] == 60


@parametrize(
    "shared, said", [("{k} and some words more?", ["30 texts stand in documents of several"]), ("{task} {k}?", [])]
)
def test_questions_that_two_tasks_of_the_harness_ask_in_other_documents_are_named(shared, said, tmp_path):
    for task in ("gsm8k", "gsm8k_platinum"):
        path = _harness(tmp_path, task, [1.0] * 30)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for k, one in enumerate(lines):
            one["doc"] = {"question": shared.format(k=k, task=task), "kind": "a kind of many letters", "status": task}
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = _certified(tmp_path)
    assert report["n"] == 60
    assert [one[:38] for one in report["details"]["remarks"] if "texts" in one] == said


@parametrize("form", ["samples", "eval"])
def test_two_runs_in_one_folder_are_told_apart_by_nobody(form, tmp_path, refused):
    for run in ("2025-08-03T12-36-20", "2025-08-04T12-36-20"):
        if form == "samples":
            _harness(tmp_path, "arc", [1.0, 0.0] * 15).rename(tmp_path / f"samples_arc_{run}.jsonl")
        else:
            _inspect(tmp_path / f"{run}.eval", ["C", "I"] * 15)
    assert "twice, as two runs in one folder leave them: keep" in refused("certify", "--predictions", tmp_path)


@parametrize("questions, named", [(1, 0), (3, 20)])
def test_passages_that_several_documents_ask_about_are_named(questions, named, tmp_path):
    """Instructions that all or most documents share are none."""
    path = _harness(tmp_path, "drop", [1.0] * 60)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for k, one in enumerate(lines):
        one["doc"] = {"passage": f"{k // questions} " + "and so on " * 12, "question": f"{k}?", "how": "Answer. " * 20}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    said = [one for one in _certified(path)["details"]["remarks"] if "passage" in one]
    assert [one.split()[0] for one in said] == [str(named)] * bool(named)


@parametrize("shuffled, n", [(True, 30), (False, 60)])
def test_a_document_of_the_harness_is_the_same_in_whatever_order_its_choices_stand(shuffled, n, tmp_path):
    """As those of GPQA are shuffled in every task, of which the extended one holds the others."""
    for task, texts in (("diamond", "xyz"), ("extended", "zyx" if shuffled else "xyw")):
        path = _harness(tmp_path, task, [1.0] * 30)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for k, one in enumerate(lines):
            choices = dict(zip(("choice1", "choice2", "choice3"), texts, strict=True))
            right = f"({'ABC'[texts.index('x')]})"
            one["doc"] = {"Question": f"{k}?", **choices, "choices": [*texts], "answer": right, "note": None}
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert _certified(tmp_path)["n"] == n


def _messages(k):
    """A question as inspect_ai keeps it in chats, with an identity of its own in every log."""
    return [{"role": "user", "content": f"{k % 30}?", "id": object.__repr__(object())}]


@parametrize("asked", [lambda k: f"{k % 30}?", _messages])
def test_questions_of_one_text_are_one_record_in_whatever_task_of_inspect(asked, tmp_path):
    for task in ("quiz", "chat"):
        _inspect(tmp_path / f"{task}.json", "C" * 36 + "I" * 4, task=task, asked=asked)
    report = _certified(tmp_path)
    assert (report["n"], report["unit"], report["examples"]) == (30, "document", 80)
    for task in ("quiz", "chat"):
        _inspect(tmp_path / f"{task}.json", "C" * 36 + "I" * 4, task=task, asked=lambda k: "")
    assert _certified(tmp_path)["n"] == 80  # nothing tells


@parametrize("task, model", [("chat", "openai/gpt"), ("quiz", "other")])
def test_choices_that_were_shuffled_anew_are_those_of_the_same_question(task, model, tmp_path):
    for name, of, choices, asked in (("quiz", "openai/gpt", "xy", str), (task, model, "yx", _said)):
        path = _inspect(tmp_path / f"{choices}.json", "C" * 36 + "I" * 4, task=name, model=of, asked=asked)
        log = read(path)
        for one in log["samples"]:
            one |= {"choices": [*choices], "target": "AB"[choices.index("x")]}
        write(path, log)
    report = _certified(tmp_path)
    assert report["n"] == 40
    assert {row["of"] for row in report["details"]["statements"]} >= {"openai/gpt", model}


def _said(k):
    return [{"role": "user", "content": str(k)}]


def _listed(k):
    return [{"role": "user", "content": [{"type": "text", "text": str(k), "refusal": None}]}]


def test_a_question_whose_text_stands_in_a_list_is_the_same(tmp_path):
    for name, asked in (("quiz", str), ("chat", _said), ("parts", _listed)):
        _inspect(tmp_path / f"{name}.json", "C" * 36 + "I" * 4, task=name, asked=asked)
    assert _certified(tmp_path)["n"] == 40


def test_epochs_of_a_document_count_as_one_record(tmp_path, capsys):
    report = _certified(_inspect(tmp_path / "log.json", "C" * 60 + "I" * 40, epochs=4))
    assert (report["n"], report["unit"], report["examples"]) == (100, "document", 400)
    said = capsys.readouterr().out
    assert "400 examples of 100 documents" in said
    assert "remark: documents were answered more than once" in said
    assert {one.verdict for one in check_report(report)} <= {"follows", CANNOT}


@parametrize("packed", [zipfile.ZIP_ZSTANDARD, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_members_are_read_however_they_are_packed_and_no_further_than_a_limit(packed, tmp_path):
    path = _inspect(tmp_path / "log.eval", "C" * 28 + "I" * 4 + "P" * 8, scorer="graded", packed=packed)
    row = _row(path)
    assert (row["of"], row["measured"], row["n"]) == ("openai/gpt", 0.2, 40)
    with zipfile.ZipFile(path) as stored:
        size = stored.getinfo("header.json").file_size
        assert len(_member(stored, "header.json", size)) == size
        with refusal(f"unpacks to more than {size - 1} bytes"):
            _member(stored, "header.json", size - 1)


def test_manifests_beside_logs_are_passed_over_with_a_remark(tmp_path):
    _inspect(tmp_path / "quiz.json", "C" * 32 + "I" * 8)
    for name, content in (("eval-set.json", '{"tasks": []}'), ("logs.json", "[1]")):
        (tmp_path / name).write_text(content)
    report = _certified(tmp_path)
    assert report["details"]["statements"][0]["measured"] == 0.2
    assert report["details"]["remarks"] == ["passed over, for they hold no samples: eval-set.json, logs.json"]


@parametrize("name", ["early_stops", "stopped_samples"])
def test_samples_that_were_left_out_by_the_scores_of_others_are_refused(name, tmp_path, refused):
    path = _inspect(tmp_path / "log.json", "C" * 36 + "I" * 4)
    for stopped in ([], [{"id": 40, "epoch": 1}]):
        write(path, {**read(path), "results": {"early_stopping": {"manager": "m", name: stopped}}})
        if not stopped:
            assert _certified(path)["n"] == 40
    assert "left samples out by the scores of others: run it without" in refused("certify", "--predictions", path)


@parametrize("what", ["error", "invalidation"])
def test_a_score_beside_an_error_counts_and_is_remarked_upon(what, tmp_path):
    path = _inspect(tmp_path / "log.json", "C" * 36 + "I" * 4)
    write(path, changed(read(path), f"samples/10/{what}", {"message": "out of time"}))
    report = _certified(path)
    assert report["details"]["statements"][0]["measured"] == 0.1
    assert report["details"]["remarks"][0].startswith(
        "1 samples have an error beside their scores, or were declared invalid, such as ['quiz 10 1']"
    )


@every_case(
    ("value", "within", "measured", "name"),
    [(1, (1, 10), 1.0, "(10 - grade)/9"), (-4, (-5, 5), 0.9, "(5 - grade)/10"), (True, None, 0.0, "1 - grade")],
)
def test_the_range_of_a_score_is_declared_or_known_and_never_read_off(value, within, measured, name, tmp_path, refused):
    path = _inspect(tmp_path / "log.json", [value] * 40, scorer="grade")
    if within:
        assert "the range of grade is not known, nor read off" in refused("certify", "--predictions", path)
        other = refused("certify", "--predictions", path, "--range", "2", "10")
        assert "grade lies in 2 to 10 as far as is known, and" in other
    report = _certified(path, *(("--range", *within) if within else ()))
    (row,), (made,) = report["details"]["statements"], report["certificates"]
    assert (row["quantity"], row["measured"]) == (name, near(measured))
    assert row["upper"] == 1.0 or measured < 1.0
    assert sum("losses within their range" == one["name"] for one in made["hypotheses"]) == 1


@parametrize("less", [True, False, None])
def test_the_direction_of_a_score_is_what_the_results_say(less, tmp_path):
    _harness(tmp_path, "bias", [1] * 75 + [0] * 25, metric="pct_stereotype")
    told = {} if less is None else {"higher_is_better": {"bias": {"pct_stereotype": not less}}}
    write(tmp_path / "results_2025-08-03T12-36-20.123456.json", told)
    row = _row(tmp_path)
    expected = ("pct_stereotype", 0.75) if less else ("1 - pct_stereotype", 0.25)
    assert (row["quantity"], row["measured"]) == expected


def test_tasks_without_a_score_in_common_are_judged_by_their_own(tmp_path):
    _harness(tmp_path, "gen", [1.0] * 30 + [0.0] * 10, filters=("strict-match",))
    _harness(tmp_path, "mc", [1.0] * 32 + [0.0] * 8, metric="acc")
    report = _certified(tmp_path)
    own = "loss by the first score of each task"
    rows = {row["quantity"]: row for row in report["details"]["statements"]}
    assert (rows[f"{own} in group 'mc'"]["measured"], rows[f"{own} in group 'gen'"]["measured"]) == (0.2, 0.25)
    assert "the loss of task 'gen' is 1 - exact_match,strict-match" in report["details"]["remarks"]


def test_two_models_on_the_same_documents_are_compared(tmp_path):
    _inspect(tmp_path / "a.json", "C" * 80 + "I" * 20, model="one")
    _inspect(tmp_path / "b.eval", "C" * 70 + "I" * 30, model="two")
    difference = _rows(tmp_path)["1 - match of two minus 1 - match of one"]
    assert difference["measured"] == near(0.1)


def _text(name, content):
    return lambda folder: (folder / name).write_text(content)


HEAD = '{"eval": {"model": "m", "task": "t"}, '
WRONG = {
    "no JSON": (_text("samples_a.jsonl", "{"), "is no JSON, line 1"),
    "a document twice": (
        _text("samples_a.jsonl", '{"doc_id": 1, "resps": [], "acc": 1}\n' * 2),
        "has document 1 again in line 2",
    ),
    "a table among logs": (_text("a.jsonl", '{"doc_id": 1, "label": "yes"}\n'), "line 1 has no doc_id, or neither"),
    "not finished": (_text("a.json", '{"eval": {}, "status": "started"}'), "did not finish"),
    "no score": (_text("a.json", HEAD + '"samples": [{"id": 1}]}'), "has sample 1 without a score"),
    "other documents": (
        lambda f: (_inspect(f / "a.json", "CI", model="x"), _inspect(f / "b.json", "C", model="y")),
        "must have the same examples for every model",
    ),
    "a known score out of range": (
        lambda f: _inspect(f / "a.json", ["C", 0.5]),
        "match is 0 or 1 as far as is known, and 0.5 stands here: pass --metric match",
    ),
    "a log twice": (
        lambda f: (_inspect(f / "a.json", "CI"), _inspect(f / "b.json", "CI")),
        "twice, as two runs in one folder leave them",
    ),
}


@every_case("why", WRONG)
def test_a_log_that_does_not_fit_is_one_sentence(why, tmp_path, refused):
    make, said = WRONG[why]
    make(tmp_path)
    assert said in refused("certify", "--predictions", tmp_path)
    assert not (tmp_path / "certificates.json").exists()


def test_a_table_whose_ids_are_called_doc_id_is_no_log_of_scores(tmp_path, refused):
    path = tmp_path / "answers.jsonl"
    answers = [("yes", "yes"), ("no", "yes"), ("yes", "no"), ("no", "no")]
    lines = [{"doc_id": k, "label": label, "prediction": said} for k, (label, said) in enumerate(answers)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "has a column 'doc_id'" in refused("certify", "--predictions", path)
    lines = [{"id": line.pop("doc_id"), **line} for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert _rows(path)["error"]["measured"] == near(0.5)
