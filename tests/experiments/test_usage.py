"""What is wrong with a command line is one sentence, which names the word and the nearest that there is; status 2."""

import subprocess
import sys
from importlib.metadata import version

import pytest
from cli_tools import one_sentence, pacdp

BOUND = ("bound", "maurer", "--risk", "0.1", "--kl-nats", "3")
WRONG = [
    (("trian",), "there is no command 'trian': did you mean train?"),
    (("qqqq",), "there is no command 'qqqq': choose one of demo, train"),
    ((), "give a command: one of demo, train"),
    (("--bogus",), "give a command: one of demo, train"),
    (("train", "sgd-digits2", "--epoch", "3"), "there is no option --epoch: did you mean --epochs?"),
    (("train", "sgd-digits2", "--worker=3"), "there is no option --worker: did you mean --workers?"),
    (("train", "sgd-digits2", "--qqqq", "3"), "there is no option --qqqq: see pacdp train RECIPE --fields"),
    (("train", "dp-sgd-mnist", "--epochs", "3"), "there is no option --epochs: see pacdp train RECIPE --fields"),
    (("train", "sgd-digits2", "--sampler.stepsize", "3"), "did you mean --sampler.step-size?"),
    (("train", "sgd-digits2", "more", "words"), "too many words: more words"),
    (("train", "sgd-digits2", "--epochs"), "missing value for argument '--epochs'"),
    (("train", "sgd-digits2", "--epochs", "abc"), "--epochs: could not convert string to float: 'abc'"),
    (("train", "sgd-digits2", "--scale", "huge"), "invalid choice 'huge' for argument '--scale', expected one of"),
    (("train", "sgd-digits2", "--workers", "0"), "expected workers >= 1, got 0"),
    (("train", "dp-sgd-mnist", "--sampling.steps", "0"), "expected sampling.steps >= 1, got 0"),
    (("train", "sgd-digits2", "--out", ""), "an empty word stands on the command line"),
    ((*BOUND, "--n", "10.5"), "--n takes INT, got '10.5': see pacdp bound maurer --help"),
    ((*BOUND, "--nn", "10"), "there is no option --nn: did you mean --n?"),
    (("privacy", "--steps", "1"), "privacy needs --adjacency {replace-one,add-remove}, --delta FLOAT"),
    (("certify",), "certify needs PATH: see pacdp certify --help"),
    (("choices",), "choices needs one of the words create, add, close, show"),
    (("choices", "clsoe", "x"), "there is no pacdp choices clsoe: did you mean close?"),
    (("choices", "create", "l", "--recipe", "sgd-digits2", "--vary", "sed=0,1"), "--sed: did you mean --seed?"),
    (("ledger", "limit", "l", "--epsilon", "1"), "ledger limit needs --delta FLOAT, --adjacency"),
    (("demo", "--thread", "1"), "there is no option --thread: did you mean --threads?"),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_a_wrong_command_line_is_one_sentence_and_leaves_nothing(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert pacdp(*words) == 2
    printed = capsys.readouterr()
    assert said in one_sentence(printed.err)
    assert printed.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [(("train", "sgd-digit2"), "no recipe is called 'sgd-digit2': did you mean sgd-digits2?"),
     (("train", "dp-sgd-mnst"), "no recipe is called 'dp-sgd-mnst': did you mean dp-sgd-mnist?"),
     (("audit", "dp-sgd-mnst"), "did you mean dp-sgd-mnist?"), (("bound", "maurr"), "did you mean maurer?"),
     (("plot", "nowhere"), "nowhere is no folder"), (("results", "--results", "nowhere"), "nowhere is no folder"),
     (("verify", "nowhere"), "cannot read nowhere"), (("verify", "text"), "cannot read text"),
     (("demo", "--out", "text"), "text: file exists"), (("certify", "text"), "no safetensors file"),
     (("privacy", "--schedule", "nowhere", "--sample-rate", "1", "--delta", "1e-5", "--adjacency", "add-remove"),
      "nowhere cannot be read (No such file or directory)")],
)  # fmt: skip
def test_a_name_of_nothing_is_one_sentence_and_status_1(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("no JSON\n")
    assert pacdp(*words) == 1
    printed = capsys.readouterr()
    assert said in one_sentence(printed.err)
    assert printed.out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_help_about_a_bound_shows_what_the_bound_needs(capsys):
    for words in (("bound", "maurer", "--help"), ("bound", "maurer", "-h"), ("bound", "maurer", "--options")):
        assert pacdp(*words) == 0
        said = capsys.readouterr().out
        assert all(option in said for option in ("--risk", "--kl-nats", "--n ", "--failure-prob")), said
    assert pacdp("bound", "--help") == 0
    assert "NAME" in capsys.readouterr().out


def test_the_version(capsys):
    assert pacdp("--version") == 0
    assert capsys.readouterr().out == f"pacdp {version('pacdp')}\n"


def test_in_a_terminal_it_is_one_sentence_as_well(tmp_path):
    code = (
        "import pty, sys\n"
        "sys.exit(pty.spawn([sys.executable, '-m', 'pacdp.cli', 'train', 'sgd-digits2', '--epochs', 'abc']) >> 8)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          cwd=tmp_path, check=False)  # fmt: skip
    assert done.returncode == 2
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    assert len(lines) == 1, done.stdout
    assert "--epochs: could not convert string to float: 'abc'" in lines[0]
