"""Damaged files: refused in a sentence, and where a content hash exists nothing damaged is read as if it were whole."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import bounds
from pacdp import Checkpoint, GaussianPosterior, load_checkpoint, save_checkpoint
from pacdp.choices import Choices
from pacdp.foreign import read_weights
from pacdp.losses import zero_one
from pacdp.stochastic import mean_risks

NUMBERS = [pytest.param(40, id="few"), pytest.param(2000, id="many", marks=pytest.mark.slow)]
WORDS = [b'"inf"', b"NaN", b"-1", b"1e400", b"null", b"[]", b"{}", b"0", b"[[[[", b"\xff", b"\x00", b"true", b'""']


def damaged(whole: bytes, generator: np.random.Generator) -> bytes:
    """The file after one to three accidents."""
    content = whole
    for _ in range(int(generator.integers(1, 4))):
        a, b = sorted(int(place) for place in generator.integers(0, len(content) + 1, size=2))
        match int(generator.integers(8)):
            case 0:
                content = content[:a]
            case 1:
                content = content[:a] + content[b:]
            case 2:
                content = content[:b] + content[a:b] + content[b:]
            case 3:
                content = content[:a] + WORDS[int(generator.integers(len(WORDS)))] + content[a:]
            case 4:
                content = content[:a] + generator.bytes(b - a) + content[b:]
            case 5 | 6 if content:
                place = a % len(content)
                content = (
                    content[:place] + bytes([content[place] ^ 1 << int(generator.integers(8))]) + content[place + 1 :]
                )
            case _:
                content = edited(content, generator)
    return content


def edited(content: bytes, generator: np.random.Generator) -> bytes:
    """One value of a JSON text replaced by another; lines of JSON one at a time; other files as they are."""
    lines = content.split(b"\n")
    place = int(generator.integers(len(lines)))
    try:
        values = json.loads(lines[place])
    except (ValueError, RecursionError):
        return content
    inside = values
    while isinstance(inside, dict | list) and inside:
        keys = list(inside) if isinstance(inside, dict) else range(len(inside))
        key = keys[int(generator.integers(len(keys)))]
        if not isinstance(inside[key], dict | list) or not inside[key] or generator.random() < 0.2:
            others = [None, -1, 0, 2**70, 1e308, "inf", "x", [], {}, True, float("nan"), [1], {"a": 1}]
            inside[key] = others[int(generator.integers(len(others)))]
            break
        inside = inside[key]
    lines[place] = json.dumps(values).encode()
    return b"\n".join(lines)


def survivors(path: Path, read: Callable[[Path], object], number: int, *, seed: int) -> list[tuple[bytes, object]]:
    """What the reader made of so many damaged files; anything but ValueError fails the test."""
    whole, generator, found = path.read_bytes(), np.random.default_rng(seed), []
    for _ in range(number):
        content = damaged(whole, generator)
        path.write_bytes(content)
        try:
            result = read(path)
        except ValueError:
            continue
        found.append((content, result))
    path.write_bytes(whole)
    read(path)
    return found


@pytest.mark.parametrize("number", NUMBERS)
def test_certificates(tmp_path, number):
    made = bounds.private_pac_bayes(
        risk=0.1, kl_nats=3.0, n=100, failure_prob=0.05,
        privacy=bounds.GaussianDP(mu=0.02, adjacency="add-remove", status="approximate accountant"),
    )  # fmt: skip
    path = tmp_path / "certificate.json"
    path.write_text(made.to_json())

    def read(path: Path) -> bounds.Certificate:
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            text = path.read_bytes().decode("latin-1")
        return bounds.Certificate.from_json(text)

    for _, found in survivors(path, read, number, seed=1):
        assert isinstance(found, bounds.Certificate)
        assert 0.0 <= found.value <= 1.0
        assert 0.0 < found.failure_prob < 1.0
        assert sum(found.budget.values()) <= found.failure_prob * (1 + 1e-12)
        assert bounds.Certificate.from_json(found.to_json()) == found
        assert found.status == ("optimistic" if found.unproved else "rigorous")
        assert isinstance(hash(found), int)
        assert found.total_nats >= 0.0


def contents(checkpoint: Checkpoint) -> object:
    tensors = [
        {name: (str(x.dtype), tuple(x.shape), x.reshape(-1).view(torch.uint8).tolist()) for name, x in part.items()}
        for part in (checkpoint.model, checkpoint.state, checkpoint.trace)
    ]
    return json.dumps(dict(checkpoint.header), sort_keys=True), tensors


@pytest.mark.parametrize("number", NUMBERS)
def test_checkpoints(tmp_path, number):
    path = tmp_path / "checkpoint.safetensors"
    made = Checkpoint(
        header={"step": 12, "n": 60, "run": {"seed": 3, "tags": ["a", None]}, "loss": {"high": 4.0}},
        model={"weight": torch.full((2, 3), 1.5), "bias": torch.arange(2.0)},
        state={"velocity": torch.linspace(0, 1, 5)},
        trace={"energy": torch.linspace(1, 2, 3)},
    )
    save_checkpoint(path, made)
    expected = contents(load_checkpoint(path))
    for _, found in survivors(path, load_checkpoint, number, seed=2):
        assert contents(found) == expected


@pytest.mark.parametrize("number", NUMBERS)
def test_lists_of_settings(tmp_path, number):
    path = tmp_path / "choices.jsonl"
    listed = Choices.create(path, name="sweep")
    for rate in (0.1, 0.2, 0.3):
        listed.add({"rate": rate, "inside": {"steps": 3, "names": ["a", "b"]}})
    before = Choices.load(path)
    prefixes = [before.settings[:k] for k in range(4)]
    for content, found in survivors(path, Choices.load, number, seed=3):
        assert not found.closed
        assert found.settings in prefixes, "an open list may have lost its end, and nothing else"
        assert content.count(b"\n") <= 4
        assert (found.name, found.created) == (before.name, before.created)
    listed.close()
    closed = Choices.load(path)
    for _, found in survivors(path, Choices.load, number, seed=4):
        if found.closed:
            assert (found.settings, found.J, found.digest) == (closed.settings, 3, closed.digest)
        else:
            with pytest.raises(ValueError, match="is not closed"):
                found.require(closed.settings[0])


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("kind", ["safetensors", "pt", "old pt"])
def test_foreign_weights(tmp_path, number, kind):
    path = tmp_path / f"weights.{kind.split()[-1]}"
    weights = {"0.weight": torch.randn(3, 2), "0.bias": torch.zeros(3), "count": torch.tensor(4)}
    if kind == "safetensors":
        save_file(weights, path)
    else:
        torch.save({"state_dict": weights}, path, _use_new_zipfile_serialization=kind == "pt")
    for _, found in survivors(path, read_weights, number, seed=5):
        assert all(isinstance(name, str) and isinstance(x, torch.Tensor) for name, x in found.items())
        assert all(x.layout == torch.strided and x.numel() == len(x.flatten().tolist()) for x in found.values())


@pytest.mark.parametrize("number", NUMBERS)
def test_sums_of_an_interrupted_count(tmp_path, number):
    module = torch.nn.Linear(3, 1, bias=False).eval()
    posterior = GaussianPosterior.around(module, std=0.5)
    inputs, labels = torch.randn(8, 3, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 2
    path = tmp_path / "sums.json"

    def read(path: Path) -> object:
        return mean_risks(
            module, posterior, inputs=inputs, labels=labels, losses=(zero_one(),), passes=2, seed=0, batch_size=4,
            resume=path,
        )  # fmt: skip

    expected = read(path)
    assert path.exists()
    number = min(number, 200)  # each tries the network out
    for _, found in survivors(path, read, number, seed=6):
        assert found == expected
