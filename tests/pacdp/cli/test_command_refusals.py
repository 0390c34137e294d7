"""What commands refuse: each in one sentence on standard error, and no file is made, changed or removed by it."""

from pathlib import Path
from shutil import copytree

import foreign_net
import numpy as np
import torch
from safetensors.torch import save_file

from pacdp.store.ledger import Ledger
from tests.marks import every_case, made_once

OURS = "certify @/weights.safetensors --model foreign_net:factory --prior @/weights.safetensors --data foreign_net:"
AS_IT_IS = "certify @/one.safetensors --data foreign_net:test_set --model foreign_net:"
LIMIT = " --delta 1e-5 --adjacency add-remove"
REFUSED = (
    ("train sgd-digits2 --resume --out @/cut --epochs 3", "another configuration"),
    ("train sgd-digits2 --out @/cut", "--resume"),
    ("compress --resume --out @/run", "holds no compression"),
    ("train sgld-digits2 --out @/new --chains 0", "chains >= 1"),
    ("train sgld-digits2 --out @/new --no-ledger", "has no clip norm"),
    ("train dp-sgd-mnist --out @/run", "finished run"),
    ("train dp-sgd-mnist --out @/new --chains 2", "spends its own epsilon"),
    ("train dp-sgd-mnist --out @/new --ledger @/ledger --no-ledger", "contradict"),
    ("train dp-sgd-mnist --out @/new --bfloat16", "--bfloat16 is not used by private recipes"),
    ("train dp-sgd-mnist --out @/new --batching vmap", "--batching is not used"),
    ("train dp-sgd-mnist --out @/new --method.learning-rate nan", "learning_rate must be a finite number"),
    ("train dp-sgd-mnist --out @/new --checkpoint-seconds 1", "--checkpoint-seconds is not used"),
    ("compress kernel-digits --out @/new --device cuda:99", "--device cuda:99 is not to be had here"),
    ("compress kernel-digits --out @/new --bfloat16", "--bfloat16 is not used by pacdp compress"),
    ("certify @/sgd --batching loop", "--batching is not used by pacdp certify"),
    ("export @/run @/new --bfloat16", "--bfloat16 is not used by pacdp export"),
    # runs that may not leave
    ("export @/run @/out", "exists"),
    ("export @/run @/run/out", "in the private folder"),
    ("export @/run @/link/out", "in the private folder"),
    ("export @/run @/new --failure-prob 1e-320", "too small to be divided"),
    ("export @/sgd @/new", "holds no private run"),
    ("export @/run @/new --std-n 300", "too much noise"),
    ("export @/run @/new --std-n 1 --std-errors 1e300", "std_errors = 1e+300 is too much noise"),
    ("export @/run @/new --std-n 1e-9", "is unbounded"),
    ("export @/run @/new --failure-prob 1", "--failure-prob"),
    ("export @/run @/new --ledger @/none", "holds none"),
    ("export @/run @/new --ledger @/other", "another ledger"),
    ("export @/unfinished @/new --ledger @/ledger", "is not finished"),
    ("export @/damaged @/new --ledger @/ledger", "released.json is damaged"),
    # a stranger's weights
    (OURS + "overlapping --seen @/seen.npy", "make them disjoint"),
    (OURS + "test_set --seen @/seen.npy", "data.indices"),
    (OURS + "bound_set", "say what the prior saw: --seen"),
    (OURS + "bound_set --seen @/seen.npy --device cuda:99", "--device cuda:99 is not to be had here"),
    (OURS + "float_labels --seen nothing", "call .long() on whole numbers"),
    (OURS + "failing --seen nothing", "failed (KeyError: 'pixels')"),
    (OURS + "not_a_function --seen nothing", "name a function without arguments"),
    (OURS + "overlapping --seen foreign_net:prior_set", "share 100 examples"),
    (OURS + "bound_set --seen foreign_net:prior_set --test foreign_net:prior_set", "test set"),
    (OURS + "persons --seen foreign_net:persons_before", "share 1 person"),
    (OURS + "bound_set --seen foreign_net:noisy", "seen must be the same rows at every reading"),
    (OURS + "noisy_bound_set --seen foreign_net:prior_set", "data must be the same rows at every reading"),
    (OURS + "bound_set --seen nothing --test foreign_net:forgotten", "--test foreign_net:forgotten() returned None"),
    (OURS + "bound_set --seen @/notes.txt", "holds no rows"),
    (OURS + "bound_set --seen nothing --out @/notes.txt", "is no report of certificates"),
    (OURS + "bound_set --seen nothing --out /dev/zero", "/dev/zero is there and is no report of certificates"),
    (OURS.replace("weights", "moved", 1) + "bound_set --seen nothing", "buffers"),
    (AS_IT_IS + "not_a_module", "return a torch.nn.Module"),
    (AS_IT_IS + "of_pictures", "expected one row of logits"),
    (AS_IT_IS.replace("one", "weights") + "factory --seen foreign_net:noisy", "at every reading"),
    ("certify @/weights.safetensors", "--model and --data"),
    ("certify @/sgd --failure-prob=1", "--failure-prob must lie strictly between 0 and 1"),
    ("certify @/sgd --tried 0", "count of settings"),
    ("certify @/sgd --std 0.3", "--std is not used for a chain"),
    # ledgers, audits, compressions
    ("ledger show @/none", "ledger.jsonl: No such file"),
    ("ledger show @/other", "has no limit that names a delta: give --delta"),
    ("ledger limit @/new --epsilon nan" + LIMIT, "epsilon"),
    ("audit sgld-digits2", "promises nothing"),
    ("audit @/out", "without a run's config.json"),
    ("compress kernel-digits --out @/compressed", "finished run"),
)


@made_once
def place(trained, exported, compressed, tmp_path_factory):
    """A folder with runs, ledgers and weights, sound and damaged."""
    root = Path(copytree(exported, tmp_path_factory.mktemp("refused") / "place"))
    copies = {"unfinished": root / "run", "damaged": root / "run", "compressed": compressed}
    for name, source in (copies | dict.fromkeys(("sgd", "cut"), trained["sgd"])).items():
        copytree(source, root / name)
    for name in ("cut", "unfinished"):
        (root / name / "result.json").unlink()
    (root / "damaged" / "released.json").write_text('{"format": "pacdp-released-counts/1"}')
    (root / "link").symlink_to(root / "run")
    Ledger.open(root / "other")
    state = foreign_net.factory().state_dict()
    save_file(state, root / "weights.safetensors")
    moved = {name: value + 0.1 if name.endswith("running_mean") else value for name, value in state.items()}
    save_file(moved, root / "moved.safetensors")
    save_file({"weight": torch.zeros(1)}, root / "one.safetensors")
    np.save(root / "seen.npy", foreign_net.PRIOR)
    (root / "notes.txt").write_text("mine")
    return root


def contents(root):
    """All files but for locks and what Python keeps."""
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and path.name != ".lock"}


@every_case(("line", "words"), REFUSED)
def test_what_is_refused(place, refused, monkeypatch, line, words):
    monkeypatch.chdir(Path(__file__).parent)  # the stranger's own folder
    before = contents(place)
    assert words in refused(*line.replace("@", str(place)).split(), status=(1, 2), alone=False)
    assert contents(place) == before
    assert not (place / "new").exists()
