"""`pacdp certify` on files that are no checkpoint, or not one of the data found here."""

from dataclasses import replace

import torch
from cli_tools import one_sentence, pacdp
from safetensors.numpy import save_file

from pacdp import load_checkpoint, save_checkpoint


def _changed(path, **header):
    checkpoint = load_checkpoint(path)
    save_checkpoint(path, replace(checkpoint, header={**checkpoint.header, **header}))


DAMAGE = {
    "missing": (lambda path: path.unlink(), "no checkpoint at"),
    "empty": (lambda path: path.write_bytes(b""), "is empty"),
    "truncated": (lambda path: path.write_bytes(path.read_bytes()[:-100]), "is truncated or no safetensors file"),
    "cut in its header": (lambda path: path.write_bytes(path.read_bytes()[:50]), "is truncated or no safetensors file"),
    "foreign": (lambda path: save_file({"w": torch.zeros(3).numpy()}, path), "is a safetensors file but no"),
    "a pickle": (lambda path: torch.save({"w": torch.zeros(3)}, path), "is truncated or no safetensors file"),
    "other data": (lambda path: _changed(path, data={"train": "0" * 64, "test": "0"}), "was trained on train data"),
    "header of another program": (lambda path: _changed(path, problem={}), "does not say how it was trained"),
    "unknown sampler": (lambda path: _changed(path, sampler={"kind": "Adam"}), "expected a sampler of kind"),
    "no configuration": (lambda path: _changed(path, run={}), "is not the configuration of a run"),
}  # fmt: skip


def test_each_unusable_checkpoint_has_its_own_sentence(copied, capsys):
    folder = copied("entropy-sgld")
    path = folder / "checkpoint.safetensors"
    sound = path.read_bytes()
    for what, (damage, words) in DAMAGE.items():
        path.write_bytes(sound)
        damage(path)
        assert pacdp("certify", folder) == 1, what
        printed = capsys.readouterr()
        assert printed.out == ""
        assert words in one_sentence(printed.err), what
        assert not (folder / "certificates.json").exists()
