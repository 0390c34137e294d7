"""A private run's folder: its noise is that of its configuration, and no number of that changes without notice."""

import copy
import json
import re
import shutil
from itertools import product
from math import sqrt
from pathlib import Path

import pytest
from cli_tools import forge, read
from made import verdicts, wrong
from tiny_runs import RUNTIME, leave, tiny_private

from bounds import (
    Accounted,
    ApproxDP,
    GaussianDP,
    PureDP,
    RealisedPoissonSum,
    RealisedSum,
    WorstCaseSum,
    ZeroConcentratedDP,
    kl_chernoff,
    maurer,
)
from bounds.accounting import (
    ORDERS,
    Composed,
    ExponentialMechanism,
    Gaussian,
    PoissonSampled,
    SelfComposed,
    event_from_dict,
    event_to_dict,
    privacy_epsilon,
    renyi_divergences,
)
from pacdp import load_checkpoint
from pacdp.cli.private.run import train_private
from pacdp.resume import export
from pacdp.verify.certificate import check_certificate
from pacdp.verify.claim import CANNOT, DOES_NOT, FOLLOWS
from pacdp.verify.files import digest
from pacdp.verify.folder import check_folder
from pacdp.verify.report import check_path, check_report
from tests.edits import leaves, moved, odd, written
from tests.marks import every_case, near, parametrize

NAMES = ("calibrated", "halted", "langevin", "tempered", "parameters", "people", "quantile", "last")
# what a mechanism does not depend on: learning rates, networks, seeds, and how many examples at a time
FREE = set((
    "hidden seed records learning_rate momentum prior_std burn_in local_epochs local_batch_size "
    "score_bound max_physical snapshots public_size quantile quantile_rate"
).split())  # fmt: skip


OF_ADDED = {"adjacency": "add-remove", "status": "accounted"}
PROMISES = (
    PureDP(epsilon=1e-4, **OF_ADDED), ApproxDP(epsilon=1e-4, delta=1e-12, **OF_ADDED), GaussianDP(mu=1e-4, **OF_ADDED),
    ZeroConcentratedDP(rho=1e-8, **OF_ADDED),
)  # fmt: skip
"""What none of these runs cost."""
OF_OTHER_SUMS = RealisedPoissonSum(log_moments=(1e-6,), orders=(2.0,), records=10**6)
"""A price of norms that a private run does not keep."""
every_folder = parametrize("name", NAMES)


@pytest.mark.every_case
@every_folder
def test_a_fresh_private_run_follows(private_runs, name):
    found = check_path(private_runs[name])
    assert not odd(found)
    assert {"steps", "privacy spent", "report", "epsilon"} <= {one.claim for one in found}
    report = read(private_runs[name] / "certificates.json")
    other = "example" if report["unit"] == "person" else "person"
    assert DOES_NOT in verdicts(check_folder(private_runs[name], {**report, "unit": other}), "report")
    at = {"risk": 0.5, "n": report["n"], "failure_prob": 0.05}
    unpaid = {**report, "certificates": [maurer(kl_nats=0.0, price=OF_OTHER_SUMS, **at).to_dict()]}
    assert DOES_NOT in verdicts(check_folder(private_runs[name], unpaid), "report")
    for promised in PROMISES:
        made = kl_chernoff(price=Accounted(privacy=promised), **at).to_dict()
        costs = verdicts(check_certificate(made, report["privacy"]), "costs")
        assert costs == {DOES_NOT}, promised
    report["details"]["spent"]["epsilon"] *= 0.5
    assert DOES_NOT in verdicts(check_report(report), "epsilon")


def test_a_run_that_learns_laws_over_weights_follows(tmp_path):
    train_private(tiny_private("dp-bbp-mnist", epsilon=8.0), tmp_path / "run", RUNTIME)
    assert not wrong(tmp_path / "run", None)


@pytest.mark.every_case
@every_folder
def test_neighbours_have_one_of_two_names_and_are_those_of_the_run(private_runs, name):
    """Half of epsilon would do for neighbours that add or remove a record, and other words do not stand for these."""
    report = read(private_runs[name] / "certificates.json")
    spent = report["details"]["spent"]
    for words in ("replace one", "", None, "add-remove"):
        changed = {**report, "details": {**report["details"], "spent": {**spent, "adjacency": words}}}
        assert words == "add-remove" or DOES_NOT in verdicts(check_report(changed), "epsilon"), words
        assert DOES_NOT in verdicts(check_folder(private_runs[name], changed), "privacy spent"), words
    spent["delta"] *= 2
    assert DOES_NOT in verdicts(check_folder(private_runs[name], report), "privacy spent")


FULL = SelfComposed(event=Gaussian(noise_multiplier=50.0), count=20)
SAMPLED = Composed(events=(FULL, PoissonSampled(sample_rate=0.2, event=Gaussian(noise_multiplier=8.0))))
PURE = Composed(events=(FULL, ExponentialMechanism(epsilon=0.1, adjacency="add-remove")))
RHO = [  # what noise costs in full, on a sample at orders without end, and with the squares of what is pure
    (FULL, "add-remove", 0.004, 0.004), (FULL, "replace-one", 0.016, 0.016),
    (SAMPLED, "add-remove", 0.0118125, 0.0118125), (SAMPLED, "replace-one", 0.0238125, 0.04725),
    (PURE, "add-remove", 0.004, 0.009), (PURE, "replace-one", 0.016, 0.036),
]  # fmt: skip


@every_case(("event", "adjacency", "least", "most"), RHO)
def test_a_zero_concentrated_promise_is_held_to_the_event_beside_it(event, adjacency, least, most):
    def costs(rho):
        promised = ZeroConcentratedDP(rho=rho, adjacency=adjacency, status="accounted")
        made = kl_chernoff(price=Accounted(privacy=promised), risk=0.5, n=500, failure_prob=0.05).to_dict()
        return verdicts(check_certificate(made, {"event": event_to_dict(event)}), "costs")

    for rho, due in ((most, FOLLOWS), (2 * most, FOLLOWS), (0.999 * least, DOES_NOT)):
        assert costs(rho) == {due}, rho
    assert least == most or costs((least + most) / 2) == {CANNOT}
    orders = (*ORDERS, 1e5)
    each = renyi_divergences(event=event, orders=orders, adjacency=adjacency)
    rates = [divergence / order for divergence, order in zip(each, orders, strict=True)]
    assert 0.98 * least <= max(rates) <= most * (1 + 1e-6)


def test_errors_of_people_are_named_as_what_nothing_determines(private_runs):
    """The mean is that of people's own shares: the number of examples in error may be any."""
    found = check_path(private_runs["people"])
    assert any("the errors of predictor on bound" in one.why for one in found)


@pytest.fixture
def forged(private_runs, tmp_path):
    """A function that forges a run's header and tells what is noticed.

    Everything that names a configuration or a checkpoint by its hash names the forged one.
    """

    def forge_and_check(name, run=None, **header):
        folder = tmp_path / "forged"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(private_runs[name], folder)
        old, config = load_checkpoint(folder).header, read(folder / "config.json")
        if run is not None:
            header["about"] = {**old["about"], "run": run}
            header["config_hash"] = digest(run)
            config |= run
            written(folder / "config.json", config)
        forge(folder, **header)
        made = load_checkpoint(folder)
        result, report = read(folder / "result.json"), read(folder / "certificates.json")
        result["rests_on"] |= {"checkpoint": made.content_hash, "config": digest(config)}
        report["subject"]["content_hash"] = made.content_hash
        written(folder / "result.json", result)
        written(folder / "certificates.json", report)
        return wrong(folder)

    return forge_and_check


@every_folder
def test_no_number_of_a_private_configuration_changes_without_notice(private_runs, forged, name):
    run, missed = load_checkpoint(private_runs[name]).header["about"]["run"], set()
    assert not forged(name, run)
    free = FREE | ({"noise", "drift"} if run["method"].get("convention") != "parameter-slot" else {"temperature"})
    for place, factor in product(leaves(run, free), (1.1, 0.9)):
        if not {"steps", "report", "privacy spent"} & set(forged(name, moved(run, place, factor))):
            missed.add(place)
    # another budget that ends the run at the same step; shorter rows, which do not move the end that λ decides
    spared = {"calibrated": set[tuple[str, str]](), "last": {("method", "row_norm")}}
    assert missed <= spared.get(name, {("budget", "epsilon")})
    assert forged(name, {**run, "budget": {**run["budget"], "epsilon": 0.05}})


@pytest.mark.cases(2)
@every_folder
def test_no_number_of_an_event_changes_without_notice(private_runs, forged, name):
    header = load_checkpoint(private_runs[name]).header
    told = {one: header[one] for one in ("event", "step", "public")}
    for number, place in enumerate(leaves(told)):
        assert forged(name, **moved(told, place, (1.1, 0.9)[number % 2])), place
    assert forged(name, event=None), "nothing ran"
    assert forged(name, chosen=header["chosen"][:-1])


@parametrize(
    ("formula", "price"),
    [(kl_chernoff, WorstCaseSum(mu=1e-9)), (maurer, RealisedSum(contributions=0.0, records=10**6))],
)  # fmt: skip
def test_what_leaves_is_certified_at_the_price_of_its_privacy(exported, tmp_path, formula, price):
    """Not at that of sums or norms of which nothing is in the folder."""
    folder = Path(shutil.copytree(exported / "out", tmp_path / "out"))
    report = read(folder / "certificates.json")
    (made,) = report["certificates"]
    told = {name: made["inputs"][name] for name in ("risk", "n", "failure_prob")}
    if formula is maurer:
        told["kl_nats"] = 0.0
    other = formula(**told, price=price).to_dict()
    counted = {name: one for name, one in made["inputs"].items() if name.startswith(("errors", "released", "std"))}
    named = {one["name"]: one for one in [*other["hypotheses"], *made["hypotheses"]]}
    made |= {name: other[name] for name in ("name", "value", "terms", "costs")}
    made |= {"inputs": {**other["inputs"], **counted}, "hypotheses": [*named.values()]}
    made["budget"] = {**other["budget"], "noise on the counts": made["budget"]["noise on the counts"]}
    report["details"].pop("at_price_zero")
    written(folder / "certificates.json", report)
    assert "is not at the price" in {one.claim: one.why for one in check_path(folder)}["counts"]


def test_what_was_chosen_is_named_or_nothing(private_runs, forged):
    """Of several candidates no file shows which; of one there is nothing to choose."""
    for name in ("calibrated", "people"):
        told = [one.why for one in check_folder(private_runs[name], None) if one.claim == "what is told beside"]
        assert any("header.chosen" in why for why in told) == (name == "people")
        assert any("metrics.epsilon before the last row" in why for why in told)
        assert not any("metrics.epsilon," in why for why in told), "the last one is recomputed"
        steps = load_checkpoint(private_runs[name]).header["step"]
        for other in (1 + (name == "people"), -1, True):
            assert "steps" in forged(name, chosen=[other] * steps), (name, other)


def test_a_method_or_a_clipping_of_no_known_name_is_no_mechanism(private_runs, forged):
    run = load_checkpoint(private_runs["calibrated"]).header["about"]["run"]
    assert forged("calibrated", {**run, "method": {**run["method"], "kind": "DPMagic"}})
    for clipping in ("none", "quantile"):  # the second without noise on the count
        assert forged("calibrated", {**run, "sampling": {**run["sampling"], "clipping": clipping}})
    for name in ("tempered", "parameters", "langevin"):  # whose events have no count
        run = load_checkpoint(private_runs[name]).header["about"]["run"]
        following = {"clipping": "quantile", "count_noise": 4.0}
        assert "steps" in forged(name, {**run, "sampling": {**run["sampling"], **following}}), name


def test_a_run_stopped_by_hand_pays_for_its_plan(private_runs, forged, tmp_path):
    """Its header has fewer steps than its certificates pay for, which is as it should be; the reverse is not."""
    header, folder = load_checkpoint(private_runs["calibrated"]).header, tmp_path / "forged"
    event, steps = copy.deepcopy(header["event"]), header["step"]
    event["inner"][0]["count"] = steps - 2
    forged("calibrated", step=steps - 2, event=event, chosen=header["chosen"][:-2])
    (folder / "result.json").unlink()
    (folder / "metrics.jsonl").unlink()
    assert not wrong(folder)
    report = read(folder / "certificates.json")
    assert report["privacy"]["event"]["inner"][0]["count"] == steps
    report["privacy"]["event"] = event
    written(folder / "certificates.json", report)
    assert "was to make more" in wrong(folder)["report"]


def test_the_last_row_is_that_of_the_last_step_that_has_one(private_runs, tmp_path):
    folder = Path(shutil.copytree(private_runs["calibrated"], tmp_path / "run"))
    lines, result = (folder / "metrics.jsonl").read_text().splitlines(keepends=True), read(folder / "result.json")
    for kept, due in ((lines, set()), (lines[:-1], {"result.json"})):
        (folder / "metrics.jsonl").write_text("".join(kept))
        result["rests_on"]["metrics"] = json.loads(kept[-1])["hash"]
        written(folder / "result.json", result)
        assert set(wrong(folder)) == due


def test_words_of_a_header_are_those_of_its_run(private_runs, forged, tmp_path):
    """Budget, adjacency, noise and ledger, in header and result, and what a folder of another format is told."""
    header = load_checkpoint(private_runs["calibrated"]).header
    for name in ("epsilon", "delta"):
        settings = moved(header["settings"], ("mechanism", "budget", name), 2.0)
        assert "mechanism" in forged("calibrated", settings=settings), name
    for change in ({"adjacency": "replace-one"}, {"randomness": "SeededRandomness"}, {"ledger": None}):
        assert "mechanism" in forged("calibrated", **change), change
    result = read(tmp_path / "forged" / "result.json")
    others = {
        "event": {"event": "Composed", "inner": []},
        "adjacency": "add-remove",
        "noise": "seeded",
        "units": 5,
        "counted": False,
        "epsilon": 1.0,
    }
    forged("calibrated")
    folder = tmp_path / "forged"
    for name, value in others.items():
        edited = {**result, "privacy": {**result["privacy"], name: value}}
        written(folder / "result.json", edited)
        assert {"mechanism", "privacy spent", "result.json"} & set(wrong(folder)), name
    for change in ({"format": "pacdp-private-result/0"}, {"rests_on": None}):
        edited = {name: one for name, one in {**result, **change}.items() if one is not None}
        written(folder / "result.json", edited)
        (said,) = check_folder(folder, read(folder / "certificates.json"))
        assert (said.claim, said.verdict) == ("format", CANNOT)
        assert "check it with pacdp 0." in said.why


SPENT = {
    "status": "n is 1437", "method": "the third record is a 7", "lower": 0.5, "estimate": "0.2", "adjacency": "both",
    "remark": "mean of the labels: 4.49", "delta": 1e-4, "upper": 0.1, "epsilon": 0.1,
}  # fmt: skip


def shares_its_bytes(table, names, content):
    """Two tensors lie at one place, and others bytes at that of the second."""
    first, second = (table[name] for name in names[:2])
    start, stop = second["data_offsets"]
    second.update(data_offsets=first["data_offsets"], shape=first["shape"])
    return content[:start] + b"7" * (stop - start) + content[stop:]


TABLES = [
    lambda table, names, _: table[names[0]].update(label="the third record is a 7"),
    lambda table, names, _: table["__metadata__"].update(label="the third record is a 7"),
    lambda table, names, _: table[names[0]]["data_offsets"].append(1),
    lambda table, names, content: content + b"7",
    shares_its_bytes,
]
"""What the file of the weights may be made to hold beside them."""


def test_nothing_can_be_told_beside_what_an_export_spent(exported, tmp_path):
    """An export holds nothing about the data but counts with noise, in no entry of what was spent, nor in remarks."""
    folder = Path(shutil.copytree(exported / "out", tmp_path / "out"))
    report = read(folder / "certificates.json")
    assert not odd(check_path(folder))
    for part in (("spent",), ("counts", "with_the_run")):
        for name, value in SPENT.items():
            edited = copy.deepcopy(report)
            holder = edited["details"]
            for key in part:
                holder = holder[key]
            holder[name] = value
            written(folder / "certificates.json", edited)
            assert DOES_NOT in verdicts(check_path(folder)), (part, name)
    written(folder / "certificates.json", report)
    settings = read(folder / "settings.json")
    for remarks in ([], [*settings["remarks"], "4.49"], ["epsilon is for add-remove neighbours"]):
        written(folder / "settings.json", {**settings, "remarks": remarks})
        assert DOES_NOT in verdicts(check_path(folder), "remarks")
    written(folder / "settings.json", settings)
    for place, name in ((folder, "weights.safetensors"), (exported / "run", "checkpoint.safetensors")):
        content = (place / name).read_bytes()
        start = 8 + int.from_bytes(content[:8], "little")
        for edit in TABLES:
            table, bytes_of_all = json.loads(content[8:start]), content[start:]
            bytes_of_all = edit(table, [one for one in table if one[:6] == "model."], bytes_of_all) or bytes_of_all
            text = json.dumps(table).encode()
            out = Path(shutil.copytree(place, tmp_path / "edited", dirs_exist_ok=True))
            (out / name).write_bytes(len(text).to_bytes(8, "little") + text + bytes_of_all)
            told = " ".join(one.why for one in check_path(out) if one.verdict != FOLLOWS)
            assert "label" in told or "bytes of no tensor" in told
        shutil.rmtree(tmp_path / "edited")


def test_weights_without_a_report_are_told_what_their_event_costs(exported, tmp_path):
    """What `engine.export` leaves: one file; bytes, kind, remark and what else lies there are judged."""
    folder, path = tmp_path / "out", tmp_path / "out" / "weights.safetensors"
    folder.mkdir()
    made = load_checkpoint(exported / "out" / path.name)
    event = made.header["event"]
    told = {"weights": made.model, "event": event_from_dict(event), "adjacency": "add-remove"}
    export(path, **told)
    found = check_path(folder)
    assert [one.verdict for one in found] == [FOLLOWS, FOLLOWS, CANNOT, FOLLOWS]
    most = privacy_epsilon(event=told["event"], delta=1e-5, adjacency="add-remove")
    (said,) = re.findall(r"epsilon = (\S+) and delta = 1e-05 for add-remove", found[-2].why)
    assert float(said) == near(most.upper, rel=2e-3)
    export(path, **told, remark="the third record is a 7")
    assert DOES_NOT in verdicts(check_path(folder), "nothing else")
    export(path, **told)
    written(folder / "settings.json", {"remarks": ["the third record is a 7"]})
    assert DOES_NOT in verdicts(check_path(folder), "nothing else")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert DOES_NOT in verdicts(check_path(folder), "weights")


@parametrize("name", ["SGLD", "tempered"])
def test_an_export_is_of_as_many_records_as_were_released(counted, private_runs, tmp_path, name):
    """A chain's rate and tempered noise tell how many there are: with ten times as many epsilon is a third."""
    root, out = Path(shutil.copytree(counted, tmp_path / "counted")), tmp_path / "out"
    shutil.copytree(private_runs["tempered"], root / "tempered")
    (root / name / "released.json").unlink(missing_ok=True)
    leave(root / name, out, ledger=root / "ledger", correct=name == "tempered")
    report, settings = read(out / "certificates.json"), read(out / "settings.json")
    n = report["details"]["counts"]["n"]
    for other, due in ((n, FOLLOWS), (n + 100, FOLLOWS), (10 * n, DOES_NOT), (n - 700, DOES_NOT), (None, DOES_NOT)):
        report["details"]["counts"]["n"] = other
        written(out / "certificates.json", report)
        assert verdicts(check_path(out), "settings") == {due}, other
    report["details"]["counts"]["n"] = n
    written(out / "certificates.json", {**report, "unit": "person"})
    written(out / "settings.json", {**settings, "unit": "person"})
    (said,) = [one.why for one in check_path(out) if one.claim == "settings"]
    assert "whom the run protects" in said


def test_an_export_has_the_counts_that_its_certificate_is_made_from(exported, tmp_path):
    """Left out of both, they are those of no release, and any risk would do."""
    out = Path(shutil.copytree(exported / "out", tmp_path / "out"))
    report = read(out / "certificates.json")
    for name in ("errors", "n"):
        edited = copy.deepcopy(report)
        del edited["details"]["counts"][name], edited["certificates"][0]["inputs"][f"released_{name}"]
        written(out / "certificates.json", edited)
        assert DOES_NOT in verdicts(check_path(out), "counts")
    beside = copy.deepcopy(report)
    beside["details"]["counts"]["errors"] += 2**-10
    beside["certificates"][0]["inputs"]["released_errors"] += 2**-10
    written(out / "certificates.json", beside)
    assert "tells the last bits" in next(one.why for one in check_path(out) if one.claim == "counts")


def test_who_fixed_the_steps_of_a_private_run_cannot_be_kept_silent(private_runs, exported, tmp_path):
    for folder, claim in ((private_runs["calibrated"], "hypotheses"), (exported / "out", "counts")):
        copied = Path(shutil.copytree(folder, tmp_path / claim))
        assert DOES_NOT not in verdicts(check_path(copied))
        report = read(copied / "certificates.json")
        (made, *_) = (one for one in report["certificates"] if one["name"] == "private_kl_chernoff")
        made["hypotheses"] = [one for one in made["hypotheses"] if one["name"] != "steps fixed beforehand"]
        written(copied / "certificates.json", report)
        assert DOES_NOT in verdicts(check_path(copied), claim)


def test_quieter_candidates_are_found(private_runs, forged):
    """P3SGD: independent candidates cost more than nested ones, and a choice costs its epsilon."""
    header = load_checkpoint(private_runs["people"]).header
    run = header["about"]["run"]
    scales = run["method"]["noise_scales"]
    gaussian, choice = header["event"]["inner"][0]["inner"]["inner"]["inner"]
    assert gaussian["noise_multiplier"] == near(1 / sqrt(sum(z**-2 for z in scales)), rel=1e-12)
    assert choice["epsilon"] == run["method"]["selection_epsilon"]
    for change in ({"nested": True}, {"noise_scales": scales[:1]}):
        assert "steps" in forged("people", {**run, "method": {**run["method"], **change}})


def test_a_last_iterate_whose_contraction_is_not_proved_does_not_follow(private_runs, forged):
    """A smaller contraction than the loss and the rows prove, more records than the divisor, clipping, momentum."""
    header = load_checkpoint(private_runs["last"]).header
    run, event = header["about"]["run"], copy.deepcopy(header["event"])
    event["inner"][0]["inner"]["contraction"] *= 0.99
    assert "steps" in forged("last", event=event)
    for change in ({"clip_norm": 5.0}, {"sample_rate": 0.5}, {"public_size": 1000.0}, {"clipping": "automatic"}):
        assert "steps" in forged("last", {**run, "sampling": {**run["sampling"], **change}}), change
    assert "steps" in forged("last", {**run, "method": {**run["method"], "momentum": 0.5}})
    assert "steps" in forged("last", {**run, "architecture": "fc"})
    assert "steps" in forged("last", step=header["step"] - 1)


def test_an_exported_last_iterate_has_no_more_records_than_its_sums_are_divided_by(private_runs, tmp_path):
    """Or no step is known to contract; the released number shows it."""
    run, out = Path(shutil.copytree(private_runs["last"], tmp_path / "run")), tmp_path / "out"
    (run / "released.json").unlink(missing_ok=True)
    leave(run, out, ledger=tmp_path / "ledger", correct=True)
    settings = read(out / "settings.json")
    for size, due in ((0.0, FOLLOWS), (200.0, DOES_NOT)):
        settings["run"]["sampling"]["public_size"] = size
        written(out / "settings.json", {**settings, "config_hash": digest(settings["run"])})
        assert verdicts(check_path(out), "settings") == {due}
    assert "no contraction is known" in next(one.why for one in check_path(out) if one.claim == "settings")


def test_of_exported_settings_what_no_check_asks_for_is_named(exported, tmp_path):
    """Learning rates and data sets, which no number rests on; settings of another format do not follow."""
    out = Path(shutil.copytree(exported / "out", tmp_path / "out"))
    (told,) = [one for one in check_path(out) if (one.subject, one.claim) == ("out", "what is told beside")]
    assert told.verdict == CANNOT
    names = {*re.split("[ ,]+", told.why)}
    assert {"settings.run.dataset", "settings.run.method.learning_rate"} <= names
    assert "settings.run.hidden" not in names, "widths are those of the weights"
    assert {f"settings.run.{one}" for one in ("reproducible", "sampling.public_size", "budget")} <= names
    written(out / "settings.json", {**read(out / "settings.json"), "format": "pacdp-release/0"})
    assert {one.claim for one in check_path(out) if one.verdict == DOES_NOT} == {"settings"}
