"""Files that mean no good: accidents to whole ones, bombs by format, and reading under limits of memory and time."""

import io
import json
import resource
import signal
import struct
import zipfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

MEMORY, SECONDS = 256 * 2**20, 10.0
WORDS = (
    b'"inf"', b"NaN", b"-Infinity", b"-1", b"1e400", b"null", b"[]", b"{}", b"0", b"[" * 3000, b'{"a":' * 3000, b"true",
    b"9" * 5000, b'"\\ud800"', b'""', b"\xff", b"\x00", b"\xef\xbb\xbf", b"/../", b"\n", b"\x80\x02c", b",",
)  # fmt: skip
LEAVES = (
    None, -1, 0, 2**70, 10**400, 1e308, float("inf"), float("nan"), "inf", "x", "\ud800", "../..", [], {}, True, 1.5,
    [1], {"a": 1}, [[[]]], "9" * 5000,
)  # fmt: skip

_share = st.floats(0, 1)
_edit = st.tuples(st.just("edit"), _share, st.lists(_share, min_size=1, max_size=6), st.sampled_from(LEAVES))
_accident = st.one_of(
    st.tuples(st.just("cut"), _share),
    st.tuples(st.sampled_from(("drop", "twice")), _share, _share),
    st.tuples(st.just("put"), _share, st.sampled_from(WORDS) | st.binary(max_size=9)),
    st.tuples(st.just("over"), _share, st.binary(min_size=1, max_size=9)),
    st.tuples(st.just("flip"), _share, st.integers(0, 7)),
)


def contents(whole):
    """The file after one to three accidents, at shares of its length; of JSON, values too; now and then other bytes."""
    accidents = st.lists(_accident | _edit if _lines_of_json(whole) else _accident, min_size=1, max_size=3)
    return accidents.map(lambda happened: damaged(whole, happened)) | st.binary(max_size=300)


def damaged(content, happened):
    """The content after these accidents."""
    for what, where, *more in happened:
        a = int(where * len(content))
        match what, more:
            case ["cut", _]:
                content = content[:a]
            case ["drop" | "twice", [other]]:
                a, b = sorted((a, int(other * len(content))))
                content = content[:a] + content[b:] if what == "drop" else content[:b] + content[a:]
            case ["put", [new]]:
                content = content[:a] + new + content[a:]
            case ["over", [new]]:
                content = content[:a] + new + content[a + len(new) :]
            case ["flip", [bit]] if content:
                a = min(a, len(content) - 1)
                content = content[:a] + bytes([content[a] ^ 1 << bit]) + content[a + 1 :]
            case ["edit", [places, leaf]]:
                content = _edited(content, where, places, leaf)
    return content


def _lines_of_json(content):
    """The values of a JSON text, one; or of its lines; none if there is another line."""
    try:
        return [json.loads(content)]
    except (ValueError, RecursionError):
        pass
    try:
        return [json.loads(line) for line in content.splitlines()]
    except (ValueError, RecursionError):
        return []


def _edited(content, where, places, leaf):
    """One value in a JSON text, or in a line of JSON, replaced; other content as it is."""
    lines = _lines_of_json(content)
    if not lines:
        return content
    inside = lines
    for place in [where, *places]:
        keys = list(inside) if isinstance(inside, dict) else range(len(inside))
        key = keys[min(int(place * len(keys)), len(keys) - 1)]
        if not isinstance(inside[key], dict | list) or not inside[key] or place is places[-1]:
            inside[key] = leaf
            break
        inside = inside[key]
    return b"\n".join(json.dumps(line).encode() for line in lines)


@contextmanager
def limited(*, memory=MEMORY, seconds=SECONDS):
    """So much more address space than now, and so many seconds of the processor: then MemoryError or TimeoutError."""

    def late(*_):
        raise TimeoutError(f"not done after {seconds} seconds")

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + memory, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def outcome(read, path):
    """What the reader made of the file, in a tuple; None where it refused it in words. Anything else is raised."""
    with limited():
        try:
            return (read(path),)
        except ValueError as error:
            said = str(error)
    assert said.strip(), "a refusal without a word"
    return None


RUNS = b"\x80\x04cbuiltins\nopen\n(X%s%sX\x01\x00\x00\x00wtR."
"""A pickle that creates a file when it is loaded: the length of its path, the path."""


def pickle_that_creates(path):
    """A pickle that creates ``path`` when it is loaded."""
    name = str(path).encode()
    return RUNS % (struct.pack("<I", len(name)), name)


@cache
def bombs(kind):
    """Files of one format whose headers lie, or that hold far more than their size says."""
    return {
        "json": _json, "csv": _csv, "safetensors": _safetensors, "npz": _npz, "npy": _npy, "pt": dict,
    }[kind]()  # fmt: skip


def _json():
    return {
        "deep": b"[" * 100_000 + b"]" * 100_000,
        "open": b"[" * 5_000_000,
        "digits": b"9" * 1_000_000,
        "exponent": b"1e999999999",
        "twice": b'{"format":1,"format":"x"}',
        "long": b'"' + b"a" * 5_000_000,
        "list": b"[" + b"0," * 500_000 + b"0]",
        "wide": b"{" + b",".join(b'"%d":0' % k for k in range(100_000)) + b"}",
        "UTF-16": "{}".encode("utf-16"),
        **{str(word): word for word in (b"NaN", b"Infinity", b"null", b"true", b"0", b'"x"', b"[{}]", b"{}", b"\0\0")},
    }


def _csv():
    return {
        "field": b'a,b\n"' + b"a" * 1_000_000,
        "columns": b",".join([b"a"] * 100_000) + b"\n" + b",".join([b"a"] * 100_000),
        "quotes": b'"' * 1_000_001,
        "zeros": b"a,b\n\0,\0\n",
    }


def _safetensors():
    def file(table, body=b"", *, length=None):
        text = table if isinstance(table, bytes) else json.dumps(table).encode()
        return struct.pack("<Q", len(text) if length is None else length) + text + body

    def one(kind, shape, end, **more):
        return file({"rows": {"dtype": kind, "shape": shape, "data_offsets": [0, end]}, **more}, bytes(4))

    deep = b"[" * 100_000 + b"]" * 100_000
    says = {"format": "pacdp-checkpoint/3", "parameters": ["rows"] * 100_000}
    return {
        "header of 2**63 bytes": file({}, length=2**63),
        "header of 90 MB": file({}, length=90_000_000),
        "header beyond the end": file(b" " * 100, length=200),
        "product overflows": one("F32", [2**40, 2**40], 4),
        "offset of 2**64": one("F32", [2**62], 2**64 - 1),
        "zero beside huge": one("F32", [0, 2**62, 2**62], 0),
        "negative": one("F32", [-1], 4),
        "eight bits": one("F8_E4M3", [4], 4),
        "header of many names": one("F32", [1], 4, __metadata__={"pacdp": json.dumps(says)}),
        "deep header": one("F32", [1], 4, __metadata__={"pacdp": deep.decode()}),
        "table is a list": file([1]),
        "many": file({f"t{k}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for k in range(20_000)}),
    }


def _header(shape, kind="<i8", *, text=None):
    said = (text or f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}").encode()
    said += b" " * (64 - (len(said) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(said)) + said


def _npy():
    return {
        "8 TiB": _header(f"({2**40},)"),
        "product overflows": _header(f"({2**62}, {2**62})"),
        "zero beside huge": _header(f"(0, {2**62}, {2**62})"),
        "negative": _header("(-1,)") + bytes(80),
        "truth as a size": _header("(True,)") + bytes(8),
        "deep": _header("", text="(" * 5000),
        "many sizes": _header("(" + "1," * 4000 + ")"),
        "objects": _header("(1,)", "|O") + b"\x80\x04cos\nsystem\n",
        "wide letters": _header("(1,)", "<U99999999999"),
        "an empty header": _header("", text="{}"),
        "header of 4 GiB": b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1) + bytes(100),
        "beyond int64": _header("(1,)", "<u8") + b"\xff" * 8,
        "an archive": _zipped({}),
    }


def _zipped(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def _npz():
    names = ("examples", "inputs", "key_mark", "format")
    size = 80_000_000
    found = {name: _zipped({f"{one}.npy": content for one in names}) for name, content in _npy().items()}
    big = _header(f"({size},)", "|u1") + bytes(size)
    return {**found, "a bomb": _zipped({"examples.npy": big, "inputs.npy": big}), "one array": _npy()["8 TiB"]}
