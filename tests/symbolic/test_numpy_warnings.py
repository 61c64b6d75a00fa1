"""Warnings that NumPy's own functions give: once for each call, where the program has said that they go."""

import warnings

import pytest

np = pytest.importorskip("numpy")

import cdynamo  # noqa: E402

ALL_NAN = np.full((3, 3), np.nan)


def recorded(s):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = np.nanmedian(s)
    return result, [str(warning.message) for warning in seen]


def as_errors(s):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return np.nanmedian(s)
        except RuntimeWarning as warning:
            return str(warning)


def ignored(s):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.nanmedian(s)


def outcome(function, *args):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = function(*args)
    return repr(result), [str(warning.message) for warning in seen]


@pytest.mark.parametrize("program", [recorded, as_errors, ignored])
@pytest.mark.parametrize(
    "argument", [ALL_NAN, np.longdouble("nan"), np.float64("nan")], ids=["array", "long", "double"]
)
def test_a_warning_goes_where_the_program_says(program, argument):
    fast = cdynamo.optimize(program)
    for _ in range(2):
        assert outcome(fast, argument) == outcome(program, argument)


def test_what_is_made_while_capturing_warns_no_second_time():
    def program():
        return np.nanmedian(np.longdouble("nan"))

    fast = cdynamo.optimize(program)
    for _ in range(3):
        assert outcome(fast) == outcome(program)


def test_the_filters_are_left_as_they_are():
    def program(x):
        return x + np.nanmedian(np.longdouble(2))

    before = warnings.filters
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cdynamo.optimize(program)(np.longdouble(1)) == 3
    assert warnings.filters is before


@pytest.mark.parametrize("dtype", ["G", np.clongdouble, np.dtype("G")], ids=str)
def test_long_double_stays_long(dtype):
    def program(x):
        y = x.astype(dtype)
        return y.dtype, y.sum().dtype, (y + 1).dtype, np.zeros(3, dtype).dtype

    for x in (np.eye(3), np.eye(3, dtype=np.complex128)):
        assert cdynamo.optimize(program)(x) == program(x)
