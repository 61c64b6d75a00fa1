// as_strided: windows within windows over the elements of a row-major tensor. Each dim takes windows, its stride apart, that reach
// as far as the dims after it do. The dims are taken in the order of their strides, so that windows overlap only where elements are
// the same.
#include <algorithm>
#include <numeric>

#include "graph/ops/view_rules.h"

namespace cdynamo::graph {
namespace {

struct Strided {
  std::vector<Sym> sizes, strides;
  Sym offset;
  size_t rank() const { return sizes.size(); }
};

Strided strided_of(const Args& args) {
  Strided s{args.sizes("size"), args.sizes("stride"), 0};
  if (args.has("storage_offset")) s.offset = args.integer("storage_offset");
  if (s.strides.size() != s.rank()) runtime_error("mismatch in length of strides and shape");
  return s;
}

// The dims, the one with the longest step first.
std::vector<int64_t> dims_by_stride(SymContext& sym, const Strided& s) {
  std::vector<int64_t> order(s.rank());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
    return sym.guard(Relation::kLt, s.strides[b], s.strides[a], "as_strided");
  });
  return order;
}

Strided in_order(const Strided& s, const std::vector<int64_t>& order) {
  Strided ordered{.offset = s.offset};
  for (int64_t d : order) {
    ordered.sizes.push_back(s.sizes[d]);
    ordered.strides.push_back(s.strides[d]);
  }
  return ordered;
}

// How far the dims from `first` on reach, in elements.
Sym reach(const Strided& s, size_t first) {
  Sym last = 0;
  for (size_t d = first; d < s.rank(); ++d) last = last + (s.sizes[d] - 1) * s.strides[d];
  return last + 1;
}

// An offset counts from the start of the storage, which is known of a tensor that was made here.
bool begins_its_storage(const Value& self) { return self.node && result_alias(*self.node) == Alias::kNone; }

std::vector<TensorType> infer_as_strided(Graph& graph, const Args& args) {
  SymContext& sym = *graph.sym;
  const Value& self = *args.value("self");
  const Strided s = strided_of(args);
  for (size_t d = 0; d < s.rank(); ++d) {
    if (!sym.guard(Relation::kLt, 0, s.sizes[d], "as_strided"))
      throw Unsupported("as_strided of no elements");
    if (sym.guard(Relation::kLt, s.strides[d], 0, "as_strided"))
      throw Unsupported("as_strided with a negative stride");
  }
  if (args.has("storage_offset") && !begins_its_storage(self))
    throw Unsupported("as_strided with an offset into the storage of an argument or of a view");
  if (sym.guard(Relation::kLt, s.offset, 0, "as_strided")) throw Unsupported("a negative storage offset");
  if (!is_contiguous(sym, self.type) ||
      sym.guard(Relation::kLt, self.type.numel(), s.offset + reach(s, 0), "as_strided"))
    throw Unsupported("as_strided beyond the elements of a row-major tensor");
  return {with_layout(self.type, s.sizes, s.strides)};
}

Tensor windows_along_last(Tensor x, Sym count, Sym size, Sym step) {
  using List = std::vector<Sym>;
  return wrap(*x.builder,
              x.builder->call1("core.window", {x.value, List{x.rank() - 1}, List{size}, List{step}, List{0},
                                               List{1}, List{count}, Sym(0)}));
}

std::vector<Value*> as_strided_body(Builder& b, const Args& args) {
  const Strided given = strided_of(args);
  const std::vector<int64_t> order = dims_by_stride(b.sym(), given);
  const Strided s = in_order(given, order);
  Tensor x = operand(b, args, "self");
  x = slice(reshape(x, {x.type().numel()}), 0, s.offset, reach(s, 0));
  std::vector<Sym> stepped = s.sizes;  // 1 where no step is made in memory
  for (size_t d = 0; d < s.rank(); ++d) {
    const bool stays =
        b.sym().guard_eq(s.sizes[d], 1, "as_strided") || b.sym().guard_eq(s.strides[d], 0, "as_strided");
    if (stays)
      stepped[d] = 1;
    else
      x = windows_along_last(x, s.sizes[d], reach(s, d + 1), s.strides[d]);
  }
  std::vector<int64_t> places(s.rank());
  for (size_t d = 0; d < s.rank(); ++d) places[order[d]] = static_cast<int64_t>(d);
  x = permute(expand(reshape(x, stepped), s.sizes), places);
  return {b.call1("core.unit_strides", {x.value, given.strides})};
}

}  // namespace

std::vector<OpDef> as_strided_ops() {
  return {
      {.name = "as_strided",
       .family = Family::kComposite,
       .schemas = {"as_strided(Tensor self, int[] size, int[] stride, int? storage_offset=None) -> Tensor"},
       .body = as_strided_body,
       .infer = infer_as_strided,
       .in_place_variant = false,
       .view = true}};
}

}  // namespace cdynamo::graph
