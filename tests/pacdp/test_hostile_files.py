"""Whatever a file holds, its reader succeeds or says why not: within limits of memory and time, and nothing is run."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from loaders import LOADERS

from tests.hostile import bombs, contents, outcome, pickle_that_creates
from tests.marks import parametrize, slow

pytestmark = [
    pytest.mark.every_case,
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is limited by what /proc says"),
    pytest.mark.filterwarnings("ignore::UserWarning"),  # of libraries, about what is odd in a file
]
every_loader = parametrize("loader", LOADERS.values(), ids=LOADERS)
many = parametrize("many", [False, slow(True)], ids=["few", "many"])


@every_loader
@many
def test_damaged_files_are_refused_in_words_or_read_as_they_may_be(tmp_path, loader, many):
    path = loader.make(tmp_path)
    whole, expected = path.read_bytes(), loader.read(path)

    @settings(
        max_examples=2000 if many else 6,
        suppress_health_check=list(HealthCheck), phases=[Phase.generate, *[Phase.shrink] * many],
    )  # fmt: skip
    @given(contents(whole))
    def damage(content):
        path.write_bytes(content)
        found = outcome(loader.read, path)
        assert found is None or loader.lawful(*found, expected)

    damage()


@every_loader
@many
def test_headers_that_lie_and_bombs_take_no_memory_and_no_time(tmp_path, loader, many):
    """The few are one in three of those of a format, and loaders of one format meet others."""
    path = loader.make(tmp_path)
    left, alike = (tmp_path / "a pickle ran", [one for one in LOADERS.values() if one.bombs == loader.bombs])
    shares = 1 if many else min(3, len(alike))
    some = list(bombs(loader.bombs).values())[alike.index(loader) % shares :: shares]
    for content in (b"", pickle_that_creates(left), *some):
        path.write_bytes(content)
        outcome(loader.read, path)
        assert not left.exists()


@every_loader
def test_what_is_no_file_is_refused_in_words(tmp_path, loader):
    path = loader.make(tmp_path)
    whole = path.read_bytes()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(whole)
    for place in (path, tmp_path / "nothing", Path("/"), Path("/dev/null"), elsewhere):
        path.unlink()
        path.symlink_to(place)
        found = outcome(loader.read, path)
    assert found is not None
    path.unlink()
    path.mkdir()
    outcome(loader.read, path)
