"""Files are found in a stated order and believed only with the registered sha256; downloads are whole or nothing."""

import gzip
import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest
import requests

from pacdp.data import REGISTRY, DataError, DatasetEntry, FileEntry, download, locate, registry

NAME = "toy.gz"
CONTENT = gzip.compress(bytes(range(256)) * 40, mtime=0) + b"\0" * 100_000
HERE = Path(os.environ.get("PACDP_DATA") or "nowhere")


class Mirror(BaseHTTPRequestHandler):
    """Serves CONTENT, or something worse, depending on the first folder of the path."""

    asked: ClassVar[Counter[str]] = Counter()

    def do_GET(self) -> None:
        kind = self.path.split("/")[1]
        self.asked[kind] += 1
        if kind in ("404", "403", "500", "503"):
            self.send_error(int(kind))
            return
        if kind == "flaky" and self.asked[kind] == 1:
            self.send_error(503)
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

    def log_message(self, *args: object) -> None:
        del args


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Mirror) as http:
        http.daemon_threads = True
        thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A registry of one small file, an empty cache, no PACDP_DATA, no proxy; returns the file's place there."""
    known = FileEntry(size=len(CONTENT), sha256=hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(registry, "REGISTRY", {"toy": DatasetEntry(files={NAME: known}, mirrors=())})
    monkeypatch.setattr(registry, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.delenv("PACDP_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    Mirror.asked.clear()
    return tmp_path / "cache" / "toy" / NAME


def mirrors(server: str, *kinds: str) -> list[str]:
    return [f"{server}/{kind}/" for kind in kinds]


def put(folder: Path, content: bytes = CONTENT) -> Path:
    path = folder / "toy" / NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_bad_mirrors_are_passed_over_and_the_cache_is_used_afterwards(server: str, cache: Path) -> None:
    bad = ("404", "garbage", "short", "breaking", "long")
    path = locate(NAME, "toy", mirrors=mirrors(server, *bad, "good"))
    assert path == cache
    assert path.read_bytes() == CONTENT
    assert os.listdir(cache.parent) == [NAME]
    assert Mirror.asked == Counter([*bad, "good"])
    assert locate(NAME, "toy", mirrors=mirrors(server, "good")) == cache
    assert locate(NAME, "toy", download=False) == cache
    assert Mirror.asked["good"] == 1


def test_when_all_fail_each_is_named_with_its_fault(server: str, cache: Path) -> None:
    kinds = ("404", "503", "garbage", "short", "long")
    with pytest.raises(DataError) as caught:
        locate(NAME, "toy", mirrors=[*mirrors(server, *kinds), "http://127.0.0.1:1/", "nonsense"])
    said = str(caught.value)
    n = len(CONTENT)
    for part in (
        f"{server}/404/ answered 404; ",
        f"{server}/503/ answered 503; ",
        f"{server}/garbage/ sent a file with another sha256; ",
        f"{server}/short/ sent {n - 5} of {n} bytes; ",
        f"{server}/long/ sent more than {n} bytes; ",
        "http://127.0.0.1:1/ could not be reached; ",
        "nonsense is not an http address)",
        f"{NAME} could not be downloaded",
        "$PACDP_DATA/toy/ by hand",
    ):
        assert part in said
    assert "\n" not in said
    assert os.listdir(cache.parent) == []
    # only what may pass is asked twice
    assert Mirror.asked == Counter({kind: 2 if kind == "503" else 1 for kind in kinds})


def test_a_fault_in_passing_is_forgiven(server: str, cache: Path) -> None:
    assert locate(NAME, "toy", mirrors=mirrors(server, "flaky")).read_bytes() == CONTENT
    assert Mirror.asked["flaky"] == 2


def test_a_server_that_would_unpack_is_asked_not_to(server: str, cache: Path) -> None:
    assert locate(NAME, "toy", mirrors=mirrors(server, "packing")).read_bytes() == CONTENT


def test_silence_ends(server: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*args: object, **kwargs: object) -> None:
        raise requests.ReadTimeout

    monkeypatch.setattr(requests, "get", silent)
    with pytest.raises(DataError, match="did not answer in time"):
        locate(NAME, "toy", mirrors=mirrors(server, "good"))
    assert download._TIMEOUT[0] > 0
    assert download._TIMEOUT[1] > 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_download_leaves_nothing(
    server: str, cache: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    written = []

    def interrupted(self: object, chunk: bytes) -> None:
        written.append(chunk)
        if len(written) == 2:
            raise error

    monkeypatch.setattr(download._Checked, "write", interrupted)
    with pytest.raises(error):
        locate(NAME, "toy", mirrors=mirrors(server, "good"))
    assert os.listdir(cache.parent) == []


def test_a_cache_that_cannot_be_written(server: str, cache: Path) -> None:
    cache.parent.parent.write_bytes(b"a file where the folder should be")
    with pytest.raises(DataError, match=f"{NAME} cannot be written"):
        locate(NAME, "toy", mirrors=mirrors(server, "good"))


class Bar:
    """The least that pooch wants of a progress bar."""

    def __init__(self) -> None:
        self.total: float | None = None
        self.seen = 0
        self.closed = False

    def update(self, n: int) -> None:
        self.seen += n

    def reset(self) -> None:
        self.seen = 0

    def close(self) -> None:
        self.closed = True


def test_progress_goes_to_the_callers_bar(server: str, cache: Path, capfd: pytest.CaptureFixture[str]) -> None:
    bar = Bar()
    locate(NAME, "toy", mirrors=mirrors(server, "short", "good"), progressbar=bar)
    assert bar.total == bar.seen == len(CONTENT)
    assert bar.closed
    assert capfd.readouterr() == ("", "")


def test_the_order_of_places(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached = put(tmp_path / "cache")
    assert locate(NAME, "toy", download=False) == cached == cache
    environment = put(tmp_path / "environment")
    monkeypatch.setenv("PACDP_DATA", str(tmp_path / "environment"))
    assert locate(NAME, "toy", download=False) == environment
    explicit = put(tmp_path / "explicit")
    assert locate(NAME, "toy", root=tmp_path / "explicit", download=False) == explicit
    explicit.unlink()
    explicit.symlink_to(tmp_path / "nothing")
    with pytest.raises(DataError, match="cannot be read"):
        locate(NAME, "toy", root=tmp_path / "explicit", download=False)
    explicit.unlink()
    assert locate(NAME, "toy", root=tmp_path / "explicit", download=False) == environment
    monkeypatch.setenv("PACDP_DATA", "")
    assert locate(NAME, "toy", root=tmp_path / "explicit", download=False) == cached


@pytest.mark.parametrize("content", [b"", CONTENT[:-1], CONTENT[:-1] + b"?", CONTENT + b"?"])
def test_a_corrupt_file_is_named(cache: Path, tmp_path: Path, content: bytes) -> None:
    path = put(tmp_path / "mine", content)
    with pytest.raises(DataError) as caught:
        locate(NAME, "toy", root=tmp_path / "mine", download=False)
    assert str(path) in str(caught.value)
    assert "delete it or download it again" in str(caught.value)
    path.write_bytes(CONTENT)
    os.utime(path, ns=(1, 1))
    assert locate(NAME, "toy", root=tmp_path / "mine", download=False) == path


def test_the_hash_is_computed_once_for_a_file_that_stays(cache: Path, tmp_path: Path) -> None:
    path = put(tmp_path / "cache")
    registry._sha256.cache_clear()
    for _ in range(3):
        locate(NAME, "toy", download=False)
    assert registry._sha256.cache_info().misses == 1
    path.write_bytes(CONTENT[:-1] + b"?")
    os.utime(path, ns=(2, 2))
    with pytest.raises(DataError, match="not the registered file"):
        locate(NAME, "toy", download=False)


def test_misuse(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="'mnits' is not registered; choose one of toy"):
        locate(NAME, "mnits")
    with pytest.raises(DataError, match=r"toy has no file '\.\./x'; choose one of toy\.gz"):
        locate("../x", "toy")
    with pytest.raises(DataError, match=r"root names .*nowhere, which is not a folder"):
        locate(NAME, "toy", root=tmp_path / "nowhere")
    with pytest.raises(DataError, match="mirrors is empty"):
        locate(NAME, "toy", mirrors=[])
    with pytest.raises(DataError, match=rf"toy\.gz is not in {tmp_path}/cache/toy; put it there"):
        locate(NAME, "toy", download=False)
    cache.mkdir(parents=True)
    with pytest.raises(DataError, match="not the registered file"):
        locate(NAME, "toy", download=False)
    monkeypatch.setenv("PACDP_DATA", str(tmp_path / "gone"))
    with pytest.raises(DataError, match=r"PACDP_DATA names .*gone, which is not a folder"):
        locate(NAME, "toy")


def test_a_file_that_nobody_serves_says_where_it_comes_from(
    server: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = FileEntry(size=len(CONTENT), sha256=hashlib.sha256(CONTENT).hexdigest())
    entry = DatasetEntry(files={NAME: known}, source="it is derived from toys (Santa 2018)")
    monkeypatch.setattr(registry, "REGISTRY", {"toy": entry})
    for download_it in (False, True):
        with pytest.raises(DataError) as caught:
            locate(NAME, "toy", download=download_it)
        assert str(caught.value) == (
            f"toy.gz is not in {tmp_path}/cache/toy; put it there, because no mirror serves it "
            "(it is derived from toys (Santa 2018))."
        )
    assert locate(NAME, "toy", mirrors=mirrors(server, "good")) == cache


def test_registered_mirrors_are_asked(server: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = FileEntry(size=len(CONTENT), sha256=hashlib.sha256(CONTENT).hexdigest())
    entry = DatasetEntry(files={NAME: known}, mirrors=tuple(mirrors(server, "404", "good")))
    monkeypatch.setattr(registry, "REGISTRY", {"toy": entry})
    assert registry.find(NAME, "toy") is None
    assert locate(NAME, "toy") == registry.find(NAME, "toy") == cache


@pytest.mark.parametrize("dataset", REGISTRY)
def test_registered_datasets(dataset: str) -> None:
    entry = REGISTRY[dataset]
    assert entry.files
    assert bool(entry.mirrors) != bool(entry.source)
    assert all(address.startswith("http") and address.endswith("/") for address in entry.mirrors)
    for known in entry.files.values():
        assert known.size > 0
        assert known.sha256 == bytes.fromhex(known.sha256).hex()
        assert len(known.sha256) == 64
    assert len(REGISTRY["mnist"].files) == 4
    assert len(REGISTRY["mnist"].mirrors) >= 2


@pytest.mark.parametrize(("dataset", "name"), [(key, name) for key, entry in REGISTRY.items() for name in entry.files])
def test_files_here_are_the_registered_ones(dataset: str, name: str) -> None:
    if not (HERE / dataset / name).exists():
        pytest.skip(f"PACDP_DATA names no folder with {dataset}/{name}")
    path = locate(name, dataset, download=False)
    assert path.stat().st_size == REGISTRY[dataset].files[name].size
