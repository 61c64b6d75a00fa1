// Views as maps of memory: of each, the layout of its result, and the write through it (OpDef::core.view).
#include "graph/ops/view_maps.h"

#include <algorithm>
#include <optional>

#include "graph/ops/view_rules.h"
#include "graph/passes/view_step.h"
#include "graph/strides.h"

namespace cdynamo::graph {
namespace {

bool less(SymContext& context, const Sym& a, const Sym& b) {
  if (a.is_constant() && b.is_constant()) return a.constant() < b.constant();
  return context.guard(Relation::kLt, a, b, "sizes that meet in a view");
}

bool advance_expand(SymContext& context, const Args& args, StorageLayout& layout) {
  const std::vector<Sym> sizes = args.sizes("size");
  for (size_t d = 0; d < sizes.size(); ++d)
    if (!same_size(context, sizes[d], layout.sizes[d])) layout.strides[d] = 0;
  return true;
}

bool advance_permute(SymContext&, const Args& args, StorageLayout& layout) {
  std::vector<Sym> strides;
  for (int64_t dim : args.constants("dims")) strides.push_back(layout.strides[dim]);
  layout.strides = std::move(strides);
  return true;
}

// Dims of size 1 that come or go, as squeeze and unsqueeze have them: the others keep their strides, a new one
// gets that of the block behind it. Nothing where other dims change.
std::optional<std::vector<Sym>> strides_beside_units(const StorageLayout& layout,
                                                     const std::vector<Sym>& sizes) {
  std::vector<Sym> strides;
  size_t old = 0;
  for (const Sym& size : sizes) {
    while (old < layout.sizes.size() && layout.sizes[old] != size && layout.sizes[old] == Sym(1)) ++old;
    const bool kept = old < layout.sizes.size() && layout.sizes[old] == size;
    if (!kept && size != Sym(1)) return std::nullopt;
    if (kept) {
      strides.push_back(layout.strides[old++]);
    } else {
      strides.push_back(old < layout.sizes.size() ? layout.sizes[old] * layout.strides[old] : Sym(1));
    }
  }
  for (; old < layout.sizes.size(); ++old)
    if (layout.sizes[old] != Sym(1)) return std::nullopt;
  return strides;
}

bool advance_reshape(SymContext& context, const Args& args, StorageLayout& layout) {
  const std::vector<Sym> sizes = args.sizes("size");
  if (auto kept = strides_beside_units(layout, sizes)) {
    layout.strides = std::move(*kept);
    return true;
  }
  auto strides = view_strides(context, TensorType{.sizes = layout.sizes, .strides = layout.strides}, sizes);
  if (!strides) return false;
  layout.strides = std::move(*strides);
  return true;
}

bool advance_slice(SymContext&, const Args& args, StorageLayout& layout) {
  const std::vector<Sym> start = args.sizes("start"), step = args.sizes("step");
  for (size_t d = 0; d < start.size(); ++d) {
    layout.offset = layout.offset + start[d] * layout.strides[d];
    layout.strides[d] = layout.strides[d] * step[d];
  }
  return true;
}

bool advance_diagonal(SymContext&, const Args& args, StorageLayout& layout) {
  const int64_t offset = args.constant("offset"), dim1 = args.constant("dim1"), dim2 = args.constant("dim2");
  layout.offset =
      layout.offset + (offset >= 0 ? layout.strides[dim2] * offset : layout.strides[dim1] * -offset);
  layout.strides.push_back(layout.strides[dim1] + layout.strides[dim2]);
  for (int64_t dim : {std::max(dim1, dim2), std::min(dim1, dim2)})
    layout.strides.erase(layout.strides.begin() + dim);
  return true;
}

bool advance_in_place(SymContext&, const Args&, StorageLayout&) { return true; }

// Where elements become wider, each has to begin where one of those would.
bool advance_regroup(SymContext& context, const Args& args, StorageLayout& layout) {
  const int64_t from = runtime::bytes(*args.dtype("source")), to = runtime::bytes(*args.dtype("dtype"));
  const int64_t ratio = std::max(from / to, to / from);
  if (!same_size(context, layout.strides.back(), 1) && !same_size(context, layout.sizes.back(), 1))
    return false;
  layout.strides.back() = from < to ? ratio : 1;
  const auto regroup = [&](Sym& number) {
    const bool fits = from > to || same_size(context, mod(number, ratio), 0);
    number = from < to ? floordiv(number, ratio) : number * ratio;
    return fits;
  };
  const bool fits = std::ranges::all_of(layout.strides, regroup) && regroup(layout.offset);
  layout.strides.back() = 1;
  return fits;
}

bool advance_unit_strides(SymContext&, const Args& args, StorageLayout& layout) {
  const std::vector<Sym> strides = args.sizes("strides");
  for (size_t d = 0; d < strides.size(); ++d)
    if (layout.sizes[d] == Sym(1)) layout.strides[d] = strides[d];
  return true;
}

// core.window without padding: each window's elements lie in the operand.
bool advance_window(SymContext& context, const Args& args, StorageLayout& layout) {
  const std::vector<int64_t> dims = args.constants("dims");
  const std::vector<Sym> kernel = args.sizes("kernel"), stride = args.sizes("stride"),
                         padding = args.sizes("padding"), dilation = args.sizes("dilation"),
                         out = args.sizes("out");
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!(padding[i] == Sym(0))) return false;
    const Sym last = (out[i] - 1) * stride[i] + (kernel[i] - 1) * dilation[i];
    if (!less(context, last, layout.sizes[dims[i]])) return false;
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    const Sym element = layout.strides[dims[i]];
    layout.strides[dims[i]] = element * stride[i];
    layout.strides.push_back(element * dilation[i]);
  }
  return true;
}

Value* back_expand(Builder& builder, const ViewStep& step, Value*, Value* content) {
  if (!same_sizes(builder.sym(), step.operand_sizes, step.result_sizes))
    throw UserError(
        UserError::Kind::kRuntime,
        "unsupported operation: more than one element of the written-to tensor refers to a single memory "
        "location. Please clone() the tensor before performing the operation.");
  return content;
}

Value* back_permute(Builder& builder, const ViewStep& step, Value*, Value* content) {
  const std::vector<int64_t> dims = Args(step.op->parsed[step.overload], step.args).constants("dims");
  std::vector<Sym> inverse(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) inverse[dims[d]] = static_cast<int64_t>(d);
  return builder.call1("core.permute", {content, inverse});
}

Value* back_reshape(Builder& builder, const ViewStep& step, Value*, Value* content) {
  return builder.call1("core.reshape", {content, step.operand_sizes});
}

// core.slice_scatter takes positive steps: a slice that runs backwards is turned round first.
Value* back_slice(Builder& builder, const ViewStep& step, Value* operand, Value* content) {
  const Args args(step.op->parsed[step.overload], step.args);
  std::vector<Sym> start = args.sizes("start"), steps = args.sizes("step");
  const std::vector<Sym>& sizes = step.result_sizes;
  std::vector<Sym> turn_start(sizes.size(), 0), turn_step(sizes.size(), 1);
  bool turned = false, everything = true;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!steps[d].is_constant()) throw Unsupported("a write through a slice whose step is not a constant");
    if (steps[d].constant() < 0) {
      turned = true;
      turn_start[d] = sizes[d] - 1;
      turn_step[d] = -1;
      start[d] = start[d] + (sizes[d] - 1) * steps[d];
      steps[d] = -steps[d].constant();
    }
    everything &= sizes[d] == step.operand_sizes[d];
  }
  if (turned) content = builder.call1("core.slice", {content, turn_start, sizes, turn_step});
  if (everything) return content;  // as many elements as there are, each once: nothing of the operand is left
  return builder.call1("core.slice_scatter", {operand, content, start, steps});
}

Value* back_diagonal(Builder& builder, const ViewStep& step, Value* operand, Value* content) {
  const Args args(step.op->parsed[step.overload], step.args);
  return builder.call1("core.diagonal_scatter",
                       {operand, content, args["offset"], args["dim1"], args["dim2"]});
}

Value* back_detach(Builder&, const ViewStep&, Value*, Value* content) { return content; }

Value* back_bits(Builder& builder, const ViewStep&, Value* operand, Value* content) {
  const DType dtype = operand->type.dtype;
  if (dtype == DType::kBool) throw Unsupported("a write to a bool through its bits");
  return with_bits_as(builder, content, dtype);
}

// `into` with `part` for its elements along `dim` from `first` on.
Tensor put(Tensor into, Tensor part, int64_t dim, Sym first) {
  if (same_sizes(into.builder->sym(), into.sizes(), part.sizes())) return part;
  std::vector<Sym> start(into.rank(), 0), step(into.rank(), 1);
  start[dim] = first;
  return wrap(*into.builder,
              into.builder->call1("core.slice_scatter", {into.value, part.value, start, step}));
}

// Windows along one dim that do not overlap: all but the last one are rows of a step's length of which they take the first part.
Value* back_window(Builder& builder, const ViewStep& step, Value* operand, Value* content) {
  const Args args(step.op->parsed[step.overload], step.args);
  const std::vector<int64_t> dims = args.constants("dims");
  const Sym size = args.sizes("kernel")[0], stride = args.sizes("stride")[0], count = args.sizes("out")[0];
  const bool single = dims.size() == 1 && same_size(builder.sym(), count, 1);
  const bool apart = dims.size() == 1 && args.sizes("dilation")[0] == Sym(1) &&
                     (single || !less(builder.sym(), stride, size));
  if (!apart) throw Unsupported("a write through overlapping windows (unfold, as_strided)");
  const int64_t dim = dims[0];
  Tensor into = wrap(builder, operand), windows = wrap(builder, content);
  std::vector<int64_t> order;
  for (int64_t d = 0; d + 1 < windows.rank(); ++d) {
    order.push_back(d);
    if (d == dim) order.push_back(windows.rank() - 1);
  }
  windows = permute(windows, order);
  if (!single) {
    const Sym length = (count - 1) * stride;
    const Tensor beginning = slice(into, dim, 0, length);
    std::vector<Sym> in_rows = into.sizes();
    in_rows[dim] = count - 1;
    in_rows.insert(in_rows.begin() + dim + 1, stride);
    const Tensor rows = put(reshape(beginning, in_rows), slice(windows, dim, 0, count - 1), dim + 1, 0);
    into = put(into, reshape(rows, beginning.sizes()), dim, 0);
  }
  return put(into, select(windows, dim, count - 1), dim, (count - 1) * stride).value;
}

}  // namespace

const ViewDef kExpandView{advance_expand, back_expand};
const ViewDef kPermuteView{advance_permute, back_permute};
const ViewDef kReshapeView{advance_reshape, back_reshape};
const ViewDef kSliceView{advance_slice, back_slice};
const ViewDef kDiagonalView{advance_diagonal, back_diagonal};
const ViewDef kWindowView{advance_window, back_window};
const ViewDef kDetachView{advance_in_place, back_detach};
const ViewDef kUnitStridesView{advance_unit_strides, back_detach};
const ViewDef kBitcastView{advance_in_place, back_bits};
const ViewDef kRegroupView{advance_regroup, back_bits};

}  // namespace cdynamo::graph
