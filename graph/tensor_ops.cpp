// The sugar of builder.h.
#include <algorithm>

#include "graph/broadcast.h"
#include "graph/builder.h"
#include "graph/strides.h"

namespace cdynamo::graph {

static Tensor call(Builder& b, std::string_view op, std::vector<Arg> args) {
  return wrap(b, b.call1(op, std::move(args)));
}

static std::vector<Sym> to_syms(const Dims& dims) { return std::vector<Sym>(dims.begin(), dims.end()); }

Sym Tensor::size(int64_t dim) const { return value->type.sizes.at(dim < 0 ? dim + rank() : dim); }

// ---- pointwise ------------------------------------------------------------------------------------------

Tensor apply(std::string_view op, std::initializer_list<Operand> operands) {
  Builder* builder = nullptr;
  std::vector<Arg> args;
  for (const Operand& operand : operands) {
    if (operand.builder) builder = operand.builder;
    args.push_back(operand.arg);
  }
  if (!builder) throw InternalError(std::string(op) + ": no operand is a tensor");
  return call(*builder, op, std::move(args));
}

Tensor operator+(Operand a, Operand b) { return apply("add", {a, b}); }
Tensor operator-(Operand a, Operand b) { return apply("sub", {a, b}); }
Tensor operator*(Operand a, Operand b) { return apply("mul", {a, b}); }
Tensor operator/(Operand a, Operand b) { return apply("core.true_divide", {a, b}); }
Tensor operator-(Tensor a) { return neg(a); }
Tensor where(Tensor condition, Operand yes, Operand no) { return apply("where", {condition, yes, no}); }

Tensor cast(Tensor x, DType dtype) {
  return x.dtype() == dtype ? x : call(*x.builder, "core.cast", {x.value, dtype});
}
// What is made from nothing is made there.
Tensor to_device(Tensor x, Device device) {
  if (x.type().device == device) return x;
  Builder& b = *x.builder;
  const Node* node = x.value->node;
  if (node && (node->op->core.kind == CoreKind::kFull || node->op->core.kind == CoreKind::kIota)) {
    const Builder::OnDevice on_device(b, device);
    return wrap(b, b.call(*node->op, node->overload, node->args).at(0));
  }
  return call(b, "core.to_device", {x.value, device});
}
Tensor to_compute(Tensor x) { return cast(x, runtime::compute_type(x.dtype())); }

// ---- made from nothing ----------------------------------------------------------------------------------

Tensor full(Builder& b, std::vector<Sym> sizes, Arg value, DType dtype) {
  return call(b, "core.full", {std::move(sizes), std::move(value), dtype});
}
Tensor full_like(Tensor x, Arg value) { return full(*x.builder, x.sizes(), std::move(value), x.dtype()); }
Tensor iota(Builder& b, std::vector<Sym> sizes, int64_t dim, DType dtype) {
  return call(b, "core.iota", {std::move(sizes), Sym(dim), dtype});
}

// ---- views ----------------------------------------------------------------------------------------------

Tensor expand(Tensor x, std::vector<Sym> sizes) {
  if (x.sizes() == sizes) return x;
  int missing = static_cast<int>(sizes.size()) - x.rank();
  if (missing > 0) {
    std::vector<Sym> padded(missing, 1);
    padded.insert(padded.end(), x.sizes().begin(), x.sizes().end());
    x = reshape(x, std::move(padded));
    if (x.sizes() == sizes) return x;
  }
  // core.expand stretches dims of the constant size 1: one that is 1 by a guard becomes that.
  SymContext& sym = x.builder->sym();
  for (int d = 0; d < x.rank(); ++d) {
    const Sym from = x.size(d);
    if (from == sizes[d] || from == Sym(1)) continue;
    const bool may_be_one = !from.is_constant() && !sym.guard_eq(from, sizes[d], "expand");
    if (may_be_one && sym.guard_eq(from, 1, "expand"))
      x = slice(x, d, 0, 1);
    else if (!sym.expect_eq(from, sizes[d], "expand"))
      runtime_error("The expanded size of the tensor (" + sizes[d].str() +
                    ") must match the existing size (" + from.str() + ") at non-singleton dimension " +
                    std::to_string(d));
  }
  return call(*x.builder, "core.expand", {x.value, std::move(sizes)});
}

Tensor permute(Tensor x, Dims dims) {
  if (std::is_sorted(dims.begin(), dims.end())) return x;
  return call(*x.builder, "core.permute", {x.value, to_syms(dims)});
}

Tensor transpose(Tensor x, int64_t dim0, int64_t dim1) {
  Dims dims(x.rank());
  for (size_t i = 0; i < dims.size(); ++i) dims[i] = static_cast<int64_t>(i);
  std::swap(dims[wrap_dim(dim0, x.rank())], dims[wrap_dim(dim1, x.rank())]);
  return permute(x, dims);
}

Tensor reshape(Tensor x, std::vector<Sym> sizes) {
  if (x.sizes() == sizes) return x;
  return call(*x.builder, "core.reshape", {x.value, std::move(sizes)});
}

Tensor unsqueeze(Tensor x, int64_t dim) {
  dim = wrap_dim(dim, x.rank() + 1);
  std::vector<Sym> sizes = x.sizes();
  sizes.insert(sizes.begin() + dim, 1);
  return reshape(x, std::move(sizes));
}

Tensor squeeze(Tensor x, int64_t dim) {
  dim = wrap_dim(dim, x.rank());
  std::vector<Sym> sizes = x.sizes();
  sizes.erase(sizes.begin() + dim);
  return reshape(x, std::move(sizes));
}

static Tensor core_slice(Tensor x, std::vector<Sym> start, std::vector<Sym> size, std::vector<Sym> step) {
  return call(*x.builder, "core.slice", {x.value, std::move(start), std::move(size), std::move(step)});
}

Tensor slice(Tensor x, int64_t dim, Sym start, Sym size, Sym step) {
  dim = wrap_dim(dim, x.rank());
  if (start == Sym(0) && step == Sym(1) && size == x.size(dim)) return x;
  std::vector<Sym> starts(x.rank(), 0), sizes = x.sizes(), steps(x.rank(), 1);
  starts[dim] = start;
  sizes[dim] = size;
  steps[dim] = step;
  return core_slice(x, starts, sizes, steps);
}

Tensor select(Tensor x, int64_t dim, Sym index) { return squeeze(slice(x, dim, index, 1), dim); }

Tensor flip(Tensor x, const Dims& dims) {
  std::vector<Sym> starts(x.rank(), 0), steps(x.rank(), 1);
  for (int64_t dim : dims) {
    starts[dim] = x.size(dim) - 1;
    steps[dim] = -1;
  }
  return core_slice(x, starts, x.sizes(), steps);
}

Tensor pad(Tensor x, std::vector<Sym> low, std::vector<Sym> high, Arg fill) {
  return call(*x.builder, "core.pad", {x.value, std::move(low), std::move(high), std::move(fill)});
}

Tensor concat(const std::vector<Tensor>& tensors, int64_t dim) {
  if (tensors.size() == 1) return tensors[0];
  std::vector<Value*> values;
  for (const Tensor& tensor : tensors) values.push_back(tensor.value);
  return call(*tensors.at(0).builder, "core.concat", {values, Sym(dim)});
}

Tensor detach(Tensor x) { return call(*x.builder, "core.detach", {x.value}); }
Tensor contiguous(Tensor x) { return call(*x.builder, "contiguous", {x.value}); }

// ---- reductions -----------------------------------------------------------------------------------------

Tensor reduce(std::string_view core_op, Tensor x, Dims dims, bool keepdim) {
  dims = wrap_dims(std::move(dims), x.rank(), false);
  Tensor result = dims.empty() ? x : call(*x.builder, core_op, {x.value, to_syms(dims)});
  if (!keepdim) return result;
  std::vector<Sym> sizes = x.sizes();
  for (int64_t dim : dims) sizes[dim] = 1;
  return reshape(result, std::move(sizes));
}

Tensor sum(Tensor x, Dims dims, bool keepdim) { return reduce("core.sum", x, std::move(dims), keepdim); }
Tensor prod(Tensor x, Dims dims, bool keepdim) { return reduce("core.prod", x, std::move(dims), keepdim); }
Tensor amax(Tensor x, Dims dims, bool keepdim) { return reduce("core.amax", x, std::move(dims), keepdim); }
Tensor amin(Tensor x, Dims dims, bool keepdim) { return reduce("core.amin", x, std::move(dims), keepdim); }
Tensor any(Tensor x, Dims dims, bool keepdim) {
  return reduce("core.any", cast(x, DType::kBool), std::move(dims), keepdim);
}
Tensor all(Tensor x, Dims dims, bool keepdim) {
  return reduce("core.all", cast(x, DType::kBool), std::move(dims), keepdim);
}

Sym count_along(Tensor x, const Dims& dims) {
  Sym count = 1;
  for (int64_t dim : dims) count = count * x.size(dim);
  return count;
}

Tensor mean(Tensor x, Dims dims, bool keepdim) {
  dims = wrap_dims(std::move(dims), x.rank(), false);
  return sum(x, dims, keepdim) / Operand(count_along(x, dims));
}

// ---- contractions and indexing --------------------------------------------------------------------------

Tensor mm(Tensor a, Tensor b) { return call(*a.builder, "core.mm", {a.value, b.value}); }
Tensor bmm(Tensor a, Tensor b) { return call(*a.builder, "core.bmm", {a.value, b.value}); }
Tensor matmul(Tensor a, Tensor b) { return call(*a.builder, "matmul", {a.value, b.value}); }
Tensor gather(Tensor x, Tensor index, int64_t dim) {
  return call(*x.builder, "core.gather", {x.value, index.value, Sym(dim)});
}

}  // namespace cdynamo::graph
