"""The keystream: published vectors, a slow twin, and keys that no fork, thread, copy or call shares with another."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from pacdp.random import cipher
from tests.pacdp.random.secure_toys import fix_keys

# RFC 8439, appendix A.1: key and nonce are zero, block counters 0 and 1
VECTORS = (
    "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
    "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
    "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
    "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"
)


def drawn(count):
    words = np.full(count, 77, dtype=np.int64)
    cipher.fresh().fill(words)
    return words


def test_the_published_vectors(monkeypatch):
    monkeypatch.setattr(cipher, "new_key", lambda: bytes(32))
    assert drawn(16).tobytes().hex() == VECTORS


def test_no_key_serves_twice(monkeypatch):
    keys = []
    monkeypatch.setattr(cipher, "new_key", lambda: keys.append(os.urandom(32)) or keys[-1])
    for count in (3, 3, cipher.AT_ONCE, 2 * cipher.AT_ONCE + 1):
        drawn(count)
    assert len(keys) == len(set(keys)) == 4


def of_a_child(count):
    """The words that a forked process draws first."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writer, drawn(count).tobytes())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        words = np.frombuffer(pipe.read(), np.int64)
    os.waitpid(child, 0)
    return words


def shared_words():
    """How many words parent, two children and two threads have in common."""
    drawn(8)  # whatever is made once is made before the fork
    with ThreadPoolExecutor(2) as threads:
        streams = [of_a_child(64), of_a_child(64), drawn(64), drawn(64), *threads.map(drawn, [64, 64])]
    assert [len(s) for s in streams] == [64] * 6
    return 6 * 64 - len(set(np.concatenate(streams).tolist()))


def test_forks_and_threads_do_not_repeat_each_other():
    assert shared_words() == 0


def test_a_forked_child_with_its_parent_s_keys_would_be_seen(monkeypatch):
    fix_keys(monkeypatch)  # a generator that lives on in the parent and is copied by the fork
    assert shared_words() >= 64
