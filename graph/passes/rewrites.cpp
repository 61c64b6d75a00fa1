// The rewrites of `simplify`. Each is exact: the same bits for every input, NaN, infinities and -0 included.
#include <algorithm>
#include <cmath>

#include "graph/passes/rewrite.h"
#include "graph/passes/view_step.h"

namespace cdynamo::graph {
namespace {

// ---- Conditions ----

bool integral(const Match& m) { return !runtime::is_float(m.type().dtype); }
bool is_bool(const Match& m) { return m.type().dtype == DType::kBool; }

// x of the result's dtype: the operator converts nothing on the way.
bool same_dtype(const Match& m) { return m['x']->type.dtype == m.type().dtype; }
bool same_dtype_integral(const Match& m) { return same_dtype(m) && integral(m); }

bool unit_alpha(const Match& m) { return !m.args().has("alpha") || m.args().number("alpha") == 1; }
bool added_to_integer(const Match& m) { return same_dtype(m) && unit_alpha(m) && integral(m); }
bool added_minus_zero(const Match& m) { return same_dtype(m) && unit_alpha(m); }

// As in the derivative of a square.
bool to_the_first(const Match& m) { return same_dtype(m) && m.args().number("exponent") == 1; }

// ---- Algebra ----

// Division by a power of two is multiplication by its reciprocal, as long as that is a normal number.
Value* divide_by_power_of_two(Builder& b, const Match& m) {
  const DType dtype = m.type().dtype;
  if (!runtime::is_float(dtype)) return nullptr;
  const std::optional<double> divisor = constant_of(m['y']);
  int exponent = 0;
  if (!divisor || *divisor == 0 || !std::isfinite(*divisor) ||
      std::abs(std::frexp(*divisor, &exponent)) != 0.5)
    return nullptr;
  if (std::abs(exponent) > 14 || *divisor == 1) return nullptr;
  Value* reciprocal = b.call1("core.full", {m.type().sizes, 1 / *divisor, dtype});
  return b.call1("mul", {m['x'], reciprocal});
}

// The mask comes in the result's dtype, the fill perhaps in a wider one: the result is rounded either way.
Value* masked_fill_as_where(Builder& b, const Match& m) {
  Value* mask = b.call1("core.cast", {m['c'], DType::kBool});
  Value* fill = b.call1("core.cast", {m['v'], m.type().dtype});
  return b.call1("where", {mask, fill, m['x']});
}

constexpr Rewrite kAlgebra[] = {
    {"mul(x, 1)", "x", same_dtype},
    {"mul(x, -1)", "neg(x)", [](const Match& m) { return same_dtype(m) && !is_bool(m); }},
    {"mul(x, 0)", "0", same_dtype_integral},
    {"core.true_divide(x, 1)", "x", same_dtype},
    {"core.true_divide(x, -1)", "neg(x)", same_dtype},
    {"core.true_divide(x, y)", nullptr, same_dtype, divide_by_power_of_two},
    {"core.pow_scalar(x)", "x", to_the_first},
    {"add(x, -0)", "x", added_minus_zero},  // 0 would turn -0 into 0
    {"add(x, 0)", "x", added_to_integer},
    {"sub(x, 0)", "x", added_minus_zero},  // -0 would turn -0 into 0
    {"neg(neg(x))", "x", same_dtype},
    {"abs(neg(x))", "abs(x)",
     [](const Match& m) { return same_dtype(m) && !runtime::is_unsigned(m.type().dtype); }},
    {"abs(abs(x))", "abs(x)", same_dtype},
    {"relu(relu(x))", "relu(x)", same_dtype},
    {"bitwise_not(bitwise_not(x))", "x", same_dtype},
    {"bitwise_and(x, x)", "x", same_dtype},
    {"bitwise_or(x, x)", "x", same_dtype},
    {"logical_not(logical_not(x))", "x", same_dtype},
    {"logical_and(x, x)", "x", same_dtype},
    {"logical_or(x, x)", "x", same_dtype},
    {"logical_and(x, 1)", "x", same_dtype},
    {"logical_and(x, 0)", "0"},
    {"logical_or(x, 0)", "x", same_dtype},
    {"logical_or(x, 1)", "1"},
    {"maximum(x, x)", "x", same_dtype},
    {"minimum(x, x)", "x", same_dtype},
    {"core.masked_fill(x, c, v)", nullptr, same_dtype, masked_fill_as_where},
    {"where(c, x, x)", "x", same_dtype},
    {"where(logical_not(c), x, y)", "where(c, y, x)",
     [](const Match& m) { return m['c']->type.dtype == DType::kBool; }},
    {"floor(floor(x))", "floor(x)"},
    {"ceil(ceil(x))", "ceil(x)"},
    {"trunc(trunc(x))", "trunc(x)"},
    {"round(round(x))", "round(x)",
     [](const Match& m) { return !m.args(0).has("decimals") && !m.args(1).has("decimals"); }},
};

// ---- Selections ----

// y has no gradient to lose: it is no float, or the same number everywhere.
bool leaves_out_a_number(const Match& m) {
  const Value* value = m['y'];
  while (value->node && value->node->op->family == Family::kView)
    value = std::get<Value*>(value->node->args[0]);
  return same_dtype(m) && (!runtime::is_float(value->type.dtype) || constant_of(value));
}

constexpr Rewrite kSelections[] = {
    {"where(1, x, y)", "x", same_dtype},
    {"where(0, y, x)", "x", same_dtype},
};
constexpr Rewrite kDifferentiableSelections[] = {
    {"where(1, x, y)", "x", leaves_out_a_number},
    {"where(0, y, x)", "x", leaves_out_a_number},
};

// ---- Conversions ----

// Every value of `from` is a value of `to`.
bool lossless(DType from, DType to) {
  if (from == to || from == DType::kBool) return true;
  if (to == DType::kBool) return false;
  const auto& a = runtime::info(from);
  const auto& b = runtime::info(to);
  if (runtime::is_float(from)) return runtime::is_float(to) && !runtime::is_half(to) && b.bytes >= a.bytes;
  const int value_bits = a.bytes * 8 - (a.is_signed ? 1 : 0);
  switch (to) {
    case DType::kF16: return value_bits <= 11;
    case DType::kBF16: return value_bits <= 8;
    case DType::kF32: return value_bits <= 24;
    case DType::kF64: return value_bits <= 53;
    default: return (b.is_signed || !a.is_signed) && b.bytes * 8 - (b.is_signed ? 1 : 0) >= value_bits;
  }
}

Value* merge_casts(Builder& b, const Match& m) {
  const DType from = m['x']->type.dtype, middle = m.nodes[1]->results[0]->type.dtype, to = m.type().dtype;
  if (!lossless(from, middle)) return nullptr;
  if (from == to) return m['x'];
  Value* merged = b.call1("core.cast", {m['x'], to});
  // What the later call reads is what the first has made, and not the operand, which the program may write to.
  merged->node->user_call = m.nodes[1]->user_call;
  return merged;
}

Value* merge_bitcasts(Builder& b, const Match& m) {
  if (m['x']->type.dtype == DType::kBool) return nullptr;
  Value* merged = b.call1("core.bitcast", {m['x'], m.type().dtype});
  merged->node->user_call = m.nodes[1]->user_call;
  return merged;
}

// Converted before it is expanded: once for each element that there is.
Value* cast_before_expand(Builder& b, const Match& m) {
  return b.call1("core.expand", {b.call1("core.cast", {m['x'], m.type().dtype}), m.type().sizes});
}

// ---- Views ----

Value* reshape_to(Builder& b, Value* x, const std::vector<Sym>& sizes) {
  return b.call1("core.reshape", {x, sizes});
}

bool keeps_sizes(const Match& m) { return m['x']->type.sizes == m.type().sizes; }

bool keeps_order(const Match& m) {
  const std::vector<int64_t> dims = m.args().constants("dims");
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] != static_cast<int64_t>(d)) return false;
  return true;
}

// Only dimensions of one element change their place.
Value* permute_as_reshape(Builder& b, const Match& m) {
  int64_t last = -1;
  for (int64_t dim : m.args().constants("dims")) {
    if (m['x']->type.sizes[dim] == Sym(1)) continue;
    if (dim < last) return nullptr;
    last = dim;
  }
  return reshape_to(b, m['x'], m.type().sizes);
}

// No dims of one element, on the way neither: nobody can tell one reshape from two by strides.
bool has_no_units(const Match& m) {
  const auto none = [](const Value* value) { return !std::ranges::count(value->type.sizes, Sym(1)); };
  return none(m['x']) && none(m.nodes[0]->results[0]) && none(m.nodes[1]->results[0]);
}

Value* merge_reshapes(Builder& b, const Match& m) { return reshape_to(b, m['x'], m.type().sizes); }

Value* merge_permutes(Builder& b, const Match& m) {
  const std::vector<int64_t> outer = m.args(0).constants("dims"), inner = m.args(1).constants("dims");
  std::vector<Sym> dims;
  for (int64_t dim : outer) dims.push_back(inner[dim]);
  return b.call1("core.permute", {m['x'], dims});
}

Value* merge_expands(Builder& b, const Match& m) { return b.call1("core.expand", {m['x'], m.type().sizes}); }

// Dimensions of one element come or go behind an expand: they may as well before it.
Value* reshape_before_expand(Builder& b, const Match& m) {
  const std::vector<Sym>&from = m.nodes[1]->results[0]->type.sizes, &to = m.type().sizes;
  std::vector<Sym> sizes;
  size_t d = 0;
  for (const Sym& size : to) {
    while (d < from.size() && from[d] == Sym(1) && !(size == Sym(1))) ++d;
    if (size == Sym(1)) {
      sizes.push_back(1);
      continue;
    }
    if (d == from.size() || !(from[d] == size)) return nullptr;
    sizes.push_back(m['x']->type.sizes[d++]);
  }
  for (; d < from.size(); ++d)
    if (!(from[d] == Sym(1))) return nullptr;
  return b.call1("core.expand", {reshape_to(b, m['x'], sizes), to});
}

bool slices_everything(const Match& m) {
  for (const Sym& step : m.args().sizes("step"))
    if (!(step == Sym(1))) return false;
  return keeps_sizes(m);
}

Value* merge_slices(Builder& b, const Match& m) {
  const std::vector<Sym> outer_start = m.args(0).sizes("start"), outer_step = m.args(0).sizes("step");
  std::vector<Sym> start = m.args(1).sizes("start"), step = m.args(1).sizes("step");
  for (size_t d = 0; d < start.size(); ++d) {
    start[d] = start[d] + outer_start[d] * step[d];
    step[d] = step[d] * outer_step[d];
  }
  return b.call1("core.slice", {m['x'], start, m.type().sizes, step});
}

// A slice of what was just written to that very slice.
bool reads_what_was_written(const Match& m) {
  const Args slice = m.args(0), scatter = m.args(1);
  return slice.sizes("start") == scatter.sizes("start") && slice.sizes("step") == scatter.sizes("step") &&
         m['s']->type.sizes == m.type().sizes;
}

// The slice and the written region are apart along some dimension (unit steps, constant bounds).
Value* read_past_write(Builder& b, const Match& m) {
  const Args slice = m.args(0), scatter = m.args(1);
  const std::vector<Sym> start = slice.sizes("start"), step = slice.sizes("step"),
                         written = scatter.sizes("start"), written_step = scatter.sizes("step");
  for (size_t d = 0; d < start.size(); ++d) {
    const Sym size = m.type().sizes[d], written_size = m['s']->type.sizes[d];
    if (!(step[d] == Sym(1)) || !(written_step[d] == Sym(1))) continue;
    const Sym end = start[d] + size, written_end = written[d] + written_size;
    SymContext& sym = b.sym();
    if (sym.known(Relation::kLe, end, written[d]).value_or(false) ||
        sym.known(Relation::kLe, written_end, start[d]).value_or(false))
      return b.call1("core.slice", {m['x'], start, m.type().sizes, step});
  }
  return nullptr;
}

bool overwrites_everything(const Match& m) {
  for (const Sym& step : m.args().sizes("step"))
    if (!(step == Sym(1))) return false;
  return m['s']->type.sizes == m.type().sizes;
}

// Two writes to one region: the first is lost. m: slice_scatter(slice_scatter(x, s), t)
Value* drop_lost_write(Builder& b, const Match& m) {
  const Args last = m.args(0), first = m.args(1);
  const std::vector<Sym> start = last.sizes("start"), step = last.sizes("step");
  if (start != first.sizes("start") || step != first.sizes("step") ||
      m['s']->type.sizes != m['t']->type.sizes)
    return nullptr;
  return b.call1("core.slice_scatter", {m['x'], m['t'], start, step});
}

bool pads_nothing(const Match& m) {
  const auto nothing = [](const std::vector<Sym>& widths) {
    return std::all_of(widths.begin(), widths.end(), [](const Sym& width) { return width == Sym(0); });
  };
  return nothing(m.args().sizes("low")) && nothing(m.args().sizes("high"));
}

// An index map of one value everywhere.
Value* view_of_full(Builder& b, const Match& m) {
  return b.call1("core.full", {m.type().sizes, m.args(1)["value"], m.type().dtype});
}

Value* concat_of_one(Builder&, const Match& m) {
  const std::vector<Value*> values = m.args().values("values");
  return values.size() == 1 ? values[0] : nullptr;
}

// The extreme of one element is that element; sums are left alone (0 + -0 is 0).
Value* reduce_one_element(Builder& b, const Match& m) {
  for (int64_t dim : m.args().constants("dims"))
    if (!(m['x']->type.sizes[dim] == Sym(1))) return nullptr;
  return reshape_to(b, m['x'], m.type().sizes);
}

constexpr Rewrite kViews[] = {
    {"core.cast(x)", "x", same_dtype},
    {"core.cast(core.cast(x))", nullptr, nullptr, merge_casts},
    {"core.bitcast(x)", "x", same_dtype},
    {"core.bitcast(core.bitcast(x))", nullptr, nullptr, merge_bitcasts},
    {"core.cast(core.expand(x))", nullptr, nullptr, cast_before_expand},
    {"core.reshape(x)", "x", keeps_sizes},
    {"core.reshape(core.reshape(x))", nullptr, has_no_units, merge_reshapes},
    {"core.permute(x)", "x", keeps_order},
    {"core.permute(core.permute(x))", nullptr, nullptr, merge_permutes},
    {"core.expand(x)", "x", keeps_sizes},
    {"core.expand(core.expand(x))", nullptr, nullptr, merge_expands},
    {"core.slice(x)", "x", slices_everything},
    {"core.slice(core.slice(x))", nullptr, nullptr, merge_slices},
    {"core.slice(core.slice_scatter(x, s))", "s", reads_what_was_written},
    {"core.slice(core.slice_scatter(x, s))", nullptr, nullptr, read_past_write},
    {"core.slice_scatter(x, s)", "s", overwrites_everything},
    {"core.slice_scatter(core.slice_scatter(x, s), t)", nullptr, nullptr, drop_lost_write},
    {"core.pad(x)", "x", pads_nothing},
    {"core.expand(core.full())", nullptr, nullptr, view_of_full},
    {"core.reshape(core.full())", nullptr, nullptr, view_of_full},
    {"core.permute(core.full())", nullptr, nullptr, view_of_full},
    {"core.slice(core.full())", nullptr, nullptr, view_of_full},
    {"core.diagonal(core.full())", nullptr, nullptr, view_of_full},
    {"core.concat()", nullptr, nullptr, concat_of_one},
    {"core.amax(x)", nullptr, same_dtype, reduce_one_element},
    {"core.amin(x)", nullptr, same_dtype, reduce_one_element},
    {"core.shared_max(x)", nullptr, same_dtype, reduce_one_element},
    {"core.shared_min(x)", nullptr, same_dtype, reduce_one_element},
    {"core.max(x)", nullptr, same_dtype, reduce_one_element},
    {"core.min(x)", nullptr, same_dtype, reduce_one_element},
};

constexpr Rewrite kUnitViews[] = {
    {"core.reshape(core.reshape(x))", nullptr, nullptr, merge_reshapes},
    {"core.reshape(core.expand(x))", nullptr, nullptr, reshape_before_expand},
    {"core.permute(x)", nullptr, nullptr, permute_as_reshape},
};

}  // namespace

std::span<const Rewrite> algebra_rewrites() { return kAlgebra; }
std::span<const Rewrite> selection_rewrites() { return kSelections; }
std::span<const Rewrite> differentiable_selection_rewrites() { return kDifferentiableSelections; }
std::span<const Rewrite> view_rewrites() { return kViews; }
std::span<const Rewrite> unit_view_rewrites() { return kUnitViews; }

}  // namespace cdynamo::graph
