// Advanced indexing: x[index arrays], read and written.
#include <algorithm>
#include <optional>

#include "graph/ops/indexing.h"
#include "graph/ops/view_rules.h"

namespace cdynamo::graph {
namespace {

// What x[indices] means: dims with an index go first, the others after them; `places`: where the index's dims
// end up.
struct Advanced {
  std::vector<Tensor> indices;  // broadcast to one shape, int64
  Dims indexed, rest;           // dims of self
  int64_t at = 0;               // position of the index's dims in the result
  std::vector<Sym> shape;
};

Advanced analyze(Builder& b, Tensor self, const std::vector<Value*>& given) {
  Advanced a;
  if (static_cast<int>(given.size()) > self.rank())
    index_error("too many indices for tensor of dimension " + std::to_string(self.rank()));
  bool first = true;
  for (size_t d = 0; d < given.size(); ++d) {
    if (!given[d]) continue;
    Tensor index = wrap(b, given[d]);
    if (index.dtype() == DType::kBool || index.dtype() == DType::kU8)
      throw Unsupported("a mask as an index, whose number of results is known only at run time");
    const bool is_narrow = b.graph().framework == Framework::kTorch && index.dtype() != DType::kI32 &&
                           index.dtype() != DType::kI64;
    if (!is_integer(index.dtype()) || is_narrow)
      index_error("tensors used as indices must be long, int, byte or bool tensors");
    a.shape = first ? index.sizes() : broadcast_sizes(b.graph(), a.shape, index.sizes());
    first = false;
    a.indices.push_back(cast(index, DType::kI64));
    a.indexed.push_back(static_cast<int64_t>(d));
  }
  if (a.indices.empty()) throw Unsupported("indexing without a tensor");
  for (Tensor& index : a.indices) index = expand(index, a.shape);
  for (int64_t d = 0; d < self.rank(); ++d)
    if (std::find(a.indexed.begin(), a.indexed.end(), d) == a.indexed.end()) a.rest.push_back(d);
  bool adjacent = a.indexed.back() - a.indexed.front() + 1 == static_cast<int64_t>(a.indexed.size());
  a.at = adjacent ? a.indexed.front() : 0;
  return a;
}
Dims leading_order(const Advanced& a) {
  Dims order = a.indexed;
  order.insert(order.end(), a.rest.begin(), a.rest.end());
  return order;
}
// (index dims.., rest..) to the result's order.
Dims result_order(const Advanced& a) {
  Dims order;
  int64_t lead = static_cast<int64_t>(a.shape.size());
  for (int64_t i = 0; i < a.at; ++i) order.push_back(lead + i);
  for (int64_t i = 0; i < lead; ++i) order.push_back(i);
  for (int64_t i = a.at; i < static_cast<int64_t>(a.rest.size()); ++i) order.push_back(lead + i);
  return order;
}

std::vector<Value*> index_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args);
  Advanced a = analyze(b, self, args.values("indices"));
  return one(permute(core_index(permute(own(self), leading_order(a)), a.indices), result_order(a)));
}

// PyTorch: the order that the iterator finds for self, which does not move along the dims of the indices, and for
// the indices, which move along no others.
std::vector<Sym> iterated_strides(Graph& graph, const Args& args, const Advanced& a,
                                  const TensorType& result) {
  const TensorType& self = args.value("self")->type;
  TensorType shown;
  shown.sizes.assign(result.sizes.size(), 1);
  shown.strides.assign(result.sizes.size(), 0);
  std::vector<TensorType> operands = {shown};
  for (size_t i = 0; i < a.rest.size(); ++i) {
    const size_t place = static_cast<int64_t>(i) < a.at ? i : i + a.shape.size();
    operands[0].sizes[place] = self.sizes[a.rest[i]];
    operands[0].strides[place] = self.strides[a.rest[i]];
  }
  for (const Value* index : args.values("indices")) {
    if (!index) continue;
    // The index, expanded to the indices' sizes, is a view that has the other dims too, with one place each.
    const TensorType expanded{.sizes = a.shape,
                              .strides = broadcast_strides(*graph.sym, a.shape, index->type)};
    TensorType& seen = operands.emplace_back();
    seen.sizes.assign(result.sizes.size(), 1);
    std::ranges::copy(a.shape, seen.sizes.begin() + a.at);
    seen.strides = view_strides(*graph.sym, expanded, seen.sizes).value_or(contiguous_strides(seen.sizes));
  }
  std::vector<const TensorType*> pointers;
  for (const TensorType& type : operands) pointers.push_back(&type);
  return elementwise_strides(*graph.sym, result.sizes, pointers);
}

// NumPy: the dims of the index arrays are made first, row-major; those that are left keep their order in memory.
// Index arrays alone go by the order of their own.
void index_strides(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  contiguous_results(graph, args, results);
  Builder b(graph);
  const Advanced a = analyze(b, operand(b, args, "self"), args.values("indices"));
  if (graph.framework != Framework::kNumpy) {
    results[0].strides = iterated_strides(graph, args, a, results[0]);
    return;
  }
  const TensorType& self = args.value("self")->type;
  std::vector<const TensorType*> index_types;
  for (Value* index : args.values("indices"))
    if (index) index_types.push_back(&index->type);
  TensorType rest;
  for (int64_t dim : a.rest) {
    rest.sizes.push_back(self.sizes[dim]);
    rest.strides.push_back(self.strides[dim]);
  }
  std::vector<Sym> inner = numpy_strides(*graph.sym, rest.sizes, {&rest});
  std::vector<Sym> strides =
      a.rest.empty() ? numpy_strides(*graph.sym, a.shape, index_types) : contiguous_strides(a.shape);
  for (Sym& stride : strides) stride = stride * rest.numel();
  strides.insert(strides.end(), inner.begin(), inner.end());
  const Dims order = result_order(a);
  for (size_t d = 0; d < order.size(); ++d) results[0].strides[d] = strides[order[d]];
}

// x[mask] = v with one v for all: where(mask, v, x).
std::optional<Tensor> masked_put(Builder& b, Tensor self, const std::vector<Value*>& given, Tensor values) {
  if (given.size() != 1 || !given[0] || given[0]->type.dtype != DType::kBool) return std::nullopt;
  Tensor mask = wrap(b, given[0]);
  if (mask.rank() > self.rank() || !b.sym().guard_eq(values.type().numel(), 1, "index_put"))
    return std::nullopt;
  std::vector<Sym> sizes = mask.sizes();
  for (int64_t d = 0; d < mask.rank(); ++d)
    if (!b.sym().guard_eq(mask.size(d), self.size(d), "mask"))
      index_error("The shape of the mask does not match the shape of the indexed tensor");
  sizes.resize(self.rank(), 1);
  return where(reshape(mask, sizes), reshape(values, {}), self);
}

std::vector<Value*> index_put_body(Builder& b, const Args& args) {
  Tensor self = self_of(b, args), values = operand(b, args, "values");
  bool accumulate = args.boolean("accumulate");
  if (values.dtype() != self.dtype()) {
    if (b.graph().framework == Framework::kTorch)
      runtime_error("Index put requires the source and destination dtypes match");
    values = cast(values, self.dtype());
  }
  if (!accumulate)
    if (auto masked = masked_put(b, self, args.values("indices"), values)) return one(*masked);
  Advanced a = analyze(b, self, args.values("indices"));
  std::vector<Sym> sizes = a.shape;
  for (int64_t dim : a.rest) sizes.push_back(self.size(dim));
  Dims order = result_order(a);
  std::vector<Sym> shown;
  for (int64_t dim : order) shown.push_back(sizes[dim]);
  std::vector<Sym> whole = broadcast_sizes(b.graph(), values.sizes(), shown);
  bool fits = whole.size() == shown.size();
  for (size_t d = 0; fits && d < shown.size(); ++d) fits = b.sym().expect_eq(whole[d], shown[d], "index_put");
  if (!fits)
    runtime_error("shape mismatch: value tensor of shape " + sizes_text(values.sizes()) +
                  " cannot be broadcast to indexing result of shape " + sizes_text(shown));
  Tensor placed = permute(expand(own(values), shown), inverse(order));
  Tensor put = core_index_put(permute(own(self), leading_order(a)), a.indices, placed, accumulate);
  return one(permute(put, inverse(leading_order(a))));
}

}  // namespace

std::vector<OpDef> advanced_indexing_ops() {
  return {
      indexing("index", {"index.Tensor(Tensor self, Tensor?[] indices) -> Tensor"}, index_body,
               index_strides),
      with_in_place_variant(indexing(
          "index_put",
          {"index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"},
          index_put_body, preserved_results)),
  };
}

}  // namespace cdynamo::graph
