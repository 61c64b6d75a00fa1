"""Programs that leave what they did in `result`; between them they use nearly every opcode."""

PROGRAMS = {}

PROGRAMS["exceptions"] = """
def f(kind):
    log = []
    try:
        try:
            log.append(1)
            if kind == 1: raise ValueError("a")
            if kind == 2: raise KeyError("b") from ValueError("c")
            if kind == 3: return log
            if kind == 4: 1 / 0
            log.append(2)
        except ValueError as e:
            log.append(str(e))
            raise RuntimeError("again") from e
        except (KeyError, IndexError) as e:
            log.append((repr(e), repr(e.__cause__)))
        else:
            log.append("else")
        finally:
            log.append("finally")
            for i in range(3):
                if i == 1: continue
                log.append(i)
    except RuntimeError as e:
        log.append((str(e), repr(e.__cause__), repr(e.__context__)))
    except ZeroDivisionError:
        log.append("zero")
        try:
            raise
        except ArithmeticError:
            log.append("reraised")
    assert log, "empty"
    return log
result = [f(k) for k in range(5)]
try:
    assert not result, "message"
except AssertionError as e:
    result.append(str(e))
"""

PROGRAMS["with"] = """
class M:
    def __init__(self, log, swallow=False): self.log, self.swallow = log, swallow
    def __enter__(self): self.log.append("in"); return self
    def __exit__(self, *e): self.log.append(e[0] and e[0].__name__); return self.swallow
def f(kind):
    log = []
    for i in range(3):
        with M(log, True) as m, M(log):
            if kind == 0: break
            if kind == 1: continue
            if kind == 2: raise ValueError
            if kind == 3: return log, m is not None
            log.append(i)
    return log
result = [f(k) for k in range(5)]
"""

PROGRAMS["generators"] = """
def g(n):
    try:
        got = yield n
        while got:
            got = yield got * 2
    except ValueError as e:
        yield ("caught", str(e))
    finally:
        yield "finally"
    return "returned"
def outer():
    r = yield from g(3)
    yield r
    yield from [1, 2]
    yield from (x * x for x in range(3) if x)
it = outer()
result = [next(it), it.send(5), it.send(7), it.throw(ValueError("v")), next(it)]
result += list(it)
def stops():
    yield 1
    raise StopIteration
try:
    list(stops())
except RuntimeError as e:
    result.append(str(e))
it = outer(); next(it)
try:
    it.close()
except RuntimeError as e:
    result.append(str(e))
"""

PROGRAMS["comprehensions"] = """
def f(xs, k):
    a = [x + k for x in xs if x if x > 1]
    b = {x: [y for y in range(x)] for x in xs}
    c = {x % 2 for x in xs}
    x = "outer"
    d = [(lambda: x + i)() for i in a for x in xs]
    e = [z := y for y in xs]
    try:
        h = [1 // (x - 1) for x in xs]
    except ZeroDivisionError:
        h = x
    return a, b, sorted(c), d, e, z, x, h, [[i * j for j in xs] for i in xs], list(x for x in a)
class C:
    n = 3
    squares = [i * i for i in range(n)]
    fs = [lambda: i for i in range(2)]
result = f([1, 2, 3], 10), C.squares, [q() for q in C.fs], [i for i in range(3)]
"""

PROGRAMS["match"] = """
import dataclasses
@dataclasses.dataclass
class P:
    x: int
    y: int
def f(v):
    match v:
        case 0 | 1: return "small"
        case {"a": 1, **rest}: return rest
        case [1, *middle, 9]: return middle
        case P(x=0, y=y): return "P0", y
        case P(a, b) if a == b: return "diagonal", a
        case str() as s: return s
        case (x, y): return x, y
        case None: return "none"
        case _: return "other"
values = (0, 1, {"a": 1, "b": 2}, [1, 2, 3, 9], P(0, 5), P(2, 2), P(1, 2), "s", (1, 2), None, 7.5, {"c": 1})
result = [f(v) for v in values]
"""

PROGRAMS["async"] = """
import asyncio
log = []
class AM:
    async def __aenter__(self): log.append("in"); return 7
    async def __aexit__(self, *e): log.append(e[0]); return True
async def agen(n):
    for i in range(n):
        await asyncio.sleep(0)
        try:
            yield i
        finally:
            log.append(i)
async def main():
    async with AM() as a:
        log.append(a)
    async with AM():
        raise ValueError
    out = [i async for i in agen(3) if i]
    async for i in agen(3):
        if i == 2: break
        out.append(i)
    else:
        out.append("else")
    async for i in agen(1): pass
    else: out.append("else")
    t = asyncio.create_task(asyncio.sleep(100))
    await asyncio.sleep(0)
    t.cancel()
    try:
        await t
    except asyncio.CancelledError:
        out.append("cancelled")
    g = agen(2)
    await g.asend(None)
    try:
        await g.athrow(KeyError("k"))
    except KeyError as e:
        out.append(str(e))
    await asyncio.gather(*(asyncio.sleep(0) for _ in range(3)))
    return out, {k: v async for k, v in pairs()}
async def pairs():
    yield 1, 2
result = asyncio.run(main()), log
"""

PROGRAMS["exception groups"] = """
def f(excs):
    log = []
    try:
        try:
            raise ExceptionGroup("g", excs)
        except* ValueError as e:
            log.append([repr(x) for x in e.exceptions])
        except* (KeyError, TypeError) as e:
            log.append([repr(x) for x in e.exceptions])
            raise IndexError("i")
        finally:
            log.append("finally")
    except BaseException as e:
        log.append(repr(e))
    return log
result = [f([ValueError(1)]), f([ValueError(1), KeyError(2)]), f([OSError(3), ValueError(1)]), f([TypeError(4)])]
"""

PROGRAMS["calls"] = """
def f(a, b=2, /, c=3, *args, d=4, e, **kw): return a, b, c, args, d, e, kw
class A:
    def m(self, x, *, k=0): return x, k
    @classmethod
    def c(cls, x): return cls.__name__, x
    @staticmethod
    def s(x): return x
    prop = property(lambda self: 5)
class B(A):
    def m(self, x, *, k=1): return super().m(x, k=k), super(B, self).prop, super().c(3), super().s(4)
    def __getitem__(self, i): return i
    attribute = staticmethod(print)
b = B(); b.f = lambda *a, **k: (a, k)
result = [f(1, e=5), f(1, 2, 3, 4, 5, e=6, z=7), f(*(1, 2), **{"e": 3}), f(*[1], *[2, 3], e=1, **{"q": 2}, **{"r": 3}),
          b.m(1), b.m(1, k=2), b.f(1, k=2), B.c(1), b[1:2], b[1:2:3], b[..., 1], (lambda: 1)(), (f if b else A)(1, e=2)]
try:
    f(1, e=2, **{"e": 3})
except TypeError as e:
    result.append(str(e))
try:
    f(1, e=2, **3)
except TypeError as e:
    result.append(str(e))
"""

PROGRAMS["names and closures"] = """
g = 1
def make():
    n = 0
    def inc(by=1, *, twice: bool = False) -> int:
        nonlocal n
        n += by * (2 if twice else 1)
        return n
    def clear():
        nonlocal n
        del n
    return inc, clear
inc, clear = make()
result = [inc(), inc(3), inc(twice=True), inc.__annotations__]
clear()
try:
    inc()
except NameError as e:
    result.append(str(e))
def unbound(flag):
    if flag: x = 1
    try:
        return x
    except UnboundLocalError as e:
        return str(e)
    finally:
        y = 1
        del y
result += [unbound(0), unbound(1)]
def globals_():
    global g, h
    g += 1
    h = g
    del h
    return g
result += [globals_(), globals_()]
def in_class(x):
    class K:
        y = x
        z: int = x
        w = 4
        del y
        def m(self): return x, __class__.__name__
    return K.z, K().m(), K.__annotations__
result.append(in_class(5))
from os.path import *
import os.path as p, sys as s
from os import path as q
result += [p is q, join("a", "b")]
"""

PROGRAMS["operators"] = """
def f(a, b):
    out = [a + b, a - b, a * b, a / b, a // b, a % b, a ** b, a << b, a >> b, a & b, a | b, a ^ b, -a, +a, ~a, not a,
           a < b, a <= b, a == b, a != b, a > b, a >= b, a is b, a is not b, a in [b], a not in [b], a and b, a or b,
           1 < a < 5 < b, a if a > b else b]
    for op in range(3):
        c = a
        c += b; c -= 1; c *= 2; c //= 3; c **= 2; c %= 100; c <<= 1; c >>= 1; c |= 8; c &= 127; c ^= 3
        out.append(c)
    c /= 2
    l = [1, 2, 3, 4]
    l[1:3] = [9]; l[0] += 5; del l[-1]; l[::2] = [7]
    x, *y, z = *l, *"abc"
    (p, q), r = (1, 2), 3
    d = {**{"a": 1}, "b": 2, **{"c": 3}}
    t = {*l, *y}
    s = f"{a}{b!r:>{10}}{x!s}{'é'!a} {c:.3f} {a=}"
    while a < 100:
        a *= 2
        if a == 64: break
    else:
        out.append("no break")
    return out, l, x, y, z, p, q, r, d, sorted(map(str, t)), s, a, (a, b)[::-1], None is None
result = f(7, 3), f(1, 1)
class N: pass
n = N(); n.a = 1; n.a += 2; del n.a
result += (hasattr(n, "a"), None if n is None else 1, [i for i in (None, 1) if i is not None])
"""

PROGRAMS["many constants"] = (
    "def f(x):\n    s = 0\n"
    + "\n".join(f"    s += {i} + x.v{i} if x.v{i} else {i}.5" for i in range(700))
    + """
    for i in range(3):
        if i == 1: continue
"""
    + "\n".join(f"        s += {1000 + i}" for i in range(300))
    + """
    return s
class X:
    def __getattr__(self, name): return int(name[1:]) % 3
result = f(X())
"""
)

PROGRAMS["type parameters"] = """
class Box[T: int, *Ts, **P]:
    def get[U: (int, str)](self, x: U) -> T: return x
type Alias[K] = dict[K, int]
def f[T](x: T) -> T: return x
result = f(1), Box().get(2), str(Alias.__value__), [p.__name__ for p in Box.__type_params__]
result += (Box.get.__type_params__[0].__constraints__,)
"""

PROGRAMS["type parameter defaults"] = """
class Box[T = int]: pass
result = Box.__type_params__[0].__default__
"""
