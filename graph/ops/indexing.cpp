// Indexing along one dim: embedding, gather, scatter, index_select and their kin; parts of a tensor replaced.
#include <algorithm>
#include <limits>

#include "graph/ops/indexing.h"
#include "graph/ops/view_rules.h"

namespace cdynamo::graph {
namespace {

void require_index(Tensor index, const char* name) {
  if (index.dtype() != DType::kI64 && index.dtype() != DType::kI32)
    runtime_error(std::string(name) + "(): Expected dtype int32/int64 for index");
}
void require_int64(Tensor index, const char* name) {
  if (index.dtype() != DType::kI64) runtime_error(std::string(name) + "(): Expected dtype int64 for index");
}

// Where eager refuses negative indices: they are made out of range, which the core's operators report.
Tensor refuse_negative(Tensor index, const Sym& size) {
  Tensor wide = cast(index, DType::kI64);
  return where(lt(wide, 0), full(*index.builder, {}, size, DType::kI64), wide);
}

// torch.gather and its kin, scatter and one_hot raise RuntimeError where the others raise IndexError.
Tensor torch_gather(Tensor self, Tensor index, int64_t dim) {
  const bool numpy = self.builder->graph().framework == Framework::kNumpy;
  return wrap(*self.builder,
              self.builder->call1("core.gather", {self.value, index.value, Sym(dim),
                                                  std::string(numpy ? kIndexError : kRuntimeError)}));
}

// ---- one index along one dim ----------------------------------------------------------------------------

Dims front_order(int64_t rank, int64_t dim) {
  Dims order{dim};
  for (int64_t d = 0; d < rank; ++d)
    if (d != dim) order.push_back(d);
  return order;
}
std::vector<Value*> embedding_body(Builder& b, const Args& args) {
  Tensor weight = operand(b, args, "weight"), indices = operand(b, args, "indices");
  if (weight.rank() != 2) runtime_error("'weight' must be 2-D");
  require_index(indices, "embedding");
  if (args.boolean("sparse")) throw Unsupported("embedding with sparse gradients");
  if (args.boolean("scale_grad_by_freq")) throw Unsupported("embedding with gradients scaled by frequency");
  Tensor rows = core_index(weight, {refuse_negative(indices, weight.size(0))});
  const int64_t padding = args.constant("padding_idx");
  if (padding < 0) return one(rows);
  // The row of the padding is not trained.
  Tensor padded = unsqueeze(eq(indices, Operand(padding)), indices.rank());
  return one(where(padded, detach(rows), rows));
}

std::vector<Value*> index_select_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args), index = operand(b, args, "index");
  require_index(index, "index_select");
  if (index.rank() > 1)
    index_error("index_select(): Index is supposed to be a vector, but got dim: " +
                std::to_string(index.rank()));
  int64_t dim = wrap_dim(args.constant("dim"), self.rank());
  if (self.rank() == 0) {
    Tensor picked =
        core_index(reshape(self, {1}), {refuse_negative(reshape(index, {index.type().numel()}), 1)});
    if (!b.sym().guard_eq(index.type().numel(), 1, "index_select"))
      index_error("index_select(): index to scalar can have only 1 value");
    return one(reshape(picked, {}));
  }
  index = reshape(index, {index.type().numel()});
  Dims order = front_order(self.rank(), dim);
  // Eager has a kernel of its own for dim 1, with another error.
  Tensor picked = core_index(permute(own(self), order), {refuse_negative(index, self.size(dim))},
                             dim == 1 ? kRuntimeError : kIndexError);
  return one(permute(picked, inverse(order)));
}

// The index of gather and scatter may be smaller than self, never larger.
void check_gather(Builder& b, Tensor self, Tensor index, int64_t dim, const char* name) {
  if (std::max(index.rank(), 1) != std::max(self.rank(), 1))
    runtime_error("Index tensor must have the same number of dimensions as input tensor");
  for (int64_t d = 0; d < index.rank() && self.rank() > 0; ++d)
    if (d != dim && !b.sym().expect(Relation::kLe, index.size(d), self.size(d), name))
      runtime_error("Size does not match at dimension " + std::to_string(d) + " expected index " +
                    sizes_text(index.sizes()) + " to be no larger than self " + sizes_text(self.sizes()) +
                    " apart from dimension " + std::to_string(dim));
}
Tensor at_least_1d(Tensor x) { return x.rank() == 0 ? reshape(x, {1}) : x; }

std::vector<Value*> gather_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args), index = operand(b, args, "index");
  int64_t dim = wrap_dim(args.constant("dim"), self.rank());
  if (b.sym().guard_eq(index.type().numel(), 0, "gather"))
    return one(follow(full(b, index.sizes(), Sym(0), self.dtype()), self));
  require_index(index, "gather");
  check_gather(b, self, index, dim, "gather");
  Tensor picked =
      torch_gather(at_least_1d(self),
                   refuse_negative(at_least_1d(index), self.rank() == 0 ? Sym(1) : self.size(dim)), dim);
  return one(reshape(picked, index.sizes()));
}

std::vector<Value*> take_along_dim_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args), index = operand(b, args, "indices");
  require_int64(index, "take_along_dim");
  const bool numpy = b.graph().framework == Framework::kNumpy;
  if (!args.has("dim")) {
    Tensor flat = reshape(index, {index.type().numel()});
    if (!numpy) flat = refuse_negative(flat, self.type().numel());
    return one(torch_gather(reshape(self, {self.type().numel()}), flat, 0));
  }
  if (self.rank() != index.rank())
    runtime_error("torch.take_along_dim(): input and indices should have the same number of dimensions");
  if (self.rank() == 0) index_error("Dimension specified as 0 but tensor has no dimensions");
  int64_t dim = wrap_dim(args.constant("dim"), self.rank());
  std::vector<Sym> a = self.sizes(), c = index.sizes();
  a[dim] = c[dim] = 1;
  if (!numpy) index = remainder(index, Operand(self.size(dim)));  // torch takes any index modulo the size
  std::vector<Sym> common = broadcast_sizes(b.graph(), a, c), wide = common;
  common[dim] = self.size(dim);
  wide[dim] = index.size(dim);
  return one(torch_gather(expand(self, common), expand(index, wide), dim));
}

std::vector<Value*> take_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args), index = operand(b, args, "index");
  require_int64(index, "take");
  return one(core_index(reshape(self, {self.type().numel()}), {index}));
}

// ---- scatter --------------------------------------------------------------------------------------------

Tensor core_scatter(Tensor self, Tensor index, Tensor src, int64_t dim, const char* reduce) {
  Builder& b = *self.builder;
  Tensor target = at_least_1d(self), place = refuse_negative(at_least_1d(index), target.size(dim));
  Tensor result =
      wrap(b, b.call1("core.scatter", {target.value, place.value, at_least_1d(src).value, Sym(dim),
                                       std::string(reduce), std::string(kRuntimeError)}));
  return reshape(result, self.sizes());
}

const char* scatter_reduce(const Args& args) {
  if (args.schema().find("reduce") < 0) return "";
  std::string_view name = args.string("reduce");
  if (name == "add" || name == "sum") return "sum";
  if (name == "multiply" || name == "prod") return "prod";
  if (name == "amax") return "amax";
  if (name == "amin") return "amin";
  if (name == "mean" && args.schema().name == "scatter_reduce") return "sum";
  throw Unsupported("scatter with reduce=" + std::string(name));
}

// What leaves the other operand of a reduction as it is.
Arg neutral(std::string_view reduce, DType dtype) {
  if (reduce == "sum") return Sym(0);
  if (reduce == "prod") return Sym(1);
  if (!is_float(dtype)) throw Unsupported("scatter_reduce of integers without self");
  double infinity = std::numeric_limits<double>::infinity();
  return reduce == "amax" ? -infinity : infinity;
}

// Sums divided by how many came together; places that nothing came to keep their value.
Tensor scatter_mean(Tensor self, Tensor index, Tensor src, int64_t dim, bool include_self) {
  Builder& b = *self.builder;
  if (!is_float(self.dtype())) throw Unsupported("the mean of integers");
  Tensor zero = full(b, index.sizes(), 0.0, self.dtype()), ones = full(b, index.sizes(), 1.0, self.dtype());
  Tensor start = include_self ? self : core_scatter(self, index, zero, dim, "");
  Tensor count = core_scatter(full_like(self, include_self ? 1.0 : 0.0), index, ones, dim, "sum");
  return core_scatter(start, index, src, dim, "sum") / maximum(count, 1.0);
}

std::vector<Value*> scatter_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args), index = operand(b, args, "index");
  int64_t dim = wrap_dim(args.constant("dim"), self.rank());
  require_index(index, "scatter");
  if (args.has("src") && operand_dtype(args, "src") != self.dtype())
    runtime_error("scatter(): Expected self.dtype to be equal to src.dtype");
  if (b.sym().guard_eq(index.type().numel(), 0, "scatter")) return one(self);
  check_gather(b, self, index, dim, "scatter");
  const char* reduce = args.schema().name == "scatter_add" ? "sum" : scatter_reduce(args);
  Tensor src;
  if (args.schema().find("value") >= 0) {
    src = full(b, index.sizes(), args["value"], self.dtype());
  } else {
    src = operand(b, args, "src");
    if (std::max(src.rank(), 1) != std::max(index.rank(), 1))
      runtime_error("Index tensor must have the same number of dimensions as src tensor");
    check_gather(b, src, index, -1, "scatter");
  }
  bool include_self = args.schema().find("include_self") < 0 || args.boolean("include_self");
  if (args.schema().find("reduce") >= 0 && args.string("reduce") == "mean")
    return one(scatter_mean(self, index, src, dim, include_self));
  if (!include_self)
    self = core_scatter(self, index, full(b, index.sizes(), neutral(reduce, self.dtype()), self.dtype()), dim,
                        "");
  return one(core_scatter(self, index, src, dim, reduce));
}

// Slices of self along dim, picked by a 1-d index, replaced by or added to.
Tensor put_slices(Builder& b, const Args& args, Tensor values, bool accumulate,
                  const char* error = kIndexError) {
  Tensor self = self_of(b, args), index = operand(b, args, "index");
  require_index(index, "index_add");
  if (index.rank() > 1) index_error("Index is supposed to be a vector");
  int64_t dim = wrap_dim(args.constant("dim"), self.rank());
  Tensor target = at_least_1d(self);
  Dims order = front_order(target.rank(), dim);
  Tensor put = core_index_put(permute(own(target), order),
                              {refuse_negative(reshape(index, {index.type().numel()}), target.size(dim))},
                              permute(own(at_least_1d(values)), order), accumulate, error);
  return reshape(permute(put, inverse(order)), self.sizes());
}
Tensor slices_source(Builder& b, const Args& args) {
  Tensor self = self_of(b, args), index = operand(b, args, "index"), source = operand(b, args, "source");
  if (source.dtype() != self.dtype()) runtime_error("self and source expected to have the same dtype");
  if (source.rank() != self.rank()) throw Unsupported("a source of another rank than self");
  int64_t dim = wrap_dim(args.constant("dim"), self.rank());
  for (int64_t d = 0; d < source.rank(); ++d) {
    const Sym expected = d == dim ? index.type().numel() : self.size(d);
    if (!b.sym().expect_eq(source.size(d), expected, "index"))
      index_error("Number of indices should be equal to source.size(dim)");
  }
  return source;
}
std::vector<Value*> index_add_body(Builder& b, const Args& args) {
  Tensor source = slices_source(b, args);
  Arg alpha = args["alpha"];
  if (const auto* real = std::get_if<double>(&alpha); real && !is_float(source.dtype()))
    alpha = Sym(static_cast<int64_t>(*real));  // eager converts it
  if (args.number("alpha") != 1) source = source * Operand(alpha, &b);
  // Eager adds along the first and the last dim by scatter_add, which has another error.
  const int rank = source.rank();
  const int64_t dim = wrap_dim(args.constant("dim"), rank);
  const bool scatters = rank > 1 && (dim == 0 || dim == rank - 1);
  return one(put_slices(b, args, source, true, scatters ? kRuntimeError : kIndexError));
}
std::vector<Value*> index_copy_body(Builder& b, const Args& args) {
  return one(put_slices(b, args, slices_source(b, args), false));
}
// A choice by a mask of the dim: a place that is named twice gives the value its gradient once.
std::vector<Value*> index_fill_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args), index = operand(b, args, "index"), target = at_least_1d(self);
  require_index(index, "index_fill");
  if (index.rank() > 1) index_error("Index is supposed to be a vector");
  const int64_t dim = wrap_dim(args.constant("dim"), self.rank());
  const Sym size = target.size(dim), count = index.type().numel();
  Tensor hit =
      core_index_put(full(b, {size}, false, DType::kBool), {refuse_negative(reshape(index, {count}), size)},
                     full(b, {count}, true, DType::kBool), false);
  std::vector<Sym> shape(target.rank(), 1);
  shape[dim] = size;
  Tensor value;
  if (const auto* tensor = std::get_if<Value*>(&args["value"])) {
    if ((*tensor)->type.rank() != 0) runtime_error("index_fill_ only supports a 0-dimensional value tensor");
    value = cast(wrap(b, *tensor), self.dtype());
  } else {
    value = full(b, {}, args["value"], self.dtype());
  }
  return one(reshape(where(reshape(hit, shape), value, target), self.sizes()));
}

// ---- parts replaced -------------------------------------------------------------------------------------

std::vector<Value*> slice_scatter_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args), src = operand(b, args, "src");
  int64_t dim = wrap_dim(args.constant("dim"), self.rank());
  const OpDef& slice_op = op("slice");
  Arg start = args.has("start") ? args["start"] : Arg(), end = args.has("end") ? args["end"] : Arg();
  Builder scratch_builder(b.graph(), Level::kCaptured);
  TensorType part =
      scratch_builder.infer(slice_op, 0, {self.value, Sym(dim), start, end, args["step"]}).at(0);
  if (src.sizes() != part.sizes)
    runtime_error("expected src to have a size equal to the slice of self. src size = " +
                  sizes_text(src.sizes()) + ", slice size = " + sizes_text(part.sizes));
  std::vector<Sym> starts(self.rank(), 0), steps(self.rank(), 1);
  starts[dim] = args.has("start") ? clamp_bound(b.sym(), args.integer("start"), self.size(dim)) : Sym(0);
  steps[dim] = args.integer("step");
  return forward(b, "core.slice_scatter", {self.value, cast(src, self.dtype()).value, starts, steps});
}
std::vector<Value*> select_scatter_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args), src = operand(b, args, "src");
  int64_t dim = wrap_dim(args.constant("dim"), self.rank());
  Sym index =
      wrap_index(b.sym(), args.integer("index"), self.size(dim), "select_scatter(): index out of range");
  std::vector<Sym> sizes = self.sizes(), starts(self.rank(), 0), steps(self.rank(), 1);
  sizes.erase(sizes.begin() + dim);
  if (src.sizes() != sizes) runtime_error("expected src to have a size equal to the slice of self");
  starts[dim] = index;
  return forward(b, "core.slice_scatter",
                 {self.value, unsqueeze(cast(src, self.dtype()), dim).value, starts, steps});
}
std::vector<Value*> diagonal_scatter_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args), src = operand(b, args, "src");
  Sym dim1 = wrap_dim(args.constant("dim1"), self.rank()),
      dim2 = wrap_dim(args.constant("dim2"), self.rank()), offset = args.constant("offset");
  Tensor part = wrap(b, b.call1("core.diagonal", {self.value, offset, dim1, dim2}));
  if (src.sizes() != part.sizes()) runtime_error("expected src to have a size equal to the slice of self");
  return forward(b, "core.diagonal_scatter", {self.value, cast(src, self.dtype()).value, offset, dim1, dim2});
}

// A copy of self with its strides, gaps between its elements too, but where several places have one element.
void copied_strides(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  const TensorType& self = args.value("self")->type;
  SymContext& sym = *graph.sym;
  bool repeats = false;
  for (int d = 0; d < self.rank() && !repeats; ++d)
    repeats = sym.guard_eq(self.strides[d], 0, "strides") && !sym.guard_eq(self.sizes[d], 1, "strides");
  results[0].strides = repeats ? preserved_strides(graph, self) : self.strides;
}

std::vector<Value*> one_hot_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args);
  if (self.dtype() != DType::kI64)
    runtime_error("one_hot is only applicable to index tensor of type LongTensor.");
  int64_t classes = args.constant("num_classes");
  if (classes < 0) throw Unsupported("one_hot without num_classes, which depends on the values");
  if (classes == 0) runtime_error("num_classes should be positive");
  std::vector<Sym> sizes = self.sizes();
  sizes.push_back(classes);
  // Through scatter, which reports classes out of range.
  Tensor zero = full(b, sizes, Sym(0), DType::kI64),
         ones = full(b, unsqueeze(self, self.rank()).sizes(), Sym(1), DType::kI64);
  Tensor index = refuse_negative(unsqueeze(self, self.rank()), classes);
  return forward(
      b, "core.scatter",
      {zero.value, index.value, ones.value, Sym(self.rank()), std::string(), std::string(kRuntimeError)});
}

std::vector<OpDef> picking() {
  return {
      indexing("embedding",
               {"embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, "
                "bool sparse=False) -> Tensor"},
               embedding_body),
      indexing("index_select", {"index_select(Tensor self, int dim, Tensor index) -> Tensor"},
               index_select_body),
      indexing("gather", {"gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor"},
               gather_body),
      indexing("take_along_dim", {"take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor"},
               take_along_dim_body),
      indexing("take", {"take(Tensor self, Tensor index) -> Tensor"}, take_body),
      indexing("one_hot", {"one_hot(Tensor self, int num_classes=-1) -> Tensor"}, one_hot_body),
  };
}

std::vector<OpDef> writing() {
  return {
      with_in_place_variant(indexing(
          "scatter",
          {"scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
           "scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
           "scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
           "scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor"},
          scatter_body)),
      with_in_place_variant(
          indexing("scatter_add", {"scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"},
                   scatter_body)),
      with_in_place_variant(
          indexing("scatter_reduce",
                   {"scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool "
                    "include_self=True) -> Tensor"},
                   scatter_body)),
      with_in_place_variant(indexing(
          "index_add",
          {"index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor"},
          index_add_body)),
      with_in_place_variant(
          indexing("index_copy", {"index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor"},
                   index_copy_body)),
      with_in_place_variant(
          indexing("index_fill",
                   {"index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
                    "index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor"},
                   index_fill_body, preserved_results)),
      indexing("slice_scatter",
               {"slice_scatter(Tensor self, Tensor src, int dim=0, int? start=None, int? end=None, int "
                "step=1) -> Tensor"},
               slice_scatter_body, copied_strides),
      indexing("select_scatter", {"select_scatter(Tensor self, Tensor src, int dim, int index) -> Tensor"},
               select_scatter_body, copied_strides),
      indexing("diagonal_scatter",
               {"diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor"},
               diagonal_scatter_body, copied_strides),
  };
}

}  // namespace

std::vector<OpDef> indexing_ops() {
  std::vector<OpDef> ops = picking();
  for (OpDef& op : writing()) ops.push_back(std::move(op));
  return ops;
}

}  // namespace cdynamo::graph
