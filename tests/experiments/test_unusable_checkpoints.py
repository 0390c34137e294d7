"""`pacdp certify` on files that are no checkpoint, or not one of the data found here."""

import json

import torch
from cli_tools import forge
from safetensors import safe_open
from safetensors.numpy import save_file

from pacdp import load_checkpoint
from pacdp.canonical import digest


def _edited(path, before, after):
    whole = path.read_bytes()
    assert whole.count(before) == 1
    path.write_bytes(whole.replace(before, after))


def _flipped(whole):
    return whole[:-1] + bytes([whole[-1] ^ 1])


def _of_the_first_format(path):
    with safe_open(path, framework="np") as file:
        found = {name: file.get_tensor(name) for name in file.keys()}
        header = json.loads(file.metadata()["pacdp"])
    save_file(found, path, metadata={"pacdp": json.dumps({**header, "format": "pacdp-checkpoint/1"})})


DAMAGE = {
    "missing": (lambda path: path.unlink(), "no checkpoint at"),
    "empty": (lambda path: path.write_bytes(b""), "is empty"),
    "truncated": (lambda path: path.write_bytes(path.read_bytes()[:-100]), "is truncated or no safetensors file"),
    "cut in its header": (lambda path: path.write_bytes(path.read_bytes()[:50]), "is truncated or no safetensors file"),
    "foreign": (lambda path: save_file({"w": torch.zeros(3).numpy()}, path), "is a safetensors file but no"),
    "first format": (_of_the_first_format, "no pacdp-checkpoint/3"),
    "a pickle": (lambda path: torch.save({"w": torch.zeros(3)}, path), "was written by torch.save"),
    "other data": (lambda path: forge(path.parent, data={"train": "0" * 64, "test": "0"}), "was trained on train data"),
    "header of another program": (lambda path: forge(path.parent, problem={}), "does not say how it was trained"),
    "unknown sampler": (lambda path: forge(path.parent, sampler={"kind": "Adam"}), "expected a sampler of kind"),
    "no configuration": (
        lambda path: forge(path.parent, run={}, config_hash=digest({})), "is not the configuration of a"
    ),
    "an edited number": (lambda path: _edited(path, rb'\"step\":4', rb'\"step\":1'), "is not what was written"),
    "a flipped bit": (lambda path: path.write_bytes(_flipped(path.read_bytes())), "is not what was written"),
    "other planned steps": (lambda path: forge(path.parent, planned_steps=5), "its run on 1437 examples makes"),
    "more examples": (lambda path: forge(path.parent, n=14_370), "says n = 14370, but its run and data make it 1437"),
}  # fmt: skip


def test_each_unusable_checkpoint_has_its_own_sentence(copied, refused):
    folder = copied("entropy-sgld")
    path = folder / "checkpoint.safetensors"
    sound = path.read_bytes()
    for what, (damage, words) in DAMAGE.items():
        path.write_bytes(sound)
        damage(path)
        assert words in refused("certify", folder), what
        assert not (folder / "certificates.json").exists()


def test_a_configuration_beside_the_checkpoint_that_is_not_its_run_is_refused(copied, refused):
    """The header forged as a whole: run, hash of the run and plan agree with each other, and not with config.json."""
    folder = copied("entropy-sgld")
    run = {**load_checkpoint(folder).header["run"], "epochs": 1.0}
    forge(folder, run=run, config_hash=digest(run), planned_steps=4)
    assert "is of another run or chain than" in refused("certify", folder)
