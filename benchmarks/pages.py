"""Numbers of benchmarks in the documentation: tables between two marks, made from benchmarks/results and nothing else.

    python -m benchmarks.pages

writes them anew after a benchmark; a test says where they are not those of the results. A table stands between
``<!-- benchmarks.NAME -->`` and ``<!-- end -->``, and ends with a line on where and when it was measured.
"""

import json
import re
from collections.abc import Callable, Iterable
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
    rows = [
        [
            case,
            *(_number(row[name]["least of the processor"]) for name in columns),
            *(_number(row[name]) for name in ratios),
        ]
        for case, row in results.items()
        if case.endswith("1 thread")
    ]
    return _table(("network", *columns, *ratios), rows)


def chains_clipped(results: dict[str, Any]) -> list[str]:
    """Sixteen clipped chains on one thread, in processor time."""
    rows: list[list[str]] = []
    for case, row in results.items():
        if not case.endswith("16 chains, 1 thread"):
            continue
        own = [row.get(f"{name}, least processor ms") for name in ("loop", "compiled", "secret")]
        floor, ratio = row.get("floor, processor ms"), row["loop / compiled, processor time"]
        rows.append([case.split(",")[0], *(_number(value) for value in (*own, ratio, floor))])
    return _table(
        ("network", "loop", "compiled", "compiled, secret keys", "loop / compiled", "floor"), rows
    )


def accounting(results: dict[str, Any]) -> list[str]:
    """Seconds of ours and of others, for both relations."""
    rows: list[list[str]] = []
    for relation in ("add-remove", "replace-one"):
        own = results[relation]
        for case, seconds in own["seconds, ours"].items():
            low, high = own["epsilon, ours (lower, upper)"][case]
            rows.append([relation, case, *_clocks(seconds), f"{low:.4f} to {high:.4f}"])
        for peer, seconds in own["seconds, peers, equal"].items():
            epsilon = own["epsilon, peers, equal"][peer]
            rows.append([relation, f"3516 equal, {peer}", *_clocks(seconds), f"{epsilon:.4f}"])
    return _table(
        ("neighbours", "noise multipliers", "seconds", "of the processor", "epsilon"), rows
    )


def cold_start(results: dict[str, Any]) -> list[str]:
    """Seconds of a first use, and of a later one."""
    rows = [
        [
            name,
            *_clocks(row["cold, seconds"]),
            *_clocks(row["warm, seconds"]),
            str(row["functions compiled"]),
        ]
        for name, row in results.items()
    ]
    clocks = ("seconds without a cache", "of the processor", "with a cache", "of the processor")
    return _table(("network", *clocks, "functions compiled"), rows)


def memory(results: dict[str, Any]) -> list[str]:
    """Megabytes, now and then; and what a transformer's passes cost."""
    rows = [[name.removesuffix(", MB"), *(str(row[when]) if when in row else "" for when in ("now", "then"))]
            for name, row in results.items() if name.endswith(", MB")]  # fmt: skip
    passes = results["a vision transformer (ViT-S, 224 x 224), processor seconds"]
    told = f"ViT-S, 224 x 224: a pass with weights for each example takes {passes['ratio']:.2f} plain passes."
    return [*_table(("what", "now", "then"), rows), "", told]


TABLES: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "chains": chains, "chains_clipped": chains_clipped, "accounting": accounting,
    "cold_start": cold_start, "memory": memory,
}  # fmt: skip


def written(text: str) -> str:
    """The page with its tables made anew. Raises ValueError for a mark without an end, and one of no benchmark."""
    if len(_MARK.findall(text)) != text.count("<!-- benchmarks."):
        raise ValueError(
            "every mark of a benchmark needs an end before the next mark; write <!-- end --> after it."
        )

    def renewed(found: re.Match[str]) -> str:
        return found[1] + block(found[2]) + found[3]

    return _MARK.sub(renewed, text)


def block(name: str) -> str:
    """One table and its provenance."""
    if name not in TABLES:
        raise ValueError(
            f"a mark must name one of {', '.join(TABLES)}, got {name!r}; add its table to benchmarks.pages."
        )
    made = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return "\n".join([*TABLES[name](made["results"]), "", provenance(name, made), ""])


def provenance(name: str, made: dict[str, Any]) -> str:
    """Where, when and under what load."""
    origin, load = made["provenance"], made["load"]
    said = f"{load['at the start'][0]:.1f} at the start and {load['at the end'][0]:.1f} at the end"
    changed = ", with changes that were not committed" if origin["dirty"] else ""
    return (
        f"Least times. `python -m benchmarks.{name}` at commit {origin['commit'][:7]}{changed}, {origin['time'][:10]}, "
        f"{origin['device']['cpu_count']} cores ({origin['device']['name']}), load {said}: "
        f"[all numbers](../benchmarks/results/{name}.json)."
    )


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    columns = list(head)
    lines = [columns, ["---"] * len(columns), *map(list, rows)]
    return [f"| {' | '.join(line)} |" for line in lines]


def _clocks(times: dict[str, float]) -> tuple[str, str]:
    return _number(times["least"]), _number(times["least of the processor"])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def main() -> None:
    for name in PAGES:
        path = ROOT / name
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"wrote {name}")


if __name__ == "__main__":
    main()
