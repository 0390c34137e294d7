"""A compression's folder: which records were picked and kept, by which rule, and what was counted of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pacdp.verify.arithmetic import ball
from pacdp.verify.claim import Unchecked, Wrong, about

KIND = "compression/1"


def check_kept(stored: Any, config: Mapping[str, Any], report: Mapping[str, Any] | None) -> None:
    """The picks follow the rule, and the certificate counts those of the reported end and the errors beside them."""
    picks, errors, rounds = (whole(stored, name) for name in ("picks", "errors", "rounds"))
    best = stored.header["compression"]["best"]
    sizes, starts, picked = config["groups"]["sizes"], config["groups"]["starts"], 0
    for number, line in enumerate(rounds.reshape(-1, 4).tolist(), start=1):
        picked += next(size for size, start in reversed(list(zip(sizes, starts, strict=True))) if start <= picked)
        if line[:2] != [number, picked] or line[3] != line[1] + line[2]:
            raise Wrong(f"round {number} says {line}, and the groups make {picked} picks")
    if picked != len(picks) or len(np.unique(picks)) != picked or (picked and picks.min() < 0):
        raise Wrong(f"{picked} records are to be picked, and {len(np.unique(picks))} different ones are listed")
    if best is None:
        if report and any(made["name"] == "compression" for made in report["certificates"]):
            raise Wrong("the sample ran out before the run's end, which certifies nothing")
        return
    _, used, left, kept = rounds.reshape(-1, 4).tolist()[best - 1] if best else (0, 0, 0, 0)
    stop = config["stop"]
    if not (best in stop["rounds"] or (stop["no_errors_left"] and left == 0)):
        raise Wrong(f"the run may not end after round {best}, with {left} errors left")
    if len(errors) != left or len(np.unique(np.concatenate([picks[:used], errors]))) != kept:
        raise Wrong(f"round {best} kept {kept} records, and other ones are listed")
    for made in (report or {}).get("certificates", []):
        if made["name"] != "compression":
            continue
        if made["inputs"]["k"] != kept or (kept and max(picks.max(), *errors, 0) >= made["inputs"]["n"]):
            raise Wrong(
                f"the certificate counts {made['inputs']['k']} of {made['inputs']['n']} records, and {kept} were kept"
            )
        ends = max(1, len(stop["rounds"]))
        about("the share of the end reported", made["budget"]["bound"], ball(made["failure_prob"]) / ends)


def check_numbers(
    result: Mapping[str, Any], header: Mapping[str, Any], config: Mapping[str, Any], report: Mapping[str, Any] | None
) -> None:
    """What result.json and the header repeat of configuration and report is the same there."""
    if header["tolerance"] != config["tolerance"]:
        raise Wrong(f"the header's tolerance is {header['tolerance']!r}, and the run's {config['tolerance']!r}")
    learner = config["learner"]
    inside = (learner.get("sampler") or learner)["kind"]
    if (
        result["algorithm"].replace("-", "") != f"{inside}, compressed"
    ):  # SGLD is both name and kind, Entropy-SGD is not
        raise Wrong(f"the result's algorithm is {result['algorithm']!r}, and the run's learner is {inside}")
    if report is None:
        raise Unchecked("its value and n, and the header's rows, are in no report; the rest agrees")
    rows = (report.get("rows") or {}).get("bound") or {}
    if header["rows"] != rows.get("digest"):
        raise Wrong("the header's rows are not those of the report")
    made = [one for one in report["certificates"] if one["name"] == "compression"]
    value = made[0]["value"] if made else 1.0
    if report["failure_prob"] != config["failure_prob"]:
        raise Unchecked("its value is at another failure probability than the report; the rest agrees")
    if result["value"] != value:
        raise Wrong(f"the result's value is {result['value']!r}, and the certificate's {value!r}")


def whole(stored: Any, name: str) -> np.ndarray:
    """Numbers of records, as the file lists them."""
    kind, shape, content = stored.tensors[f"state.{name}"]
    return np.frombuffer(content, kind).reshape(shape).astype(np.int64)
