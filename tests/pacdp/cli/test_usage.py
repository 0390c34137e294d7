"""What is wrong with a command line is one sentence, which names the word and the nearest that there is; status 2."""

import subprocess
import sys
from os import listdir

from tests.marks import every_case

BOUND = ("bound", "maurer", "--risk", "0.1", "--kl-nats", "3")
WRONG = [
    (("trian",), "there is no command 'trian': did you mean train?"),
    ((), "give a command: one of demo, train"),
    (("train", "sgd-digits2", "--epoch", "3"), "there is no option --epoch: did you mean --epochs?"),
    (("train", "sgd-digits2", "more", "words"), "too many words: more words"),
    (("train", "sgd-digits2", "--epochs", "abc"), "--epochs: could not convert string to float: 'abc'"),
    (("train", "sgd-digits2", "--scale", "huge"), "invalid choice 'huge' for argument '--scale', expected one of"),
    (("train", "sgd-digits2", "--workers", "0"), "expected workers >= 1 and retries >= 0, got 0 and 2"),
    (("train", "sgd-digits2", "--out", ""), "an empty word stands on the command line"),
    ((*BOUND, "--n", "10.5"), "--n takes INT, got '10.5': see pacdp bound maurer --help"),
    (("privacy", "--steps", "1"), "privacy needs --adjacency {replace-one,add-remove}, --delta FLOAT"),
]


NOTHING = [
    (("train", "sgd-digit2"), "no recipe is called 'sgd-digit2': did you mean sgd-digits2?"),
    (("bound", "maurer", "--risk", 0.02), "needs --kl-nats, --n"),
    (("plot", "nowhere"), "nowhere is no folder"), (("verify", "text"), "cannot read text"),
    (("demo", "--out", "text"), "text: file exists"), (("certify", "text"), "no safetensors file"),
    (("data", "imagenet"), "imagenet"), (("train", "--resume", "--out", "nowhere"), "missing"),
    (("certify", "--predictions", "text.xlsx"), "is not there"),
]  # fmt: skip
"""Names of what is not there."""


@every_case(("words", "said", "status"), [*((*one, 2) for one in WRONG), *((*one, 1) for one in NOTHING)], ids=str)
def test_what_is_wrong_is_one_sentence_and_leaves_nothing(words, said, status, tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("no JSON\n")
    assert said in refused(*words, status=(status,))
    assert listdir(tmp_path) == ["text"]


def test_in_a_terminal_it_is_one_sentence_as_well(tmp_path):
    command = f"[sys.executable, '-m', 'pacdp.cli', *{[*BOUND, '--n', '10.5']}]"
    code = f"import pty, sys\nsys.exit(pty.spawn({command}) >> 8)\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          cwd=tmp_path, check=False)  # fmt: skip
    assert done.returncode == 2
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    assert len(lines) == 1, done.stdout
    assert "--n takes INT, got '10.5'" in lines[0]
