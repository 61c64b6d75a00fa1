"""Functions of two dims: in either order, and one twice, which eager refuses."""

import pytest

torch = pytest.importorskip("torch")

import cdynamo  # noqa: E402

FUNCTIONS = {
    "rot90": lambda x, d: torch.rot90(x, 1, d),
    "flip": lambda x, d: torch.flip(x, d),
    "roll": lambda x, d: torch.roll(x, (1, 2), d),
    "norm of columns": lambda x, d: torch.linalg.matrix_norm(x, 1, d),
    "norm of rows": lambda x, d: torch.linalg.matrix_norm(x, float("inf"), d),
    "norm": lambda x, d: torch.linalg.norm(x, "fro", d),
    "linalg.norm": lambda x, d: torch.linalg.norm(x, 1, d),
    "tensordot": lambda x, d: torch.tensordot(x, x, dims=(d, d)),
    "movedim": lambda x, d: torch.movedim(x, d, (0, 1)),
    "diagonal": lambda x, d: torch.diagonal(x, 0, *d),
    "diag_embed": lambda x, d: torch.diag_embed(x, 0, *d),
    "transpose": lambda x, d: x.transpose(*d),
    "squeeze": lambda x, d: x.squeeze(d),
    "logsumexp": lambda x, d: x.logsumexp(d),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_pairs_of_dims(name):
    function, x = FUNCTIONS[name], torch.arange(24.0).reshape(2, 3, 4)

    def outcome(f, dims):
        try:
            return f(x, dims)
        except (RuntimeError, IndexError) as error:
            return str(error)

    for dims in [(0, 1), (1, 0), (2, 0), (-1, 1), (0, 0), (1, -2), (0, 3)]:
        cdynamo.reset()
        expected, got = outcome(function, dims), outcome(cdynamo.optimize(function), dims)
        if isinstance(expected, str):
            assert got == expected
        else:
            torch.testing.assert_close(got, expected)
