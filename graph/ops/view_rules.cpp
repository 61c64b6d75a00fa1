#include "graph/ops/view_rules.h"

#include <algorithm>

namespace cdynamo::graph {

SymContext& context_of(std::initializer_list<const TensorType*> types) {
  static thread_local SymContext constants;
  for (const TensorType* type : types)
    for (const std::vector<Sym>* numbers : {&type->sizes, &type->strides})
      for (const Sym& number : *numbers)
        if (!number.is_constant()) return *number.node()->context;
  return constants;
}
SymContext& context_of(const TensorType& type) { return context_of({&type}); }

const TensorType& self_type(const Node& node) { return std::get<Value*>(node.args.at(0))->type; }

bool can_bitcast(DType from, DType to) {
  return runtime::bytes(from) == runtime::bytes(to) && !runtime::is_half(from) && !runtime::is_half(to) &&
         to != DType::kBool;
}

TensorType regrouped(Graph& graph, const TensorType& self, DType dtype) {
  SymContext& sym = *graph.sym;
  if (dtype == DType::kBool) throw Unsupported("view() as bool");
  // Kernels round what they compute to half types, and so give NaNs other bits.
  if (runtime::is_half(dtype) || runtime::is_half(self.dtype))
    throw Unsupported("view() of or as a half type");
  TensorType type = self;
  type.dtype = dtype;
  type.weak = false;
  const int64_t from = runtime::bytes(self.dtype), to = runtime::bytes(dtype),
                ratio = std::max(from / to, to / from);
  if (from == to) return type;
  const auto require = [](bool fits) {
    if (!fits) throw Unsupported("view() as a dtype of another size of these sizes and strides");
  };
  require(self.rank() > 0);
  require(sym.guard_eq(self.strides.back(), 1, "view") ||
          (graph.framework == Framework::kNumpy && sym.guard_eq(self.sizes.back(), 1, "view")));
  const auto regroup = [&](Sym& number) {
    if (from < to) require(sym.guard_eq(mod(number, ratio), 0, "view"));
    number = from < to ? floordiv(number, ratio) : number * ratio;
  };
  regroup(type.sizes.back());
  std::for_each(type.strides.begin(), type.strides.end() - 1, regroup);
  type.strides.back() = 1;
  return type;
}

Value* with_bits_as(Builder& builder, Value* value, DType dtype) {
  const DType own = value->type.dtype;
  if (dtype == own) return value;
  if (can_bitcast(own, dtype)) return builder.call1("core.bitcast", {value, dtype});
  return builder.call1("core.regroup", {value, own, dtype});
}

std::vector<Sym> resolve_sizes(SymContext& sym, const TensorType& self, std::vector<Sym> sizes) {
  Sym numel = self.numel(), known = 1;
  int unknown = -1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == Sym(-1)) {
      if (unknown >= 0) runtime_error("only one dimension can be inferred");
      unknown = static_cast<int>(i);
    } else {
      if (sym.guard(Relation::kLt, sizes[i], 0, "view"))
        runtime_error("invalid shape dimension " + sizes[i].str());
      known = known * sizes[i];
    }
  }
  auto invalid = [&]() {
    runtime_error("shape '" + sizes_text(sizes) + "' is invalid for input of size " +
                  std::to_string(sym.hint(numel)));
  };
  if (unknown < 0) {
    if (!sym.expect_eq(numel, known, "view")) invalid();
    return sizes;
  }
  if (sym.guard_eq(known, 0, "view")) {
    if (!sym.guard_eq(numel, 0, "view")) invalid();
    runtime_error("cannot reshape tensor of 0 elements into shape " + sizes_text(sizes) +
                  " because the unspecified dimension size -1 can be any value and is ambiguous");
  }
  if (!sym.expect_eq(mod(numel, known), 0, "view")) invalid();
  sizes[unknown] = floordiv(numel, known);
  return sizes;
}

TensorType with_layout(const TensorType& self, std::vector<Sym> sizes, std::vector<Sym> strides) {
  TensorType type = self;
  type.sizes = std::move(sizes);
  type.strides = std::move(strides);
  return type;
}

TensorType view_type(SymContext& sym, const TensorType& self, std::vector<Sym> sizes) {
  sizes = resolve_sizes(sym, self, std::move(sizes));
  auto strides = view_strides(sym, self, sizes);
  if (!strides)
    runtime_error(
        "view size is not compatible with input tensor's size and stride (at least one dimension spans "
        "across two "
        "contiguous subspaces). Use .reshape(...) instead.");
  return with_layout(self, std::move(sizes), std::move(*strides));
}

TensorType reshape_type(SymContext& sym, const TensorType& self, std::vector<Sym> sizes) {
  sizes = resolve_sizes(sym, self, std::move(sizes));
  auto strides = view_strides(sym, self, sizes);
  std::vector<Sym> row_major = contiguous_strides(sizes);
  return with_layout(self, std::move(sizes), strides ? *strides : row_major);
}

TensorType unsqueezed(const TensorType& self, int64_t dim) {
  dim = wrap_dim(dim, self.rank() + 1);
  TensorType type = self;
  Sym stride = dim < self.rank() ? self.sizes[dim] * self.strides[dim] : Sym(1);
  type.sizes.insert(type.sizes.begin() + dim, 1);
  type.strides.insert(type.strides.begin() + dim, stride);
  return type;
}

TensorType without_dims(const TensorType& self, const std::vector<int64_t>& dims) {
  std::vector<Sym> sizes, strides;
  for (int64_t d = 0; d < self.rank(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) != dims.end()) continue;
    sizes.push_back(self.sizes[d]);
    strides.push_back(self.strides[d]);
  }
  return with_layout(self, std::move(sizes), std::move(strides));
}

TensorType permuted(const TensorType& self, const std::vector<int64_t>& order) {
  std::vector<Sym> sizes, strides;
  for (int64_t dim : order) {
    sizes.push_back(self.sizes.at(dim));
    strides.push_back(self.strides.at(dim));
  }
  return with_layout(self, std::move(sizes), std::move(strides));
}

// ATen's inferExpandGeometry.
TensorType expanded(SymContext& sym, const TensorType& self, std::vector<Sym> sizes) {
  int64_t rank = static_cast<int64_t>(sizes.size()), own = self.rank();
  if (rank < own)
    runtime_error("expand: the number of sizes provided (" + std::to_string(rank) +
                  ") must be greater or equal to the number of dimensions in the tensor (" +
                  std::to_string(own) + ")");
  std::vector<Sym> strides(sizes.size());
  for (int64_t i = rank - 1; i >= 0; --i) {
    int64_t dim = own - 1 - (rank - 1 - i);
    Sym size = dim >= 0 ? self.sizes[dim] : Sym(1);
    Sym stride = dim >= 0        ? self.strides[dim]
                 : own == 0      ? Sym(0)  // a number's are all 0, dims of size 1 too
                 : i == rank - 1 ? Sym(1)
                                 : sizes[i + 1] * strides[i + 1];
    // A number of the program's may be negative in another call.
    if (!sizes[i].is_constant() && sym.guard(Relation::kLt, sizes[i], 0, "expand") &&
        sym.guard_eq(sizes[i], -1, "expand"))
      sizes[i] = -1;
    if (sizes[i] == Sym(-1)) {
      if (dim < 0)
        runtime_error("expand: -1 isn't allowed in a leading, non-existing dimension " + std::to_string(i));
      sizes[i] = size;
    }
    const bool is_one = !(size == sizes[i]) && sym.reads_data(sizes[i]) && size == Sym(1);
    if (is_one || (!(size == sizes[i]) && !sym.expect_eq(size, sizes[i], "expand"))) {
      if (!sym.guard_eq(size, 1, "expand"))
        runtime_error("The expanded size of the tensor (" + sizes[i].str() +
                      ") must match the existing size (" + size.str() + ") at non-singleton dimension " +
                      std::to_string(i));
      stride = 0;
    }
    strides[i] = stride;
  }
  return with_layout(self, std::move(sizes), std::move(strides));
}

Alias alias_if_viewable(const Node& node) {
  const TensorType& self = self_type(node);
  const TensorType& result =
      node.results.at(0)->type;  // its sizes may be symbols where the operand's are not
  return view_strides(context_of({&self, &result}), self, result.sizes) ? Alias::kView : Alias::kNone;
}

Alias alias_always_view(const Node&) { return Alias::kView; }

Sym clamp_bound(SymContext& sym, const Sym& bound, const Sym& size) {
  Sym at = bound;
  if (sym.reads_data(at)) {  // what counts from the end is left to Python
    sym.require(Relation::kLe, 0, at, "slice");
    return min(at, size);
  }
  if (sym.guard(Relation::kLt, at, 0, "slice")) {
    at = at + size;
    if (sym.guard(Relation::kLt, at, 0, "slice")) return 0;
  }
  return sym.guard(Relation::kLt, size, at, "slice") ? size : at;
}

Sym wrap_index(SymContext& sym, const Sym& index, const Sym& size, const std::string& message) {
  if (sym.reads_data(index)) {
    sym.require(Relation::kLe, 0, index, "index");
    sym.require(Relation::kLt, index, size, "index");
    return index;
  }
  if (sym.guard(Relation::kLe, size, index, "index") || sym.guard(Relation::kLt, index, 0 - size, "index"))
    index_error(message);
  return sym.guard(Relation::kLt, index, 0, "index") ? index + size : index;
}

void strides_of_pixels(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  const TensorType& input = args.value(args.schema().params[0].name)->type;
  results[0].strides = suggested_strides(*graph.sym, input, results[0].sizes);
}

}  // namespace cdynamo::graph
