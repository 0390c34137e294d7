"""Documents and house rules: seeded randomness, paths, commands and lines of Python that the pages show."""

import ast
import hashlib
import json
import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import bounds
from pacdp.cli.main import main
from pacdp.data import load
from pacdp.features.named import seen_through
from tests.marks import made_once

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
README, COMMANDS_PAGE, NETWORK_PAGE = (
    (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/commands.md", "docs/your_network.md")
)
DRAWING = set((
    "randn rand randint randperm normal bernoulli multinomial normal_ uniform_ bernoulli_ exponential_ "
    "random_"
).split())  # fmt: skip
OF_ALL = r"(torch|torch\.cuda)\.(manual_seed|manual_seed_all|seed)|(np|numpy)\.random\.seed|random\.seed"
"""What seeds or draws for the whole process."""


@made_once
def library():
    """The sources by their paths."""
    paths = [path for package in ("bounds", "pacdp", "experiments") for path in sorted((ROOT / package).rglob("*.py"))]
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}


def unseeded(source):
    """Calls that seed the process, or draw without a generator of their own."""
    mentioned = re.search(rf"\b({'|'.join(DRAWING)}|\w*seed\w*|rand\w*_like)\(", source)  # few sources are parsed
    for node in ast.walk(ast.parse(source if mentioned else "")):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            called, name = ast.unparse(node.func), node.func.attr
            of_torch = called.startswith("torch.")
            draws = name in DRAWING and (of_torch or name.endswith("_"))
            alone = draws and "generator" not in {keyword.arg for keyword in node.keywords}
            if re.fullmatch(OF_ALL, called) or (of_torch and re.fullmatch("rand.*_like", name)) or alone:
                yield f"{node.lineno}: {called}"


def test_randomness_is_an_argument(library):
    assert [f"{path}:{call}" for path, source in library.items() for call in unseeded(source)] == []
    assert len(list(unseeded("torch.manual_seed(0)\ntorch.randn_like(x)\nx.normal_()\ntorch.rand(3)"))) == 4


def test_nothing_names_a_place_on_one_machine(library):
    texts = library | {page.name: page.read_text(encoding="utf-8") for page in PAGES}
    place = re.compile(r"(?<![\w.])/(?:work|tmp|home|root|Users)/\S*")
    assert [f"{path}: {found}" for path, text in texts.items() for found in place.findall(text)] == []


def test_links_between_the_pages_lead_somewhere():
    links = [(page, target) for page in PAGES
             for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))]  # fmt: skip
    assert [(page.name, to) for page, to in links if "://" not in to and not (page.parent / to).exists()] == []


def test_the_readme_s_picture_and_numbers_are_of_the_demo_s_code():
    made = json.loads((ROOT / "docs" / "demo.json").read_text(encoding="utf-8"))
    source = b"".join((ROOT / "pacdp" / "cli" / path).read_bytes() for path in ("demo.py", "figures/demo.py"))
    assert made["source_sha256"] == hashlib.sha256(source).hexdigest(), (
        "make demo, then renew docs/demo.png and demo.json"
    )
    said = re.search(r"Error on new digits at most ([\d.]+)% \(95% confidence\), measured ([\d.]+)%", README)
    assert said
    errors, n = made["measured"]["errors"], made["measured"]["n"]
    for number, exact in zip(said.groups(), (made["value"], errors / n), strict=True):
        assert exact <= float(number) / 100 < exact + 1e-4
    assert made["value"] >= bounds.clopper_pearson_upper(made["counted"]["errors"], made["counted"]["n"], 0.05) - 1e-12


@pytest.fixture
def printed(capsys):
    """What the Python of a page that holds a word prints, given some names."""

    def run(page, word, *edit, **names):
        (block,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if word in block]
        capsys.readouterr()
        exec(block.replace(*edit) if edit else block, names)
        return capsys.readouterr().out.splitlines()

    return run


def one_step(model, optimizer, inputs, labels):
    optimizer.zero_grad()
    cross_entropy(model(inputs), labels).backward()
    optimizer.step()


def digits():
    data, _ = load("digits")
    return torch.tensor(data.inputs), torch.tensor(data.labels)


def test_the_readme_s_lines_certify_a_torch_model(printed):
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 10))
    new = TensorDataset(*digits())
    (headline,) = printed(README, "pacdp.certify(", model=model, new_examples=new)
    assert "At most" in headline


@pytest.mark.filterwarnings("ignore")
def test_the_readme_s_lines_train_privately(printed):
    model = nn.Linear(4, 2)
    nn.init.constant_(model.bias, -9.0)  # so that no logits lie in 0 to 1 by chance
    inputs, labels = torch.arange(1024.0).reshape(256, 4) / 1024, torch.arange(256) % 2

    def train(model, optimizer, loader):
        one_step(model, optimizer, *next(iter(loader)))

    optimizer, dataset = torch.optim.SGD(model.parameters(), lr=0.1), TensorDataset(inputs, labels)
    epsilon, headline = printed(README, "PrivateEngine", model=model, optimizer=optimizer, dataset=dataset, train=train)
    assert 0.0 < float(epsilon) < 5.0
    assert "At most" in headline


def test_the_python_of_the_commands_page_runs(tmp_path, printed):
    run = str(tmp_path / "a")
    main(["train", "entropy-sgld-digits2", "--out", run, "--epochs", "2", "--records", "1", "--track.epochs", "1"])
    said = printed(COMMANDS_PAGE, "load_trained", "runs/a", run)
    assert said[0].startswith("0.0")
    assert len(said) == 12, "one bound of its own, a headline, then ten certificates"


def test_the_readme_s_lines_certify_predictions(printed):
    labels = ["cat", "dog"] * 500
    predictions = ["dog" if place % 40 == 0 else label for place, label in enumerate(labels)]
    groups = ["north", "north", "south", "south"] * 250
    headline, numbers = printed(README, "certify_predictions", labels=labels, predictions=predictions, groups=groups)
    assert "At most 3." in headline
    recall, gap = map(float, numbers.split())
    assert 0.9 < recall < 0.95
    assert 0.05 < gap < 0.12


def test_the_lines_that_train_with_noise_certify_what_they_train(printed):
    data = seen_through(load("digits")[0], "coarse-waves")
    model = nn.Sequential(nn.Flatten(), nn.Linear(500, 10))
    ((value, status),) = [line.split() for line in printed(NETWORK_PAGE, "train_certified", data=data, model=model)]
    with torch.no_grad():
        error = float((model(torch.tensor(data.inputs)).argmax(dim=1) != torch.tensor(data.labels)).double().mean())
    assert status == "rigorous"
    assert error < 0.1 < float(value) < 0.6


def test_ten_lines_certify_a_network_of_one_s_own(printed):
    inputs, labels = digits()
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

    def train(model, inputs, labels):
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        for _ in range(100):
            one_step(model, optimizer, inputs, labels)

    _, *rows = printed(NETWORK_PAGE, "GaussianPosterior", inputs=inputs, labels=labels, model=model, train=train)
    found = {name: (float(value), status) for name, value, status in map(str.split, rows)}
    assert {"randomised_maurer", "prior_mean_clopper_pearson", "one_draw_disintegrated"} <= set(found)
    assert all(0.0 < value < 0.3 and status == "rigorous" for value, status in found.values())
