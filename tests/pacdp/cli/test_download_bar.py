"""A download through the command's own bar: a server on this host, a file in the cache, one line said."""

import hashlib
import http.server
import threading
from functools import partial

import pytest

from pacdp.cli.console import DownloadBar
from pacdp.data.download import fetch

CONTENT = bytes(range(256)) * 400


@pytest.fixture
def mirror(tmp_path):
    served = tmp_path / "served"
    served.mkdir()
    (served / "file.gz").write_bytes(CONTENT)
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(served))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_download_is_shown_and_verified(mirror, tmp_path, capfd):
    target = tmp_path / "cache" / "file.gz"
    fetch([f"{mirror}/missing", mirror], target, sha256=hashlib.sha256(CONTENT).hexdigest(), progressbar=DownloadBar())
    assert target.read_bytes() == CONTENT
