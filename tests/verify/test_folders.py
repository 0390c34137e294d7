"""A run's folder: everything in it follows, and no number of header, rows or certificates changes without notice."""

import copy
import io
import json
import os
import shutil
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from cli_tools import forge, one_sentence, read, succeed
from made import verdicts, wrong
from numpy.random import default_rng
from tiny_runs import RUNTIME, leave, tiny
from torch import nn

from bounds import maurer, printed
from pacdp import certify_predictions, load_checkpoint, save_checkpoint
from pacdp.certify.finite import assess_finite
from pacdp.cli.__main__ import run as command
from pacdp.cli.run import train
from pacdp.data.rows import Rows
from pacdp.models import Architecture, build
from pacdp.predictions.bounding import clopper_pearson
from pacdp.problem import Problem
from pacdp.store.checkpoint import Checkpoint
from pacdp.verify import loss
from pacdp.verify.claim import CANNOT, DOES_NOT, FOLLOWS, Fields, Wrong, parsed
from pacdp.verify.examples import Examples, row_hashes
from pacdp.verify.files import Folder, Stored, Tensor, check_content, content_hash
from pacdp.verify.folder import check_folder
from pacdp.verify.recount import count_errors, recount
from pacdp.verify.report import check_path, check_report, main
from tests.edits import UNSEEN, leaves, moved, written
from tests.marks import every_case, parametrize
from tests.pacdp.toys import seeded

# What a header, a report or a row may say that nothing else in the folder, nor any theorem, determines.
FREE = set((
    "seconds wall_seconds device runtime trace diagnosis provenance effort not_applicable gibbs weights "
    "mu_central_limit seed reference by prior std"
).split())  # fmt: skip
GIVEN = ("new data follow the same law", "settings fixed beforehand")
NOTHING = Stored(Fields(), {})
SOME = ("half_brier_private_pac_bayes", "test_set_clopper_pearson")


@pytest.fixture
def folder(runs, tmp_path):
    return Path(shutil.copytree(runs["clipped-sgld"], tmp_path / "run"))


@every_case("name", ["clipped-sgld", "clipped-entropy-sgd", "sgd", "entropy-sgld"])
def test_a_fresh_run_follows(runs, name, capsys):
    found = check_path(runs[name])
    assert {one.claim for one in found if one.verdict != FOLLOWS} <= UNSEEN, found
    assert verdicts(found) == {FOLLOWS, CANNOT}
    assert {"content of the checkpoint", "run", "steps", "metrics.jsonl", "result.json", "report"} <= {
        one.claim for one in found
    }
    assert main([str(runs[name])]) == 3
    assert capsys.readouterr().out.startswith(FOLLOWS)


@parametrize("correction", [True, False])
def test_a_run_of_psgld_follows(tmp_path, correction):
    """A step with the correction takes two gradients, and there are half as many."""
    train(tiny("psgld", correction=correction), tmp_path / "run", RUNTIME)
    assert not wrong(tmp_path / "run", None)
    assert load_checkpoint(tmp_path / "run").header["step"] == (45 if correction else 90)


@parametrize("clip_norm", [None, 1.0])
def test_where_a_run_may_end_was_listed_and_is_paid_for(tmp_path, clip_norm, few_passes):
    """At each of the listed steps a certificate may fail; in an export too, whose settings list them."""
    run, folder, out = tiny("sgld", records=4, clip_norm=clip_norm), tmp_path / "run", tmp_path / "out"
    run = replace(run, stopping="listed", reproducible=not clip_norm)
    train(run, folder, replace(RUNTIME, ledger=tmp_path / "ledger"))
    succeed("certify", folder, "--threads", 1)
    places = [(folder, "report")]
    if clip_norm:
        leave(folder, out)
        places.append((out, "settings"))
    for place, claim in places:
        assert verdicts(check_path(place), claim) == {FOLLOWS}
        report = read(place / "certificates.json")
        for made in report["certificates"]:
            made["failure_prob"] -= made["budget"].pop("other stopping times")
        written(place / "certificates.json", report)
        (said,) = [one for one in check_path(place) if one.claim == claim]
        assert said.verdict == DOES_NOT
        assert "does not pay for the other moments" in said.why
    sound = load_checkpoint(folder).header
    forge(folder, listed_steps=None)
    assert "steps" in wrong(folder, None)
    forge(folder, listed_steps=sound["listed_steps"][1:])
    assert "steps" in wrong(folder, None)


def test_bytes_of_weights_and_header_are_hashed(folder):
    path = folder / "checkpoint.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert set(wrong(folder, None)) == {"content of the checkpoint"}
    path.write_bytes(content.replace(rb"\"step\":90", rb"\"step\":10"))
    assert "content of the checkpoint" in wrong(folder, None)


def test_a_forged_header_is_found_even_with_a_new_hash(folder):
    header = load_checkpoint(folder).header
    sound = (folder / "checkpoint.safetensors").read_bytes()
    for name, value in {
        "step": 45, "planned_steps": 45, "n": 2 * header["n"], "seed": 7, "loss": {"name": "x"},
        "sampler": {**header["sampler"], "clip_norm": 0.5}, "run": {**header["run"], "epochs": 9.0},
        "data": {"train": "0", "test": "0"},
    }.items():  # fmt: skip
        (folder / "checkpoint.safetensors").write_bytes(sound)
        forge(folder, **{name: value})
        assert wrong(folder), name


def test_weights_are_those_of_the_network_that_the_settings_name(folder):
    header = load_checkpoint(folder).header
    problem, sound = header["problem"], (folder / "checkpoint.safetensors").read_bytes()
    for changed in ({"hidden": [9]}, {"hidden": []}, {"hidden": [8, 8]}, {"name": "fc600"}, {"norm": "group"}):
        (folder / "checkpoint.safetensors").write_bytes(sound)
        other = {**problem, "architecture": {**problem["architecture"], **changed}}
        forge(folder, problem=other, run={**header["run"], "problem": other})
        assert "the widths of" in wrong(folder, None)["content of the checkpoint"], changed
    report = read(folder / "certificates.json")
    report["gibbs"] = {"kl_nats": 1.0}
    assert DOES_NOT not in verdicts(check_report(report), "certificates agree with it")
    next(made for made in report["certificates"] if "kl_nats" in made["inputs"])["of"] = "Gibbs classifier"
    assert "inputs.kl_nats?" in {one.claim: one.why for one in check_report(report)}["certificates agree with it"]


@parametrize(
    ("name", "norm"),
    [("fc", "none"), ("fc", "group"), ("fc1200", "batch"), ("conv", "none"), ("conv", "batch"), ("cnn5", "none"),
     ("cnn3", "none")],
)  # fmt: skip
def test_the_layers_of_every_network_are_known(name, norm, tmp_path):
    chosen = Architecture(name=name, hidden=(6, 4), norm=norm)
    network = build(chosen, input_shape=(1, 28, 28), classes=10, generator=seeded(0))
    shapes = {one: [*weight.shape] for one, weight in network.named_parameters()}
    folder = Folder(tmp_path, Fields())
    folder.header = parsed({"parameters": [*shapes]})
    folder.stored = Stored(Fields(), {f"model.{one}": Tensor("", shape, b"") for one, shape in shapes.items()})

    def check(norm):
        said = {"name": name, "hidden": [6, 4], "norm": norm}
        folder.run = parsed({"problem": {"architecture": said}})
        folder.header["content_hash"] = content_hash(folder.stored)
        check_content(folder)

    check(norm)
    if norm == "none":  # a law over each weight has two names
        laws = {f"{one}{end}": shape for one, shape in shapes.items() for end in ("_mean", "_rho")}
        folder.header = parsed({"parameters": [*laws]})
        folder.stored = Stored(Fields(), {f"model.{one}": Tensor("", shape, b"") for one, shape in laws.items()})
        check(norm)
    with pytest.raises(Wrong):
        check("none" if norm != "none" else "group")


def test_a_file_that_is_there_has_its_format(folder):
    config = read(folder / "config.json")
    for form in (0, False, None):
        written(folder / "config.json", {**config, "format": form})
        assert {one.claim: one.verdict for one in check_folder(folder, None)} == {"format": CANNOT}, form


def test_json_that_names_no_format_is_nothing_to_read(tmp_path, capsys):
    for content in ({}, {"cells": []}, {"format": None}, {"format": ["pacdp-certificates/2"]}):
        written(tmp_path / "other.json", content)
        assert main([str(tmp_path / "other.json")]) == 2, content
        assert "other.json: it names no format" in capsys.readouterr().err


def test_a_report_on_an_earlier_checkpoint_says_what_helps(folder):
    """As one of a run that was certified on the way, and went on."""
    report = read(folder / "certificates.json")
    report["subject"] |= {"content_hash": "0" * 64, "step": 9}
    written(folder / "certificates.json", report)
    (said,) = [one for one in check_path(folder) if one.claim == "report"]
    assert said.verdict == DOES_NOT
    assert "certify that one again" in said.why


def test_a_pipe_that_closes_or_a_full_disk_is_no_verdict(folder):
    """Status 1 would say that something does not follow."""
    given = [sys.executable, "-m", "pacdp.verify", str(folder)]
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(given, check=False, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ran.returncode == 2
    assert one_sentence(ran.stderr).startswith("pacdp verify: cannot write what was found")


def test_names_that_are_no_text_or_make_lines_of_their_own_are_printed_escaped(folder, capsys):
    report = read(folder / "certificates.json")
    report["certificates"][0]["of"] = "\ud800\nfollows: everything\x1b[2J"
    written(folder / "certificates.json", report)
    assert main([str(folder)]) == 1
    told = capsys.readouterr().out
    assert r"\ud800\nfollows: everything\x1b[2J" in told
    assert "\nfollows: everything" not in told


@parametrize("code", ["ascii", "cp1252"])
def test_letters_that_the_output_has_no_code_for_are_no_verdict(code, tmp_path, monkeypatch):
    """Status 1 would say that something does not follow; so of the command that certifies."""
    (tmp_path / "said.csv").write_text("label,prediction\n" + "\u732b,\u732b\nchien,chien\n" * 9, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for words, status in (("certify --predictions said.csv", 0), ("verify .", 3)):
        shown = io.TextIOWrapper(io.BytesIO(), encoding=code)
        monkeypatch.setattr(sys, "stdout", shown)
        monkeypatch.setattr(sys, "argv", ["pacdp", *words.split()])
        ended = 0
        try:
            command()
        except SystemExit as ending:
            ended = ending.code
        assert ended == status, words
        shown.seek(0)
        assert r"\u732b" in shown.read()
    given = [sys.executable, "-m", "pacdp.verify", "."]
    ran = subprocess.run(given, check=False, capture_output=True, env={**os.environ, "PYTHONIOENCODING": code})
    assert (ran.returncode, ran.stderr) == (3, b"")
    assert "" not in {one.subject for one in check_path(Path())}, "the folder has a name"


@parametrize("cut", [slice(1, None), slice(None, -1)])
def test_rows_cannot_be_taken_out(folder, cut):
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(lines[cut]))
    assert wrong(folder, None)


def test_no_number_of_rows_configuration_or_result_changes_without_notice(folder):
    missed = set()
    for name in ("metrics.jsonl", "config.json", "result.json"):
        path = folder / name
        lines = path.read_text().splitlines() if name == "metrics.jsonl" else [path.read_text()]
        whole = [json.loads(line) for line in lines]
        for place in leaves(whole, FREE):
            path.write_text("\n".join(map(json.dumps, moved(whole, place))) + "\n")
            if not wrong(folder, None):
                missed.add((name, *place))
        path.write_text("\n".join(lines) + "\n")
    assert not missed


def test_what_is_not_shown_to_be_of_this_run_is_named(folder):
    report, result = read(folder / "certificates.json"), read(folder / "result.json")
    (folder / "snapshots-00003.safetensors").touch()
    written(folder / "result.json", {**result, "rests_on": {}})
    found = {one.claim: one for one in check_folder(folder, {**report, "subject": {"data": report["subject"]["data"]}})}
    assert found["result.json"].verdict == DOES_NOT
    assert (found["report"].verdict, found["other files"].verdict) == (CANNOT, CANNOT)
    assert "snapshots-00003.safetensors" in found["other files"].why
    (folder / "result.json").unlink()
    found = {one.claim: one for one in check_folder(folder, report)}
    assert "result.json" in found["other files"].why
    (folder / "checkpoint.safetensors").unlink()
    assert {one.claim: one.verdict for one in check_folder(folder, report)}["run"] == CANNOT


def test_no_number_of_a_report_changes_without_notice(folder, monkeypatch):
    """All that surrounds the certificates, and the event together; `test_certificates` changes the certificates."""
    monkeypatch.setattr(loss, "SECONDS", 0.0)  # the first grid decides
    report, missed = read(folder / "certificates.json"), set()
    report["certificates"] = [one for one in report["certificates"] if one["name"] in SOME]
    for place in leaves({name: value for name, value in report.items() if name != "details"}, FREE):
        changed = moved(report, place)
        found = [*check_report({**changed, "details": {}}), *check_folder(folder, changed)]
        if DOES_NOT not in verdicts(found):
            missed.add(place[-1])
    assert missed <= {"high", "unbounded_prob"}, "the interval of a loss, and 1e-14 of a probability"
    report["privacy"]["event"]["inner"][0]["count"] = 9
    written(folder / "certificates.json", report)
    assert set(wrong(folder)) == {"report"}, "a shortened history is not that of the settings"


def test_what_cannot_be_read_or_called_is_told_by_its_name(folder, capsys, monkeypatch):
    """Not by the entry of another file that was asked for last, nor by a traceback."""
    module = types.ModuleType("mine")
    monkeypatch.setitem(sys.modules, "mine", module)

    def boom():
        raise RuntimeError("boom")

    module.boom, module.unequal, module.none = boom, lambda: ([[0.0], [1.0]], [0]), lambda: None
    module.leaves = lambda: sys.exit(0)  # of which nobody may take the status for the checker's
    for name in ("boom", "unequal", "none", "nobody", "leaves"):
        assert main([str(folder), "--data", f"mine:{name}"]) == 2
        assert f"--data mine:{name} is no module:callable" in capsys.readouterr().err
    for name, content in {"metrics.jsonl": "null\n", "checkpoint.safetensors": ""}.items():
        (folder / name).write_text(content)
        assert main([str(folder)]) == 2
        assert f"{name}: it" in capsys.readouterr().err


def test_a_title_is_named_as_what_nothing_determines(folder):
    for title in (None, "epsilon 0.1"):
        config = {**read(folder / "config.json"), "title": title or ""}
        written(folder / "config.json", config)
        told = [one.why for one in check_folder(folder, None) if one.claim == "what is told beside"]
        assert any("config.title" in why for why in told) == bool(title)


def test_the_range_of_the_loss_is_that_of_the_recipe_and_what_settings_only_tell_is_named(runs, tmp_path):
    """Epsilon of a chain's law is proportional to it."""
    for name in ("sgld", "entropy-sgld"):
        folder = Path(shutil.copytree(runs[name], tmp_path / name))
        loss = load_checkpoint(folder).header["loss"]
        told = [one.why for one in check_folder(folder, None) if one.claim == "what is told beside"]
        assert "header.run.certify" in told[0]
        report = read(folder / "certificates.json")
        for made in report["certificates"]:
            made["inputs"].pop("epsilon", None)  # which is that of the range
        for value in ({}, {"high": 2.0}, {"low": 2.0}, {"oscillation": 0.1}):
            forge(folder, loss={**loss, **value})
            report["subject"] |= {"loss": {**loss, **value}, "content_hash": load_checkpoint(folder).content_hash}
            written(folder / "certificates.json", report)
            assert ("hypotheses" in wrong(folder)) == bool(value), value


OF_THE_LAW = {
    "tau": ("dp_gibbs_pac_bayes", 0.5), "loss_low": ("dp_gibbs_pac_bayes", 0.9),
    "loss_high": ("dp_gibbs_pac_bayes", 0.5), "error_loss": ("dp_gibbs_pac_bayes", 1.5),
    "risk": ("dp_pac_bayes", 0.5),
}  # fmt: skip


@every_case("entry", OF_THE_LAW)
def test_certificates_of_a_chain_are_of_its_law_and_its_errors(runs, entry):
    """Temperature and range of the loss are those of the header; the risk is not below the errors measured."""
    report = read(runs["entropy-sgld"] / "certificates.json")
    name, factor = OF_THE_LAW[entry]
    (made,) = (one for one in report["certificates"] if one["name"] == name)
    told = {**made["inputs"], entry: made["inputs"][entry] * factor}
    other = getattr(printed, name)(**told).to_dict()
    made |= {part: other[part] for part in ("inputs", "terms", "value", "costs")}
    found = [*check_report(report), *check_folder(runs["entropy-sgld"], report)]
    claims = {one.claim for one in found if one.verdict == DOES_NOT}
    assert claims == {"measured errors" if entry == "risk" else "hypotheses"}


def test_weights_are_certified_at_no_less_than_their_errors(runs):
    """The loss of these certificates is a ramp above the 0-1 loss."""
    report = read(runs["sgld"] / "certificates.json")
    (made,) = (one for one in report["certificates"] if one["name"] == "dp_kl_chernoff")
    for factor, due in ((0.5, DOES_NOT), (1.01, FOLLOWS)):
        told = {**made["inputs"], "risk": made["inputs"]["risk"] * factor}
        other = printed.dp_kl_chernoff(**told).to_dict()
        changed = {**made, **{part: other[part] for part in ("inputs", "terms", "value", "costs")}}
        kept = [changed if one is made else one for one in report["certificates"]]
        assert verdicts(check_report({**report, "certificates": kept}), "measured errors") == {due}


def _for_nothing(made, like, of):
    """The certificate of a risk of this predictor as if it had seen none of the rows that another one is about."""
    known = [one for one in like["hypotheses"] if one["name"] in ("records independent", *GIVEN)]
    unseen = [{"name": f"{who} saw none of these rows", "standing": "declared", "by": "the caller", "unit": ""}
              for who in ("predictor", "prior")]  # fmt: skip
    return {**made.to_dict(), "of": of, "measures": "0-1 risk", "hypotheses": [*known, *unseen]}


@every_case("route", ["gibbs", "finite"])
def test_what_learnt_from_its_rows_has_no_certificate_for_nothing(runs, route):
    """Neither as one of finitely many networks, of which there is one, nor as a law around what was learnt."""
    report = read(runs["entropy-sgld"] / "certificates.json")
    like = report["certificates"][0]
    means = {one["of"]: one for one in report["measured"] if (one["on"], one["loss"]) == ("bound", "zero-one")}
    network = assess_finite(np.array([means["weights"]["errors"]]), n=report["n"]).one
    kl = report["gibbs"]["kl_nats"]
    law = maurer(risk=means["Gibbs classifier"]["mean"], kl_nats=kl, n=report["n"], failure_prob=0.05)
    for made, of in ((network, "weights"), (law, "Gibbs classifier")):
        changed = {**report, "route": route, "certificates": [_for_nothing(made, like, of)]}
        changed["details"] = {"weights": [1.0]} if route == "finite" else {}
        found = [*check_report(changed), *check_folder(runs["entropy-sgld"], changed)]
        due = {"hypotheses of the prior", *["report"] * (route == "finite")}
        assert due <= {one.claim for one in found if one.verdict == DOES_NOT}, of


@every_case("inputs", [{"bound": "test_set_clopper_pearson"}, {"chosen": "test_set_clopper_pearson"}])
def test_a_count_is_of_the_rows_that_its_name_says(runs, inputs):
    """A certificate of the test set by its inputs alone is measured on the rows that the weights learnt."""
    report = read(runs["sgd"] / "certificates.json")
    (made,) = report["certificates"]
    k = next(one["errors"] for one in report["measured"] if one["on"] == "bound")
    other = clopper_pearson(k, report["n"], made["failure_prob"]).to_dict()
    among = [[made["name"], made["of"], other["value"], other["failure_prob"]]]
    more = {"chosen_position": 0, "among": json.dumps(among)} if "chosen" in inputs else {}
    made |= {"inputs": {**other["inputs"], **inputs, **more}, "value": other["value"], "budget": other["budget"]}
    made |= {"terms": {"compared": 1} if more else {}, "name": "best_of" if more else "overall_certificate"}
    assert {one.claim for one in check_report(report) if one.verdict == DOES_NOT} == {"what is said of the prior"}


def test_other_weights_beside_a_run_do_not_stand_for_its_checkpoint(folder):
    """As somebody's own, of which no header tells anything."""
    (folder / "weights.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    assert not wrong(folder)
    forge(folder, step=45)
    assert {"result.json", "report"} <= set(wrong(folder))


def test_a_report_says_alike_what_ran_and_pays_for_its_log_partition(runs):
    """Alone, too: less that ran, with a smaller epsilon or price beside it, and an estimate that cannot fail."""
    whole = read(runs["clipped-sgld"] / "certificates.json")
    edited = copy.deepcopy(whole)
    told = edited["details"]["accounted"]
    told["event"] = json.loads(json.dumps(told["event"]).replace('"noise_multiplier": ', '"noise_multiplier": 1'))
    assert verdicts(check_report(whole), "what ran") == {FOLLOWS}
    assert verdicts(check_report(edited), "what ran") == {DOES_NOT}
    report = read(runs["entropy-sgld"] / "certificates.json")
    assert verdicts(check_report(report), "hypotheses") == {FOLLOWS}
    (made,) = (one for one in report["certificates"] if one["name"] == "dp_gibbs_pac_bayes")
    assert verdicts(check_report(report), "hypotheses of the prior") == {FOLLOWS}
    law = made["inputs"]
    law |= {"log_partition_failure_prob": 0.0, "log_partition_lower_nats": 0.99 * report["gibbs"]["log_partition_nats"]}
    found = check_report(report)
    assert DOES_NOT in verdicts(found, "hypotheses")
    assert verdicts(found, "hypotheses of the prior") == {DOES_NOT}, "a lower end above the estimate"


def test_a_count_on_the_rows_of_a_run_is_no_report_of_it(runs, tmp_path):
    """As of somebody's predictions on these rows, beside what the run's report says of its checkpoint."""
    folder = Path(shutil.copytree(runs["sgld"], tmp_path / "run"))
    subject = read(folder / "certificates.json")["subject"]
    counted = certify_predictions([0, 1] * 20, [0, 1] * 20).to_dict()
    for said, due in ((None, CANNOT), (subject, DOES_NOT)):
        written(folder / "certificates.json", json.loads(json.dumps({**counted, "subject": said})))
        assert verdicts(check_folder(folder, read(folder / "certificates.json")), "report") == {due}


def test_a_folder_of_which_nothing_is_read_does_not_follow(runs, tmp_path):
    """As that of a study, which has its certificates in another one: what made a table shows no number."""
    shutil.copy(runs["sgld"] / "provenance.json", tmp_path)
    assert main([str(tmp_path)]) == 2


def trained_network(network, folder):
    """The network with the weights of the folder's checkpoint."""
    network.load_state_dict(load_checkpoint(folder).model)
    return network.eval()


def test_rows_are_recounted(folder, monkeypatch):
    problem, module = (Problem.from_dict(load_checkpoint(folder).header["problem"]), types.ModuleType("mine"))
    train, _ = problem.data()
    labels, other = train.labels.astype(np.int64), train.inputs.copy()
    other[3, 0] += 1.0
    report = read(folder / "certificates.json")
    module.model = lambda: problem.model(train, generator=seeded(0))
    monkeypatch.setitem(sys.modules, "mine", module)

    def recounted(inputs=train.inputs, labels=labels, **more):
        module.data = lambda: (inputs, labels)
        found = check_path(folder, data="mine:data", **more)
        return {one.claim: one.verdict for one in found if one.subject == "recount"}

    assert recounted(model="mine:model") == {"rows": FOLLOWS, "errors": FOLLOWS}
    module.other = lambda: nn.Linear(2, 2)
    module.own = lambda: trained_network(problem.model(train, generator=seeded(0)), folder)
    assert recounted(model="mine:other")["errors"] == CANNOT
    for fails in (lambda: nn.Linear(90, 2), lambda: nn.Sequential(nn.Flatten(), nn.Linear(7, 1)), lambda: None):
        module.fails = fails
        assert recounted(model="mine:fails")["errors"] == CANNOT

    class Answering(nn.Sequential):
        """Loads the weights, and answers by a buffer that no checkpoint has."""

        def forward(self, inputs):
            return self.answers[: len(inputs)]

    module.answering = lambda: Answering(*problem.model(train, generator=seeded(0)))
    plain = module.answering
    module.answering = lambda: (made := plain()).register_buffer("answers", torch.zeros(len(labels), 1)) or made
    assert recounted(model="mine:answering")["errors"] == CANNOT
    module.training = lambda: nn.Sequential(module.own(), nn.Dropout(0.9)).train()
    for name in ("own", "training"):
        bare = recount(report, NOTHING, "mine:data", f"mine:{name}")[-1]
        assert (bare.verdict, "weights of its own" in bare.why) == (CANNOT, True)
    own = module.own()
    for numbers in (lambda rows: own(rows).argmax(1), lambda rows: own(rows)[:, 0] > 0):
        module.numbers = lambda numbers=numbers: numbers
        assert "logits, in floats" in recount(report, NOTHING, "mine:data", "mine:numbers")[-1].why
    module.data = lambda: (train.inputs, labels, np.arange(train.n) // 2)  # whose they are does not matter here
    assert recount(report, NOTHING, "mine:data", None)[0].verdict == FOLLOWS
    module.data = lambda: (train.inputs, labels)
    of_people = {"rows": {"bound": {**report["rows"]["bound"], "people": train.n // 2}}}
    assert "whose the examples are" in recount(of_people, NOTHING, "mine:data", None)[0].why
    assert recounted(train.inputs[::-1].copy(), labels[::-1])["rows"] == FOLLOWS  # the order does not enter
    assert recounted(other)["rows"] == DOES_NOT
    for column in (labels[:, None], labels.astype(float), labels.astype(bool)):
        assert recounted(labels=column, model="mine:model") == {"rows": FOLLOWS, "errors": FOLLOWS}
    assert recounted(labels=labels - 1, model="mine:model")["errors"] == CANNOT
    assert recount({"rows": {"bound": {"digest": "0" * 64}}}, NOTHING, "mine:data", None)[0].verdict == CANNOT, (
        "old hashes"
    )
    old = load_checkpoint(folder)
    model = {name: -value for name, value in old.model.items()}
    save_checkpoint(folder / "checkpoint.safetensors", Checkpoint(header=old.header, model=model, state=old.state))
    assert recounted(model="mine:model")["errors"] == DOES_NOT


def test_ties_and_outputs_without_a_number_are_recounted_as_errors():
    classes = np.array([[1.0, 1.0, 0.0], [2.0, 1.0, 0.0], [np.nan, 0.0, 0.0], [-np.inf, -np.inf, -np.inf]])
    assert count_errors(lambda rows: rows, NOTHING, Examples(classes, [0, 0, 0, 1])) == 3
    assert count_errors(lambda rows: rows, NOTHING, Examples([0.0, 1.0, -1.0, np.nan], [1, 1, 0, 0])) == 2


@parametrize("kind", [np.float32, np.float64, np.uint8, np.int64, np.uint64, np.bool_])
def test_hashes_of_rows_are_those_of_the_data_package(kind):
    rng = default_rng(1)
    inputs = (rng.uniform(0, 200, size=(700, 3, 5))).astype(kind)
    if kind == np.float64:
        inputs[::2] = np.float32(inputs[::2])
        inputs[5, 0, 0], inputs[7, 0, 0] = np.nan, -0.0
    labels, people = rng.integers(0, 10, 700), rng.integers(0, 40, 700)
    for whose in (None, people):
        assert Examples(inputs, labels, whose).digest() == Rows.of(inputs, labels, whose).digest
    assert len(np.unique(row_hashes(labels))) == len(np.unique(labels))
