// NumPy's products of arrays: matmul, dot, inner, outer, tensordot, einsum, trace and their kin.
#include <algorithm>
#include <array>
#include <map>

#include "graph/ops/numpy_rules.h"
#include "graph/strides.h"

namespace cdynamo::graph {
namespace {

void require_same(Builder& b, const Sym& x, const Sym& y, const char* what) {
  if (!b.sym().guard_eq(x, y, what)) value_error(std::string(what) + ": the shapes do not fit");
}

// (.., M, K) x (.., K, N) of one dtype. Integers are multiplied and summed; the products of bool are "any of
// both".
Tensor multiply(Builder& b, Tensor x, Tensor y) {
  require_same(b, x.size(-1), y.size(-2), "matmul");
  if (is_float(x.dtype())) return matmul(x, y);
  Tensor pairs = unsqueeze(x, -1) * unsqueeze(y, -3);
  const Dims inner = {pairs.rank() - 2};
  return x.dtype() == DType::kBool ? any(pairs, inner) : sum(pairs, inner);
}

std::pair<Tensor, Tensor> promoted(Builder& b, Tensor x, Tensor y) {
  const DType dtype = numpy_common_dtype(b.graph(), {x, y});
  return {cast(x, dtype), cast(y, dtype)};
}

Tensor product(Builder& b, Tensor x, Tensor y) {
  std::tie(x, y) = promoted(b, x, y);
  if (x.rank() == 0 || y.rank() == 0)
    value_error(
        "matmul: Input operand does not have enough dimensions (has 0, gufunc core with signature "
        "(n?,k),(k,m?)->(n?,m?) requires 1)");
  if (x.rank() == 1 && y.rank() == 1)
    return squeeze(squeeze(multiply(b, unsqueeze(x, 0), unsqueeze(y, 1)), 1), 0);
  if (x.rank() == 1) return squeeze(multiply(b, unsqueeze(x, 0), y), -2);
  if (y.rank() == 1) return squeeze(multiply(b, x, unsqueeze(y, 1)), -1);
  return multiply(b, x, y);
}

// The sums over the last dim of x and the second last of y, for each pair of the other dims.
Tensor dot(Builder& b, Tensor x, Tensor y) {
  if (x.rank() == 0 || y.rank() == 0) return x * y;
  if (x.rank() <= 2 && y.rank() <= 2) return product(b, x, y);
  if (y.rank() <= 2) return product(b, x, y);
  std::vector<Sym> sizes(x.sizes().begin(), x.sizes().end() - 1);
  Dims order = {y.rank() - 2};
  Sym columns = 1, rows = 1;
  for (int64_t d = 0; d < y.rank(); ++d) {
    if (d == y.rank() - 2) continue;
    order.push_back(d);
    columns = columns * y.size(d);
    sizes.push_back(y.size(d));
  }
  for (int64_t d = 0; d + 1 < x.rank(); ++d) rows = rows * x.size(d);
  Tensor left = reshape(x, {rows, x.size(-1)}), right = reshape(permute(y, order), {y.size(-2), columns});
  return reshape(product(b, left, right), sizes);
}

Tensor inner(Builder& b, Tensor x, Tensor y) {
  if (x.rank() == 0 || y.rank() == 0) return x * y;
  if (y.rank() == 1) return product(b, x, y);
  Dims order;
  for (int64_t d = 0; d < y.rank(); ++d) order.push_back(d);
  std::swap(order[y.rank() - 1], order[y.rank() - 2]);
  return dot(b, x, permute(y, order));
}

// A product with a number is numpy.multiply, unless the BLAS multiplies matrices of the dtype: into an array in C order.
void number_product_order(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  const std::vector<Arg> operands = {args["a"], args["b"]};
  bool with_number = false;
  int64_t most = 0;
  for (const Arg& operand : operands) {
    const auto* value = std::get_if<Value*>(&operand);
    const int64_t rank = value ? (*value)->type.rank() : 0;
    with_number |= rank == 0;
    most = std::max(most, rank);
  }
  const bool blas = most <= 2 && (results[0].dtype == DType::kF32 || results[0].dtype == DType::kF64);
  results[0].strides = with_number && !blas ? numpy_operand_strides(*graph.sym, results[0], operands)
                                            : contiguous_strides(results[0].sizes);
}

Tensor outer(Tensor x, Tensor y) { return unsqueeze(numpy_flat(x), 1) * unsqueeze(numpy_flat(y), 0); }

// Sums over the paired dims; the others of x, then those of y.
Tensor tensordot(Builder& b, Tensor x, Tensor y, Dims left, Dims right) {
  if (left.size() != right.size()) value_error("shape-mismatch for sum");
  Dims x_order, y_order = right;
  std::vector<Sym> sizes;
  Sym rows = 1, columns = 1, shared = 1;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (std::find(left.begin(), left.end(), d) != left.end()) continue;
    x_order.push_back(d);
    rows = rows * x.size(d);
    sizes.push_back(x.size(d));
  }
  for (size_t i = 0; i < left.size(); ++i) {
    require_same(b, x.size(left[i]), y.size(right[i]), "shape-mismatch for sum");
    x_order.push_back(left[i]);
    shared = shared * x.size(left[i]);
  }
  for (int64_t d = 0; d < y.rank(); ++d) {
    if (std::find(right.begin(), right.end(), d) != right.end()) continue;
    y_order.push_back(d);
    columns = columns * y.size(d);
    sizes.push_back(y.size(d));
  }
  Tensor flat = product(b, reshape(permute(x, x_order), {rows, shared}),
                        reshape(permute(y, y_order), {shared, columns}));
  return reshape(flat, sizes);
}

std::vector<Value*> tensordot_body(Builder& b, const Args& args) {
  Tensor x = numpy_array(b, args, "a"), y = numpy_array(b, args, "b");
  const int64_t count = args.constant("axes");
  if (count > x.rank() || count > y.rank() || count < 0) value_error("shape-mismatch for sum");
  Dims left, right;
  for (int64_t i = 0; i < count; ++i) {
    left.push_back(x.rank() - count + i);
    right.push_back(i);
  }
  return one(tensordot(b, x, y, left, right));
}

Tensor diagonal_sum(Builder& b, Tensor a, int64_t offset, int64_t dim1, int64_t dim2) {
  Tensor diagonal = wrap(b, b.call1("core.diagonal", {a.value, Sym(offset), Sym(dim1), Sym(dim2)}));
  if (!is_float(diagonal.dtype()))
    diagonal = cast(diagonal, runtime::is_unsigned(diagonal.dtype()) ? DType::kU64 : DType::kI64);
  return sum(diagonal, {diagonal.rank() - 1});
}

std::vector<Value*> trace_body(Builder& b, const Args& args) {
  Tensor a = numpy_array(b, args, "a");
  if (a.rank() < 2) value_error("diag requires an array of at least two dimensions");
  const int64_t axis1 = wrap_dim(args.constant("axis1"), a.rank()),
                axis2 = wrap_dim(args.constant("axis2"), a.rank());
  if (axis1 == axis2) value_error("axis1 and axis2 cannot be the same");
  return one(diagonal_sum(b, a, args.constant("offset"), axis1, axis2));
}

void trace_order(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  TensorType kept = args.value("a")->type;
  int64_t axis1 = wrap_dim(args.constant("axis1"), kept.rank()),
          axis2 = wrap_dim(args.constant("axis2"), kept.rank());
  if (axis1 < axis2) std::swap(axis1, axis2);
  for (int64_t axis : {axis1, axis2}) {
    kept.sizes.erase(kept.sizes.begin() + axis);
    kept.strides.erase(kept.strides.begin() + axis);
  }
  results[0].strides = numpy_strides(*graph.sym, kept.sizes, {&kept});
}

// numpy.multiply of arrays with twice as many dims, reshaped: in its order where the reshape is a view.
void kron_order(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  const auto *a = std::get_if<Value*>(&args["a"]), *b = std::get_if<Value*>(&args["b"]);
  if (!a || !b || (*b)->type.rank() == 0) return ufunc_order(graph, args, results);
  const size_t rank = results[0].sizes.size();
  TensorType product = results[0];
  product.sizes.clear();
  std::array<TensorType, 2> operands;
  for (size_t d = 0; d < rank; ++d)
    for (size_t own = 0; own < 2; ++own) {
      Sym count = 1;
      for (size_t i = 0; i < 2; ++i) {
        const TensorType& type = (i == 0 ? *a : *b)->type;
        const size_t missing = rank - type.sizes.size();
        const bool is_there = i == own && d >= missing;
        operands[i].sizes.push_back(is_there ? type.sizes[d - missing] : Sym(1));
        operands[i].strides.push_back(is_there ? type.strides[d - missing] : Sym());
        count = count * operands[i].sizes.back();
      }
      product.sizes.push_back(count);
    }
  product.strides = numpy_strides(*graph.sym, product.sizes, {&operands[0], &operands[1]});
  const auto view = view_strides(*graph.sym, product, results[0].sizes);
  results[0].strides = view ? *view : contiguous_strides(results[0].sizes);
}

// Products of vectors of three along the last dim.
std::vector<Value*> cross_body(Builder& b, const Args& args) {
  Tensor x = numpy_array(b, args, "a"), y = numpy_array(b, args, "b");
  if (x.rank() == 0 || y.rank() == 0 || !(x.size(-1) == Sym(3)) || !(y.size(-1) == Sym(3)))
    throw Unsupported("numpy: cross of other vectors than of three");
  if (args.has("axis") && !(args.integer("axis") == Sym(-1)))
    throw Unsupported("numpy: cross along another axis than the last one");
  const auto part = [](Tensor t, int64_t i) { return slice(t, t.rank() - 1, i, 1); };
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < 3; ++i)
    parts.push_back(part(x, (i + 1) % 3) * part(y, (i + 2) % 3) -
                    part(x, (i + 2) % 3) * part(y, (i + 1) % 3));
  return one(concat(parts, parts[0].rank() - 1));
}

template <Tensor (*combine)(Builder&, Tensor, Tensor)>
std::vector<Value*> binary_body(Builder& b, const Args& args) {
  return one(combine(b, numpy_array(b, args, args.schema().params[0].name),
                     numpy_array(b, args, args.schema().params[1].name)));
}
Tensor outer_of(Builder&, Tensor x, Tensor y) { return outer(x, y); }
Tensor vdot_of(Builder& b, Tensor x, Tensor y) { return product(b, numpy_flat(x), numpy_flat(y)); }

}  // namespace

std::vector<OpDef> numpy_linalg_ops() {
  return {
      numpy_function("np.matmul", {"np.matmul(Tensor x1, Tensor x2) -> Tensor"}, binary_body<product>,
                     {"np.linalg.matmul"}),
      numpy_function("np.dot", {"np.dot(Tensor a, Tensor b) -> Tensor"}, binary_body<dot>, {},
                     number_product_order),
      numpy_function("np.inner", {"np.inner(Tensor a, Tensor b) -> Tensor"}, binary_body<inner>, {},
                     number_product_order),
      numpy_function("np.vdot", {"np.vdot(Tensor a, Tensor b) -> Tensor"}, binary_body<vdot_of>),
      numpy_function("np.outer", {"np.outer(Tensor a, Tensor b) -> Tensor"}, binary_body<outer_of>,
                     {"np.linalg.outer"}),
      numpy_function("np.tensordot", {"np.tensordot(Tensor a, Tensor b, int axes=2) -> Tensor"},
                     tensordot_body),
      numpy_function("np.trace", {"np.trace(Tensor a, int offset=0, int axis1=0, int axis2=1) -> Tensor"},
                     trace_body, {}, trace_order),
      numpy_function("np.cross", {"np.cross(Tensor a, Tensor b, *, int? axis=None) -> Tensor"}, cross_body),
      numpy_function("np.kron", {"np.kron(Tensor a, Tensor b) -> Tensor"},
                     CDYNAMO_BODY(return forward(
                         b, "kron", {numpy_array(b, args, "a").value, numpy_array(b, args, "b").value})),
                     {}, kron_order),
  };
}

}  // namespace cdynamo::graph
