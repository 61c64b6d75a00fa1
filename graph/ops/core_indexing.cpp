// The core's indexing.
#include "graph/interpreter/kernels.h"
#include "graph/ops/entry.h"

namespace cdynamo::graph {
namespace {

std::vector<TensorType> infer_concat(Graph& graph, const Args& args) {
  std::vector<Value*> values = args.values("values");
  std::vector<Sym> sizes = values.at(0)->type.sizes;
  int64_t dim = args.constant("dim");
  for (size_t i = 1; i < values.size(); ++i) sizes.at(dim) = sizes[dim] + values[i]->type.sizes.at(dim);
  return {contiguous_type(values[0], std::move(sizes), values[0]->type.dtype)};
}

std::vector<TensorType> infer_gather(Graph& graph, const Args& args) {
  const Value* self = args.value("self");
  return {contiguous_type(self, args.value("index")->type.sizes, self->type.dtype)};
}

std::vector<TensorType> infer_index(Graph& graph, const Args& args) {
  const Value* self = args.value("self");
  std::vector<Value*> indices = args.values("indices");
  std::vector<Sym> sizes = indices.at(0)->type.sizes;
  const std::vector<Sym>& from = self->type.sizes;
  sizes.insert(sizes.end(), from.begin() + static_cast<int64_t>(indices.size()), from.end());
  return {contiguous_type(self, std::move(sizes), self->type.dtype)};
}

// Operands of a concatenation get their slices of the gradient.
void concat_derivative(Derivative& d) {
  int64_t dim = d.args.constant("dim");
  Sym start = 0;
  for (size_t i = 0; i < d.operands.size(); ++i) {
    Sym size = d.operands[i].size(dim);
    d.set(static_cast<int>(i), slice(d.grad(), dim, start, size));
    start = start + size;
  }
}

// Of one index a row the gradient is written as a choice, which fuses with what is done to it.
// Zeros to add the gradients of x's elements to: a GPU adds float32 in any order, and half types are rounded once.
Tensor sums_of(Tensor x) {
  Tensor zero = full_like(x, 0.0);
  return on_gpu(x) && is_half(x.dtype()) ? cast(zero, DType::kF32) : zero;
}

void gather_derivative(Derivative& d) {
  const Tensor self = d.operand(0), index = d.operand(1);
  const int64_t dim = d.args.constant("dim");
  bool whole_rows = true;
  for (int i = 0; i < self.rank(); ++i) whole_rows &= i == dim || self.size(i) == index.size(i);
  if (whole_rows && index.size(dim) == Sym(1)) {
    Tensor wide = cast(index, DType::kI64);
    Tensor place = where(lt(wide, 0), wide + Operand(self.size(dim)), wide);
    Tensor hit = eq(iota(d.builder, self.sizes(), dim, DType::kI64), place);
    d.set(0, where(hit, d.grad(), 0.0));
    return;
  }
  Tensor zero = sums_of(d.operand(0));
  Tensor sums = wrap(d.builder, d.builder.call1("core.scatter", {zero.value, d.operand(1).value,
                                                                 cast(d.grad(), zero.dtype()).value,
                                                                 d.args["dim"], std::string("sum")}));
  d.set(0, cast(sums, d.operand(0).dtype()));
}

void index_derivative(Derivative& d) {
  Tensor zero = sums_of(d.operand(0));
  Tensor sums = wrap(
      d.builder, d.builder.call1("core.index_put",
                                 {zero.value, d.args["indices"], cast(d.grad(), zero.dtype()).value, true}));
  d.set(0, cast(sums, d.operand(0).dtype()));
}

Tensor zeros_like(Tensor x) { return full_like(x, 0.0); }
Tensor core(Derivative& d, std::string_view op, std::vector<Arg> args) {
  return wrap(d.builder, d.builder.call1(op, std::move(args)));
}

void slice_scatter_derivative(Derivative& d) {
  Tensor src = d.operand(1);
  const Arg &start = d.args["start"], &step = d.args["step"];
  d.set(0, core(d, "core.slice_scatter", {d.grad().value, zeros_like(src).value, start, step}));
  d.set(1, core(d, "core.slice", {d.grad().value, start, src.sizes(), step}));
}

void diagonal_scatter_derivative(Derivative& d) {
  const Arg &offset = d.args["offset"], &dim1 = d.args["dim1"], &dim2 = d.args["dim2"];
  d.set(0, core(d, "core.diagonal_scatter",
                {d.grad().value, zeros_like(d.operand(1)).value, offset, dim1, dim2}));
  d.set(1, core(d, "core.diagonal", {d.grad().value, offset, dim1, dim2}));
}

// The part of src that has an index: an index may be smaller than src.
Tensor indexed_part(Tensor src, const Value* index) {
  for (int dim = 0; dim < src.rank(); ++dim) src = slice(src, dim, 0, index->type.sizes[dim]);
  return src;
}
// The gradient of all of src from that of the indexed part.
Tensor padded_to(Tensor part, const std::vector<Sym>& sizes) {
  if (part.sizes() == sizes) return part;
  std::vector<Sym> low(sizes.size(), 0), high;
  for (size_t dim = 0; dim < sizes.size(); ++dim) high.push_back(sizes[dim] - part.sizes()[dim]);
  return pad(part, low, high, 0.0);
}

// All that came to a place and is as extreme as the result shares the gradient evenly, self included.
void scatter_extreme_derivative(Derivative& d) {
  const Value* index = d.args.value("index");
  const Arg& dim = d.args["dim"];
  Tensor self = d.operand(0), src = indexed_part(d.operand(2), index), result = d.result();
  auto picked = [&](Tensor x) { return core(d, "core.gather", {x.value, d.operand(1).value, dim}); };
  Tensor self_hit = cast(eq(self, result), self.dtype()),
         src_hit = cast(eq(src, picked(result)), self.dtype());
  Tensor count =
      core(d, "core.scatter", {self_hit.value, d.operand(1).value, src_hit.value, dim, std::string("sum")});
  Tensor share = d.grad() / count;
  d.set(0, share * self_hit);
  d.set(2, padded_to(picked(share) * src_hit, d.operand(2).sizes()));
}

// The product of the others: by division where a factor is not 0; where it is the only 0 that came to its
// place, the product without it.
void scatter_product_derivative(Derivative& d) {
  const Value* index = d.args.value("index");
  const Arg& dim = d.args["dim"];
  Tensor self = d.operand(0), src = indexed_part(d.operand(2), index);
  auto picked = [&](Tensor x) { return core(d, "core.gather", {x.value, d.operand(1).value, dim}); };
  auto scattered = [&](Tensor onto, Tensor from, const char* reduce) {
    return core(d, "core.scatter", {onto.value, d.operand(1).value, from.value, dim, std::string(reduce)});
  };
  Tensor ones = full_like(self, 1.0), zero = eq(src, 0.0);
  d.set(0, d.grad() * scattered(ones, src, "prod"));
  Tensor zeros_at = picked(scattered(zeros_like(self), cast(zero, self.dtype()), "sum"));
  Tensor only_zero = logical_and(zero, eq(zeros_at, 1.0));
  Tensor without_zero = picked(scattered(self, where(only_zero, 1.0, src), "prod") * d.grad());
  Tensor divided = picked(d.result() * d.grad()) / where(zero, 1.0, src);
  d.set(2, padded_to(where(only_zero, without_zero, divided), d.operand(2).sizes()));
}

// As eager: where an index comes twice, each of its sources gets the gradient.
void scatter_derivative(Derivative& d) {
  std::string_view reduce = d.args.string("reduce");
  if (reduce == "amax" || reduce == "amin") return scatter_extreme_derivative(d);
  if (reduce == "prod") return scatter_product_derivative(d);
  Value *index = d.args.value("index"), *grad = d.grad().value;
  const Arg& dim = d.args["dim"];
  Tensor zero = full(d.builder, index->type.sizes, 0.0, d.grad().dtype());
  d.set(0,
        reduce == "sum" ? d.grad() : core(d, "core.scatter", {grad, index, zero.value, dim, std::string()}));
  d.set(2, padded_to(core(d, "core.gather", {grad, index, dim}), d.operand(2).sizes()));
}

void index_put_derivative(Derivative& d) {
  int values = static_cast<int>(d.operands.size()) - 1;
  Tensor zero = zeros_like(d.operand(values));
  bool accumulate = d.args.boolean("accumulate");
  d.set(0, accumulate ? d.grad()
                      : core(d, "core.index_put", {d.grad().value, d.args["indices"], zero.value, false}));
  d.set(values, core(d, "core.index", {d.grad().value, d.args["indices"]}));
}

}  // namespace

std::vector<OpDef> core_indexing_ops() {
  return {
      {.name = "core.concat",
       .family = Family::kIndexing,
       .schemas = {"core.concat(Tensor[] values, int dim) -> Tensor"},
       .infer = infer_concat,
       .derivative = concat_derivative,
       .core = {.kind = CoreKind::kConcat,
                .linearity = Linearity::kAll,
                .interpret = interpret_concat,
                .eager = "torch.cat(values, dim)"}},
      {.name = "core.gather",
       .family = Family::kIndexing,
       .schemas = {"core.gather(Tensor self, Tensor index, int dim, str error='IndexError') -> Tensor"},
       .infer = infer_gather,
       .derivative = gather_derivative,
       .core = {.kind = CoreKind::kGather,
                .linearity = Linearity::kFirst,
                .interpret = interpret_gather,
                .eager = "self.gather(dim, index)"}},
      {.name = "core.index",
       .family = Family::kIndexing,
       .schemas = {"core.index(Tensor self, Tensor[] indices, str error='IndexError') -> Tensor"},
       .infer = infer_index,
       .derivative = index_derivative,
       .core = {.kind = CoreKind::kIndex,
                .linearity = Linearity::kFirst,
                .interpret = interpret_index,
                .eager = "self[tuple(indices)]"}},
      {.name = "core.slice_scatter",
       .family = Family::kIndexing,
       .schemas = {"core.slice_scatter(Tensor self, Tensor src, int[] start, int[] step) -> Tensor"},
       .infer = infer_contiguous_self,
       .derivative = slice_scatter_derivative,
       .core = {.kind = CoreKind::kSliceScatter,
                .linearity = Linearity::kAll,
                .interpret = interpret_slice_scatter,
                .eager = "slice_scatter(self, src, start, step)"}},
      {.name = "core.diagonal_scatter",
       .family = Family::kIndexing,
       .schemas =
           {"core.diagonal_scatter(Tensor self, Tensor src, int offset, int dim1, int dim2) -> Tensor"},
       .infer = infer_contiguous_self,
       .derivative = diagonal_scatter_derivative,
       .core = {.kind = CoreKind::kDiagonalScatter,
                .linearity = Linearity::kAll,
                .interpret = interpret_diagonal_scatter,
                .eager = "self.diagonal_scatter(src, offset, dim1, dim2)"}},
      {.name = "core.scatter",
       .family = Family::kIndexing,
       .schemas = {"core.scatter(Tensor self, Tensor index, Tensor src, int dim, str reduce, str "
                   "error='IndexError') -> Tensor"},
       .infer = infer_contiguous_self,
       .derivative = scatter_derivative,
       .core =
           {.kind = CoreKind::kScatter,
            .linearity = Linearity::kNone,
            .interpret = interpret_scatter,
            .eager =
                "self.scatter_reduce(dim, index, src, reduce) if reduce else self.scatter(dim, index, src)"}},
      {.name = "core.index_put",
       .family = Family::kIndexing,
       .schemas = {"core.index_put(Tensor self, Tensor[] indices, Tensor values, bool accumulate, str "
                   "error='IndexError') -> Tensor"},
       .infer = infer_contiguous_self,
       .derivative = index_put_derivative,
       .core = {.kind = CoreKind::kIndexPut,
                .linearity = Linearity::kNone,
                .interpret = interpret_index_put,
                .eager = "self.index_put(tuple(indices), values, accumulate)"}},
  };
}

}  // namespace cdynamo::graph
