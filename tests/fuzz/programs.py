"""Random programs: `make_program(seed)` fills in rows of the grammar."""

from __future__ import annotations

import dataclasses
import random
import re
import warnings

from fuzz import grammar

FIELD = re.compile(r"\{(\+?)([A-Za-z])\}")
# Names of a row that each use of it has for itself.
OWN_NAME = re.compile(r"\b(fuel|produced|stack|group|error|made|look|Local)\b")
KINDS = ("python", "numpy", "torch", "training", "modules")


class Unfit(Exception):
    """The row needs a variable that there is none of."""


@dataclasses.dataclass
class Program:
    seed: int
    kind: str
    source: str  # a module with `f` and `CALLS`, functions that make the arguments

    @property
    def trains(self) -> bool:
        return self.kind in ("training", "modules")


@dataclasses.dataclass
class Scope:
    """Variables by kind; those of an outer function can be read only."""

    visible: dict[str, list[str]]
    writable: set[str]

    def copy(self) -> Scope:
        return Scope({kind: list(names) for kind, names in self.visible.items()}, set(self.writable))

    def add(self, kind: str, name: str) -> None:
        self.writable.add(name)
        if name not in self.visible.setdefault(kind, []):
            self.visible[kind].append(name)


def from_elsewhere(row: str) -> str:
    """The row with copies of what it writes to a tensor: eager computes some writes of a tensor's parts to itself in the order
    of its loops (y.sub_(y[0]) of a transposed y), and refuses others."""
    return row.replace("{A}", "({A} * True)") if row.startswith("{a}") else row


class Tables:
    """The rows for one kind of program."""

    def __init__(self, kind: str) -> None:
        arrays = kind != "python"
        parts = [grammar.EXPRESSIONS]
        self.statements = [grammar.STATEMENTS]
        self.blocks = [grammar.BLOCKS]
        self.breaks = [grammar.BREAKS]
        self.short = dict(grammar.SHORT)
        if arrays:
            numpy = kind == "numpy"
            parts += [grammar.ARRAYS, grammar.NUMPY if numpy else grammar.TORCH]
            library = grammar.NUMPY_STATEMENTS if numpy else grammar.TORCH_STATEMENTS
            tables = [grammar.ARRAY_STATEMENTS, grammar.ARRAY_STATEMENTS, library]
            self.statements += tables if numpy else [[*map(from_elsewhere, rows)] for rows in tables]
            self.blocks += [[*grammar.ARRAY_BLOCKS, *(grammar.NUMPY_BLOCKS if numpy else grammar.TORCH_BLOCKS)]]
            self.breaks += [grammar.ARRAY_BREAKS, grammar.NUMPY_BREAKS if numpy else grammar.TORCH_BREAKS]
            self.short["A"] = grammar.ARRAY_SHORT
        if kind == "modules":
            parts += [grammar.MODULES]
            self.statements += [grammar.MODULE_STATEMENTS] * 2
            self.blocks += [grammar.MODULE_BLOCKS]
        if kind == "training":
            parts += [grammar.TRAINING]
            self.breaks += [grammar.TRAINING_BREAKS]
        self.expressions: dict[str, list[str]] = {}
        for part in parts:
            for name, rows in part.items():
                self.expressions.setdefault(name, []).extend(rows)


TABLES = {kind: Tables(kind) for kind in KINDS}


def uses(name: str, body: list[str]) -> bool:
    return any(re.search(rf"\b{name}\b", line) for line in body)


def is_atom(text: str) -> bool:
    """Whether an operator may be put next to the text."""
    depth, quote = 0, None
    for c in text:
        if quote:
            quote = None if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == " " and depth == 0:
            return False
    return not text[0].isdigit() and text[0] != "-"


class Writer:
    """Writes one program."""

    def __init__(self, seed: str, kind: str) -> None:
        self.random = random.Random(seed)
        self.sizes = random.Random(f"{seed} sizes")  # of its own: what is computed is chosen apart from the sizes
        self.kind = kind
        self.tables = TABLES[kind]
        self.breaks = self.random.choice([0, 0.05, 0.15, 0.4])
        self.left = self.random.choice([2, 4, 6, 8, 12, 16])  # statements
        self.names = 0
        self.scope = Scope({}, set())
        self.pending: list[tuple[str, str]] = []

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    # ---- expressions

    def expression(self, kind: str, depth: int) -> str:
        if kind in grammar.FUNCTIONS:
            known = self.scope.visible.get(kind, [])
            rows = known if known and self.chance(0.8) else grammar.FUNCTIONS[kind]
        elif depth <= 0 or self.chance(0.35):
            known = self.scope.visible.get(kind.lower(), [])
            rows = known if known and self.chance(0.6) else self.tables.short[kind]
        else:
            rows = self.tables.expressions[kind]
        text = self.fill(self.random.choice(rows), depth - 1)
        if kind in "IVLA" and self.chance(self.breaks / 8):
            text = self.random.choice(grammar.BROKEN_VALUES).replace("{0}", text)
        return text

    def fill(self, row: str, depth: int, statement: bool = False) -> str:
        result, end = "", 0
        for field in FIELD.finditer(row):
            result += row[end : field.start()]
            end = field.end()
            plus, kind = field.groups()
            if plus:
                result += self.target(kind)
            elif kind.islower():
                assigned = statement and re.match(r" ([-+*/|]|//)?= ", row[end:]) and not result
                result += self.variable(kind, bool(assigned), statement and not result.strip())
            else:
                text = self.expression(kind, depth)
                before, after = result.rstrip()[-1:] or "(", row[end : end + 1] or ")"
                if not is_atom(text) and not (before in "([{,:=" and after in ")]},:"):
                    text = f"({text})"
                result += text
        return result + row[end:]

    def variable(self, kind: str, assigned: bool, required: bool) -> str:
        names = self.scope.visible.get(kind, [])
        if assigned:
            names = [name for name in names if name in self.scope.writable]
        if names:
            return self.random.choice(names)
        if required or assigned:
            raise Unfit
        text = self.fill(self.random.choice([row for row in self.tables.short[kind.upper()] if FIELD.search(row) is None] or ["n"]), 0)  # fmt: skip
        return text if is_atom(text) else f"({text})"

    def target(self, kind: str) -> str:
        """A variable to assign to; a new one can be read from the next line on."""
        names = [name for name in self.scope.visible.get(kind, []) if name in self.scope.writable]
        if names and kind.islower() and self.chance(0.4):
            return self.random.choice(names)
        self.names += 1
        name = f"{kind.lower() if kind.islower() else 'f' if kind == 'F' else 'g'}{self.names}"
        self.pending.append((kind, name))
        return name

    def bind(self) -> None:
        for kind, name in self.pending:
            self.scope.add(kind, name)
        self.pending.clear()

    # ---- statements

    def body(self, depth: int, in_loop: bool, least: int = 1) -> list[str]:
        lines: list[str] = []
        count = max(least, self.random.choice([1, 1, 2, 2, 3]) if depth else self.left)
        for _ in range(count):
            if self.left <= 0 and len(lines) >= least:
                break
            self.left -= 1
            if self.chance(self.breaks):
                lines += self.row(self.random.choice(self.random.choice(self.tables.breaks)), depth, in_loop)
            lines += self.statement(depth, in_loop)
        return lines or ["pass"]

    def statement(self, depth: int, in_loop: bool) -> list[str]:
        while True:
            draw = self.random.random()
            if draw < 0.28 and depth < 4:
                rows = self.random.choice(self.tables.blocks)
            elif draw < 0.36 and depth < 3:
                rows = grammar.DEFINITIONS
            elif draw < 0.39 and depth:
                rows = grammar.EXITS
            elif draw < 0.5 and in_loop:
                rows = grammar.LOOP_EXITS
            else:
                rows = self.random.choice(self.tables.statements)
            lines = self.row(self.random.choice(rows), depth, in_loop)
            if lines:
                return lines

    def row(self, row: str, depth: int, in_loop: bool) -> list[str]:
        """The row's lines; none where it does not fit."""
        before, left = self.scope.copy(), self.left
        self.names += 1
        row = OWN_NAME.sub(rf"\g<1>{self.names}", row)
        try:
            lines = self.definition(row, depth) if row in grammar.DEFINITIONS else self.lines(row, depth, in_loop)
        except Unfit:
            self.scope, self.left = before, left
            self.pending.clear()
            return []
        if "\n" in row and self.chance(0.75):  # what a block has made may not be there after it
            functions = {kind: self.scope.visible.get(kind, []) for kind in "FG"} if "def " in row else {}
            self.scope = before
            self.scope.visible.update(functions)
        return lines

    def lines(self, row: str, depth: int, in_loop: bool) -> list[str]:
        result: list[str] = []
        for line in row.split("\n"):
            text = line.lstrip()
            indent = line[: len(line) - len(text)]
            if text in ("BODY", "LOOP"):
                outer = self.scope.copy()
                loop = text == "LOOP" or (in_loop and "finally" not in row and "except*" not in row)
                result += [indent + inner for inner in self.body(depth + 1, loop)]
                if self.chance(0.75):
                    self.scope = outer
            else:
                result.append(indent + self.fill(text, 2, statement=True))
                self.bind()
        return result

    def definition(self, row: str, depth: int) -> list[str]:
        """A function: its body writes to variables of its own, and to outer ones that it declares nonlocal."""
        outer = self.scope
        self.scope = Scope({kind: list(names) for kind, names in outer.visible.items()}, set())
        signature, *rest = row.split("\n")
        decorator = [signature] if signature.startswith("@") else []
        if decorator:
            signature, *rest = rest
        head = self.fill(signature, 1)
        (kind, name), *_ = self.pending
        self.pending.clear()
        self.scope.visible.setdefault("v", []).append("v")
        self.scope.visible.setdefault("i", []).append("w")
        candidates = sorted(outer.writable)
        shared = self.random.sample(candidates, min(len(candidates), self.random.choice([0, 0, 1, 2])))
        self.scope.writable.update(shared)
        declared = [f"    nonlocal {', '.join(shared)}"] if shared else []
        body = self.lines("\n".join(rest), depth + 1, False)
        self.scope = outer
        self.scope.visible.setdefault(kind, []).append(name)
        lines = [*decorator, head, *declared, *(line.replace("SELF", name) for line in body)]
        if self.chance(0.8):
            use = self.random.choice(grammar.USES[kind])
            lines += [line.replace("NAME", name) for line in self.lines(use, depth, False)]
        return lines

    # ---- the whole

    def program(self) -> str:
        arrays = ["x", "y"] if self.kind != "python" else []
        draws = ["r"] if self.kind == "numpy" else []
        parameters = [*arrays, "l", "d", "o", "z", *draws, "n", "m", "s"]
        for name in parameters:
            self.scope.add({"x": "a", "y": "a", "n": "i", "m": "i"}.get(name, name), name)
        body = self.body(0, False)
        returned = [name for kind in "aildosvzr" for name in self.scope.visible.get(kind, []) if name not in parameters]
        self.random.shuffle(returned)
        body.append(f"return {', '.join(['log', *returned[: self.random.choice([0, 1, 2, 4])], *arrays[:1]])}")
        star = self.random.choice([None, None, len(parameters) - 2])
        if star:
            parameters.insert(star, "*")
        calls = self.calls(bool(star), bool(arrays))
        dynamic = self.sizes.choice([None, None, *grammar.DYNAMIC]) if arrays else None
        return "\n".join(
            [
                "from fuzz.prelude import *",
                "",
                "SHARED = []",
                "STATE = {'n': 0}",
                *([f"DYNAMIC = {dynamic}"] if dynamic else []),
                *(["NET = Net()"] if self.kind == "modules" else []),
                *(["RNG = np.random.default_rng(7)"] if draws else []),
                *(line for name, lines in grammar.OF_THE_MODULE.items() if uses(name, body) for line in lines),
                "",
                f"def f({', '.join(parameters)}):",
                "    log = []",
                *("    " + line for line in body),
                "",
                "CALLS = [",
                *(f"    lambda: {call}," for call in calls),
                "]",
                "",
            ]
        )

    def array(self, name: str, shape: str, dtype: str, tail: str) -> str:
        row = grammar.NUMPY_ARRAY if self.kind == "numpy" else grammar.TORCH_ARRAY
        shape = self.widened(shape)
        if dtype == "bool" and "-" in tail or self.kind != "numpy" and "-1]" in tail or "[" in tail and shape == "()":
            tail = ""
        size = 1
        for part in shape.strip("()").split(","):
            size *= int(part or 1)
        text = row.format(size=f"{size}.0" if "0" not in shape else size, shape=shape, dtype=dtype, tail=tail)
        if self.kind in ("training", "modules") and dtype.startswith("float"):
            text = f"({text}).requires_grad_()" if not tail else f"({text}).detach().clone().requires_grad_()"
        if self.mark and self.kind != "numpy" and shape != "()":
            text = self.mark.format(text)
        return text

    def widened(self, shape: str) -> str:
        """The shape in this call's width; modules have layers of 3 features, so their arrays grow in the number of rows."""
        if not self.width:
            return shape
        if self.kind == "modules":
            return re.sub(r"^\([2-9], ", f"({self.width}, ", shape)
        return re.sub(r"\b3\b(?=,?\)$)", str(self.width), shape)

    def choose_width(self, first: bool) -> None:
        """In half of the programs all is as small as the shapes say; in a quarter calls are of several widths."""
        if first:
            self.widths = self.sizes.choice([[None], [None], [self.sizes.choice(grammar.WIDTHS)], [None, *grammar.WIDTHS]])  # fmt: skip
            self.mark = self.sizes.choice([None, None, None, *grammar.MARKS])
        self.width = self.sizes.choice(self.widths)

    def calls(self, keywords: bool, arrays: bool) -> list[str]:
        """Arguments of the first call; then the same again, or with some of it changed."""
        choose = self.random.choice
        values = {name: choose(rows) for name, rows in grammar.VALUES.items()}
        arrayed = {
            name: (choose(rows), choose(grammar.DTYPES), choose(grammar.TAILS)) for name, rows in grammar.SHAPES.items()
        }
        alias = self.chance(0.1)

        def text() -> str:
            made = {name: self.array(name, *spec) for name, spec in arrayed.items()} if arrays else {}
            parts = [*made.values(), *(values[name] for name in ("ldozr" if self.kind == "numpy" else "ldoz"))]
            if alias and arrays:
                parts[1] = "x"
            elif alias:
                parts[-4] = "[y, y]"
            last = [values[name] for name in "nms"]
            named = keywords and f"dict(m={values['m']}, s={values['s']})"
            call = f"(({', '.join(parts + last[: 1 if keywords else 3])}), {named or '{}'})"
            if alias:
                call = f"(lambda {'x' if arrays else 'y'}: {call})({made['x'] if arrays else values['d']})"
            return call

        self.choose_width(first=True)
        result = [text()]
        for _ in range(choose([1, 2, 3, 4])):
            self.choose_width(first=False)
            if self.chance(0.35):
                result.append(choose(result))
                continue
            for name in values:
                if self.chance(0.4):
                    values[name] = choose(grammar.VALUES[name])
            for name, (shape, dtype, tail) in arrayed.items():
                if self.chance(0.4):
                    shape = choose(grammar.SHAPES[name])
                if self.chance(0.2):
                    dtype = choose(grammar.DTYPES)
                if self.chance(0.1):
                    tail = choose(grammar.TAILS)
                arrayed[name] = (shape, dtype, tail)
            alias = alias if self.chance(0.8) else not alias
            result.append(text())
        return result


def is_python(source: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the compiler says of calls of numbers and the like
        try:
            compile(source, "", "exec")
        except (SyntaxError, ValueError, RecursionError):
            return False
    return True


def make_program(seed: int, kinds: tuple[str, ...] = KINDS) -> Program:
    """The program of a seed; of a hundred, one or two texts are no Python and are written anew."""
    kind = kinds[seed % len(kinds)]
    for attempt in range(100):
        source = Writer(f"{kind} {seed} {attempt}", kind).program()
        if is_python(source):
            return Program(seed, kind, source)
    raise AssertionError(f"no program for seed {seed}")
