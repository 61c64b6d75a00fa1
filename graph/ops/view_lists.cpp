// Views that give several tensors: split, chunk, unbind; and what joins or repeats tensors: cat, stack,
// repeat.
#include <algorithm>

#include "graph/ops/view_rules.h"

namespace cdynamo::graph {
namespace {

// ---- split ----------------------------------------------------------------------------------------------

struct Parts {
  int64_t dim = 0;
  std::vector<Sym> starts, sizes;
};
using PartsFn = Parts (*)(Graph&, const Args&);

Parts of_sizes(int64_t dim, const std::vector<Sym>& sizes) {
  Parts parts{dim};
  Sym start = 0;
  for (const Sym& size : sizes) {
    parts.starts.push_back(start);
    parts.sizes.push_back(size);
    start = start + size;
  }
  return parts;
}

// Parts of `size` each, the last one smaller.
Parts of_size(Graph& graph, const TensorType& self, int64_t dim, const Sym& size) {
  SymContext& sym = *graph.sym;
  int64_t extent = sym.specialize(self.sizes.at(dim), "split: the number of parts"),
          step = sym.specialize(size, "split");
  if (step < 0)
    runtime_error("split expects split_size be non-negative, but got split_size=" + std::to_string(step));
  if (step == 0 && extent != 0)
    runtime_error("split_size can only be 0 if dimension size is 0, but got dimension size of " +
                  std::to_string(extent));
  std::vector<Sym> sizes;
  for (int64_t at = 0; at < extent; at += step) sizes.emplace_back(std::min(step, extent - at));
  if (sizes.empty()) sizes.emplace_back(0);
  return of_sizes(dim, sizes);
}

int64_t split_dim(const Args& args) {
  const TensorType& self = args.value("self")->type;
  if (self.rank() == 0) runtime_error("split expects at least a 1-dimensional tensor");
  return wrap_dim(args.constant("dim"), self.rank());
}

Parts checked_sizes(Graph& graph, const Args& args, const std::vector<Sym>& sizes) {
  int64_t dim = split_dim(args);
  Sym total = 0;
  for (const Sym& size : sizes) {
    if (graph.sym->guard(Relation::kLt, size, 0, "split"))
      runtime_error("split_with_sizes expects split_sizes have only non-negative entries");
    total = total + size;
  }
  if (!graph.sym->expect_eq(total, args.value("self")->type.sizes[dim], "split"))
    runtime_error("split_with_sizes expects split_sizes to sum exactly to the size of the dimension");
  return of_sizes(dim, sizes);
}

Parts split_parts(Graph& graph, const Args& args) {
  if (std::holds_alternative<std::vector<Sym>>(args["split_size"]))
    return checked_sizes(graph, args, args.sizes("split_size"));
  return of_size(graph, args.value("self")->type, split_dim(args), args.integer("split_size"));
}
Parts split_with_sizes_parts(Graph& graph, const Args& args) {
  return checked_sizes(graph, args, args.sizes("split_sizes"));
}

Parts chunk_parts(Graph& graph, const Args& args) {
  const TensorType& self = args.value("self")->type;
  int64_t dim = split_dim(args), chunks = args.constant("chunks");
  if (chunks <= 0)
    runtime_error("chunk expects `chunks` to be greater than 0, got: " + std::to_string(chunks));
  const Sym& extent = self.sizes[dim];
  // A size that the number of chunks divides may stay symbolic.
  if (!extent.is_constant() && graph.sym->guard_eq(mod(extent, chunks), 0, "chunk"))
    return of_sizes(dim, std::vector<Sym>(static_cast<size_t>(chunks), floordiv(extent, chunks)));
  Sym size = floordiv(extent + chunks - 1, chunks);
  if (graph.sym->guard_eq(extent, 0, "chunk"))
    return of_sizes(dim, std::vector<Sym>(static_cast<size_t>(chunks), 0));
  return of_size(graph, self, dim, size);
}

Parts unbind_parts(Graph& graph, const Args& args) {
  const TensorType& self = args.value("self")->type;
  if (self.rank() == 0) index_error("Dimension specified as 0 but tensor has no dimensions");
  int64_t dim = wrap_dim(args.constant("dim"), self.rank());
  int64_t count = graph.sym->specialize(self.sizes[dim], "unbind: the number of tensors");
  return of_sizes(dim, std::vector<Sym>(static_cast<size_t>(count), 1));
}

Parts tensor_split_parts(Graph& graph, const Args& args) {
  const TensorType& self = args.value("self")->type;
  if (self.rank() == 0)
    runtime_error("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
  int64_t dim = wrap_dim(args.constant("dim"), self.rank());
  int64_t extent = graph.sym->specialize(self.sizes[dim], "tensor_split");
  std::vector<Sym> sizes;
  if (args.schema().find("sections") >= 0) {
    int64_t sections = args.constant("sections");
    if (sections <= 0)
      runtime_error("number of sections must be larger than 0, got " + std::to_string(sections));
    for (int64_t i = 0; i < sections; ++i) sizes.emplace_back(extent / sections + (i < extent % sections));
    return of_sizes(dim, sizes);
  }
  Parts parts{dim};
  std::vector<int64_t> bounds = args.constants("indices");
  bounds.push_back(extent);
  int64_t start = 0;
  for (size_t i = 0; i < bounds.size(); ++i) {
    auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + extent : at, 0, extent); };
    int64_t begin = clamp(start), end = i + 1 == bounds.size() ? extent : clamp(bounds[i]);
    parts.starts.emplace_back(begin);
    parts.sizes.emplace_back(std::max<int64_t>(end - begin, 0));
    start = bounds[i];
  }
  return parts;
}

template <PartsFn fn>
std::vector<TensorType> infer_parts(Graph& graph, const Args& args) {
  Parts parts = fn(graph, args);
  std::vector<TensorType> types;
  for (const Sym& size : parts.sizes) {
    types.push_back(args.value("self")->type);
    types.back().sizes[parts.dim] = size;
  }
  return types;
}
template <PartsFn fn>
std::vector<Value*> parts_body(Builder& b, const Args& args) {
  Parts parts = fn(b.graph(), args);
  std::vector<Value*> values;
  for (size_t i = 0; i < parts.sizes.size(); ++i)
    values.push_back(slice(operand(b, args, "self"), parts.dim, parts.starts[i], parts.sizes[i]).value);
  return values;
}

std::vector<TensorType> infer_unbind(Graph& graph, const Args& args) {
  Parts parts = unbind_parts(graph, args);
  return std::vector<TensorType>(parts.sizes.size(), without_dims(args.value("self")->type, {parts.dim}));
}
std::vector<Value*> unbind_body(Builder& b, const Args& args) {
  Parts parts = unbind_parts(b.graph(), args);
  std::vector<Value*> values;
  for (const Sym& start : parts.starts)
    values.push_back(select(operand(b, args, "self"), parts.dim, start).value);
  return values;
}

template <PartsFn fn>
OpDef splitting(std::string_view name, std::vector<std::string_view> schemas,
                std::vector<std::string_view> torch_names = {}) {
  return {.name = name,
          .family = Family::kComposite,
          .schemas = std::move(schemas),
          .torch_names = std::move(torch_names),
          .body = parts_body<fn>,
          .infer = infer_parts<fn>,
          .in_place_variant = false,
          .view = true};
}

}  // namespace

std::vector<OpDef> view_lists_ops() {
  return {
      splitting<split_parts>("split", {"split.Tensor(Tensor self, int split_size, int dim=0) -> Tensor[]",
                                       "split.sizes(Tensor self, int[] split_size, int dim=0) -> Tensor[]"}),
      splitting<split_with_sizes_parts>(
          "split_with_sizes", {"split_with_sizes(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]"}),
      splitting<chunk_parts>("chunk", {"chunk(Tensor self, int chunks, int dim=0) -> Tensor[]"}),
      splitting<tensor_split_parts>(
          "tensor_split", {"tensor_split.sections(Tensor self, int sections, int dim=0) -> Tensor[]",
                           "tensor_split.indices(Tensor self, int[] indices, int dim=0) -> Tensor[]"}),
      {.name = "unbind",
       .family = Family::kComposite,
       .schemas = {"unbind.int(Tensor self, int dim=0) -> Tensor[]"},
       .body = unbind_body,
       .infer = infer_unbind,
       .in_place_variant = false,
       .view = true},
  };
}

}  // namespace cdynamo::graph
