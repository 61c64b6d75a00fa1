// The core's scans: running sums, products and extrema along one dim; what a mask selects.
#include <limits>

#include "graph/interpreter/kernels.h"
#include "graph/ops/core_reduction.h"
#include "graph/ops/entry.h"

namespace cdynamo::graph {
namespace {

void cumsum_derivative(Derivative& d) {
  int64_t dim = d.args.constant("dim");
  Tensor reversed = flip(d.grad(), {dim});
  d.set(0, flip(wrap(d.builder, d.builder.call1("core.cumsum", {reversed.value, Sym(dim)})), {dim}));
}

Tensor scanned(const char* op, Tensor x, int64_t dim) {
  return wrap(*x.builder, x.builder->call1(op, {x.value, Sym(dim)}));
}

// x[i + by], 0 beyond the end.
Tensor ahead(Tensor x, int64_t dim, int64_t by) {
  std::vector<Sym> low(x.rank(), 0), high(x.rank(), 0);
  high[dim] = by;
  return pad(slice(x, dim, by, x.size(dim) - by), low, high, 0.0);
}

// With g the gradient: d/dx[k] = x[0] .. x[k-1] * s[k], where s[k] = g[k] + x[k+1] * s[k+1]. The recurrence
// is solved by doubling, without a division: zeros need no cases, and it can be differentiated again.
void cumprod_derivative(Derivative& d) {
  const Tensor x = d.operand(0);
  const int64_t dim = d.args.constant("dim"), size = d.builder.sym().specialize(x.size(dim), "cumprod");
  if (size == 0) return d.set(0, d.grad());
  std::vector<Sym> low(x.rank(), 0), high(x.rank(), 0);
  low[dim] = 1;
  Tensor before = scanned("core.cumprod", pad(slice(x, dim, 0, size - 1), low, high, 1.0), dim);
  Tensor total = d.grad(), factor = ahead(x, dim, 1);
  for (int64_t by = 1; by < size; by *= 2) {
    total = total + factor * ahead(total, dim, by);
    if (by * 2 < size) factor = factor * ahead(factor, dim, by);
  }
  d.set(0, before * total);
}

// The gradient goes to the last element so far that is as extreme as the running value.
void cumulative_extreme_derivative(Derivative& d) {
  const Tensor x = d.operand(0), result = d.result();
  const int64_t dim = d.args.constant("dim");
  Tensor hit = logical_or(eq(x, result), logical_and(isnan(x), isnan(result)));
  Tensor place = where(hit, iota(d.builder, x.sizes(), dim, DType::kI64), 0);
  Tensor index = scanned("core.cummax_values", place, dim);
  d.set(0, wrap(d.builder, d.builder.call1("core.scatter", {full_like(x, 0.0).value, index.value,
                                                            d.grad().value, Sym(dim), std::string("sum")})));
}

// Of element k: the sum over i >= k of g[i] * exp(x[k] - result[i]), each with each.
Tensor logcumsumexp_gradient(Tensor x, Tensor result, Tensor grad, int64_t dim) {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  std::vector<Sym> sizes = x.sizes();
  sizes.insert(sizes.begin() + dim, x.size(dim));
  const Tensor from = iota(*x.builder, sizes, dim, DType::kI64),
               to = iota(*x.builder, sizes, dim + 1, DType::kI64);
  const Tensor finite = unsqueeze(where(eq(result, kNone), 0.0, result), dim);
  const Tensor weights = exp(where(le(from, to), unsqueeze(x, dim + 1) - finite, kNone));
  return sum(weights * unsqueeze(grad, dim), {dim + 1});
}

// The same in logarithms, which takes one pass but has no derivative where the gradient is zero.
void logcumsumexp_derivative(Derivative& d) {
  const Tensor x = d.operand(0), result = d.result(), grad = d.grad();
  const int64_t dim = d.args.constant("dim");
  const auto part = [&](Tensor share) {
    Tensor there = gt(share, 0.0);
    Tensor logs =
        where(there, log(where(there, share, 1.0)) - result, -std::numeric_limits<double>::infinity());
    return exp(flip(scanned("core.logcumsumexp", flip(logs, {dim}), dim), {dim}) + x);
  };
  d.set(0, with_slope(part(grad) - part(-grad), logcumsumexp_gradient(x, result, grad, dim)));
}

OpDef scan(std::string_view name, std::string_view schema, const ReductionDef& reduction,
           DerivativeFn derivative, std::string_view eager, bool saves_result = true) {
  return {.name = name,
          .family = Family::kScan,
          .schemas = {schema},
          .reduction = &reduction,
          .infer = infer_contiguous_self,
          .derivative = derivative,
          .saves_result = saves_result,
          .core = {.linearity = &reduction == &kSumReduction ? Linearity::kAll : Linearity::kNone,
                   .interpret = interpret_scan,
                   .eager = eager}};
}

// ---- what a mask selects

std::vector<TensorType> infer_running_counts(Graph&, const Args& args) {
  const Value* self = args.value("self");
  if (self->type.rank() != 1 || self->type.dtype != DType::kBool)
    throw InternalError("core.running_counts of what is no mask of one dim");
  const Sym block = args.integer("block");
  return {contiguous_type(self, {floordiv(self->type.sizes[0] + block - Sym(1), block)}, DType::kI64)};
}

std::vector<TensorType> infer_compress(Graph&, const Args& args) {
  const Value *self = args.value("self"), *mask = args.value("mask");
  if (self->type.rank() != 1 || mask->type.rank() != 1 || mask->type.dtype != DType::kBool)
    throw InternalError("core.compress of more than one dim");
  return {contiguous_type(self, {args.integer("count")}, self->type.dtype)};
}

// Each selected element has a place of its own.
void compress_derivative(Derivative& d) {
  const Tensor self = d.operand(0);
  const Tensor all = iota(d.builder, self.sizes(), 0, DType::kI64);
  Value* places = d.builder.call1(
      "core.compress", {all.value, d.args["mask"], d.args["counts"], d.args["block"], d.args["count"]});
  d.set(0, wrap(d.builder, d.builder.call1("core.scatter", {full_like(self, 0.0).value, places,
                                                            d.grad().value, Sym(0), std::string()})));
}

OpDef running_counts() {
  return {.name = "core.running_counts",
          .family = Family::kIndexing,
          .schemas = {"core.running_counts(Tensor self, int block) -> Tensor"},
          .infer = infer_running_counts,
          .differentiable = false,
          .core = {.kind = CoreKind::kRunningCounts,
                   .linearity = Linearity::kNone,
                   .interpret = interpret_running_counts,
                   .eager = "running_counts(self, block)"}};
}

OpDef compress() {
  return {
      .name = "core.compress",
      .family = Family::kIndexing,
      .schemas = {"core.compress(Tensor self, Tensor mask, Tensor counts, int block, int count) -> Tensor"},
      .infer = infer_compress,
      .derivative = compress_derivative,
      .core = {.kind = CoreKind::kCompress,
               .linearity = Linearity::kFirst,
               .interpret = interpret_compress,
               .eager = "self.masked_select(mask)"}};
}

}  // namespace

std::vector<OpDef> core_scan_ops() {
  return {
      running_counts(),
      compress(),
      scan("core.cumsum", "core.cumsum(Tensor self, int dim, bool stepwise=False) -> Tensor", kSumReduction,
           cumsum_derivative, "running(torch.cumsum, torch.add, self, dim, stepwise)"),
      scan("core.cumprod", "core.cumprod(Tensor self, int dim, bool stepwise=False) -> Tensor",
           kProdReduction, cumprod_derivative, "running(torch.cumprod, torch.mul, self, dim, stepwise)"),
      scan("core.cummax_values", "core.cummax_values(Tensor self, int dim) -> Tensor", kGreatest,
           cumulative_extreme_derivative, "self.cummax(dim).values", /*saves_result=*/false),
      scan("core.cummin_values", "core.cummin_values(Tensor self, int dim) -> Tensor", kLeast,
           cumulative_extreme_derivative, "self.cummin(dim).values", /*saves_result=*/false),
      scan("core.logcumsumexp", "core.logcumsumexp(Tensor self, int dim) -> Tensor", kLogSumExp,
           logcumsumexp_derivative, "self.logcumsumexp(dim)"),
  };
}

}  // namespace cdynamo::graph
