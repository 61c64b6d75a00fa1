"""Decoder and assembler: every function of many standard library modules, and programs run after a round trip."""

import dis
import importlib
import inspect
import opcode
import types

import pytest
from bytecode_programs import PROGRAMS

from cdynamo import _C

MODULES = """
    argparse ast asyncio.base_events asyncio.locks asyncio.queues asyncio.streams asyncio.taskgroups
    asyncio.tasks base64 bdb calendar cmd codecs collections concurrent.futures.thread configparser
    contextlib copy csv ctypes dataclasses datetime decimal difflib dis doctest email.message
    email._header_value_parser enum fileinput fractions ftplib functools getopt glob graphlib gzip heapq
    html.parser http.client http.server importlib._bootstrap importlib.metadata inspect ipaddress
    json.decoder json.encoder locale logging.config logging.handlers lzma mailbox mimetypes
    multiprocessing.pool multiprocessing.managers numbers optparse os pathlib pdb pickle pickletools
    platform plistlib pprint profile pstats pydoc queue random re selectors shelve shlex shutil smtplib
    socket socketserver sqlite3 ssl statistics string subprocess symtable tarfile tempfile textwrap
    threading timeit tokenize trace traceback turtle types typing unittest.case unittest.mock urllib.parse
    urllib.request uuid warnings weakref xml.dom.minidom xml.etree.ElementTree xmlrpc.client zipfile
""".split()

# Instructions that are written as several: where the parts had positions of their own, those of the last one are kept.
MERGED = {"KW_NAMES", "PRECALL", "LOAD_CONST", "POP_TOP", "EXTENDED_ARG"}


def code_objects(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from code_objects(constant)


def module_codes(name):
    try:
        module = importlib.import_module(name)
        source = inspect.getsource(module)
    except (ImportError, OSError, TypeError):
        pytest.skip(f"no source of {name}")
    yield from code_objects(compile(source, module.__file__, "exec"))


def handler_of_each_offset(code):
    table = {}
    for entry in dis._parse_exception_table(code):
        for offset in range(entry.start, entry.end, 2):
            table[offset] = (entry.target, entry.depth, entry.lasti)
    instructions = [i.offset for i in dis.get_instructions(code)]
    return {offset: table.get(offset) for offset in instructions}


def instruction_positions(code):
    return [(i.opname, None if i.opname in MERGED else tuple(i.positions)) for i in dis.get_instructions(code)]


FIELDS = """
    co_argcount co_cellvars co_code co_consts co_filename co_firstlineno co_flags co_freevars
    co_kwonlyargcount co_name co_names co_nlocals co_posonlyargcount co_qualname co_varnames
""".split()


@pytest.mark.parametrize("name", MODULES)
def test_round_trip_of_a_module(name):
    for code in module_codes(name):
        again = _C._roundtrip(code)
        for field in FIELDS:
            assert getattr(again, field) == getattr(code, field), (code, field)
        assert again.co_stacksize >= code.co_stacksize
        assert again.co_stacksize <= code.co_stacksize + 3
        assert handler_of_each_offset(again) == handler_of_each_offset(code)
        assert instruction_positions(again) == instruction_positions(code)


@pytest.mark.parametrize("name", MODULES)
def test_stack_depths_agree_with_the_exception_table(name):
    for code in module_codes(name):
        instructions, handlers = _C._decode(code)
        for op, arg, arg2, offset, handler, depth, position in instructions:
            if depth >= 0:
                assert depth <= code.co_stacksize + 1, (code, op, offset)
                if handler >= 0:
                    assert depth >= handlers[handler][1], (code, op, offset)


@pytest.mark.parametrize("name", ["argparse", "asyncio.tasks", "enum", "typing", "unittest.mock"])
def test_decoding_what_was_encoded_anew_gives_the_same(name):
    for code in module_codes(name):
        before = _C._decode(code)
        after = _C._decode(_C._reencode(code, 0))
        essence = [[(i[0], i[1], i[2], i[4], i[5], i[6]) for i in program[0]] for program in (before, after)]
        assert len(essence[0]) <= len(essence[1])
        if len(essence[0]) == len(essence[1]):
            for a, b in zip(*essence):
                # 3.11 has no opcode for a conversion alone or for truth: those come back as others.
                assert a == b or a[0] in ("CONVERT_VALUE", "FORMAT_SIMPLE")
        assert [h[1:] for h in before[1]] == [h[1:] for h in after[1]]


def rebuild(code, how):
    constants = tuple(rebuild(c, how) if isinstance(c, types.CodeType) else c for c in code.co_consts)
    return how(code.replace(co_consts=constants))


HOWS = {
    "round trip": _C._roundtrip,
    "encoded anew": lambda code: _C._reencode(code, 0),
    "with long jumps": lambda code: _C._reencode(code, 150),
    "with very long jumps": lambda code: _C._reencode(code, 33000),
}


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_behave_the_same(name, how):
    try:
        code = compile(PROGRAMS[name], f"<{name}>", "exec")
    except SyntaxError:
        pytest.skip("syntax of a later version")
    results = []
    for candidate in (code, rebuild(code, HOWS[how])):
        namespace = {"__name__": "__main__"}
        exec(candidate, namespace)
        results.append(namespace["result"])
    assert results[0] == results[1]
    assert results[0]


def test_tracebacks_keep_lines():
    def fails(x):
        y = x.missing(  # one expression on several lines
            1,
        )
        return y

    fails.__code__ = _C._reencode(fails.__code__, 3)
    first = fails.__code__.co_firstlineno
    with pytest.raises(AttributeError) as info:
        fails(1)
    assert info.traceback[-1].lineno + 1 == first + 1
    lines = {position[:2] for position in fails.__code__.co_positions()}
    assert (first + 1, first + 3) in lines


def test_table_is_that_of_the_running_version():
    caches = opcode._inline_cache_entries
    rows = _C._opcodes()
    for name, number, num_caches in rows:
        assert opcode.opmap[name] == number
        assert num_caches == (caches.get(name, 0) if isinstance(caches, dict) else caches[number])
    internal = {"CACHE", "INTERPRETER_EXIT", "RESERVED", "EXIT_INIT_CHECK", "ENTER_EXECUTOR"}
    public = {n for n, number in opcode.opmap.items() if number < 256 and not n.startswith("INSTRUMENTED_")}
    assert {name for name, _, _ in rows} == public - internal


def names_of(function):
    return [i[0] for i in _C._decode(function.__code__)[0]]


def test_canonical_forms_of_all_versions():
    def calls(f, x):
        f(x, key=x)
        f.method(x)
        return f(*x, **x)

    ops = names_of(calls)
    assert ops.count("CALL_KW") == 1 and ops.count("LOAD_METHOD") == 1 and ops.count("CALL_FUNCTION_EX") == 1
    assert not {"KW_NAMES", "PRECALL"} & set(ops)

    def others(x):
        if x < 1:
            return 1
        return f"{x!r:>4}", x[1:2], lambda *, k=1: x

    ops = names_of(others)
    assert {
        "COMPARE_OP",
        "POP_JUMP_IF_FALSE",
        "BUILD_SLICE",
        "BINARY_SUBSCR",
        "CONVERT_VALUE",
        "FORMAT_WITH_SPEC",
        "LOAD_CLOSURE",
        "MAKE_FUNCTION",
        "SET_FUNCTION_ATTRIBUTE",
    } <= set(ops)
    assert "RETURN_CONST" not in ops
    compare = next(i for i in _C._decode(others.__code__)[0] if i[0] == "COMPARE_OP")
    assert compare[1] == 0


def test_specialised_code_decodes_as_the_plain_one():
    def hot(x):
        total = 0
        for i in range(x):
            total += i
        return total

    before = _C._decode(hot.__code__)
    for _ in range(100):
        hot(100)
    assert _C._decode(hot.__code__) == before


def test_not_a_code_object():
    with pytest.raises(TypeError):
        _C._decode(1)
