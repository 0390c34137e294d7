"""Logs of lm-evaluation-harness and inspect_ai are tables of scores: tasks are groups, documents are counted."""

import json
import zipfile

import pytest
from cli_tools import succeed

import pacdp as library


def _harness(folder, task, scores, *, filters=("none",)):
    """Samples as lm-evaluation-harness 0.4 writes them; under a second filter every other answer is right."""
    path = folder / f"samples_{task}_2025-08-03T12-36-20.123456.jsonl"
    lines = [
        {
            "doc_id": k, "doc": {"question": f"{task} {k}?"}, "target": "A", "arguments": [], "resps": [["A"]],
            "filtered_resps": ["A"], "filter": name, "metrics": ["exact_match", "perplexity"], "doc_hash": f"{task}{k}",
            "prompt_hash": "p", "target_hash": "t", "exact_match": score if place == 0 else float(k % 2),
            "perplexity": 7.5,
        }
        for place, name in enumerate(filters)
        for k, score in enumerate(scores)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def _inspect(path, values, *, model="openai/gpt", task="quiz", epochs=1):
    samples = [
        {"id": k, "epoch": epoch, "input": "?", "target": "A", "scores": {"match": {"value": value, "answer": "A"}}}
        for epoch in range(1, epochs + 1)
        for k, value in enumerate(values)
    ]
    header = {"version": 2, "status": "success", "eval": {"task": task, "model": model}}
    if path.suffix == ".json":
        path.write_text(json.dumps({**header, "samples": samples}))
    else:
        with zipfile.ZipFile(path, "w") as stored:
            stored.writestr("header.json", json.dumps(header))
            for one in samples:
                stored.writestr(f"samples/{one['id']}_epoch_{one['epoch']}.json", json.dumps(one))
    return path


def _certified(path, *words):
    succeed("certify", "--predictions", path, *words)
    return json.loads(((path if path.is_dir() else path.parent) / "certificates.json").read_text())


def test_samples_of_the_harness_are_one_minus_their_scores(tmp_path, capsys):
    scores = [1.0] * 170 + [0.0] * 30
    report = _certified(_harness(tmp_path, "arc_easy", scores))
    expected = library.certify_predictions(losses={"1 - exact_match": [1.0 - one for one in scores]})
    assert [row["upper"] for row in report["details"]["statements"]] == [row.upper for row in expected.statements]
    assert capsys.readouterr().out.startswith("The 1 - exact_match of your model on new data is at most")
    assert report["unit"] == "example"


def test_filters_are_scores_of_their_own_and_one_can_be_chosen(tmp_path):
    path = _harness(tmp_path, "gsm8k", [1.0] * 90 + [0.0] * 10, filters=("strict-match", "flexible-extract"))
    rows = _certified(path)["details"]["statements"]
    assert [(row["quantity"], row["measured"], row["n"]) for row in rows] == [
        ("1 - exact_match,strict-match", pytest.approx(0.1), 100),
        ("1 - exact_match,flexible-extract", pytest.approx(0.5), 100),
    ]
    (row,) = _certified(path, "--metric", "exact_match,flexible-extract")["details"]["statements"]
    assert row["measured"] == pytest.approx(0.5)


def test_a_folder_of_samples_is_grouped_by_task(tmp_path):
    _harness(tmp_path, "arc", [1.0] * 80 + [0.0] * 20)
    _harness(tmp_path, "boolq", [1.0] * 120 + [0.0] * 80)
    (tmp_path / "results_2025-08-03T12-36-20.json").write_text("{}")
    rows = {row["quantity"]: row for row in _certified(tmp_path)["details"]["statements"]}
    assert rows["1 - exact_match in group 'arc'"]["measured"] == pytest.approx(0.2)
    assert rows["1 - exact_match in group 'boolq'"]["n"] == 200
    assert "largest gap between groups" in rows


@pytest.mark.parametrize("suffix", [".json", ".eval"])
def test_logs_of_inspect_are_read_from_json_and_from_zip(suffix, tmp_path):
    report = _certified(_inspect(tmp_path / f"log{suffix}", ["C"] * 60 + ["I"] * 30 + ["P"] * 10))
    (row,) = report["details"]["statements"]
    assert (row["of"], row["measured"], row["n"]) == ("openai/gpt", pytest.approx(0.35), 100)


def test_epochs_of_a_document_count_as_one_record(tmp_path, capsys):
    report = _certified(_inspect(tmp_path / "log.json", ["C"] * 60 + ["I"] * 40, epochs=4))
    assert (report["n"], report["unit"], report["examples"]) == (100, "person", 400)
    assert "remark: documents were answered more than once" in capsys.readouterr().out


def test_two_models_on_the_same_documents_are_compared(tmp_path):
    _inspect(tmp_path / "a.json", ["C"] * 80 + ["I"] * 20, model="one")
    _inspect(tmp_path / "b.eval", ["C"] * 70 + ["I"] * 30, model="two")
    rows = {row["quantity"]: row for row in _certified(tmp_path)["details"]["statements"]}
    assert rows["1 - match of two minus 1 - match of one"]["measured"] == pytest.approx(0.1)


def _text(name, content):
    return lambda folder: (folder / name).write_text(content)


HEAD = '{"eval": {"model": "m", "task": "t"}, '
WRONG = {
    "no JSON": (_text("samples_a.jsonl", "{"), "is no JSON, line 1"),
    "a document twice": (_text("samples_a.jsonl", '{"doc_id": 1, "acc": 1}\n' * 2), "has document 1 again in line 2"),
    "not finished": (_text("a.json", '{"eval": {}, "status": "started"}'), "did not finish"),
    "no score": (_text("a.json", HEAD + '"samples": [{"id": 1}]}'), "has sample 1 without a score"),
    "other documents": (
        lambda f: (_inspect(f / "a.json", ["C", "I"], model="x"), _inspect(f / "b.json", ["C"], model="y")),
        "must have the same documents for every model",
    ),
    "a log twice": (
        lambda f: (_inspect(f / "a.json", ["C", "I"]), _inspect(f / "b.json", ["C", "I"])),
        "twice in one task and epoch",
    ),
}


@pytest.mark.every_case
@pytest.mark.parametrize("why", WRONG)
def test_a_log_that_does_not_fit_is_one_sentence(why, tmp_path, refused):
    make, said = WRONG[why]
    make(tmp_path)
    assert said in refused("certify", "--predictions", tmp_path)
    assert not (tmp_path / "certificates.json").exists()
