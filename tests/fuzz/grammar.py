"""The grammar of random programs, as tables. Add a row, and programs contain it.

A row is Python text with fields: `{I}` is an expression of kind I, `{i}` a variable of that kind that there is, `{+i}` one to assign to
(a new one or one that there is). Kinds: I int, B bool, S str, L list, T tuple, D dict, O Item, Z iterator, A array or tensor, V anything, R a generator of random numbers of NumPy's, F function,
G generator function, K an exception's class. In rows of several lines a line `BODY` stands for random statements, indented as it is, and
`LOOP` for statements among which `break` and `continue` may be. Other braces stand for themselves.
"""

from __future__ import annotations

# Expressions. The first rows of a kind are short: they are taken where an expression has become deep.
SHORT = {
    "I": ["0", "1", "2", "3", "len({l})"],
    "B": ["True", "False", "{i} > 1"],
    "S": ["'s'", "'ab'", "str({i})"],
    "L": ["[]", "[{i}]", "[1, 'a']", "list(range({i} % 4))"],
    "T": ["()", "({i}, 1)", "(1, 's')"],
    "D": ["{}", "{'k': {i}}", "dict(j=1)"],
    "O": ["Item({i})", "Item()"],
    "Z": ["{z}", "iter({T})"],
    "V": ["None", "{i}", "'v'", "{l}", "{o}", "2.5"],
    "K": ["ValueError", "KeyError", "Broken", "(TypeError, IndexError)", "Exception", "ZeroDivisionError", "RuntimeError", "LookupError"],
    "A": [],
    "R": ["RNG"],
}  # fmt: skip

EXPRESSIONS = {
    "I": [
        "{I} + {I}", "{I} - {I}", "({I} * {I}) % 11", "{I} // 2", "{I} // ({I} + 1)", "-{I}", "{I} % 3", "max({I}, {I})", "min({I}, 4)", "abs({I})", "len({L})",
        "len({D})", "len({T})", "len({S})", "len({o})", "sum(v for v in {L} if isinstance(v, int))", "{o}.bump()", "{o}.bump({I})", "({I} if {B} else {I})", "int({B})",
        "{L}.count({V})", "{D}.get({S}, 3) if {B} else {I}", "divmod({I}, 3)[1]", "{I} & 3", "{I} << 1", "{I} ^ 5", "int('12')", "ord({S}[0])",
        "functools.reduce(operator.add, [v for v in {L} if isinstance(v, int)], {I})", "sum(1 for _ in {V}) if {B} else 2", "math.gcd({I}, 6)", "{l}.index({V})",
        "hash({I}) % 5", "Color.GREEN + {I}", "round({I} / 3)", "int({I} / ({I} or 1))", "(lambda v: v + {I})({I})", "apply(max, {I}, {I})", "len(range({I}, 7, 2))",
        "next(iter({L}), {I})", "sum(map(lambda v: 1, {L}))", "sum(1 for _ in {Z})", "next({z}, {I})", "sum(1 for v, w in zip({L}, {L}))", "all([{B}, {B}]) + {I}", "int(twice({I}, by={I}) > 2)",
    ],
    "B": [
        "{I} > {I}", "{I} == {I}", "{I} < {I} < {I}", "not {B}", "{B} and {B}", "{B} or {B}", "{V} in {L}", "{S} in {D}", "{S} not in {S}", "{V} is None", "{o} is {o}",
        "{l} is not {l}", "isinstance({V}, (int, str))", "hasattr({V}, 'v')", "bool({L})", "{S} == {S}", "{S} < {S}", "{o} == {O}", "{T} == {T}", "{L} == {L}", "{D} == {D}",
        "any(v is None for v in {L})", "all({L})", "callable({V})", "{I} in range({I})", "{S}.startswith('s')", "issubclass(Broken, {K})", "{l} is {l}", "{d} != {D}", "{V} in {z}",
    ],
    "S": [
        "{S} + 's'", "f'{i}'", "f'{o.kind}-{n:03d}'", "{S}.upper()", "{S}[::-1]", "{S}[:3] * 2", "'-'.join(str(v) for v in {T} if isinstance(v, int))", "str({I})", "repr({S})",
        "type({V}).__name__", "{S}.replace('s', 'tt')[:8]", "'%s:%d' % ({S}, {I})", "'{}'.format({I})", "{o}.kind", "Color(({I}) % 3).name", "chr(97 + {I} % 20)", "{S}.strip('s')", "({S} if {B} else {S})",
    ],
    "L": [
        "[{V}, {V}]", "[*{L}, {V}]", "{L}[:2]", "{L}[::-1]", "{l} + {L}", "[{V} for v in range({I} % 4)]", "[v for v in {L} if {B}]", "[(v, {V}) for v in {L}[:3]]",
        "[{I} for v in range(3) for w in range(v)]", "list({D})", "list({T})", "sorted([{I}, {I}, {I}])", "list(map(str, [{I}, {I}]))", "list({Z})[:4]", "[v for v in {Z}]", "[*{z}]", "list(zip({L}, range(3)))", "list(enumerate({L}))[:3]",
        "list(reversed({L}))", "list({D}.items())", "list({D}.values())", "{L}.copy()", "sorted({D}, key=str)", "list(filter(None, {L}))", "list(itertools.chain({L}, {T}))[:5]", "list(itertools.islice({L}, 1, 3))",
        "list({G}({I} % 4))", "[v for v in {G}({I} % 3)]", "list({o}.each({V}, k={V}))", "[(lambda: v)() for v in range({I} % 3)]", "[f() for f in [lambda v=v: (v, {V}) for v in range(2)]]",
        "[*{G}({I} % 3), {V}]", "list({o})", "[v := {I}, v + 1]", "list(itertools.accumulate([{I}, {I}, 1]))", "sorted([({I}, 'b'), ({I}, 'a')], key=operator.itemgetter(0), reverse={B})", "[[w for w in range(v)] for v in range({I} % 4)]",
    ],
    "T": [
        "({V}, {V})", "({V},)", "{T}[::-1]", "{T} + ({V},)", "tuple({L})", "tuple({V} for v in range({I} % 3))", "(*{T}[:2], *{L}[:2])", "divmod({I}, 3)", "Pair({V}, {V})", "Pair(*{T}[:1], right={V})", "{o}.double",
        "{O}({V}, {I})", "tuple(sorted({'k', {S}}))", "{S}.partition('s')", "next(iter([{T}]))", "Pair({V}, {I})._replace(left={V})", "max([{T}, ()], key=len)",
    ],
    "D": [
        "{'k': {V}, {S}: {V}}", "{**{D}, {S}: {V}}", "dict({D})", "{v: {V} for v in range({I} % 4)}", "dict(zip('abc', {L}))", "{D} | {'m': {V}}", "{k: v for k, v in {D}.items()}", "dict(j={V}, **{'w': {I}})",
        "collections.Counter([{I}, {I}])", "collections.OrderedDict(k={V})", "collections.defaultdict(list, j=[{V}])", "dict.fromkeys({S}[:3], {I})", "vars({o})",
    ],
    "O": ["Item({V})", "{o} + {V}", "Item.make({V}, {V})", "({o} if {B} else {O})", "twice([{o}], by=1)[0]"],
    "V": [
        "{I}", "{B}", "{S}", "{L}", "{T}", "{D}", "{O}", "{L}[0]", "{L}[{I}]", "{T}[-1]", "{D}['k']", "{D}.get('k')", "{o}.v", "getattr({o}, 'w', {V})", "{D}.get({S}, {V})", "{F}({V})", "{F}({V}, w={I})",
        "{F}(*{T}[:2])", "apply({F}, {V})", "next({G}({I} % 3), {V})", "({V} if {B} else {V})", "({B} and {V})", "({B} or {V})", "functools.partial({F}, {V})()", "frozenset([{I}, {I}])", "slice({I}, None)", "range({I})",
        "Record({I}).add({V})", "{1, 2} & {{I}, 1}", "{Z}", "next({z}, {V})", "next({Z})", "sorted({{I}, {I}})", "Color(({I}) % 3)", "[*{V}]", "{V}[0]", "len({V})", "{I} / {I}", "{I} ** 2 / 4", "1.5 * {I}", "complex({I}, 1)", "b'ab'[{I}:]", "(lambda *a, **k: (a, k))({V}, q={V})",
        "next(v for v in {L} if {B})", "max({L}, key=str)", "contextlib.nullcontext({V}).__enter__()", "operator.attrgetter('v')({o})", "fails({V})", "(type({V}),)",
        "{D}.copy().popitem()", "{L}.index({V})", "{L}.count({V})", "sorted({1, {I}} ^ {{I}, 2})", "types.SimpleNamespace(v={V})", "vars(types.SimpleNamespace(v={V}, w={I}))", "id({o}) == id({o})", "{D}.pop({V}, {V})", "collections.Counter({S})",
        "set({T}).symmetric_difference({L})", "collections.Counter({S}).__getitem__({S})", "{S}.join(map(str, {L}))", "dict.fromkeys({T}, {V})", "collections.deque({L}, 3)",
    ],
    # Not over what may grow while it is gone through.
    "Z": ["{z}", "{z}", "{z}", "iter(list({L}))", "iter({T})", "iter({S})", "iter(range({I} % 4))", "enumerate({z})", "enumerate({T}, {I})", "zip({z}, {T})", "zip({z}, {z})", "iter({D}.copy())", "iter({D}.copy().items())", "map(str, {z})", "itertools.islice({z}, 2)", "reversed({T})", "filter(None, {z})", "reversed(list({L}))", "reversed({D}.copy())", "reversed({D}.copy().items())"],
    "K": ["ValueError", "KeyError", "Broken", "Exception"],
    "A": [],
}  # fmt: skip

# Where a row needs a function and none is there. Not `type`: CPython itself crashes where a method of what comes out of it, as
# `np.ndarray.ravel`, is called without arguments a second time.
FUNCTIONS = {"F": ["twice", "Item", "Item.make", "str", "repr", "callable", "gives_back", "(lambda v, w=1: (w, v))", "{o}.bump", "{o}"], "G": ["range", "(lambda q: (v * 2 for v in range(q)))", "(lambda q: steps(q, log))"]}  # fmt: skip

# Statements of one line.
STATEMENTS = [
    "{+i} = {I}", "{+i} = {I}", "{+s} = {S}", "{+l} = {L}", "{+t} = {T}", "{+d} = {D}", "{+o} = {O}", "{+v} = {V}", "{i} += {I}", "{i} -= {I}", "{s} += 'a'", "{+i}, {+i} = {I}, {I}", "{+v}, *{+l} = [{V}, {V}, {V}]",
    "{+v}, {+v} = {T}", "{l}.append({V})", "{l}.insert({I}, {V})", "{l}.pop()", "{l}[{I}] = {V}", "{l}.extend([{V}, {V}])", "{l} += [{V}]", "{l}.reverse()", "del {l}[{I}:]", "{l}[{I}:{I}] = [{V}]", "{l}.clear()", "{l}.remove({V})",
    "{d}[{S}] = {V}", "{d}.pop({S}, None)", "{d}.pop({S})", "{d}.setdefault({S}, []).append({V})", "{d}.update(j={V})", "{d} |= {{S}: {V}}", "del {d}['k']", "{o}.v = {V}", "{o}.w = {V}", "{o}.double = {V}", "{o}.bump({I})", "del {o}.v",
    "log.append({V})", "log.append({V})", "log.append({B})", "log.append({I})", "{+v} = [{V}, {V}]", "SHARED.append({I})", "STATE['n'] = {I}", "STATE['n'] += 1", "setattr({o}, 'w', {V})", "{o}.__dict__['z'] = {V}", "assert {B}, {S}", "{F}({V})",
    "{+i} = ({+i} := {I}) + 1", "for {+i} in range(3): {i} += 1", "if {B}: log.append({V})", "while len({l}) > 4: {l}.pop()", "Item.kind = {S}", "{+o} = Item([{V}])", "{d}['self'] = {d}" , "{l}.append({l})", "{+l} = {l}", "{+d} = {d}", "{+o} = {o}",
    "{l}.sort(key=str)", "{+v} = iter({L})", "{+z} = {Z}", "{+v} = next({z})", "log.append(next({z}, {V}))", "log.append(list({Z}))", "{o}.v = {z}", "{l}.append({z})", "{+v}, {+v} = {Z}", "log.append((next({z}, 1), next({z}, 2)))", "{+v} = ({V} for v in range(2))", "log.extend(zip({L}, {L}))", "{+d} = collections.defaultdict(list)", "{d}.clear()", "{+v} = {F}", "log.append(list({d}.items()))",
    "HISTORY.append({V})", "{+v} = HISTORY[-1]", "log.append(len(HISTORY))", "HISTORY[{I}:] = []", "MEMO[{S}] = {V}", "MEMO.setdefault({I}, []).append({V})", "log.append(MEMO.get({S}, {V}))", "log.append(list(MEMO))", "Tally.n += {I}", "Tally.n += 1", "log.append(Tally.n)", "Tally.best = {V}", "{+v} = Tally.best", "Tally.of[{S}] = Tally.of.get({S}, 0) + 1", "log.append(dict(Tally.of))",
]  # fmt: skip

# What a module has beside `f`, where the program uses it: caches, what calls leave for the next one, and weak references to
# what is gone in the end.
OF_THE_MODULE = {
    "HISTORY": ["HISTORY = []"],
    "MEMO": ["MEMO = {}"],
    "Tally": ["", "", "class Tally:", "    n, best, of = 0, None, {}"],
    "KEPT": ["", "", "@functools.lru_cache(maxsize=None)", "def KEPT(v, w=1):", "    return [v, KEPT(v - 1)] if isinstance(v, int) and 0 < v < 5 else [v, 1 / w]"],
    "FEW": ["", "", "@functools.lru_cache(maxsize=2, typed=True)", "def FEW(v):", "    return v * 2, STATE['n']"],
    "WATCHED": ["WATCHED = []"],
}  # fmt: skip

# Rare: what leaves the function or the block.
EXITS = ["return {V}", "raise Broken({I}, extra={I})", "raise ValueError({S})", "fails({I})", "raise", "return log, {V}", "raise KeyError({I}) from ValueError({S})", "{+i} = unbound_name", "{i} // 0"]  # fmt: skip
LOOP_EXITS = ["break", "continue", "if {B}: break", "if {B}: continue"]

# Statements with blocks.
BLOCKS = [
    "if {B}:\n    BODY",
    "if {B}:\n    BODY\nelse:\n    BODY",
    "if {B}:\n    BODY\nelif {B}:\n    BODY\nelse:\n    BODY",
    "for {+i} in range({I} % 5):\n    LOOP",
    "for {+i} in range(3):\n    LOOP",
    "for {+i} in range(3):\n    LOOP",
    "for {+v} in list({L})[:4]:\n    LOOP",
    "for {+v} in {T}:\n    LOOP",
    "for {+i}, {+v} in enumerate({L}[:4]):\n    LOOP",
    "for {+s} in list({D}):\n    LOOP",
    "for {+v}, {+v} in zip({L}, {T}):\n    LOOP",
    "for {+i} in {G}({I} % 4):\n    LOOP",
    "for {+v} in {z}:\n    LOOP",
    "for {+i}, {+v} in enumerate({Z}):\n    LOOP",
    "for {+i} in range({I} % 4):\n    LOOP\nelse:\n    BODY",
    "fuel = 4\nwhile fuel > 0 and {B}:\n    fuel -= 1\n    LOOP",
    "fuel = 3\nwhile True:\n    fuel -= 1\n    if fuel < 0:\n        break\n    LOOP",
    "fuel = 3\nwhile fuel:\n    fuel -= 1\n    LOOP\nelse:\n    BODY",
    "try:\n    BODY\nexcept {K} as error:\n    log.append(type(error).__name__)\n    BODY",
    "try:\n    BODY\nexcept {K}:\n    BODY\nelse:\n    BODY",
    "try:\n    BODY\nfinally:\n    BODY",
    "try:\n    BODY\nexcept {K}:\n    BODY\nfinally:\n    BODY",
    "try:\n    BODY\nexcept ValueError as error:\n    log.append(error.args)\n    BODY\nexcept Exception as error:\n    log.append(str(type(error)))\n    BODY\n    raise",
    "try:\n    BODY\nexcept {K} as error:\n    raise Broken({I}) from error",
    "try:\n    {V}\nexcept Exception as error:\n    {+v} = error\n    BODY",
    "try:\n    BODY\nexcept* {K} as group:\n    log.append(len(group.exceptions))\n    BODY",
    "with Managed(log):\n    BODY",
    "with Managed(log, swallow={B}) as {+v}:\n    BODY",
    "with Managed(log, tell=True), Managed(log, swallow={B}):\n    BODY",
    "with managed(log) as {+i}:\n    BODY",
    "with managed(log, tell=True) as {+i}:\n    BODY",
    "with contextlib.suppress({K}):\n    BODY",
    "with contextlib.ExitStack() as stack:\n    stack.enter_context(Managed(log))\n    stack.callback(log.append, {V})\n    BODY",
    "match {V}:\n    case int():\n        BODY\n    case [{+v}, *{+l}]:\n        BODY\n    case {'k': {+v}}:\n        BODY\n    case Item(v={+v}):\n        BODY\n    case _:\n        BODY",
    "produced = steps({I} % 4, log)\nfor {+i} in produced:\n    LOOP\nproduced.close()",
    "produced = steps(3, log)\nlog.append(next(produced))\nBODY\nlog.append(produced.send({V}))\nBODY\nlog.append(produced.throw(Broken({I}, extra=1)))",
    "produced = steps({I} % 4, log)\nwhile True:\n    try:\n        {+v} = next(produced)\n    except StopIteration:\n        break\n    LOOP",
    "made = []\nfor {+v} in {L}[:3]:\n    made.append(lambda: ({v}, {V}))\n    LOOP\nlog.extend(each() for each in made)",
    "for {+i} in range(3):\n    try:\n        LOOP\n    except {K}:\n        LOOP\n    finally:\n        BODY",
    "try:\n    BODY\n    return {V}\nfinally:\n    BODY",
    "try:\n    BODY\nexcept {K} as error:\n    log.append(repr(error.__context__))\n    BODY",
    "{+v} = {V}\nBODY\ndel {v}",
    "class Local(Item):\n    kind = {S}\n\n    def bump(self, by=1):\n        log.append(super().bump(by))\n        return {V}, __class__.kind\n{+o} = Local({V})\nlog.append({o}.bump({I}))",
    "class Own:\n    v = {V}\n    items = {L}\n\n    def __init__(self, w):\n        self.w = w\n\n    @property\n    def both(self):\n        return self.v, self.w, {V}\n\n    @classmethod\n    def make(cls, w):\n        cls.v = w\n        return cls(w)\nlog.append(Own.make({V}).both)\nOwn.items.append({V})\nBODY\nlog.append((Own({I}).both, Own.items, Own.__name__))",
    "@dataclasses.dataclass\nclass Own:\n    a: int\n    b: list = dataclasses.field(default_factory=list)\n\n    def __len__(self):\n        return {I}\nown = Own({I}, {L})\nBODY\nlog.append((own == Own({I}), own.a, own.b, bool(own)))",
    "class Own(Broken):\n    def again(self):\n        return {V}, self.args\ntry:\n    BODY\n    raise Own({V}, extra={I})\nexcept {K} as error:\n    log.append((type(error).__name__, isinstance(error, Own) and error.again()))\n    BODY",
    "class Own(enum.Enum):\n    A = 1\n    B = 2\nlog.append(Own({I} % 3).name)\nBODY\nlog.append([each.value for each in Own])",
    "class Own(typing.NamedTuple):\n    a: int\n    b: object = {V}\n\n    def both(self):\n        return self.b, {V}\nown = Own({I})\nBODY\nlog.append((own, own.both(), own._replace(b={V}), own == ({I}, 1), Own._fields))",
    "@functools.lru_cache(maxsize={I} % 3)\ndef own(v, w=1):\n    return v, {V}\nlog.append([own({I}), own({I}), own({I}, w={I})])\nBODY\nlog.append((own({I}), tuple(own.cache_info())))",
    "@functools.lru_cache(typed={B})\ndef own(v):\n    if isinstance(v, int) and 0 < v < 5:\n        return own(v - 1), {V}\n    return v / 2\nlog.append([own({V}), own(2), own.cache_info()])\nBODY\nlog.append((own({V}), tuple(own.cache_info())))\nown.cache_clear()\nlog.append((own(2), own({V}), own.cache_info()))",
    "log.append((KEPT({V}), FEW({I})))\nBODY\nlog.append((FEW({I}), KEPT({V}), KEPT.cache_info(), FEW.cache_info()))\nif {B}: KEPT.cache_clear()\nlog.append((KEPT({V}), FEW({I}), FEW.cache_info()))",
    "made = Item({V})\nlook = weakref.ref(made, lambda dead: log.append('dead'))\nBODY\nlog.append(look() is made)\ndel made\nlog.append(look() is None)",
    "made = Item({V})\nlook = weakref.WeakMethod(made.bump, lambda dead: log.append('dead'))\nBODY\nlog.append(look()({I}))\ndel made\nlog.append(look() is None)",
    "made = Item({V})\nlook = weakref.finalize(made, log.append, {V})\nBODY\nlog.append(look.alive)\ndel made\nlog.append(look.alive)",
    "{+o} = Item({V})\nlook = weakref.ref({o}, lambda dead: log.append('dead'))\nBODY\n{+o} = {O}\nlog.append(look() is None)",
]  # fmt: skip

# What uses a function that was just made.
USES = {
    "F": ["log.append(NAME({V}))", "{+v} = NAME({V}, w={I})", "{+l} = [NAME(v) for v in {L}[:3]]", "{+v} = list(map(NAME, {T}))", "for {+i} in range({I} % 4):\n    log.append(NAME({i}))", "{+l} = sorted({L}, key=lambda v: str(NAME(v)).split(' at ')[0])", "try:\n    NAME({V})\nexcept {K}:\n    BODY"],
    "G": ["{+l} = list(NAME())", "for {+v} in NAME({I}):\n    LOOP", "log.append([v for v in NAME({I}) if {B}])", "{+v}, *{+l} = NAME(3)", "{+v} = NAME()\nlog.append(next({v}, None))", "log.append(dict(enumerate(NAME())))", "{+v} = NAME({I})\nnext({v}, None)\nBODY\nlog.append({v}.send({V}))"],
}  # fmt: skip

# Functions inside: the body sees the outer variables, may write to those declared nonlocal, and `v` and `w` are its own.
DEFINITIONS = [
    "def {+F}(v, w={I}):\n    BODY\n    return {V}",
    "def {+F}(v=None, *args, w={I}, **named):\n    BODY\n    return {V}",
    "@decorated\ndef {+F}(v, w=1):\n    BODY\n    return {V}",
    "@np.errstate(all='ignore')\ndef {+F}(v, w=1):\n    BODY\n    return {V}",
    "def {+F}(v, w={I}):\n    if w <= 0:\n        return {V}\n    BODY\n    return SELF(v, w=min(w, 4) - 1)",
    "def {+G}(w=2):\n    for v in range(min(w, 4)):\n        BODY\n        yield {V}",
    "def {+G}(w=2):\n    yield {V}\n    BODY\n    yield from {L}[:3]",
    "def {+G}(w=2):\n    v = yield w\n    BODY\n    w = yield v, {V}\n    yield w",
    "def {+G}(w=2):\n    try:\n        yield w\n        BODY\n        yield {V}\n    finally:\n        log.append('end')",
]

# What no graph holds: as a statement, and around a value.
BREAKS = [
    "print(end='')", "print({S}, end=';')", "print('p', {I}, end=';')", "cdynamo.graph_break()", "BREAKER()", "left_alone({V})", "gives_back({V})", "sys.getsizeof({I})", "sys.stdout.write('w')", "eval('1 + 1')",
    "{+i} = left_alone({I})", "left_alone(next({z}, 0))", "{+z} = gives_back({z})", "{+l} = left_alone({L})", "{+v} = left_alone({V})", "sys._getframe().f_lineno", "locals()", "{+i} = eval('n')", "exec('pass')", "log.append(left_alone({V}))",
    "log.append(repr(sys.exc_info()[1]))", "log.append(sorted(dir()))",
]  # fmt: skip
BROKEN_VALUES = ["left_alone({0})", "gives_back({0})", "(print(end=''), {0})[1]", "(cdynamo.graph_break(), {0})[-1]"]

# ---- arrays: NumPy's and torch's alike

ARRAYS = {
    "A": [
        "{A} + {A}", "{A} - {A}", "{A} * {A}", "{A} * {I}", "{A} + {I}", "1 - {A}", "-{A}", "abs({A})", "{A} * 0.5", "{A} * 2.5", "{A}[0]", "{A}[-1]", "{A}[1:]", "{A}[:, 1:]", "{A}[..., 0]", "{A}[::2]", "{A}[None]", "{A}.T", "{A}.sum()",
        "{A}.sum(0)", "{A}.sum(-1)", "{A}.max()", "{A}.min()", "{A}.reshape(-1)", "{A}.reshape(3, -1)", "{A}.flatten()", "{A}.clip({I}, 4)", "{A}.argmax()", "{A}.cumsum(0)", "{A} > {A}", "{A} >= {I}", "{A} == {A}", "{A}[{A} > {I}]", "({A} if {B} else {A})",
        "{A} % 3", "{A} // 2", "{A} ** 2", "{F}({A})", "twice({A}, by={I})", "apply(twice, {A})", "sum([{A}, {A}])", "functools.reduce(operator.add, [{A}, {A}, {A}])", "{A} @ {A}.T", "{A}.mean()", "{A} / 2", "{A}[{I}]", "{A} + {V}", "{A} & ({A} > 0)",
        "[v for v in {A}][0]", "max({A}.sum(), 2)", "[{A}, {A}][{I} % 2]", "{'k': {A}}['k']", "Item({A}).v", "next(iter([{A}]))", "(lambda q: q * 2)({A})", "({A} > 0) * {A}", "{A}[:, None]", "{A}.squeeze()", "{A}.all()", "{A}.any()", "{A}.sign().prod()", "{A}.round()", "{A}[[0, 1]]", "{A}[..., :-1]", "{A}[1:, :-1]",
    ],
    "I": ["len({A})", "{A}.ndim", "{A}.shape[0]", "{A}.shape[-1] + {I}", "sum({A}.shape)"],
    "T": ["tuple({A}.shape)", "({A}, {A})", "({A}, {V})"],
    "L": ["[{A}, {A}]", "[v for v in {A}]", "[v * 2 for v in {A}[:2]]", "[{A} + v for v in range({I} % 3)]", "[{A} for v in range(2)]", "list({A}.shape)", "list(map(lambda v: v + 1, [{A}, {A}]))"],
    "D": ["{'k': {A}, 'j': {V}}", "{v: {A} + v for v in range({I} % 3)}"],
    "V": ["{A}", "{A}", "{A}", "{A}.dtype", "{A}.shape", "[{A}]", "{o}.v"],
    "O": ["Item({A})"],
}  # fmt: skip
ARRAY_SHORT = ["{a}", "{a}", "{a}", "{a} + 1"]

# Value-dependent: each breaks the graph.
ARRAY_BREAKS = [
    "{+i} = int({A}.sum())", "{+v} = {A}.sum().item()", "{+l} = {A}.tolist()", "print(int({A}.max()), end=';')", "{+v} = {a}.sum().item() > {I}", "log.append(float({A}.min()))", "log.append(bool(({A} > 0).all()))",
    "print(tuple({A}.shape), end=';')", "{+a} = left_alone({A})", "{+a} = gives_back({A})",
]  # fmt: skip
ARRAY_BROKEN_TESTS = ["{A}.sum() > {I}", "({A} > {I}).any()", "bool({A}.max() > 2)", "{A}.min() < {A}.max()"]
ARRAY_BLOCKS = ["if {a}.sum() > {I}:\n    BODY\nelse:\n    BODY", "for {+a} in {A}:\n    LOOP", "for {+i}, {+a} in enumerate({A}[:3]):\n    LOOP", "for {+i} in range(len({a})):\n    LOOP", "fuel = 3\nwhile {a}.sum() < 20 and fuel > 0:\n    fuel -= 1\n    LOOP"]  # fmt: skip
ARRAY_STATEMENTS = [
    "{+a} = {A}", "{+a} = {A}", "{+a} = {A}", "{+a} = {A}", "{+a} = {A}", "{+a} = {a} + {A}", "{a} += {A}", "{a} += 1", "{a} -= {A}", "{a} *= 2", "{a}[0] = {I}", "{a}[{I} % 2] = {A}", "{a}[...] = {A}", "{a}[:, 0] = {I}", "{a}[1:] += {I}", "{a}[{A} > {I}] = {I}", "{a}[0] += {A}",
    "{l}.append({A})", "{d}['a'] = {A}", "{o}.v = {A}", "{o}.v = {o}.v + {A}", "SHARED.append({A})", "STATE['a'] = {A}", "{+a}, {+a} = {A}, {A}", "log.append({A})", "log.append({A}.shape)", "{a} = {a} * 2", "{+a} = {a}", "{a}[:] = {a}[::-1]" , "{+a} = STATE.get('a', {a}) + 1", "{+a} = {a}[:1]",
    "for {+i} in range(3): {a} = {a} + {i}", "for {+i} in range(2): {a} += {i}", "if {B}: {a} = {A}", "{a} //= 2",
    "if not ({A} < 9).all(): raise ValueError({S})", "if ({A} > {I} + 9).any(): raise Broken({I})", "assert ({a} < 30).all(), {S}", "if {A}.sum().item() > 40: raise KeyError({S})",
    "{+l} = [left_alone(v) + {I} for v in {A}[:2]]", "{+l} = [v * 2 for v in {A}[:2] if gives_back({I}) > 1]", "{+a} = {A}.ravel()[({A} > {I}).ravel()[:1].sum():]",
]  # fmt: skip

NUMPY = {
    "A": [
        "np.where({A} > {I}, {A}, {A})", "np.maximum({A}, {A})", "np.minimum({A}, {I})", "np.concatenate([{a}, {a}])[:6]", "np.stack([{A}, {A}])[0]", "np.zeros(3)", "np.ones_like({A})", "np.arange({I} % 5)", "np.arange(3.0)", "np.sqrt(abs({A}))", "np.sign({A})", "{A}.astype(np.float32)", "{A}.astype(int)", "{A}.copy()",
        "np.zeros({A}.shape)", "np.full_like({A}, {I})", "np.roll({A}, 1)", "np.flip({A})", "np.transpose({A})", "np.dot({A}, {A}.T)", "np.outer({A}, {A})[:3, :3]", "np.diff({A})", "np.sort({A})", "np.argsort({A})", "np.array([{I}, {I}, 1])", "np.asarray({L})", "np.expand_dims({A}, 0)", "np.abs({A})", "np.linspace(0, 4, 5)",
        "np.take({A}, [0, 1])", "{A}.ravel('F')", "{A}[range({A}.shape[0])]", "np.unique({A}, return_inverse=True)[1]", "np.unique({A}, return_counts=True)[1]", "np.repeat({A}, np.arange({A}.shape[0]) % 2, axis=0)", "np.compress({A} > 0, {A})", "np.bincount(np.abs({A}).astype(int).ravel() % 7)", "{A}.flatten('F')[:4]", "np.eye(3) @ {A}.T", "np.count_nonzero({A})", "{A}.ravel()", "{A}.std()", "np.float32({I}) * {A}", "np.tile({A}, 2)[..., :3]", "np.isnan({A})", "np.unique({A})", "np.cumsum({A})", "np.logical_not({A} > 0)", "{A}.swapaxes(0, -1)", "np.broadcast_to({A}, (2, 3))", "np.mod({A}, 4)", "np.floor({A} / 2)",
        "np.clip({A}, 0, {A})", "np.hstack([{a}, {a}])[..., 1:4]", "np.repeat({A}, 2)[:6]", "np.add.reduce({A})", "np.prod({A}[:1] % 2)", "np.nan_to_num({A})", "np.median({A})", "np.trunc({A} / 3)", "np.int64({I}) + {A}", "np.square({A})", "np.negative({A})", "np.split({A}.ravel(), 1)[0]",
        "np.pad({A}, 1)", "np.pad({A}[1:], ((1, 0), (0, 1)))", "np.concatenate([{a}[..., 1:], {a}[..., :1]], -1)", "np.concatenate([np.zeros_like({a}[:1]), {A}[:-1]])",
        "({A} * 8).round().view(np.int16)", "({A} * 8).round().view(np.uint8)", "({A} * 8).round().view(np.float32)", "{A}.astype(np.int32).view(np.int16)", "{A}.astype(np.int16).view(np.int32)", "{A}.astype(np.float16)", "{A}.astype(np.float16).view(np.int16)", "{A}.astype(np.uint8).view(np.int64)", "{A}.flat[{I}]", "{A}.flat[1:3]", "np.array(list({A}.flat))",
        "{R}.normal(size=3)", "{R}.normal({I}, 2, {A}.shape)", "{R}.normal({A})", "{R}.standard_normal((2, 3), dtype=np.float32)", "{R}.random()", "{R}.random(3)", "{R}.random({A}.shape)", "{R}.integers({I}, 9)", "{R}.integers(9, size=(2, 3))", "{R}.integers({A}.shape[0], size=3, dtype=np.int16)", "{R}.uniform(-1, {I}, 3)", "{R}.uniform(size={A}.shape)",
        "{R}.permutation({A})", "{R}.permutation({I})", "{R}.permuted({A}, axis=0)", "{R}.choice({A})", "{R}.choice({I}, 2)", "{R}.choice({A}, 2, replace=False)", "{R}.exponential(size=2)", "({A} + {R}.normal() * 2)", "{A}[{R}.permutation({A}.shape[0])]",
        "np.random.normal(size=3)", "np.random.rand(2, 3)", "np.random.randn(3)", "np.random.random()", "np.random.randint(0, 7, 3)", "np.random.uniform({I}, 9)", "np.random.permutation({A})", "np.random.choice({A}.ravel())", "np.random.RandomState({I}).rand(3)",
    ],
    "I": ["{A}.size", "int(np.prod({A}.shape))", "np.ndim({A})"],
    "V": ["(lambda q: q.size and q.strides)({A})", "np.float64({I})", "{A}.flags['C_CONTIGUOUS']", "(lambda q: q.size and q.T.strides)({A})"],
    "L": ["{R}.integers(5, size=2).tolist()", "list({A}.flat)[:4]"],
    "R": ["{r}", "{r}", "RNG", "np.random.default_rng({I})", "np.random.default_rng({R})", "({R} if {B} else {R})", "{R}.spawn(1)[0]", "np.random.Generator(np.random.MT19937({I}))"],
}  # fmt: skip
# Not resize(): it asks how many references there are, and whether the memory is NumPy's own.
NUMPY_STATEMENTS = ["np.add({A}, 1, out={a})", "np.add({A}, 1, out={a}, where={a} > {I})", "{a}[range(2)] = {I}", "np.multiply({a}, {A}, out={a})", "{a}.sort()", "{a}.fill({I})", "np.copyto({a}, {A})", "{a}.T[0] = {I}", "{a}.shape = (-1,)", "np.put({a}, [0], {I})", "{a}.ravel()[0] = {I}", "np.add.at({a}, [0, 0], 1)", "{a}.flat[0] = {I}", "{a}.flat[1:] = {I}", "{a}.flat = {A}", "{a}.view(np.int16)[..., 0] = {I}", "{a}.view(np.uint8)[..., :1] = {I}", "{a}.view(np.int32)[0] += 1", "{+a} = {a}.view(np.int16)", "{+a} = {a}.view(np.float32)", "{R}.shuffle({a})", "{R}.shuffle({a}, axis=-1)", "{R}.shuffle({l})", "np.random.shuffle({a})", "np.random.seed(abs({I}))", "{+r} = {R}", "log.append({R}.random())", "log.append({R}.integers({I}, size=2))", "if isinstance({a}, np.ndarray): {R}.random(out={a})", "{o}.v = {R}", "{+i} = int({R}.integers(4))", "{a} += {R}.normal(size={a}.shape)"]  # fmt: skip
NUMPY_BLOCKS = [
    "with np.errstate(all='ignore'):\n    BODY",
    "for {+i} in np.ndindex({I} % 3 + 1):\n    LOOP",
    "for {+v} in np.arange({I} % 4):\n    LOOP",
    "for {+t}, {+v} in np.ndenumerate({A}):\n    LOOP",
    "for {+v} in {A}.flat:\n    LOOP",
    "for {+i} in range({I} % 4):\n    {+a} = {R}.normal(size=({I} % 3, 2))\n    LOOP",
    "if {R}.random() < 0.5:\n    BODY\nelse:\n    BODY",
]

TORCH = {
    "A": [
        "torch.where({A} > {I}, {A}, {A})", "torch.maximum({A}, {A})", "torch.cat([{a}, {a}])[:6]", "torch.stack([{A}, {A}])[1]", "torch.zeros(3)", "torch.ones_like({A})", "torch.arange({I} % 5)", "torch.arange(3.0)", "{A}.abs().sqrt()", "{A}.sign()", "{A}.float()", "{A}.long()", "{A}.double()", "{A}.clone()", "{A}.detach()", "{A}.relu()",
        "{A}.to({A}.dtype)", "torch.full_like({A}, {I})", "{A}.roll(1)", "{A}.flip(0)", "{A}.t()", "{A}.transpose(0, -1)", "{A}.unsqueeze({I} % 2)", "{A}.view(-1)", "{A}.expand(2, *{A}.shape)[0]", "{A}.narrow(0, 0, 1)", "{A}.diff()", "{A}.sort().values", "{A}.max(0).values", "{A}.min(-1)[1]", "torch.tensor([{I}, {I}, 1])", "{A}.amax(0)",
        "{A}.unbind(0)[0]", "{A}.split(1)[-1]", "{A}.chunk(2)[0]", "{A}.contiguous()", "{A}.permute(*range({A}.dim())[::-1])", "{A}.masked_fill({A} > {I}, 0)", "{A}.index_select(0, torch.tensor([0]))", "torch.nn.functional.relu({A})", "{A}.new_zeros(3)", "{A}.cumsum(-1)", "{A}.logical_not()", "{A}.norm()", "{A}.clamp(min={I})", "torch.outer({A}, {A})[:3, :3]",
        "{A}.view({A}.shape)", "{A}.tril()", "{A}.mT", "{A}.nonzero()", "{A}.diagonal()", "{A}.add({A}, alpha=2)", "torch.add({A}, {I})", "{A}.take(torch.tensor([0]))", "{A}.repeat(2)[:6]", "torch.nn.functional.pad({A}, (1, 1))[..., :3]", "{A}.isnan()", "{A}.data", "{A}.unfold(0, 1, 1)", "torch.linalg.vector_norm({A})", "{A}.select(0, 0)", "{A}.tile(2)[..., :3]", "{A}.square()",
        "torch.nn.functional.pad({A}, (1, 0, 0, 1))", "torch.nn.functional.pad({A}[1:], (0, 1, 1, 0))", "torch.cat([{a}[..., -1:], {a}[..., :-1]], -1)", "torch.cat([torch.zeros_like({a}[:1]), {A}[:-1]])",
        "torch.isin({A}, torch.tensor([0, 1, 2]))", "torch.from_numpy(np.asarray({A}.detach()) + 1)", "torch.as_tensor(np.sqrt(abs({A}.detach().numpy())))",
        "torch.vmap(lambda q: q * {I} + q.sum())({A})", "torch.vmap(lambda q: (q * {A}).sum())({A})", "torch.vmap(lambda q: q.cumsum(0) if q.dim() else q - 1)({A})", "torch.vmap(lambda q: torch.where(q > {I}, q, -q), out_dims=-1)({A})",
        "{A}.norm(dim=-1)", "torch.IntTensor([{I}, 2])",
        "torch.rand(3, generator=torch.Generator().manual_seed({I}))", "(lambda q: torch.randn({A}.shape, generator=q) * torch.rand((), generator=q))(torch.Generator().manual_seed({I}))", "torch.randperm(3, generator=torch.Generator('cpu').manual_seed({I} + 7))",
        "{A}.cfloat()", "({A} * 1j).imag", "({A}.cfloat() * (1 + 2j)).abs()", "torch.complex({A}.float(), {A}.float()).conj()", "torch.view_as_real({A}.cfloat())", "torch.fft.rfft({A}.float()).real", "({A} + {I}j)", "torch.view_as_complex(torch.stack([{A}.float(), {A}.float()], -1))",
        "({A} * 8).round().view(torch.int16)", "({A} * 8).round().view(torch.uint8)", "({A} * 8).round().view(torch.int32)", "({A} * 8).round().view(torch.float64)", "{A}.int().view(torch.int16)", "({A} * 8).round().float().view(torch.uint8)", "{A}.int().view(torch.int64)", "{A}.to(torch.uint8).view(torch.int32)", "{A}.bfloat16()", "{A}.half()", "{A}.bfloat16().view(torch.int16)", "{A}.short().view(torch.bfloat16)",
        "(lambda q: torch.nn.functional.binary_cross_entropy(q.sigmoid(), (q > {I}).float()))({A}.float())", "(lambda q: torch.nn.functional.cross_entropy(q, q.argmax(-1), weight=torch.arange(1.0, 4), label_smoothing=0.25))({A}.float())", "torch.nn.functional.cross_entropy({A}.float(), {A}.float().softmax(-1), torch.arange(1.0, 4), reduction='none')",
        "torch.nn.functional.cross_entropy({A}.float(), {A}.long(), ignore_index=1, label_smoothing=0.5)", "torch.nn.functional.instance_norm({A}.float().reshape(1, 3, -1), eps=1.0)", "Bent.apply({A}.float())", "torch.func.grad(lambda q: Bent.apply(q).sum() * {I})({A}.float()).contiguous()", "torch.vmap(lambda p: torch.func.grad(lambda q: Bent.apply(q).sum())(p))({A}.float()).contiguous()", "torch.vmap(lambda q: Bent.apply(q) + {I})({A}.float())",
    ],
    "I": ["len({{a}, {a}})", "len({{A}, {a}, {a}})", "{A}.dim()", "{A}.numel()", "{A}.size(0)", "{A}.storage_offset()"],
    "B": ["{a} in {{a}, {A}}", "{a} in {D}", "{{a}, {a}} == {{a}}", "{{a}} <= {{a}, {A}}", "{A}.is_contiguous()", "{A}.is_floating_point()", "{A}.requires_grad", "torch.is_grad_enabled()", "torch.is_tensor({V})"],
    "D": ["{{a}: {V}}", "{{a}: {V}, {A}: {V}}", "dict.fromkeys([{a}, {a}], {I})", "{v: {V} for v in {A}[:2]}"],
    "V": ["{{a}, {a}}", "frozenset([{a}, {A}])", "{{a}} | {{a}}", "{{a}, {A}} & {{a}}", "{{A}, {a}} - {{a}}", "next(iter({{a}}))", "{{a}: {V}}[{a}]", "{D}.get({a})", "{A}.size()", "(lambda q: q.numel() and q.stride())({A})", "{A}.device", "(lambda q: q.numel() and q.T.stride())({A})", "{A}.is_leaf", "{A}.grad"],
}  # fmt: skip
TORCH_STATEMENTS = [
    "{d}[{a}] = {V}", "{d}[{a}] = {d}.get({a}, 0) + {I}", "{+v} = {d}.pop({a}, {V})", "MEMO[{a}] = {V}", "log.append({a} in MEMO)", "{+v} = MEMO.get({a}, {V})", "MEMO.setdefault({a}, {A}).add_({I})", "{+a} = sum({{a}, {a}})", "{+a} = sorted({{a}, {A}, {a}}, key=lambda q: float(q.double().sum()))[0]", "log.append(sorted(len(v) for v in {{A}, {A}}))",
    "{a}.add_({A})", "{a}.mul_(2)", "{a}.zero_()", "{a}.copy_({A})", "{a}.view(-1)[0] = {I}", "{a}.t_()", "{a}.relu_()", "{a}.clamp_({I}, 5)", "{a}[0].add_({I})", "{a}.T.mul_({A})", "{a}.fill_({I})", "{a}.masked_fill_({A} > 0, {I})", "torch.add({A}, 1, out={a})", "{a}.sub_({A}[0])", "{a}.neg_()",
    "{a}.unsqueeze_(0)", "{a}.index_fill_(0, torch.tensor([0]), {I})", "{a}.squeeze_()", "{a}.detach().add_(1)", "{a}.narrow(0, 0, 1).fill_({I})", "{a}.index_add_(0, torch.tensor([0]), {A}[:1])", "{a}.diagonal().zero_()", "{a}.data.add_(1)", "{a}.expand(2, -1, -1)[0].add_(1)", "{a}.gt_({A})", "{a}.eq_({I})", "{a}.ne_({A})", "{a}.le_({A}[0])", "{a}.logical_not_()", "{a}.logical_and_({A})",
    "{a}.view(torch.int16)[..., 0] = {I}", "{a}.view(torch.uint8)[..., :1].fill_({I})", "{a}.view(torch.int32)[0] += 1", "{+a} = {a}.view(torch.int16)", "{+a} = {a}.view(torch.bfloat16)", "{+a} = {A}.bfloat16()",
    "with torch.no_grad(): {a}.clamp_({I}, 5)", "with torch.no_grad(): {a}.mul_(0.5)", "with torch.no_grad(): {a}[0] = {A}", "with torch.no_grad(): {a}.copy_({A})",
]  # fmt: skip
TORCH_BLOCKS = [
    "if {a} in MEMO:\n    BODY\nelse:\n    MEMO[{a}] = {A}\n    BODY",
    "for {+a} in {{a}}:\n    LOOP",
    "for {+a}, {+v} in {{a}: {V}, {a}: {V}}.items():\n    LOOP",
    "{+v} = {{a}, {A}}\n[q.add_({I}) for q in {v}]\n{v}.discard({a})\nBODY\n{v}.add({a})\nlog.append((len({v}), {a} in {v}))",
    "with torch.no_grad():\n    BODY",
    "with torch.enable_grad():\n    BODY",
    "with torch.set_grad_enabled({B}):\n    BODY",
    "{+a} = {A} * 0.5\nwith torch.no_grad():\n    {a}.clamp_({I})\n    BODY",
    "class Own(torch.autograd.Function):\n    generate_vmap_rule = True\n\n    @staticmethod\n    def forward(q):\n        return q * {I}\n\n    @staticmethod\n    def setup_context(ctx, inputs, output):\n        ctx.save_for_backward(*inputs)\n\n    @staticmethod\n    def backward(ctx, g):\n        return g * ctx.saved_tensors[0]\n{+a} = torch.vmap(lambda p: torch.func.grad(lambda q: Own.apply(q).sum())(p))({A}.float()).contiguous()\nBODY\n{+a} = Own.apply({A})",
    "class Own(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, q, w=2):\n        BODY\n        return q * w\n\n    @staticmethod\n    def backward(ctx, g):\n        return g * 3, None\nWATCHED.append(weakref.ref(Own))\n{+a} = Own.apply({A})\nBODY\n{+a} = Own.apply({A}, {I})\nBODY",
]
TORCH_BREAKS = [
    "{+v} = {A}.sum().tolist()",
    "{+a} = torch.from_numpy({a}.detach().numpy())",
    "torch._dynamo.graph_break()",
    "{+a} = {A}.detach().numpy().sum()",
    "log.append({A}.data_ptr() == {a}.data_ptr())",
]
NUMPY_BREAKS = [
    "{+v} = np.array2string({A}.astype(int))",
    "np.shares_memory({A}, {a})",
    "{+a} = np.fromiter([{I}, {I}], dtype=float)",
    "log.append({A}.tobytes()[:2] == b'')",
]

# Where gradients flow: smooth, so that how a sum is ordered decides nothing.
TRAINING = {"A": ["{A}.sin()", "{A}.tanh()", "({A} * {A}).mean()", "{A}.sigmoid()", "torch.nn.functional.softplus({A})", "{A}.softmax(-1)", "{A}.exp().clamp(max=9)", "{A}.pow(2).sum(-1)", "{A}.float().cos()"]}  # fmt: skip
# Gradients are multiplied by 1: eager's own may be expanded, or not, as its formulas happen to give them.
TRAINING_BREAKS = ["{a}.sum().backward()", "{a}.retain_grad()", "{a}.requires_grad_()", "{+v} = [v if v is None else v * 1 for v in torch.autograd.grad({a}.sum(), {a}, allow_unused=True)]"]  # fmt: skip

# ---- modules: NET is the program's own, the same in all calls

MODULES = {
    "A": [
        "NET({A}.float())", "NET({A}.float())", "NET({A}.float(), by={I})", "NET(x.float())", "NET(y.float())", "NET.linear({A}.float())", "NET.linear.weight", "NET.linear.weight[0]", "NET.seen", "NET.layers[{I} % 2]({A})",
        "NET.layers[-1].by", "torch.nn.functional.linear({A}.float(), NET.linear.weight)", "sum(v.sum() for v in NET.parameters())", "NET.state_dict()['seen']", "torch.nn.Sequential(*NET.layers)({A})", "{A}.sin()",
        "NET.norm({A}.float().reshape(1, 3, -1))", "NET.norm(x.float().reshape(-1, 3, 1).expand(-1, 3, 2))", "NET.norm.running_mean", "torch.nn.functional.instance_norm({A}.float().reshape(1, 3, -1), NET.norm.running_mean, NET.norm.running_var, use_input_stats={B}, momentum=0.5, eps=1.0)",
    ],
    "I": ["NET.calls", "len(NET.layers)", "NET.scale", "sum(v.numel() for v in NET.parameters())", "len(list(NET.modules()))"],
    "B": ["NET.training", "hasattr(NET, 'extra')", "isinstance(NET.layers[0], Scale)", "NET.linear.bias is None", "any(v.requires_grad for v in NET.parameters())", "NET.linear.weight.grad is None"],
    "S": ["type(NET.layers[0]).__name__", "[name for name, _ in NET.named_parameters()][{I} % 3]"],
    "V": ["NET.extra", "list(NET.state_dict())", "[type(v).__name__ for v in NET.children()]", "NET.linear.weight.grad", "NET.linear.bias", "[v.by for v in NET.layers]"],
    "L": ["[v(x) for v in NET.layers]", "list(NET.buffers())"],
}  # fmt: skip
MODULE_STATEMENTS = [
    "{+a} = NET({A}.float())", "{+a} = NET(x.float(), by={I})", "NET.calls += 1", "NET.scale = {I}", "NET.train({B})", "NET.eval()", "NET.extra = {A}", "NET.extra = {V}", "del NET.extra", "NET.seen.add_({I})", "NET.seen = NET.seen + 1",
    "NET.layers.append(Scale({I}))", "NET.layers[0] = Scale(3)", "NET.layers[0].by = {I}", "NET.requires_grad_({B})", "NET.zero_grad()", "NET.linear.weight.requires_grad_({B})", "NET.linear.bias = None",
    "NET.linear.weight.data.mul_(0.5)", "NET.__dict__['z'] = {I}", "NET.forward = lambda q, by=1: q * by", "NET.register_forward_hook(lambda module, args, result: result * 2)", "NET.linear.register_forward_pre_hook(lambda module, args: (args[0] + 1,))",
    "NET.linear.weight = torch.nn.Parameter(NET.linear.weight.detach() + 1)", "NET.layers[1].register_buffer('more', {A}.detach())", "NET.double()", "NET.apply(lambda v: log.append(type(v).__name__))", "NET.linear = Scale({I})",
    "NET({A}.float()).sum().backward()", "NET.linear.weight.grad = None",
]  # fmt: skip
MODULE_BLOCKS = [
    "for {+v} in NET.layers:\n    log.append({v}({A}))\n    LOOP",
    "for {+s}, {+v} in NET.named_parameters():\n    log.append(({s}, {v}.shape))\n    LOOP",
    "with torch.no_grad():\n    NET.linear.weight.mul_({I})\n    BODY",
    "for {+i} in range(3):\n    {+a} = NET(x.float(), by={i})\n    LOOP",
]

# ---- arguments

VALUES = {
    "n": ["1", "2", "0", "3", "5", "-1", "7", "True"],
    "m": ["0", "1", "2", "4"],
    "s": ["'s'", "'ab'", "''", "'sks'"],
    "l": ["[1, 2]", "[]", "[1, 'a', None]", "[3, [4], 5]", "[(1, 2), {}]", "[0] * 5"],
    "d": ["{'k': 1}", "{}", "{'k': 'v', 'j': [1]}", "{'k': {'k': 2}}", "{'s': 0, 1: 2}"],
    "o": ["Item(1)", "Item('w')", "Item([1])", "Item(None)"],
    "z": [
        "iter([1, 2, 3])",
        "iter([2.5, [1], None])",
        "iter(())",
        "iter((1, 'a'))",
        "iter(range(5))",
        "enumerate(['a', 'b'])",
        "zip([1, 2], 'ab')",
        "iter({'k': 1, 'j': 2})",
        "iter({'k': [1]}.items())",
        "iter('ab')",
        "map(abs, [1, -2])",
        "(v for v in [3, 4])",
        "iter({1, 2})",
    ],
    "r": [
        "np.random.default_rng(3)",
        "np.random.default_rng(3)",
        "RNG",
        "np.random.Generator(np.random.MT19937(5))",
        "np.random.Generator(np.random.Philox(1))",
    ],
}
SHAPES = {
    "x": ["(2, 3)", "(2, 3)", "(3, 3)", "(4, 3)", "(1, 3)", "(0, 3)"],
    "y": ["(3,)", "(3,)", "(3,)", "(2, 3)", "(1,)", "()"],
}
# In place of the 3 above, in some of the programs: numbers of lanes of a vector, one less and one more. In others calls differ in it.
WIDTHS = [15, 16, 17, 33]
# How a program is compiled where not by default, and how it tells of a dim whose size may change.
DYNAMIC = ["True", "False"]
MARKS = ["marked({0}, 0)", "marked({0}, -1)"]
DTYPES = ["float32", "float64", "float64", "int64", "float32", "bool"]
NUMPY_ARRAY = "np.arange({size}).reshape({shape}).astype(np.{dtype}){tail}"
TORCH_ARRAY = "torch.arange({size}).reshape({shape}).to(torch.{dtype}){tail}"
TAILS = ["", "", "", " - 2", " * 2", "[..., ::-1]", ".T"]
