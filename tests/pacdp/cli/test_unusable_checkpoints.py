"""`pacdp certify` on checkpoints whose parts agree with each other and not with the run's folder or its data.

What is no checkpoint at all, or contradicts itself, is refused by what reads it: see the tests of pacdp.
"""

from cli_tools import forge

from pacdp.store.canonical import digest


def test_a_header_that_is_not_the_folder_s_run_is_refused(copied, refused):
    folder = copied("entropy-sgld")
    sound = (folder / "checkpoint.safetensors").read_bytes()
    for words, changes in (
        ("checkpoint.safetensors is of no run", {"run": {}, "config_hash": digest({})}),
        ("its run on 1437 examples makes", {"planned_steps": 5}),
    ):
        (folder / "checkpoint.safetensors").write_bytes(sound)
        forge(folder, **changes)
        assert words in refused("certify", folder)
        assert not (folder / "certificates.json").exists()
