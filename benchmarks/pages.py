"""Numbers of benchmarks in the documentation: tables between two marks, made from benchmarks/results and nothing else.

    python -m benchmarks.pages

writes them anew after a benchmark; a test says where they are not those of the results. A table stands between
``<!-- benchmarks.NAME -->`` and ``<!-- end -->``, and ends with a line on where and when it was measured.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.timing import RESULTS

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("docs/chains.md", "docs/accounting.md", "docs/your_network.md")
_MARK = re.compile(r"(<!-- benchmarks\.(\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def chains(results: dict[str, Any]) -> list[str]:
    """One chain on one thread, beside plain loops and the peer, in processor time."""
    columns = ("SGLD step, ms", "its gradient alone, ms", "plain loop, ms", "posteriors, ms")
    ratios = ("plain loop / step", "posteriors / step", "reference Entropy-SGLD / ours")
    cases = [case for case in results if case.endswith("1 thread")]
    return _table(
        ("network", *columns, *ratios),
        [(case, *(_least(results[case][name]) for name in (*columns, *ratios))) for case in cases],
    )


def chains_clipped(results: dict[str, Any]) -> list[str]:
    """Sixteen clipped chains on one thread, in processor time."""
    columns = [f"{name}, least processor ms" for name in ("loop", "compiled", "secret")]
    columns.append("loop / compiled, processor time")
    cases = [case for case in results if case.endswith("16 chains, 1 thread")]
    return _table(
        ("network", "reference", "compiled", "compiled, secret keys", "reference / compiled"),
        [
            (case.split(",")[0], *(_least(results[case][name]) for name in columns))
            for case in cases
        ],
    )


def accounting(results: dict[str, Any]) -> list[str]:
    """Seconds of ours and of others, for both relations."""
    rows: list[Sequence[str]] = []
    for relation in ("add-remove", "replace-one"):
        own = results[relation]
        for case, seconds in own["seconds, ours"].items():
            low, high = own["epsilon, ours (lower, upper)"][case]
            rows.append((relation, case, *_clocks(seconds), f"{low:.4f} to {high:.4f}"))
        for peer, seconds in own["seconds, peers, equal"].items():
            epsilon = own["epsilon, peers, equal"][peer]
            rows.append((relation, f"3516 equal, {peer}", *_clocks(seconds), f"{epsilon:.4f}"))
    head = ("neighbours", "noise multipliers", "seconds", "of the processor", "epsilon")
    return _table(head, rows)


def cold_start(results: dict[str, Any]) -> list[str]:
    """Seconds of a first use, and of a later one."""
    clocks = ("seconds without a cache", "of the processor", "with a cache", "of the processor")
    rows: list[Sequence[str]] = []
    for name, row in results.items():
        seconds = (*_clocks(row["cold, seconds"]), *_clocks(row["warm, seconds"]))
        rows.append((name, *seconds, str(row["functions compiled"])))
    return _table(("network", *clocks, "functions compiled"), rows)


def memory(results: dict[str, Any]) -> list[str]:
    """Megabytes, now and then; and what a transformer's passes cost."""
    rows = [
        (name.removesuffix(", MB"), *(str(row.get(when, "")) for when in ("now", "then")))
        for name, row in results.items()
        if name.endswith(", MB")
    ]
    passes = results["a vision transformer (ViT-S, 224 x 224), processor seconds"]
    told = f"ViT-S, 224 x 224: a pass with weights for each example takes {passes['ratio']:.2f} plain passes."
    return [*_table(("what", "now", "then"), rows), "", told]


TABLES: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "chains": chains, "chains_clipped": chains_clipped, "accounting": accounting,
    "cold_start": cold_start, "memory": memory,
}  # fmt: skip


def written(text: str) -> str:
    """The page with its tables made anew. Raises ValueError for a mark without an end before the next."""
    if len(_MARK.findall(text)) != text.count("<!-- benchmarks."):
        raise ValueError("every mark of a benchmark needs an <!-- end --> before the next mark.")
    return _MARK.sub(lambda found: found[1] + block(found[2]) + found[3], text)


def block(name: str) -> str:
    """One table, and where, when and under what load it was measured."""
    made = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    origin, load = made["provenance"], made["load"]
    said = f"{load['at the start'][0]:.1f} to {load['at the end'][0]:.1f}"
    changed = ", with changes that were not committed" if origin["dirty"] else ""
    provenance = (
        f"Least times at commit {origin['commit'][:7]}{changed}, {origin['time'][:10]}, "
        f"{origin['device']['cpu_count']} cores ({origin['device']['name']}), load {said}: "
        f"[all numbers](../benchmarks/results/{name}.json)."
    )
    return "\n".join([*TABLES[name](made["results"]), "", provenance, ""])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"|{'|'.join(line)}|" for line in (head, ["---"] * len(head), *rows)]


def _clocks(times: dict[str, float]) -> tuple[str, str]:
    return f"{times['least']:.3g}", _least(times)


def _least(value: dict[str, float] | float) -> str:
    number = value["least of the processor"] if isinstance(value, dict) else value
    return f"{number:.3g}"


def main() -> None:
    for name in PAGES:
        path = ROOT / name
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"wrote {name}")


if __name__ == "__main__":
    main()
