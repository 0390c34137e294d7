"""The lines of docs/lora.md: adapters in three forms train privately, beside weights that stay, and merge rightly."""

import re
from pathlib import Path

from private_toys import data, mlp, private
from torch import equal
from torch.nn import CrossEntropyLoss, Linear
from torch.testing import assert_close

from pacdp import load_checkpoint
from pacdp.private import planned
from pacdp.resume import read_event
from tests.marks import every_case, refusal

PAGE = (Path(__file__).parents[3] / "docs" / "lora.md").read_text(encoding="utf-8")
FORMS, TRAIN, EXPORT, MERGE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
ADAPTED = ("AsParameters", "AsLayers", "as_parametrization")


@every_case(("form", "mode"), [*((form, None) for form in ADAPTED), *((form, "ghost") for form in ADAPTED[:2])])
def test_adapters_train_beside_weights_that_stay_and_merge(form, mode, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    network, inputs = mlp(), data(7, seed=3).tensors[0]
    first, given = network(inputs).detach(), {name: p.clone() for name, p in network.state_dict().items()}
    names = {"network": network, "mode": mode, "dataset": data(400), "criterion": CrossEntropyLoss()}
    exec(FORMS, names)
    exec(TRAIN, {**names, "adapted": names[form]}, names)
    assert type(names["model"].way).__name__ == ("Ghost" if mode else "ByReference")
    assert names["engine"].event == planned(1.0, sample_rate=0.05, steps=20)
    frozen = {p.shape: p for p in network.parameters() if not p.requires_grad}
    assert all(equal(frozen[own.shape], own) for own in given.values())
    after = network(inputs).detach()
    assert float((after - first).norm()) > 0.1
    exec(EXPORT, names)
    published = load_checkpoint(tmp_path / "adapters.safetensors")
    assert read_event(published.header | {"step": 20}) == names["engine"].event
    assert [bool(re.search(r"\b(up|down)\b", name)) for name in published.model] == 4 * [True]
    exec(MERGE, names)
    assert [type(network[0]), type(network[2])] == [Linear, Linear]
    assert network.state_dict().keys() == given.keys()
    assert_close(network(inputs), after, atol=1e-5, rtol=1e-5)


def test_ghost_clipping_refuses_what_it_cannot_see():
    names, network = {}, mlp().requires_grad_(False)
    exec(FORMS, names)
    names["as_parametrization"](network[0])
    with refusal("weight of layer 0 is computed by a parametrization, .* as a layer of its own or as parameters"):
        private(network, mode="ghost")
