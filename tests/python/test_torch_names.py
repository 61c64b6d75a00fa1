"""Names of torch.compiler and torch._dynamo that programs call: obeyed as under torch.compile."""

from __future__ import annotations

import gc

import pytest

torch = pytest.importorskip("torch")
import torch._dynamo  # noqa: E402, F811

import cdynamo  # noqa: E402

X = torch.arange(12.0).reshape(4, 3)


def double(x):
    return x * 2 + x.shape[0]


def sizes(mark, counts, values=(5, 7, 9, 2)):
    """How many graphs calls with these numbers of rows make."""
    compiled = cdynamo.optimize(double)
    for rows in values:
        x = torch.ones(rows, 3)
        mark(x)
        assert torch.equal(compiled(x), double(x))
    return counts.graphs_compiled


@pytest.mark.parametrize("name", ["mark_dynamic", "maybe_mark_dynamic", "mark_unbacked"])
def test_a_marked_size_is_dynamic_from_the_first_call_on(name, counts):
    mark = getattr(torch._dynamo, name, None) or getattr(torch._dynamo.decorators, name)
    assert sizes(lambda x: mark(x, 0), counts) == 1


def test_a_size_that_is_marked_static(counts):
    assert sizes(lambda x: torch._dynamo.mark_static(x, 0), counts) == 4


def test_marks_of_one_and_of_nothing(counts):
    compiled = cdynamo.optimize(double)
    for rows in (1, 0, 3, 1, 4):
        x = torch.ones(rows, 3)
        torch._dynamo.mark_dynamic(x, 0)
        assert torch.equal(compiled(x), double(x))
    assert counts.graphs_compiled == 3


STANCES = [
    lambda stance: torch.compiler.set_stance(stance),
    lambda stance: cdynamo.set_stance(stance),
]  # fmt: skip


@pytest.fixture(params=STANCES, ids=["torch", "cdynamo"])
def set_stance(request):
    yield request.param
    torch.compiler.set_stance("default")
    cdynamo.set_stance("default")


def test_force_eager(set_stance, counts):
    compiled = cdynamo.optimize(double)
    set_stance("force_eager")
    assert torch.equal(compiled(X), double(X)) and counts.graphs_compiled == 0
    set_stance("default")
    assert torch.equal(compiled(X), double(X)) and counts.graphs_compiled == 1
    set_stance("force_eager")
    assert torch.equal(compiled(X), double(X)) and counts.cache_hits == 0


def test_eager_on_recompile(set_stance, counts):
    compiled = cdynamo.optimize(double)
    compiled(X)
    set_stance("eager_on_recompile")
    for x in (X, X.int(), X[:2]):
        assert torch.equal(compiled(x), double(x))
    assert counts.graphs_compiled == 1 and counts.cache_hits == 1


def test_fail_on_recompile(set_stance, counts):
    compiled = cdynamo.optimize(double)
    compiled(X)
    set_stance("fail_on_recompile")
    assert torch.equal(compiled(X), double(X))
    with pytest.raises(RuntimeError, match="fail_on_recompile"):
        compiled(X.int())
    set_stance("default")
    assert torch.equal(compiled(X.int()), double(X.int())) and counts.graphs_compiled == 2


def test_eager_then_compile(set_stance, counts):
    compiled = cdynamo.optimize(double)
    set_stance("eager_then_compile")
    for graphs in (0, 1, 1):
        assert torch.equal(compiled(X), double(X)) and counts.graphs_compiled == graphs


def test_a_stance_for_a_while(counts):
    compiled = cdynamo.optimize(double)
    with torch.compiler.set_stance("force_eager"):
        compiled(X)

    @torch.compiler.set_stance("force_eager")
    def program():
        return compiled(X)

    program()
    assert counts.graphs_compiled == 0
    compiled(X)
    assert counts.graphs_compiled == 1


def test_assume_constant_result(counts):
    values = [3]

    @torch._dynamo.assume_constant_result
    def value(add=0):
        return values[0] + add

    compiled = cdynamo.optimize(lambda x: x * value() + value(1), fullgraph=True)
    assert torch.equal(compiled(X), X * 3 + 4)
    values[0] = 5
    assert torch.equal(compiled(X), X * 3 + 4)
    assert counts.graphs_compiled == 1


@torch.compile(backend="eager")
def compiled_by_torch(x, scale=2):
    return x * scale


def test_what_torch_compile_wraps_is_inlined():
    def program(x):
        return compiled_by_torch(x) + compiled_by_torch(x, scale=3)

    assert torch.equal(cdynamo.optimize(program, fullgraph=True)(X), X * 5)


def test_allow_in_graph_and_disable(counts):
    @torch._dynamo.allow_in_graph
    def allowed(x):
        return x + 1

    @torch.compiler.disable
    def disabled(x):
        return x * 3

    assert torch.equal(cdynamo.optimize(lambda x: allowed(x) * 2, fullgraph=True)(X), (X + 1) * 2)
    assert torch.equal(cdynamo.optimize(lambda x: disabled(x + 1) * 2)(X), (X + 1) * 6)
    assert counts.graph_breaks == 1


@pytest.mark.filterwarnings("ignore:.torch.jit.script")
def test_what_torch_jit_has_scripted_is_inlined(counts):
    def scripted(scale: int):
        @torch.jit.script
        def gate(a, b, n: int):
            return torch.tanh(a + b)[:, :n] * torch.sigmoid(a + b)[:, n:]

        @torch.jit.script
        def gate_of_two(a, b, n: int):
            return gate(a * 2, b, n)

        return gate_of_two if scale == 2 else gate

    function = lambda x, gate: gate(x, x + 1, 2) * 3
    compiled = cdynamo.optimize(function, fullgraph=True)
    gates = scripted(1), scripted(2)
    for gate in (*gates, *gates):  # a guard tells them apart
        x, y = (torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_() for _ in range(2))
        got, expected = compiled(x, gate), function(y, gate)
        torch.testing.assert_close(got, expected)
        got.sum().backward()
        expected.sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
    assert counts.graphs_compiled == 2 and counts.graph_breaks == 0


def attention_flags():
    names = ("flash", "mem_efficient", "math", "cudnn", "overrideable")
    return [getattr(torch._C, f"_get_{name}_sdp_enabled")() for name in names]


def test_sdpa_kernel():
    """The flags are as the program has set them: within the region at a break, and restored at its end."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def f(q):
        with sdpa_kernel([SDPBackend.MATH]):
            y = torch.nn.functional.scaled_dot_product_attention(q, q, q)
        return y * 2

    def broken(q, seen):
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            y = q * 2
            cdynamo.graph_break()
            seen.append(attention_flags())
        return y + 1

    def left(q):
        torch.backends.cuda.enable_flash_sdp(False)
        return q + 1

    q, before = torch.randn(1, 2, 8, 4), attention_flags()
    compiled = cdynamo.optimize(f, fullgraph=True)
    for _ in range(2):
        assert torch.allclose(compiled(q), f(q), atol=1e-6)
    expected, got = [], []
    assert torch.equal(broken(q, expected), cdynamo.optimize(broken)(q, got)) and expected == got
    assert attention_flags() == before
    try:
        cdynamo.optimize(left, fullgraph=True)(q)
        assert attention_flags() == [False, *before[1:]]
    finally:
        torch.backends.cuda.enable_flash_sdp(before[0])


def test_substitute_in_graph(counts):
    """Of a function in C, and of one in Python whose own code is not captured."""

    def length(values):
        open("/dev/null").close()
        return len(values)

    @torch.compiler.substitute_in_graph(length)
    def traced(values):
        total = 0
        for _ in values:
            total += 1
        return total

    @torch.compiler.substitute_in_graph(gc.get_count)
    def get_count():
        return 1, 2, 3

    def program(x):
        return x * length([1, 2]) + sum(gc.get_count()), x + traced([x])

    scaled, added = cdynamo.optimize(program, fullgraph=True)(X)
    assert torch.equal(scaled, X * 2 + 6)
    assert torch.equal(added, X + 1)
    assert counts.graph_breaks == 0
