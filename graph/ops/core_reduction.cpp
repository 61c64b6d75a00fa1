// The core's reductions: identity and combination of accumulators.
#include "graph/ops/core_reduction.h"

#include <algorithm>
#include <limits>

#include "graph/ops/entry.h"
#include "graph/reference.h"

namespace cdynamo::graph {
namespace {

int64_t least(DType dtype) {
  if (!runtime::info(dtype).is_signed) return 0;
  return -(int64_t{1} << (8 * runtime::bytes(dtype) - 2)) * 2;
}
int64_t greatest(DType dtype) {
  if (dtype == DType::kBool) return 1;
  if (!runtime::info(dtype).is_signed) return wrap_to(-1, dtype);
  return -(least(dtype) + 1);
}

Scalar zero(ScalarBuilder& b, DType dtype) {
  return is_float(dtype) ? b.constant(0, dtype) : b.constant_int(0, dtype);
}
Scalar one(ScalarBuilder& b, DType dtype) {
  return is_float(dtype) ? b.constant(1, dtype) : b.constant_int(1, dtype);
}
Scalar lowest(ScalarBuilder& b, DType dtype) {
  return is_float(dtype) ? b.constant(-std::numeric_limits<double>::infinity(), dtype)
                         : b.constant_int(least(dtype), dtype);
}
Scalar highest(ScalarBuilder& b, DType dtype) {
  return is_float(dtype) ? b.constant(std::numeric_limits<double>::infinity(), dtype)
                         : b.constant_int(greatest(dtype), dtype);
}
// A sum of bools that stays one is whether any is true.
Scalar add(ScalarBuilder& b, Scalar x, Scalar y) {
  return x.dtype == DType::kBool ? b.bit_or(x, y) : b.add(x, y);
}
Scalar mul(ScalarBuilder& b, Scalar x, Scalar y) { return b.mul(x, y); }
Scalar larger(ScalarBuilder& b, Scalar x, Scalar y) {
  return x.dtype == DType::kBool ? b.bit_or(x, y) : b.max(x, y);
}
Scalar smaller(ScalarBuilder& b, Scalar x, Scalar y) {
  return x.dtype == DType::kBool ? b.bit_and(x, y) : b.min(x, y);
}
// log(exp(x) + exp(y)); equal infinities give themselves.
Scalar log_of_sum(ScalarBuilder& b, Scalar x, Scalar y) {
  const Scalar sum = b.add(b.max(x, y), b.log1p(b.exp(b.neg(b.abs(b.sub(x, y))))));
  const Scalar infinite = b.eq(b.abs(x), b.constant(std::numeric_limits<double>::infinity(), x.dtype));
  return b.select(b.bit_and(infinite, b.eq(x, y)), x, sum);
}
Scalar either(ScalarBuilder& b, Scalar x, Scalar y) { return b.bit_or(x, y); }
Scalar both(ScalarBuilder& b, Scalar x, Scalar y) { return b.bit_and(x, y); }

}  // namespace

const ReductionDef kSumReduction{zero, add}, kProdReduction{one, mul}, kGreatest{lowest, larger},
    kLeast{highest, smaller}, kLogSumExp{lowest, log_of_sum};

namespace {

constexpr ReductionDef kAny{zero, either}, kAll{one, both},
    kArgmax{lowest, larger, /*returns_index=*/true, /*is_greatest=*/true},
    kArgmin{highest, smaller, /*returns_index=*/true};

std::vector<Sym> remaining(const Args& args) {
  const std::vector<Sym>& from = args.value("self")->type.sizes;
  std::vector<Sym> sizes;
  std::vector<int64_t> dims = args.constants("dims");
  size_t next = 0;
  for (size_t d = 0; d < from.size(); ++d) {
    if (next < dims.size() && dims[next] == static_cast<int64_t>(d))
      ++next;
    else
      sizes.push_back(from[d]);
  }
  if (next != dims.size()) throw InternalError("the dims of a reduction are not sorted and in range");
  return sizes;
}

std::vector<TensorType> same_dtype(Graph& graph, const Args& args) {
  const Value* self = args.value("self");
  return {contiguous_type(self, remaining(args), self->type.dtype)};
}
std::vector<TensorType> index_dtype(Graph& graph, const Args& args) {
  return {contiguous_type(args.value("self"), remaining(args), DType::kI64)};
}

// The result or its gradient with the reduced dims back, stretched to the operand's sizes.
Tensor restore(Derivative& d, Tensor x) {
  std::vector<Sym> sizes = d.operand(0).sizes();
  for (int64_t dim : d.args.constants("dims")) sizes[dim] = 1;
  return expand(reshape(x, sizes), d.operand(0).sizes());
}

// Elements that are the extreme value share the gradient evenly, as torch.amax does. Where it is not finite no other has 0.
void extreme_derivative(Derivative& d) {
  Dims dims = d.args.constants("dims");
  Tensor hit = cast(eq(d.operand(0), restore(d, d.result())), d.operand(0).dtype());
  Tensor count = restore(d, sum(hit, dims));
  d.set(0, restore(d, d.grad()) * hit / count);
}

// As x.max() does: what is not a number is the extreme value, too, and on the CPU the others have 0 whatever the gradient is.
void shared_extreme_derivative(Derivative& d) {
  const Tensor x = d.operand(0);
  Tensor hit = logical_or(eq(x, restore(d, d.result())), ne(x, x));
  Tensor count = restore(d, sum(cast(hit, x.dtype()), d.args.constants("dims")));
  Tensor share = restore(d, d.grad()) / count;
  const bool is_on_cpu = x.type().device.type == runtime::DeviceType::kCPU;
  d.set(0, is_on_cpu ? where(hit, share, 0.0) : cast(hit, x.dtype()) * share);
}

// The operand with the reduced dims as one dim, the last, and the way back.
struct Rows {
  Dims order;
  std::vector<Sym> permuted;  // the sizes before the reduced dims were merged
  Tensor values;
  Tensor back(Tensor x) const { return permute(reshape(x, permuted), inverse_order(order)); }
};
Rows rows_of(Derivative& d) {
  const Tensor x = d.operand(0);
  const Dims dims = d.args.constants("dims");
  Rows rows;
  for (int64_t dim = 0; dim < x.rank(); ++dim)
    if (std::find(dims.begin(), dims.end(), dim) == dims.end()) rows.order.push_back(dim);
  rows.order.insert(rows.order.end(), dims.begin(), dims.end());
  Tensor permuted = permute(x, rows.order);
  rows.permuted = permuted.sizes();
  std::vector<Sym> merged(rows.permuted.begin(), rows.permuted.end() - static_cast<int64_t>(dims.size()));
  merged.push_back(count_along(x, dims));
  rows.values = reshape(permuted, merged);
  return rows;
}

// The product of the elements before each one.
Tensor product_before(Tensor x) {
  const int64_t dim = x.rank() - 1;
  std::vector<Sym> low(x.rank(), 0), high(x.rank(), 0);
  low[dim] = 1;
  Tensor moved = pad(slice(x, dim, 0, x.size(dim) - 1), low, high, 1.0);
  return wrap(*x.builder, x.builder->call1("core.cumprod", {moved.value, Sym(dim)}));
}

// The product of all the others: no division, so that zeros need no cases.
void product_derivative(Derivative& d) {
  const Rows rows = rows_of(d);
  const Tensor x = rows.values;
  const int64_t last = x.rank() - 1;
  if (d.builder.sym().guard_eq(x.size(last), 0, "prod")) return d.set(0, full_like(d.operand(0), 0.0));
  Tensor others = product_before(x) * flip(product_before(flip(x, {last})), {last});
  Tensor gradient = others * unsqueeze(d.grad(), last);
  if (last == 0) {
    // prod_backward of one number: 0 through two zeros, whatever comes in; its own derivative is that of the product of the others.
    Tensor finite = where(eq(gradient - gradient, 0.0), gradient, 0.0);
    Tensor has_two_zeros = gt(sum(cast(eq(x, 0.0), DType::kI64), {0}, true), 1);
    gradient = where(has_two_zeros, finite - detach(finite), gradient);
  }
  d.set(0, own(rows.back(gradient)));
}

// core.max, core.min: the whole gradient goes to the element that argmax names, as max(dim) does.
void selected_derivative(Derivative& d, const char* index_op) {
  const Dims dims = d.args.constants("dims");
  Tensor x = d.operand(0);
  if (dims.size() == 1) {
    Value* known = index_of_extreme(d.builder.graph(), d.node);
    Tensor index = known ? unsqueeze(wrap(d.builder, known), dims[0]) : reduce(index_op, x, dims, true);
    Tensor hit = eq(iota(d.builder, x.sizes(), dims[0], DType::kI64), index);
    d.set(0, where(hit, restore(d, d.grad()), 0.0));
    return;
  }
  const Rows rows = rows_of(d);
  const int64_t last = rows.values.rank() - 1;
  Tensor index = reduce(index_op, rows.values, {last}, true);
  Tensor hit = eq(iota(d.builder, rows.values.sizes(), last, DType::kI64), index);
  d.set(0, own(rows.back(where(hit, unsqueeze(d.grad(), last), 0.0))));
}

OpDef reduction(std::string_view name, std::string_view schema, const ReductionDef& def,
                std::string_view eager, DerivativeFn derivative = nullptr) {
  return {.name = name,
          .family = Family::kReduction,
          .schemas = {schema},
          .reduction = &def,
          .infer = def.returns_index ? index_dtype : same_dtype,
          .derivative = derivative,
          .differentiable = derivative != nullptr,
          .core = {.linearity = &def == &kSumReduction ? Linearity::kAll : Linearity::kNone, .eager = eager}};
}

constexpr const char *kEagerGreatest = "extremum(torch.amax, self, dims)",
                     *kEagerLeast = "extremum(torch.amin, self, dims)";

}  // namespace

std::vector<OpDef> core_reduction_ops() {
  return {
      reduction("core.sum", "core.sum(Tensor self, int[] dims) -> Tensor", kSumReduction,
                "self.sum(dims, dtype=self.dtype) if dims else self",
                CDYNAMO_DERIVATIVE(d.set(0, restore(d, d.grad())))),
      reduction("core.prod", "core.prod(Tensor self, int[] dims) -> Tensor", kProdReduction,
                "over_dims(lambda x, dim: x.prod(dim, dtype=x.dtype), self, dims)", product_derivative),
      reduction("core.amax", "core.amax(Tensor self, int[] dims) -> Tensor", kGreatest, kEagerGreatest,
                extreme_derivative),
      reduction("core.amin", "core.amin(Tensor self, int[] dims) -> Tensor", kLeast, kEagerLeast,
                extreme_derivative),
      reduction("core.shared_max", "core.shared_max(Tensor self, int[] dims) -> Tensor", kGreatest,
                "self.max() if dims else self", shared_extreme_derivative),
      reduction("core.shared_min", "core.shared_min(Tensor self, int[] dims) -> Tensor", kLeast,
                "self.min() if dims else self", shared_extreme_derivative),
      reduction("core.max", "core.max(Tensor self, int[] dims) -> Tensor", kGreatest, kEagerGreatest,
                CDYNAMO_DERIVATIVE(selected_derivative(d, "core.argmax"))),
      reduction("core.min", "core.min(Tensor self, int[] dims) -> Tensor", kLeast, kEagerLeast,
                CDYNAMO_DERIVATIVE(selected_derivative(d, "core.argmin"))),
      reduction("core.any", "core.any(Tensor self, int[] dims) -> Tensor", kAny,
                "over_dims(torch.any, self, dims)"),
      reduction("core.all", "core.all(Tensor self, int[] dims) -> Tensor", kAll,
                "over_dims(torch.all, self, dims)"),
      reduction("core.argmax", "core.argmax(Tensor self, int[] dims) -> Tensor", kArgmax,
                "self.argmax(dims[0]) if len(dims) == 1 and self.ndim > 1 else self.argmax()"),
      reduction("core.argmin", "core.argmin(Tensor self, int[] dims) -> Tensor", kArgmin,
                "self.argmin(dims[0]) if len(dims) == 1 and self.ndim > 1 else self.argmin()"),
  };
}

}  // namespace cdynamo::graph
