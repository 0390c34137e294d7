"""Documents and house rules: docstrings, seeded randomness, sizes, paths, commands that the README shows."""

import ast
import hashlib
import inspect
import json
import pydoc
import re
import shlex
from pathlib import Path

import pytest
import torch

import bounds
import pacdp
from experiments.registry import studies, study
from experiments.results_page import render
from experiments.runner import SCALES, judge, read_table
from pacdp.cli.main import COMMANDS, main
from pacdp.cli.private.recipes import PRIVATE_RECIPES
from pacdp.cli.recipes import RECIPES
from pacdp.data import load
from pacdp.features.named import seen_through

ROOT = Path(__file__).parents[1]
LIBRARY = sorted(path for package in ("bounds", "pacdp", "experiments") for path in (ROOT / package).rglob("*.py"))
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
RESULTS = ROOT / "experiments" / "results"
PAGE = ROOT / "docs" / "results.md"
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS_PAGE = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
NETWORK_PAGE = (ROOT / "docs" / "your_network.md").read_text(encoding="utf-8")
GUARANTEES = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")


def _relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _public(package) -> dict[str, object]:
    names = [name for name in dir(package) if not name.startswith("_")]  # pacdp loads its own when they are asked for
    found = {name: getattr(package, name) for name in names}
    return {name: thing for name, thing in found.items() if not inspect.ismodule(thing)}


@pytest.mark.parametrize("package", [bounds, pacdp], ids=lambda package: package.__name__)
def test_every_public_name_has_a_docstring(package):
    public = _public(package)
    assert len(public) > 15
    bare = [name for name, thing in public.items() if callable(thing) and not (thing.__doc__ or "").strip()]
    # a dataclass without one is given its signature
    signature = [name for name, thing in public.items() if (thing.__doc__ or "").startswith(f"{name}(")]
    assert bare + signature == []
    assert (package.__doc__ or "").strip()


@pytest.mark.parametrize("path", LIBRARY, ids=_relative)
def test_public_functions_classes_and_modules_are_documented(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    parts = [tree] if tree.body else []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            parts.append(node)
    bare = [getattr(part, "name", "the module") for part in parts if not ast.get_docstring(part)]
    assert bare == []


@pytest.mark.parametrize("path", LIBRARY, ids=_relative)
def test_randomness_is_an_argument(path):
    drawing = {"randn", "rand", "randint", "randperm", "normal", "bernoulli", "multinomial", "normal_", "uniform_",
               "bernoulli_", "exponential_", "random_"}  # fmt: skip
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        called, name = ast.unparse(node.func), node.func.attr
        assert called not in ("torch.manual_seed", "torch.seed", "torch.cuda.manual_seed", "torch.cuda.manual_seed_all",
                              "np.random.seed", "numpy.random.seed", "random.seed"), f"line {node.lineno}"  # fmt: skip
        assert not (called.startswith("torch.") and name.endswith("_like") and name.startswith("rand")), (
            f"line {node.lineno}"
        )
        if name in drawing and (called.startswith("torch.") or name.endswith("_")):
            keywords = {keyword.arg for keyword in node.keywords}
            assert "generator" in keywords, f"line {node.lineno}: {called} without a generator"


@pytest.mark.parametrize("path", LIBRARY, ids=_relative)
def test_files_stay_small(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


@pytest.mark.parametrize("path", [*LIBRARY, *PAGES], ids=_relative)
def test_nothing_names_a_place_on_one_machine(path):
    text = path.read_text(encoding="utf-8")
    found = re.findall(r"(?<![\w.])/(?:work|tmp|home|root|Users)/\S*", text)
    assert found == []


def _shown_commands() -> list[list[str]]:
    lines = [line.strip().removeprefix("$ ").strip() for line in (README + COMMANDS_PAGE + NETWORK_PAGE).splitlines()]
    lines = [line.replace(".venv/bin/", "") for line in lines]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("pacdp ") and "..." not in line]


def test_the_readme_s_commands_name_what_exists():
    shown = [words for words in _shown_commands() if words[1] in COMMANDS or words[1][0] not in "-`"]
    if not shown:
        pytest.skip("the README shows no command yet")
    for words in shown:
        assert words[1] in COMMANDS, words
        if words[1] == "train" and not words[2].startswith("-"):
            assert words[2] in {**RECIPES, **PRIVATE_RECIPES}, words
        if words[1] == "experiment":
            assert words[2] in (*studies(), "all", "list"), words
        if words[1] == "data":
            assert all(name in ("digits", "digits2", "mnist", "mnist2") for name in words[2:] if name[0] != "-"), words


@pytest.mark.parametrize("word", COMMANDS)
def test_the_headline_of_a_command_is_the_first_sentence_of_its_own_help(word):
    said = " ".join((inspect.getdoc(COMMANDS[word].load()) or "").split("\n\n")[0].split())
    assert COMMANDS[word].headline == said


def test_make_targets_that_the_readme_names_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert (
        set(re.findall(r"\bmake ([a-z][\w-]*)\b(?=[`\s]|$)", " ".join(re.findall(r"`([^`\n]+)`", README)))) <= targets
    )


def test_committed_results_are_made_again_from_the_committed_rows_byte_for_byte(tmp_path):
    for name in studies():
        for folder in (RESULTS / name / scale for scale in SCALES):
            if (folder / "table.csv").is_file():
                table = read_table(folder)
                assert table.write_csv() == (folder / "table.csv").read_text(encoding="utf-8"), folder
                table.write_csv(tmp_path / "table.csv")
                judge(study(name), tmp_path, folder.name)
                written = (folder / "verdict.json").read_bytes()
                assert (tmp_path / "verdict.json").read_bytes() == written, f"run pacdp results: {folder}"
    assert PAGE.read_text(encoding="utf-8") == render(RESULTS, PAGE.parent), "run pacdp results"


def test_links_between_the_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            made_by_experiments = target.startswith("experiments/results/") and not RESULTS.exists()
            if "://" not in target and not made_by_experiments:
                assert (page.parent / target).exists(), f"{_relative(page)} links to {target}"


def test_every_function_in_the_table_of_guarantees_exists():
    table = GUARANTEES.split("## Where to find what")[1]
    named = [name for line in table.splitlines() if line.startswith("|")
             for name in re.findall(r"`([\w.]+)`", line.split("|")[2])]  # fmt: skip
    assert len(named) > 25
    for name in named:
        full = name if name.split(".")[0] in ("pacdp", "experiments") else f"bounds.{name}"
        assert pydoc.locate(full) is not None, f"docs/guarantees.md names {full}"


def _block(page: str, word: str) -> str:
    (block,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if word in block]
    return block


def _five(block: str) -> bool:
    return len([line for line in block.splitlines() if line.strip() and "import" not in line]) <= 5


def test_the_readme_is_short_and_its_picture_is_of_the_demo_s_code():
    assert len(README.splitlines()) <= 120
    made = json.loads((ROOT / "docs" / "demo.json").read_text(encoding="utf-8"))
    source = b"".join((ROOT / "pacdp" / "cli" / path).read_bytes() for path in ("demo.py", "figures/demo.py"))
    assert made["source_sha256"] == hashlib.sha256(source).hexdigest(), (
        "make demo, then renew docs/demo.png and demo.json"
    )
    said = re.search(r"Error on new digits at most ([\d.]+)% \(95% confidence\), measured ([\d.]+)%", README)
    assert said
    assert made["value"] <= float(said[1]) / 100 < made["value"] + 1e-4
    errors, n = made["measured"]["errors"], made["measured"]["n"]
    assert errors / n <= float(said[2]) / 100 < errors / n + 1e-4
    assert made["value"] >= bounds.clopper_pearson_upper(made["counted"]["errors"], made["counted"]["n"], 0.05) - 1e-12


def test_the_readme_s_lines_certify_a_torch_model(capsys):
    block = _block(README, "certify_network")
    assert _five(block)
    _, test = load("digits")
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 10))
    new = torch.utils.data.TensorDataset(torch.tensor(test.inputs), torch.tensor(test.labels))
    exec(block, {"model": model, "new_examples": new})
    assert capsys.readouterr().out.startswith("The error of your network on new data is at most")


@pytest.mark.filterwarnings("ignore")
def test_the_readme_s_lines_train_privately(capsys):
    block = _block(README, "PrivateEngine")
    assert _five(block)
    model = torch.nn.Linear(4, 2)
    inputs, labels = torch.arange(1024.0).reshape(256, 4) / 1024, torch.arange(256) % 2
    dataset = torch.utils.data.TensorDataset(inputs, labels)

    def train(model, optimizer, loader):
        for batch, targets in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(batch), targets).backward()
            optimizer.step()
            return

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    exec(block, {"model": model, "optimizer": optimizer, "dataset": dataset, "train": train})
    assert 0.0 < float(capsys.readouterr().out) < 5.0


def test_the_python_of_the_commands_page_runs(tmp_path, capsys):
    block = _block(COMMANDS_PAGE, "load_trained")
    run = tmp_path / "a"
    main(["train", "entropy-sgld-digits2", "--out", str(run), "--epochs", "2", "--records", "1", "--track.epochs", "1"])
    exec(block.replace("runs/a", str(run)), {})
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("0.0")
    assert said[1].startswith("The error of")
    assert len(said) == 12, "one bound of its own, a headline, then ten certificates"


def test_the_readme_s_five_lines_certify_predictions(capsys):
    block = _block(README, "certify_predictions")
    assert _five(block)
    labels = ["cat", "dog"] * 500
    predictions = ["dog" if place % 40 == 0 else label for place, label in enumerate(labels)]
    exec(block, {"labels": labels, "predictions": predictions, "groups": ["north", "north", "south", "south"] * 250})
    headline, numbers = capsys.readouterr().out.splitlines()
    assert headline.startswith("The error of your model on new data is at most 3.")
    recall, gap = map(float, numbers.split())
    assert 0.9 < recall < 0.95
    assert 0.05 < gap < 0.12


def test_the_five_lines_train_with_noise_and_certify(capsys):
    block = _block(NETWORK_PAGE, "train_certified")
    assert _five(block)
    data = seen_through(load("digits")[0], "coarse-waves")
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(500, 10))
    exec(block, {"data": data, "model": model})
    value, status = capsys.readouterr().out.split()
    with torch.no_grad():
        error = float((model(torch.tensor(data.inputs)).argmax(dim=1) != torch.tensor(data.labels)).double().mean())
    assert status == "rigorous"
    assert error < 0.1 < float(value) < 0.6


def test_ten_lines_certify_a_network_of_one_s_own(capsys):
    block = _block(NETWORK_PAGE, "GaussianPosterior")
    assert len([line for line in block.splitlines() if line.strip()]) <= 12
    train_set, _ = load("digits")
    inputs, labels = torch.tensor(train_set.inputs), torch.tensor(train_set.labels)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))

    def train(model, inputs, labels):
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        for _ in range(100):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()

    exec(block, {"inputs": inputs, "labels": labels, "model": model, "train": train})
    headline, *rows = capsys.readouterr().out.splitlines()
    assert headline.startswith("The error of the randomised network on new data is at most")
    lines = [row.split() for row in rows]
    assert [name for name, _, _ in lines] == [
        "randomised_maurer", "half_brier_maurer", "prior_mean_clopper_pearson", "one_draw_disintegrated", "one_draw_ece"
    ]  # fmt: skip
    assert all(0.0 < float(value) < 0.3 and status == "rigorous" for _, value, status in lines)
