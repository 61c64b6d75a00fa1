"""bytearray, io.StringIO and io.BytesIO that captured code makes."""

from __future__ import annotations

import io
import logging

import pytest
from values_check import check

import cdynamo


def bytes_written(n):
    data = bytearray(b"abc")
    alias = data
    data.append(n)
    data += b"xy"
    data[0] = 5
    data.extend([1, 2])
    data[1:3] = b"long"
    del data[2]
    data.insert(0, 7)
    popped = data.pop(), data.pop(0)
    return (
        data,
        alias is data,
        popped,
        len(data),
        sum(bytes(data)),
        [*bytes(data)[:3]],
        data[-1],
        bytes(data),
        120 in data,
    )


def bytes_asked(n):
    data = bytearray(range(65, 70))
    found = data.find(b"C"), data.decode(), data.hex(), data.lower(), data.startswith(b"AB"), data == b"ABCDE", not data
    copied = data.copy()
    copied.reverse()
    more = (
        bytearray(n) + data * 2,
        data < b"Z",
        bytearray("text", "utf8"),
        data.split(b"C") if False else data.count(b"A"),
    )
    return found, copied, more, b"-" + data, isinstance(data, bytearray), data.isupper()


def bytes_refused(n):
    data, found = bytearray(b"a"), []
    for action in (
        lambda: data.append(300),
        lambda: data[9],
        lambda: {data: 1},
        lambda: data.index(b"z"),
        lambda: data + "a",
    ):
        try:
            action()
        except Exception as error:
            found.append((type(error).__name__, str(error)))
    return found, data


def text_written(n):
    stream = io.StringIO()
    written = stream.write("hello\n"), stream.write("world")
    print("a", n, [1, 2], sep="-", end="!\n", file=stream)
    print(file=stream)
    position = stream.tell()
    stream.seek(0)
    lines = [line.strip() for line in stream]
    stream.seek(2)
    return (
        written,
        lines,
        position,
        stream.read(3),
        stream.readline(),
        stream.getvalue(),
        isinstance(stream, io.TextIOBase),
    )


def text_in_a_region(n):
    with io.StringIO("one\ntwo\n") as stream:
        lines = stream.readlines()
        closed = stream.closed
    try:
        stream.getvalue()
    except ValueError as error:
        return lines, closed, stream.closed, str(error)


def bytes_stream(n):
    stream = io.BytesIO(b"start")
    stream.seek(0, io.SEEK_END)
    stream.write(b"-end")
    stream.truncate(7)
    return stream.getvalue(), stream.tell(), stream.closed, stream.readable()


@pytest.mark.parametrize(
    "fn",
    [bytes_written, bytes_asked, bytes_refused, text_written, text_in_a_region, bytes_stream],
    ids=lambda fn: fn.__name__,
)
def test_mirrored_objects(fn):
    check(fn, (3,), (4,))


def test_streams_leave_as_they_are():
    def made(n):
        stream, data, raw = io.StringIO("abc"), bytearray(n), io.BytesIO(b"xyz")
        stream.read(1)
        raw.seek(2)
        cdynamo.graph_break()
        stream.write("Z")
        return stream, data, raw, raw.read()

    cdynamo.config.keep_empty_graphs = True
    fast = cdynamo.optimize(made)
    for _ in range(2):
        stream, data, raw, rest = fast(2)
        assert stream.getvalue() == "aZc" and stream.tell() == 2 and data == bytearray(2) and rest == b"z"
        assert type(stream) is io.StringIO and raw.tell() == 3


def test_tensors_in_text_are_left_to_python():
    torch = pytest.importorskip("torch")

    def described(x):
        stream = io.StringIO()
        print("x is", x + 1, file=stream)
        return stream.getvalue(), x * 2

    x = torch.ones(2)
    assert cdynamo.optimize(described)(x)[0] == described(x)[0]


def test_loggers_are_found(caplog):
    def logs(n):
        logger = logging.getLogger("cdynamo_test.found")
        logger.warning("n is %s", n)
        return logger.isEnabledFor(logging.DEBUG), logger.name, logging.getLogger() is logging.root, logger

    cdynamo.config.keep_empty_graphs = True
    fast = cdynamo.optimize(logs, fullgraph=True)
    for n in range(2):
        found = fast(n)
        assert found == logs(n) and found[3] is logging.getLogger("cdynamo_test.found")
        assert [record.message for record in caplog.records[-2:]] == [f"n is {n}"] * 2


def test_an_iterator_of_one_that_grows():
    cdynamo.config.keep_empty_graphs = True

    def program(n):
        data = bytearray(b"ab")
        items = iter(data)
        first = list(items)
        data.append(n)
        return first, list(items), list(data)

    assert cdynamo.optimize(program)(9) == program(9)
