"""Random programs on lists, dicts, sets and instances: compiled against plain Python."""

from __future__ import annotations

import linecache
import random

import pytest
from saying import shout
from values_check import check


class Item:
    kind = "item"

    def __init__(self, v=0):
        self.v = v

    def bump(self, by=1):
        self.v = self.v + by if isinstance(self.v, int) else by
        return self.v

    def __eq__(self, other):
        return isinstance(other, Item) and self.v == other.v

    def __len__(self):
        return 3


NUMBERS = ["n", "m", "1", "2", "0", "len(l)", "len(d)", "len(o)", "l.count(1)", "d.get('k', 3) if isinstance(d.get('k'), int) else 4", "(n + m) % 5", "max(n, m)", "sum(v for v in l if isinstance(v, int))", "o.bump()"]  # fmt: skip
VALUES = [*NUMBERS, "l", "d", "o", "t", "'s'", "None", "(n, m)", "[n]", "{'x': n}", "Item(n)", "l[:2]", "sorted(s, key=str)", "list(d)", "o.v", "t[0]", "dict(d)", "tuple(l)", "f'{n}{m}'", "[v for v in l]", "list(enumerate(l))"]  # fmt: skip
KEYS = ["'k'", "'j'", "n", "(n, 1)", "m", "str(n)"]
STATEMENTS = [
    "l.append({V})", "l.insert({N}, {V})", "l.pop() if l else None", "l[{N} % len(l)] = {V} if l else None", "l.extend([{V}, {V}])",
    "l.reverse()", "del l[{N}:]", "l[{N}:{N}] = [{V}]", "l += [{V}]", "l = l + [{V}]", "l = [{V}]",
    "d[{K}] = {V}", "d.pop({K}, None)", "d.setdefault({K}, {V})", "d.update(j={V})", "d = {{**d, {K}: {V}}}", "d.clear()",
    "s.add({K})", "s.discard({K})", "s |= {{{K}}}", "s = s - {{{K}}}", "o.v = {V}", "o.w = {V}", "o.bump({N})", "o = Item({V})",
    "o.__dict__['x'] = {V}", "n = {N}", "m = {N}", "n, m = m, n", "t = ({V}, {V})", "t = t[::-1] + (n,)", "log.append(repr({N}))",
    "log.append({K} in d)", "log.append({V} == {V})", "log.append(({V}) is l)", "log.append([{N} for _ in range({N} % 4)])",
    "log.append(list(zip(l, range(3))))", "log.append(o == Item({N}))", "log.append(getattr(o, 'w', {V}))",
    "log.append([(k, type(v).__name__) for k, v in d.items()])", "log.append(sorted(s, key=str))",
]  # fmt: skip
BLOCKS = [
    "if {N} > {N}:",
    "for i in range({N} % 3):",
    "for v in list(l)[:3]:",
    "for k in list(d):",
    "try:",
    "while len(l) > 6:",
]


def program(seed: int, breaks: bool) -> str:
    choose = random.Random(seed)
    fill = lambda text: (
        text.replace("{N}", "%N").replace("{V}", "%V").replace("{K}", "%K").replace("{{", "\0").replace("}}", "\1")
    )

    def expand(text):
        text = fill(text)
        for mark, pool in (("%V", VALUES), ("%K", KEYS), ("%N", NUMBERS)):
            while mark in text:
                text = text.replace(mark, choose.choice(pool), 1)
        return text.replace("\0", "{").replace("\1", "}")

    lines = ["def f(l, d, s, o, n, m):", "    log = []", "    t = (n, m)"]
    for _ in range(choose.randint(4, 14)):
        indent = "    "
        if choose.random() < 0.3:
            block = choose.choice(BLOCKS)
            lines.append(indent + expand(block))
            for _ in range(choose.randint(1, 2)):
                lines.append(indent * 2 + expand(choose.choice(STATEMENTS)))
            if block.startswith("while"):  # ends whatever the statements added
                lines.append(indent * 2 + "del l[-5:]")
            if block.startswith("try"):
                lines += [indent + "except Exception as error:", indent * 2 + "log.append(type(error).__name__)"]
        elif breaks and choose.random() < 0.15:
            lines.append(indent + "shout(end='')")
        else:
            lines.append(indent + expand(choose.choice(STATEMENTS)))
    return "\n".join([*lines, "    return log, l, d, s, o, n, m, t"]) + "\n"


def run(seed: int, breaks: bool) -> None:
    text = program(seed, breaks)
    name = f"<program {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace = {"Item": Item, "shout": shout}
    exec(compile(text, name, "exec", dont_inherit=True), namespace)
    shared = [1, 2]
    calls = [([1, "a", 3], {"k": 1}, {1}, Item(2), 1, 2), (shared, {"k": shared}, {"k", 2}, Item(shared), 3, 0)]
    try:
        check(namespace["f"], *calls, breaks=None)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}:\n{text}") from error


@pytest.mark.parametrize("seed", range(40))
def test_programs(seed):
    run(seed, breaks=False)


@pytest.mark.parametrize("seed", range(1000, 1030))
def test_programs_with_breaks(seed):
    run(seed, breaks=True)


@pytest.mark.long
def test_many_programs():
    for seed in range(2000, 6000):
        run(seed, breaks=seed % 2 == 0)
