"""What is certified of predictions: errors of every kind, bounded losses, groups, weights, differences, people."""

import numpy as np

import pacdp
from tests.adversary.harness import Row, World
from tests.adversary.laws import ORDERS, answers, arranged, calibration, law, size


def rows_of(report, truths):
    """The statements whose truth is known."""
    return [Row(one.quantity, one.lower, one.upper, truths[one.quantity])
            for one in report.statements if one.quantity in truths]  # fmt: skip


def _rates(of, said):
    """Error, recall, precision and false alarms of every class."""
    kinds = np.arange(of.classes)
    wrong, label, told = said[:, None] != kinds, kinds[None, :], said[:, None]
    found = {"error": of.mean(wrong)}
    for c in kinds:
        on = of.mean(wrong, label == c) if of.cells[:, c].sum() > 0 else 0.0  # null classes have no rows
        found |= {f"error on class {c}": on, f"recall of class {c}": 1 - on}
        if (said == c).any():
            found[f"precision of class {c}"] = 1 - of.mean(wrong, told == c)
        if of.cells[:, kinds != c].sum() > 0:
            found[f"false-alarm rate of class {c}"] = of.mean(told == c, label != c)
    return found


def errors(rng, failure):
    """All statements of a report on classes, with probabilities half of the time."""
    of, n, order, soft = law(rng), size(rng), str(rng.choice(ORDERS)), rng.random() < 0.5
    sure = rng.dirichlet(np.full(of.classes, 0.5), of.mass.size)
    said = sure.argmax(1) if soft else answers(rng, of)
    x, y = of.draw(rng, n)
    at = arranged(order, label=y, loss=said[x] != y, x=x)
    x, y = x[at], y[at]
    truths = _rates(of, said) | (calibration(of, sure, said) if soft else {})
    told = {"probabilities": sure[x]} if soft else {"predictions": said[x]}
    more = {
        "classes": list(range(of.classes)),
        "failure_prob": failure,
        "interval": bool(rng.integers(2)),
        "ask": [None, "error"][int(rng.integers(2))],
    }
    return World(
        order, f"{n} records of {of.words}", lambda: rows_of(pacdp.certify_predictions(y, **told, **more), truths)
    )


def losses(rng, failure):
    """A bounded loss with atoms: rare and large, 0 and 1 but for few values, or any."""
    kind, n = str(rng.choice(["rare", "nearly a count", "both ends", "any"])), size(rng)
    order = str(rng.choice(["as drawn", "sorted", "sorted before a shuffle of seed 0"]))
    known = {"rare": [0.95, 0.0, 0.05], "nearly a count": [0.6, 0.001, 0.399], "both ends": [0.45, 0.1, 0.45]}
    values, mass = ([0.0, 0.5, 1.0], known[kind]) if kind in known else (rng.random(5), rng.dirichlet(np.ones(5)))
    loss = np.asarray(values)[rng.choice(len(values), size=n, p=mass)]
    undone = order.endswith("0")  # whoever knows an order by place can undo it
    if order != "as drawn":
        loss = np.sort(loss)[:: 1 if undone else rng.choice([-1, 1])]
    if undone:
        loss = loss[np.argsort(np.random.default_rng(0).permutation(n))]
    truths, interval = {"loss": float(np.dot(values, mass))}, not undone and bool(rng.integers(2))
    habit = f"{kind}, {order}"

    def ask():
        report = pacdp.certify_predictions(losses={"loss": loss}, failure_prob=failure, interval=interval)
        return rows_of(report, truths)

    return World(habit, f"{n} losses {values} of {mass}", ask)


def parts(rng, failure):
    """Groups or weights that follow inputs, labels, answers or the errors themselves; a second model."""
    of, n = law(rng), size(rng)
    said, habit = answers(rng, of), str(rng.choice(["groups", "weights", "a second model"]))
    by = str(rng.choice(["input", "label", "answer", "error"]))
    x, y = of.draw(rng, n)
    wrong = said[:, None] != np.arange(of.classes)
    cells = np.broadcast_to({"input": np.arange(said.size)[:, None] % 5, "label": np.arange(of.classes),
                             "answer": said[:, None], "error": wrong.astype(int)}[by], wrong.shape)  # fmt: skip
    options = {"classes": list(range(of.classes)), "failure_prob": failure}
    kinds = [k for k in np.unique(cells) if (of.cells * (cells == k)).sum() > 0]
    told = said[x]
    if habit == "groups":
        options |= {"groups": np.array([f"g{k}" for k in range(9)])[cells[x, y]], "ask": ["error", "groups"]}
        each = {f"error in group 'g{k}'": of.mean(wrong, cells == k) for k in kinds}
        truths = {"error": of.mean(wrong)} | each
    elif habit == "weights":
        weight = np.array([1.0, 0.02, 0.3, 0.9, 0.5])[cells]
        options |= {"weights": weight[x, y], "ask": "error"}
        truths = dict.fromkeys(("error", "weighted error"), of.mean(wrong, weight))
    else:
        other = answers(rng, of)
        both, options = {"a": said[x], "b": other[x]}, options | {"ask": ["error", "differences"]}
        told, truths = both, {"error of b minus error of a": of.error(other) - of.error(said)}

    def ask():
        report = pacdp.certify_predictions(y, told, **options)
        if habit == "a second model":
            own = [Row(f"error of {one.of}", one.lower, one.upper, of.error({"a": said, "b": other}[one.of]))
                   for one in report.statements if one.quantity == "error"]  # fmt: skip
            return own + rows_of(report, truths)
        found = [one.quantity for one in report.statements]
        among = [truths[name] for name in truths if name in found and name != "error"]
        gap = {"largest gap between groups": max(among) - min(among)} if len(among) > 1 else {}
        return rows_of(report, truths | gap)

    name = habit if habit == "a second model" else f"{habit} by {by}"
    return World(name, f"{n} records of {of.words}", ask)


KINDS = {
    "one record each": ([1], [1.0]),
    "a huge one now and then": ([1, 80], [0.96, 0.04]),
    "copies of one example": ([1, 4, 20], [0.4, 0.3, 0.3]),
    "all sizes": ([1, 2, 5, 12], [0.25, 0.25, 0.25, 0.25]),
}
"""The sizes of people, and how likely they are."""


def people(rng, failure):
    """People who share inputs, each with a rate of errors that goes with their number of records."""
    habit, order, n = str(rng.choice([*KINDS])), str(rng.choice(ORDERS)), size(rng) // 3 + 7
    sizes, mass = map(np.array, KINDS[habit])
    rates, shares = rng.choice([0.0, 0.1, 0.5, 1.0], sizes.size), rng.dirichlet(np.full(2, 2.0))
    copies = habit == "copies of one example"
    kind = rng.choice(sizes.size, size=n, p=mass)
    own = sizes[kind]
    whose, many = np.repeat(np.arange(n), own), int(own.sum())
    draws = np.arange(many) if not copies else np.repeat(np.cumsum(own) - own, own)
    y = rng.choice(2, size=many, p=shares)[draws]
    wrong = (rng.random(many) < rates[np.repeat(kind, own)])[draws]
    at = arranged(order, label=y, loss=wrong, x=-whose)
    has = [mass * (share if copies else 1 - (1 - share) ** sizes) for share in shares]
    truths = {"error": float(mass @ rates)}
    for c, some in enumerate(has):
        on = float(some @ rates / some.sum())
        truths |= {f"error on class {c}": on, f"recall of class {c}": 1 - on}
    truths |= {f"error in group 's{s}'": float(rate) for s, rate in zip(sizes, rates, strict=True)}
    groups = np.array([f"s{s}" for s in sizes])[np.repeat(kind, own)][at]
    law_in_words = (
        f"{n} people of {sizes.tolist()} records, wrong at {rates.tolist()}, shares {shares.round(3)}, {order}"
    )
    said = np.where(wrong, 1 - y, y)
    told = {"classes": [0, 1], "people": whose[at], "groups": groups, "ask": ["error", "recall", "groups"]}
    return World(habit, law_in_words, lambda: rows_of(
        pacdp.certify_predictions(y[at], said[at], failure_prob=failure, **told), truths))  # fmt: skip
