// The core's indexing, and scans.
#include "graph/ops/entry.h"

namespace cdynamo::graph {
namespace {

std::vector<TensorType> like_self(Graph& graph, const Args& args) {
  const Value* self = args.value("self");
  return {contiguous_type(self, self->type.sizes, self->type.dtype)};
}

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

void gather_derivative(Derivative& d) {
  Tensor zero = full_like(d.operand(0), 0.0);
  d.set(0, wrap(d.builder, d.builder.call1("core.scatter", {zero.value, d.operand(1).value, d.grad().value,
                                                            d.args["dim"], std::string("sum")})));
}

void index_derivative(Derivative& d) {
  Tensor zero = full_like(d.operand(0), 0.0);
  d.set(0, wrap(d.builder,
                d.builder.call1("core.index_put", {zero.value, d.args["indices"], d.grad().value, true})));
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

// As eager: where an index comes twice, each of its sources gets the gradient.
void scatter_derivative(Derivative& d) {
  std::string_view reduce = d.args.string("reduce");
  if (!reduce.empty() && reduce != "sum")
    throw Unsupported("the derivative of scatter with " + std::string(reduce));
  Value *index = d.args.value("index"), *grad = d.grad().value;
  const Arg& dim = d.args["dim"];
  Tensor zero = full(d.builder, index->type.sizes, 0.0, d.grad().dtype());
  d.set(0,
        reduce == "sum" ? d.grad() : core(d, "core.scatter", {grad, index, zero.value, dim, std::string()}));
  d.set(2, core(d, "core.gather", {grad, index, dim}));
}

void index_put_derivative(Derivative& d) {
  int values = static_cast<int>(d.operands.size()) - 1;
  Tensor zero = zeros_like(d.operand(values));
  bool accumulate = d.args.boolean("accumulate");
  d.set(0, accumulate ? d.grad()
                      : core(d, "core.index_put", {d.grad().value, d.args["indices"], zero.value, false}));
  d.set(values, core(d, "core.index", {d.grad().value, d.args["indices"]}));
}

void cumsum_derivative(Derivative& d) {
  int64_t dim = d.args.constant("dim");
  Tensor reversed = flip(d.grad(), {dim});
  d.set(0, flip(wrap(d.builder, d.builder.call1("core.cumsum", {reversed.value, Sym(dim)})), {dim}));
}

OpDef scan(std::string_view name, std::string_view schema, DerivativeFn derivative = nullptr) {
  return {.name = name,
          .family = Family::kScan,
          .schemas = {schema},
          .infer = like_self,
          .derivative = derivative};
}

}  // namespace

std::vector<OpDef> core_indexing_ops() {
  return {
      {.name = "core.concat",
       .family = Family::kIndexing,
       .schemas = {"core.concat(Tensor[] values, int dim) -> Tensor"},
       .infer = infer_concat,
       .derivative = concat_derivative},
      {.name = "core.gather",
       .family = Family::kIndexing,
       .schemas = {"core.gather(Tensor self, Tensor index, int dim, str error='IndexError') -> Tensor"},
       .infer = infer_gather,
       .derivative = gather_derivative},
      {.name = "core.index",
       .family = Family::kIndexing,
       .schemas = {"core.index(Tensor self, Tensor[] indices, str error='IndexError') -> Tensor"},
       .infer = infer_index,
       .derivative = index_derivative},
      {.name = "core.slice_scatter",
       .family = Family::kIndexing,
       .schemas = {"core.slice_scatter(Tensor self, Tensor src, int[] start, int[] step) -> Tensor"},
       .infer = like_self,
       .derivative = slice_scatter_derivative},
      {.name = "core.diagonal_scatter",
       .family = Family::kIndexing,
       .schemas =
           {"core.diagonal_scatter(Tensor self, Tensor src, int offset, int dim1, int dim2) -> Tensor"},
       .infer = like_self,
       .derivative = diagonal_scatter_derivative},
      {.name = "core.scatter",
       .family = Family::kIndexing,
       .schemas = {"core.scatter(Tensor self, Tensor index, Tensor src, int dim, str reduce, str "
                   "error='IndexError') -> Tensor"},
       .infer = like_self,
       .derivative = scatter_derivative},
      {.name = "core.index_put",
       .family = Family::kIndexing,
       .schemas = {"core.index_put(Tensor self, Tensor[] indices, Tensor values, bool accumulate, str "
                   "error='IndexError') -> Tensor"},
       .infer = like_self,
       .derivative = index_put_derivative},
      scan("core.cumsum", "core.cumsum(Tensor self, int dim) -> Tensor", cumsum_derivative),
      scan("core.cumprod", "core.cumprod(Tensor self, int dim) -> Tensor"),
      scan("core.cummax_values", "core.cummax_values(Tensor self, int dim) -> Tensor"),
      scan("core.cummin_values", "core.cummin_values(Tensor self, int dim) -> Tensor"),
  };
}

}  // namespace cdynamo::graph
