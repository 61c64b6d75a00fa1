"""What NumPy makes of 0-dim arrays and of scalars: an array, or a scalar."""

import pytest

np = pytest.importorskip("numpy")

import cdynamo  # noqa: E402

EXPRESSIONS = [
    "np.pad(x,1)", "np.tile(x,1)", "np.roll(x,1)", "np.flip(x)", "np.flip(x,0)", "np.repeat(x,1)", "np.sort(x,axis=None)",
    "np.clip(x,0,1)", "np.around(x)", "np.copy(x)", "np.ravel(x)", "np.squeeze(x)", "np.nan_to_num(x)",
    "np.where(x>0,x,x)", "np.take(x,0)", "np.full_like(x,2)", "np.cumsum(x)", "np.transpose(x)",
    "np.broadcast_to(x,())", "np.reshape(x,())", "np.asarray(x)", "np.expand_dims(x,0)", "np.diff(x,n=0)",
    "np.tril(x)", "np.kron(x,x)", "np.outer(x,x)", "np.dot(x,x)", "np.inner(x,x)", "np.tensordot(x,x,0)",
    "np.einsum('->',x)", "np.select([x>0],[x])", "np.piecewise(x,[x>0],[1])", "np.interp(x,[0,1],[0,1])",
    "np.real(x)", "np.angle(x)", "np.i0(x)", "np.sinc(x)", "np.digitize(x,[0,1])", "np.searchsorted([0,1],x)",
    "np.isclose(x,x)", "np.fix(x)", "np.heaviside(x,x)", "np.logical_and(x,x)", "np.maximum(x,x)",
    "np.rot90(np.atleast_2d(x))", "np.median(x)", "np.percentile(x,50)", "np.append(x,x)", "np.choose(0,[x,x])",
    "np.stack([x])", "np.moveaxis(x[None],0,0)", "np.squeeze(x[None])", "np.max(x)", "np.ptp(x)", "np.argmax(x)",
    "np.linalg.norm(x)", "np.linalg.norm(x,axis=0)", "np.zeros_like(x)", "np.ones_like(x)", "np.empty_like(x)*0", "np.abs(x)", "x+0", "x.copy()",
    "x.astype(float)", "x.reshape(())", "x.clip(0,1)", "x.round()", "x.sum()", "x.T", "x[...]", "x[()]",
    "x.squeeze()", "x.take(0)", "np.unique(x)", "np.cov(x)", "np.vander(np.atleast_1d(x))",
    "np.gradient(np.atleast_1d(x).repeat(3))", "np.cross([1,2,3],[x,x,x])", "np.pad(x[None],1)",
    "np.trim_zeros(np.atleast_1d(x))", "np.resize(x,(2,2))", "np.delete(np.atleast_1d(x),0)",
    "np.insert(np.atleast_1d(x),0,1)", "np.block([[x,x]])", "np.meshgrid(x,x)[0]",
    "np.apply_along_axis(np.sum,0,np.atleast_1d(x))", "np.lexsort((np.atleast_1d(x),))", "np.argsort(x,axis=None)",
    "np.partition(np.atleast_1d(x),0)", "np.cumprod(x)", "np.swapaxes(x[None],0,0)", "np.rollaxis(x[None],0)",
    "np.fliplr(np.atleast_2d(x))", "np.array(x)", "np.array([x,x])", "np.ascontiguousarray(x)", "np.asarray(x)[()]",
    "np.nansum(x)", "np.average(x)", "np.var(x)", "np.std(x)", "np.all(x)", "np.sign(x)", "np.floor(x)",
    "np.conj(x)", "np.imag(x)", "np.rint(x)", "np.quantile(x,0.5)", "np.triu(np.atleast_2d(x))",
    "np.trace(np.atleast_2d(x))", "np.diag(np.atleast_1d(x))", "np.diagonal(np.atleast_2d(x))", "np.hstack([x,x])",
    "np.vstack([x,x])", "np.dstack([x,x])", "np.column_stack([np.atleast_1d(x)]*2)",
    "np.concatenate([np.atleast_1d(x)]*2)", "np.split(np.atleast_1d(x),1)[0]", "np.pad(x,0)",
    "np.pad(x,1,mode='edge')", "np.pad(x,1,constant_values=3)",
]  # fmt: skip
OPERANDS = [
    np.float64(1.5), np.array(1.5), np.array(True), np.array(3), np.int64(3), np.complex128(1 + 2j), np.array(1 + 2j), np.array(2j, np.complex64),
]  # fmt: skip


def outcome(function, x):
    try:
        result = function(x)
    except Exception as error:
        return type(error), str(error)
    return type(result), getattr(result, "dtype", None), getattr(result, "shape", None), str(result)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_of_no_dims(expression):
    function = eval(f"lambda x: {expression}", {"np": np})
    compiled = cdynamo.optimize(function)
    for x in OPERANDS:
        assert outcome(compiled, x) == outcome(function, x)
