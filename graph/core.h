// The core operators: the whole vocabulary of a core graph, which is what lowering reads.
//
// A core graph is pure; every size in it is a Sym; strides of its values are meaningless but for inputs and outputs
// (each output must be produced with TensorType::strides). Half dtypes: operators compute in float32 and round their
// result.
//
// Pointwise
//   Any OpDef of Family::kPointwise. All operands have the node's sizes. Their dtypes are what the scalar code reads
//   (after half -> float32); its result is cast to the node's dtype. Non-tensor arguments go to the scalar code through
//   Args. Scalar operands (weak numbers) are core.full nodes.
//
//   core.cast(Tensor self, ScalarType dtype)                C's conversion; to bool: != 0
//   core.bitcast(Tensor self, ScalarType dtype)             the same bits, of as many bytes; also a view: it looks at the
//                                                           storage of `self`
//   core.full(int[] size, Scalar value, ScalarType dtype)   one value everywhere
//   core.iota(int[] size, int dim, ScalarType dtype)        the index along `dim`
//
// Views: index maps, no data moves
//
//   core.expand(Tensor self, int[] size)                    equal rank; sizes of 1 become size[d]
//   core.permute(Tensor self, int[] dims)
//   core.reshape(Tensor self, int[] size)                   row-major order kept
//   core.slice(Tensor self, int[] start, int[] size, int[] step)
//       one entry for each dim; out[i] = self[start + i*step]; step may be < 0
//   core.diagonal(Tensor self, int offset, int dim1, int dim2)
//       as torch.diagonal: the new dim is last
//   core.window(Tensor self, int[] dims, int[] kernel, int[] stride, int[] padding, int[] dilation, int[] out,
//               Scalar fill)
//       out[..o_d.., k..] = self[.. o_d*stride - padding + k*dilation ..], `fill` outside; one new trailing dim for
//       each of `dims`; `out` gives the new sizes of those dims. Pooling is a reduction over the trailing dims.
//   core.pad(Tensor self, int[] low, int[] high, Scalar fill)
//       one entry for each dim, none negative
//
// For derivatives, and gone before lowering: each gives `self`
//
//   core.detach(Tensor self)                                no gradient flows through it
//   core.own(Tensor self)                                   the gradient that flows through is row-major, and no view
//   core.copy(Tensor self)                                  a tensor of eager's own: what is written to `self` later is
//                                                           not read through it
//   core.follow(Tensor self, Tensor leader)                 `leader` gets a gradient of zeros
//   core.slope(Tensor self, Tensor source, Tensor? slope)   the gradient goes to `source`, times `slope`, not to `self`
//   core.softmax(Tensor self, Tensor source, int dim, bool logarithm)
//                                                           the gradient goes to `source`, whose softmax `self` is, and
//                                                           reads the result alone
//   core.unit_strides(Tensor self, int[] strides)           along dims of one element the gradient, a view, has these
//                                                           strides
//   core.function(Graph backward, Tensor(a!)[] outputs, Tensor[] inputs, Tensor[] saved, int optional, int[] places,
//                 bool frees)
//       gives `outputs`, which the forward of a Function of the user has made of `inputs`, cut from them; the gradients
//       of `inputs` are what `backward` gives for those of `outputs` (zeros for one that does not come), `saved` and the
//       results. Of the last `optional` of `outputs` it matters which gradients come: `places` says for each set of them
//       (bit i of its number: the i-th) and each of `inputs`, which result of `backward` is its gradient, or -1. Where there
//       are other outputs, and no gradient comes for any of these, there is none. `frees`: eager's backward reads what it
//       has freed afterwards, and is refused a second time
//
// For views, and gone before lowering
//
//   core.regroup(Tensor self, ScalarType source, ScalarType dtype)
//       the same bytes as elements of another width, of which the last dim has as many more or fewer; `source`: the
//       dtype of `self`
//
// Indexing: an index out of range raises IndexError, or what `error` names; negative indices count from the end
//
//   core.concat(Tensor[] values, int dim)
//   core.gather(Tensor self, Tensor index, int dim, str error)
//       as torch.gather: out[i][j] = self[index[i][j]][j] for dim 0
//   core.index(Tensor self, Tensor[] indices, str error)
//       indices of one shape S for the leading k dims: out[S.., rest..]
//   core.slice_scatter(Tensor self, Tensor src, int[] start, int[] step)
//       self with src written over that slice
//   core.diagonal_scatter(Tensor self, Tensor src, int offset, int dim1, int dim2)
//   core.scatter(Tensor self, Tensor index, Tensor src, int dim, str reduce, str error)
//       reduce: "", "sum", "prod", "amax", "amin"; in index order
//   core.index_put(Tensor self, Tensor[] indices, Tensor values, bool accumulate, str error)
//
// Reductions over `dims` (sorted, >= 0), which disappear; accumulated in the compute type
//
//   core.sum, core.prod, core.amax, core.amin, core.any, core.all (Tensor self, int[] dims)
//   core.shared_max, core.shared_min (Tensor self, int[] dims)  all dims; as amax and amin, but for gradients that are not finite
//   core.max, core.min (Tensor self, int[] dims)            as amax and amin; the gradient goes to one element
//   core.argmax, core.argmin (Tensor self, int[] dims)      one dim, or all (index in row-major order); int64
//
// Scans along `dim`, shape kept
//
//   core.cumsum, core.cumprod (Tensor self, int dim, bool stepwise=False)
//       stepwise: each running value is rounded to the dtype before the next is made of it
//   core.cummax_values, core.cummin_values, core.logcumsumexp (Tensor self, int dim)
//
// What a mask selects. All of one dim; `counts` is what core.running_counts gives for the mask and `block`
//
//   core.running_counts(Tensor self, int block)             of true elements, at the end of each block of `block` elements
//   core.compress(Tensor self, Tensor mask, Tensor counts, int block, int count)
//       the elements of self where the mask is true, in order: `count` of them
//
// Contractions: the node's dtype is the operands'; accumulated in the compute type
//
//   core.mm(Tensor self, Tensor mat2)                       (M,K) x (K,N)
//   core.bmm(Tensor self, Tensor mat2)                      (B,M,K) x (B,K,N)
//   core.addmm(Tensor self, Tensor mat2, Tensor addend, float beta, float alpha)      rounded once
//   core.convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation,
//                    bool transposed, int[] output_padding, int groups)
//   core.convolution_weight_grad(Tensor windows, Tensor image, int[] size, int[] stride, int[] padding,
//                    int[] dilation, int groups)
//       image is the input of a plain convolution, windows its result's gradient; `size` is the weight's
//   core.sdpa(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool is_causal, float scale)
//       (B,H,L,E); attn_mask is additive, float, and broadcasts; a row that sees nothing gives 0. Also the rows'
//       log-sum-exp, in the compute type. Attention written out by hand is recognised before the graph is
//       differentiated, so that the backward is core.sdpa_backward.
//   core.sdpa_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor? attn_mask, Tensor out,
//                    Tensor logsumexp, bool is_causal, float scale)
//       the gradients of query, key and value
//
// Numbers of tensors as sizes
//
//   core.read_int(Tensor self, int symbol)
//       `self`, an int64 or float64 number, rounded towards zero, is the value of the symbol for all nodes that mention it.
//       Always runs. Where the number is out of the symbol's range, or does not fit what was assumed of it, the call ends in
//       an error before anything is written
//
// Random
//
//   core.random(str distribution, Tensor? probability, int[] size, float first, float second, ScalarType dtype,
//               Tensor? after, int[] order=[], Generator? generator=None)
//       numbers of the framework's generator, or the program's (its handle, an int64 number), in the order of the graph: never removed, merged or repeated.
//       uniform: from, to; normal: mean, deviation; bernoulli: probability; bernoulli_tensor: one for each element;
//       integers: 0 .. first-1; exponential, geometric: rate; cauchy, log_normal: two numbers. Of what `probability` says: poisson,
//       standard_gamma, dirichlet (a row each), binomial (counts over probabilities), multinomial: how many, and whether a
//       category may be drawn again. permutation: of as many numbers as there are. `after`: a random op that comes before; `order`: the dims in the
//       order of eager's memory, outermost first; none: row-major
//
// The framework's operators
//
//   core.library(Tensor[] inputs, str name, str attributes, int call, int differentiable, int[] gradient_strides=[])
//       called at run time by the number `call`; name and attributes are for readers. Results have the types that
//       capture found. `differentiable`: a bit for each that has a gradient, from bit 10 on one for each float operand
//       that has, and bit 20 where the derivative reads the results; -1: none is known; -2: PyTorch has none. `gradient_strides`: those of
//       the gradients of all float operands; none: row-major
//   core.library_backward(Tensor[] inputs, Tensor[] grads, str name, int call)
//       the gradients of the operator's operands of a float type; `inputs` are these, and its results where the derivative
//       reads them. `call`: that of the operator, and a bit for each result whose
//       gradient is in `grads`
#pragma once

#include "graph/op.h"

namespace cdynamo::graph {

// Numbers of library calls are multiples of 1 << kMostLibraryResults.
inline constexpr int kMostLibraryResults = 10;
// Values of `differentiable`.
inline constexpr int64_t kNoDerivative = -1, kNeverDifferentiable = -2;
// Its bits. From kUnsaved on: operands that eager does not save, so that programs may write to them.
inline constexpr int kReadsResults = 2 * kMostLibraryResults, kUnsaved = kReadsResults + 1;

bool is_core(const OpDef& op);

}  // namespace cdynamo::graph
