"""Files are found in a stated order and believed only with the registered sha256; downloads are whole or nothing."""

import gzip
import os
from collections import Counter
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar
from unittest.mock import Mock

import pytest
import requests
from data_tools import known, put

from pacdp.cli.console import Downloads
from pacdp.data import REGISTRY, DataError, DatasetEntry, locate, registry
from tests.marks import made_once, parametrize, refusal

NAME = "toy.gz"
toy = partial(locate, NAME, "toy")
here = partial(toy, download=False)
CONTENT = gzip.compress(bytes(range(256)) * 40, mtime=0) + b"\0" * 100_000


class Mirror(BaseHTTPRequestHandler):
    """Serves CONTENT, or something worse, depending on the first folder of the path."""

    asked: ClassVar[Counter[str]] = Counter()

    def do_GET(self):
        kind = self.path.split("/")[1]
        self.asked[kind] += 1
        if kind == "404" or (kind == "flaky" and self.asked[kind] == 1):
            self.send_error(404 if kind == "404" else 503)
            return
        body = {"garbage": CONTENT[:-1] + b"!", "short": CONTENT[:-5], "long": CONTENT + b"x" * 10_000_000}
        content = body.get(kind, CONTENT)
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        if kind == "packing" and "gzip" in (self.headers["Accept-Encoding"] or ""):
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        try:
            self.wfile.write(content[: len(content) // 2] if kind == "breaking" else content)
        except ConnectionError:  # the reader has seen enough
            pass

    def log_message(self, *args):
        del args


@made_once
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Mirror) as http:
        http.daemon_threads = True
        thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


def mirrors(server, *kinds):
    return [f"{server}/{kind}/" for kind in kinds]


def know(monkeypatch, **how):
    """Make the small file all that is registered."""
    monkeypatch.setattr(registry, "REGISTRY", {"toy": DatasetEntry(files={NAME: known(CONTENT)}, **how)})


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A registry of one small file, an empty cache, no PACDP_DATA, no proxy; returns the file's place there."""
    know(monkeypatch)
    monkeypatch.setattr(registry, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.delenv("PACDP_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    Mirror.asked.clear()
    return tmp_path / "cache" / "toy" / NAME


def test_bad_mirrors_are_passed_over_and_the_cache_is_used_afterwards(server, cache, monkeypatch):
    bad = ("404", "garbage", "short", "breaking", "long")
    know(monkeypatch, mirrors=tuple(mirrors(server, *bad, "good")))
    assert registry.find(NAME, "toy") is None
    assert toy(progressbar=Downloads()) == registry.find(NAME, "toy") == cache
    assert cache.read_bytes() == CONTENT
    assert os.listdir(cache.parent) == [NAME]
    assert Mirror.asked == Counter([*bad, "good"])
    assert toy(mirrors=mirrors(server, "good")) == cache
    assert Mirror.asked["good"] == 1


def test_mirrors_that_all_fail_are_asked_twice_and_named(server, cache):
    with refusal("404 Client Error.*; .*: sent a file with another sha256", DataError) as refused:
        toy(mirrors=mirrors(server, "404", "garbage"))
    assert "\n" not in str(refused.value)
    assert Mirror.asked == Counter({"404": 2, "garbage": 2})
    assert os.listdir(cache.parent) == []


@parametrize(("kind", "asked"), [("flaky", 2), ("packing", 1)])
def test_a_fault_in_passing_is_forgiven_and_a_server_is_asked_not_to_pack(server, cache, kind, asked):
    assert toy(mirrors=mirrors(server, kind)).read_bytes() == CONTENT
    assert Mirror.asked[kind] == asked


def test_silence_ends(cache, monkeypatch):
    def silent(*args, timeout, **kwargs):
        assert min(timeout) > 0
        raise requests.ReadTimeout

    monkeypatch.setattr(requests, "get", silent)
    with refusal("ReadTimeout", DataError):
        toy(mirrors=["http://127.0.0.1/"])


@parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_download_leaves_nothing(server, cache, error):
    class Bar(Mock):
        total = None

        def update(self, n, /):
            assert len(os.listdir(cache.parent)) == 1, "what has arrived has not the final name"
            raise error

    with pytest.raises(error):
        toy(mirrors=mirrors(server, "good"), progressbar=Bar())
    assert os.listdir(cache.parent) == []


def test_the_order_of_places(cache, tmp_path, monkeypatch):
    root = tmp_path / "explicit"
    environment, explicit = (put(tmp_path / place / "toy" / NAME, CONTENT) for place in ("environment", "explicit"))
    put(cache, CONTENT)
    assert here() == cache
    monkeypatch.setenv("PACDP_DATA", str(tmp_path / "environment"))
    assert here() == environment
    assert here(root=root) == explicit
    explicit.unlink()
    explicit.symlink_to(tmp_path / "nothing")
    with refusal("cannot be read", DataError):
        here(root=root)
    explicit.unlink()
    assert here(root=root) == environment
    monkeypatch.setenv("PACDP_DATA", "")
    assert here(root=root) == cache


def test_a_corrupt_file_is_named_and_a_whole_one_is_hashed_once(cache):
    for wrong in (b"", CONTENT[:-1], CONTENT[:-1] + b"?", CONTENT + b"?"):
        put(cache, wrong)
        with refusal(rf"^{cache} is not the registered file .* delete it or download it again", DataError):
            here()
    registry._sha256.cache_clear()
    put(cache, CONTENT)
    os.utime(cache, ns=(1, 1))
    for _ in range(3):
        here()
    assert registry._sha256.cache_info().misses == 1
    put(cache, CONTENT[:-1] + b"?")
    with refusal("not the registered file", DataError):
        here()


def test_misuse(cache, tmp_path, monkeypatch):
    for name, dataset, how, words in (
        (NAME, "mnits", {}, "'mnits' is not registered; choose one of toy"),
        (NAME, "toy", {"root": tmp_path / "gone"}, r"root names .*gone, which is not a folder"),
        (NAME, "toy", {"download": False}, rf"toy\.gz is not in {tmp_path}/cache/toy; put it there"),
    ):
        with refusal(words, DataError):
            locate(name, dataset, **how)
    put(tmp_path / "cache", b"a file where the folder should be")
    with refusal(f"{NAME} cannot be written", DataError):
        toy(mirrors=["http://127.0.0.1:1/"])
    know(monkeypatch, source="it is derived from toys")
    for may in (False, True):
        with refusal(r"because no mirror serves it \(it is derived from toys\)", DataError):
            toy(download=may)
    monkeypatch.setenv("PACDP_DATA", str(tmp_path / "gone"))
    with refusal(r"PACDP_DATA names .*gone, which is not a folder", DataError):
        toy()


def test_every_data_set_has_mirrors_or_a_source():
    assert all(bool(entry.mirrors) != bool(entry.source) for entry in REGISTRY.values())
