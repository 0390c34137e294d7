"""What is wrong with a command line names the word and the nearest that there is, and leaves nothing; status 2."""

from os import listdir

from cli_tools import pacdp

from tests.marks import every_case

BOUND = ("bound", "maurer", "--risk", "0.1", "--kl-nats", "3")
WRONG = [
    (("trian",), "there is no command 'trian': did you mean train?"),
    ((), "give a command: one of demo, train"),
    (("train", "sgd-digits2", "--out", ""), "an empty word stands on the command line"),
]
BY_TYRO = [
    (("train", "sgd-digits2", "--epoch", "3"), ("Unrecognized options: --epoch", "--epochs FLOAT")),
    (("train", "sgd-digits2", "more", "words"), ("Unrecognized options: more, words",)),
    (("certify", "text", "--trie", "3"), ("Unrecognized options: --trie", "--tried INT")),
    (("train", "sgd-digits2", "--epochs", "abc"), ("--epochs: could not convert string to float: 'abc'",)),
    (("train", "sgd-digits2", "--scale", "huge"), ("invalid choice 'huge' for argument '--scale'",)),
    (("train", "sgd-digits2", "--workers", "0"), ("expected workers >= 1 and retries >= 0, got 0 and 2",)),
    (("compress", "adam-digits", "--start-size", "437"), ("start_size and start_steps go together",)),
    ((*BOUND, "--n", "10.5"), ("--n", "['10.5']")),
    (("privacy", "--steps", "1"), ("Missing from pacdp privacy", "--adjacency", "--delta FLOAT")),
]


NOTHING = [
    (("train", "sgd-digit2"), "no recipe is called 'sgd-digit2': did you mean sgd-digits2?"),
    (("bound", "maurer", "--risk", 0.02), "needs --kl-nats, --n"),
    (("plot", "nowhere"), "nowhere is no folder"), (("verify", "text"), "cannot read text"),
    (("verify", "."), "neither a file of certificates"), (("bound", "compare"), "no bound applies"),
    (("demo", "--out", "text"), "text is a file, or a link"), (("certify", "text"), "no safetensors file"),
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


@every_case(("words", "said"), BY_TYRO, ids=str)
def test_an_option_that_is_wrong_is_named_and_leaves_nothing(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert pacdp(*words) == 2
    shown = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert all(one in shown for one in said), shown
    assert listdir(tmp_path) == []
