"""Small changes of a source file, one at a time: the faults that a slip of the pen would make."""

import ast
import re
from collections import Counter
from dataclasses import dataclass

COMPARISONS = {
    ast.Lt: ("<", "<=", ">="), ast.LtE: ("<=", "<", ">"), ast.Gt: (">", ">=", "<="), ast.GtE: (">=", ">", "<"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
}  # fmt: skip
ARITHMETIC = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.Pow: ("**", "*"),
    ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "*"),
}  # fmt: skip
LOGIC = {ast.And: ("and", "or"), ast.Or: ("or", "and")}
# Both ways: rounding that errs on the wrong side, the other end of an interval, the other extreme.
TWINS = (
    ("outward", "inward"), ("binary_kl_upper", "binary_kl_lower"), ("_up", "_down"), ("min", "max"), ("any", "all"),
    ("minimum", "maximum"), ("floor", "ceil"),
)  # fmt: skip
SWAPPED = {**dict(TWINS), **{b: a for a, b in TWINS}}
_OUT_OF_SIGHT = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change of one file: bytes from ``start`` to ``end`` become ``text``; ``key`` outlives edits elsewhere."""

    file: str
    function: str
    line: int
    before: str
    after: str
    start: int
    end: int
    text: bytes
    key: str

    def applied(self, source):
        """The source with the change."""
        return source[: self.start] + self.text + source[self.end :]


def mutants(file, source):
    """Every mutant of the file, in the order of its text; messages, annotations and docstrings stay as they are."""
    sites = _Sites(source)
    sites.visit(ast.parse(source))
    found, seen = [], Counter[str]()
    for function, start, end, text in sorted(sites.found, key=lambda one: one[1:]):
        head = source.rfind(b"\n", 0, start) + 1
        tail = source.find(b"\n", end)
        before = _flat(source[head:tail])
        after = _flat(source[head:start] + text + source[end:tail])
        name = f"{file} | {function} | {before} | {after}"
        seen[name] += 1
        key = name if seen[name] == 1 else f"{name} | {seen[name]}"
        line = source.count(b"\n", 0, start) + 1
        found.append(
            Mutant(
                file=file, function=function, line=line, before=before, after=after, start=start, end=end, text=text,
                key=key,
            )
        )  # fmt: skip
    return found


def of_file(root, file):
    """Every mutant of a file under ``root``."""
    return mutants(file, (root / file).read_bytes())


def _flat(text):
    return " ".join(text.decode().split())


class _Sites(ast.NodeVisitor):
    """Where something can be changed, and to what."""

    def __init__(self, source):
        self.source, self.found, self.function = source, [], ""
        self.rows = [0]
        for row in source.splitlines(keepends=True):
            self.rows.append(self.rows[-1] + len(row))

    def visit(self, node):
        if not isinstance(node, _OUT_OF_SIGHT):
            super().visit(node)

    def visit_FunctionDef(self, node):
        for one in node.decorator_list:
            if isinstance(one, ast.Call) and ast.unparse(one.func) == "door":
                self._replace(one, "(lambda function: function)")
        self._inside(node, [*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body])

    def visit_ClassDef(self, node):
        self._inside(node, node.body)

    def visit_AnnAssign(self, node):
        if node.value:
            self.visit(node.value)

    def visit_Compare(self, node):
        for left, op, right in zip((node.left, *node.comparators), node.ops, node.comparators, strict=False):
            self._between(left, right, *COMPARISONS[type(op)])
        self.generic_visit(node)

    def visit_BinOp(self, node):
        if type(node.op) in ARITHMETIC:
            self._between(node.left, node.right, *ARITHMETIC[type(node.op)])
        self.generic_visit(node)

    def visit_BoolOp(self, node):
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between(left, right, *LOGIC[type(node.op)])
        self.generic_visit(node)

    def visit_AugAssign(self, node):
        if type(node.op) in ARITHMETIC:
            self._between(node.target, node.value, *(f"{sign}=" for sign in ARITHMETIC[type(node.op)]))
        self.generic_visit(node)

    def visit_UnaryOp(self, node):
        if isinstance(node.op, (ast.USub, ast.Not)):
            self._put(self._at(node), self._at(node) + (1 if isinstance(node.op, ast.USub) else len("not ")), "")
        self.generic_visit(node)

    def visit_Constant(self, node):
        match node.value:
            case bool():
                self._replace(node, str(not node.value))
            case int():
                self._replace(node, str(node.value + 1))
            case float():
                self._replace(node, repr(1.5 * node.value or 1.0))

    def visit_If(self, node):
        if isinstance(node.body[0], ast.Raise):
            self._replace(node.test, "False")
        self.generic_visit(node)

    def visit_Expr(self, node):
        if isinstance(node.value, ast.Call):
            self._replace(node, "None")
        self.generic_visit(node)

    def visit_Call(self, node):
        if isinstance(node.func, ast.Name) and node.func.id == "range" and not isinstance(node.args[-1], ast.Constant):
            self._put(self._end(node.args[-1]), self._end(node.args[-1]), " - 1")
        self.generic_visit(node)

    def visit_Name(self, node):
        if node.id in SWAPPED and isinstance(node.ctx, ast.Load):
            self._replace(node, SWAPPED[node.id])
        elif node.id == "inf":
            self._put(self._at(node), self._at(node), "-")

    def visit_Attribute(self, node):
        if node.attr in SWAPPED:
            self._put(self._end(node) - len(node.attr), self._end(node), SWAPPED[node.attr])
        elif node.attr == "inf":
            self._put(self._at(node), self._at(node), "-")
        self.generic_visit(node)

    def _inside(self, node, parts):
        outer, self.function = self.function, f"{self.function}.{node.name}".lstrip(".")
        for part in parts:
            self.visit(part)
        self.function = outer

    def _at(self, node):
        return self.rows[node.lineno - 1] + node.col_offset

    def _end(self, node):
        return self.rows[node.end_lineno - 1] + node.end_col_offset

    def _replace(self, node, text):
        self._put(self._at(node), self._end(node), text)

    def _between(self, left, right, sign, *others):
        """The sign that stands between two expressions, comments apart."""
        start = self._end(left)
        gap = re.sub(rb"#[^\n]*", lambda comment: b" " * len(comment[0]), self.source[start : self._at(right)])
        place = re.search(re.escape(sign).replace(r"\ ", r"\s+").encode(), gap)
        for other in others:
            self._put(start + place.start(), start + place.end(), other)

    def _put(self, start, end, text):
        self.found.append((self.function, start, end, text.encode()))
