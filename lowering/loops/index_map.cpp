#include "lowering/loops/index_map.h"

#include <algorithm>

namespace cdynamo::lowering {
namespace {

bool is_one(const Sym& sym) { return sym == Sym(1); }
bool is_zero(const Sym& sym) { return sym == Sym(); }

bool term_less(const IndexTerm& a, const IndexTerm& b) {
  return std::pair(a.axis, a.reg) < std::pair(b.axis, b.reg);
}
bool same_variable(const IndexTerm& a, const IndexTerm& b) { return a.axis == b.axis && a.reg == b.reg; }

// The quotient if `a` is known to be a multiple of `b`.
std::optional<Sym> exact_quotient(const Sym& a, const Sym& b) {
  if (a.is_constant() && b.is_constant()) {
    if (b.constant() <= 0 || a.constant() % b.constant() != 0) return std::nullopt;
    return Sym(a.constant() / b.constant());
  }
  const Sym quotient = floordiv(a, b);
  if (quotient * b == a) return quotient;
  return std::nullopt;
}

// One group of dims of a reshape: the products of both sides are equal.
struct Group {
  std::vector<int> out, in;
};

std::vector<Group> match_dims(const std::vector<Sym>& out, const std::vector<Sym>& in,
                              const graph::SymContext& context) {
  std::vector<Group> groups;
  size_t i = 0, j = 0;
  auto skip_ones = [&] {
    while (i < out.size() && is_one(out[i])) ++i;
    while (j < in.size() && is_one(in[j])) ++j;
  };
  for (skip_ones(); i < out.size() || j < in.size(); skip_ones()) {
    Group group;
    Sym out_product(1), in_product(1);
    do {
      // The side that is behind takes its next dim; which one is behind is decided with the hints, equality
      // is not.
      const bool take_out =
          group.out.empty()
              ? i < out.size()
              : j >= in.size() || (!group.in.empty() && context.hint(out_product) < context.hint(in_product));
      if (take_out && i < out.size()) {
        group.out.push_back(static_cast<int>(i));
        out_product = out_product * out[i++];
      } else if (j < in.size()) {
        group.in.push_back(static_cast<int>(j));
        in_product = in_product * in[j++];
      } else {
        group.out.push_back(static_cast<int>(i));
        out_product = out_product * out[i++];
      }
    } while ((i < out.size() || j < in.size()) &&
             (group.out.empty() || group.in.empty() || !(out_product == in_product)));
    groups.push_back(std::move(group));
  }
  return groups;
}

// The loop axes of the group's indices, most significant first; none where an index is not made of whole
// axes.
std::optional<std::vector<int>> group_axes(const Group& group, const std::vector<Index>& index,
                                           const std::vector<Sym>& sizes, const std::vector<Sym>& extents) {
  std::vector<int> axes;
  for (int dim : group.out) {
    std::optional<MixedRadix> radix = mixed_radix(index[dim], sizes[dim], extents);
    if (!radix) return std::nullopt;
    axes.insert(axes.end(), radix->axes.begin(), radix->axes.end());
  }
  return axes;
}

// Shares out `axes` among the operand's dims from the innermost. False where they do not fit; throws
// SplitAxis where one can be cut.
bool distribute(const Group& group, const std::vector<int>& axes, const std::vector<Sym>& in,
                const std::vector<Sym>& extents, bool may_cut, std::vector<Index>& result) {
  size_t next = axes.size();
  for (size_t k = group.in.size(); k-- > 0;) {
    const int dim = group.in[k];
    Index index = constant_index(0);
    Sym stride(1);
    while (!(stride == in[dim])) {
      if (next == 0) return false;
      const int axis = axes[next - 1];
      const std::optional<Sym> needed = exact_quotient(in[dim], stride);
      if (!needed) return false;
      if (!(extents[axis] == *needed)) {
        const bool fits = exact_quotient(*needed, extents[axis]).has_value();
        if (!fits) {
          if (may_cut && exact_quotient(extents[axis], *needed)) throw SplitAxis{axis, *needed};
          return false;
        }
      }
      index = add(index, scale(axis_index(axis), stride));
      stride = stride * extents[axis];
      --next;
    }
    result[dim] = index;
  }
  // What is left must be axes of extent 1.
  while (next > 0 && is_one(extents[axes[next - 1]])) --next;
  return next == 0;
}

}  // namespace

Index constant_index(Sym value) { return Index{{}, value}; }
Index axis_index(int axis) { return Index{{{.axis = axis, .stride = Sym(1)}}, Sym()}; }
Index register_index(int reg) { return Index{{{.reg = reg, .stride = Sym(1)}}, Sym()}; }
bool is_constant(const Index& index) { return index.terms.empty(); }

Index add(const Index& a, const Index& b) {
  Index sum{a.terms, a.offset + b.offset};
  for (const IndexTerm& term : b.terms) {
    auto same = std::find_if(sum.terms.begin(), sum.terms.end(),
                             [&](const IndexTerm& other) { return same_variable(term, other); });
    if (same == sum.terms.end()) {
      sum.terms.insert(std::lower_bound(sum.terms.begin(), sum.terms.end(), term, term_less), term);
    } else {
      same->stride = same->stride + term.stride;
      if (is_zero(same->stride)) sum.terms.erase(same);
    }
  }
  return sum;
}

Index scale(const Index& a, Sym factor) {
  if (is_zero(factor)) return constant_index(0);
  Index result = a;
  for (IndexTerm& term : result.terms) term.stride = term.stride * factor;
  result.offset = result.offset * factor;
  return result;
}

bool equal(const Index& a, const Index& b) {
  return a.offset == b.offset && std::equal(a.terms.begin(), a.terms.end(), b.terms.begin(), b.terms.end(),
                                            [](const IndexTerm& x, const IndexTerm& y) {
                                              return same_variable(x, y) && x.stride == y.stride;
                                            });
}

bool equal(const std::vector<Index>& a, const std::vector<Index>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Index& x, const Index& y) { return equal(x, y); });
}

Sym product(const std::vector<Sym>& sizes) {
  Sym result(1);
  for (const Sym& size : sizes) result = result * size;
  return result;
}

namespace {

// The mixed radix form of what is added to the offset, and how many numbers it runs through.
std::optional<std::pair<MixedRadix, Sym>> radix_of_terms(const Index& index,
                                                         const std::vector<Sym>& extents) {
  std::vector<IndexTerm> left = index.terms;
  MixedRadix radix;
  Sym stride(1);
  while (!left.empty()) {
    auto next = std::find_if(left.begin(), left.end(),
                             [&](const IndexTerm& term) { return term.axis >= 0 && term.stride == stride; });
    if (next == left.end()) return std::nullopt;
    radix.axes.insert(radix.axes.begin(), next->axis);
    stride = stride * extents[next->axis];
    left.erase(next);
  }
  return std::pair(std::move(radix), stride);
}

bool has_repetitions(std::vector<int> axes) {
  std::sort(axes.begin(), axes.end());
  return std::adjacent_find(axes.begin(), axes.end()) != axes.end();
}

// Whether those of `axes` that run at all are among `used`.
bool uses_all(const std::vector<int>& used, const std::vector<int>& axes, const std::vector<Sym>& extents) {
  return std::ranges::all_of(
      axes, [&](int axis) { return is_one(extents[axis]) || std::ranges::find(used, axis) != used.end(); });
}

}  // namespace

std::optional<MixedRadix> mixed_radix(const Index& index, const Sym& size, const std::vector<Sym>& extents) {
  if (!is_zero(index.offset)) return std::nullopt;
  std::optional<std::pair<MixedRadix, Sym>> radix = radix_of_terms(index, extents);
  if (!radix || !(radix->second == size)) return std::nullopt;
  return std::move(radix->first);
}

bool covers(const std::vector<Index>& indices, const std::vector<Sym>& sizes, const std::vector<int>& axes,
            const std::vector<Sym>& extents) {
  std::vector<int> used;
  for (size_t dim = 0; dim < indices.size(); ++dim) {
    std::optional<MixedRadix> radix = mixed_radix(indices[dim], sizes[dim], extents);
    if (!radix) return false;
    used.insert(used.end(), radix->axes.begin(), radix->axes.end());
  }
  return !has_repetitions(used) && uses_all(used, axes, extents) &&
         std::all_of(used.begin(), used.end(),
                     [&](int axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); });
}

bool visits_once(const std::vector<Index>& indices, const std::vector<Sym>& extents) {
  std::vector<int> used, all(extents.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  for (const Index& index : indices) {
    const auto radix = radix_of_terms(index, extents);
    if (!radix) return false;
    used.insert(used.end(), radix->first.axes.begin(), radix->first.axes.end());
  }
  return !has_repetitions(used) && uses_all(used, all, extents);
}

std::vector<Index> reshape_index(const std::vector<Index>& index, const std::vector<Sym>& sizes,
                                 const std::vector<Sym>& operand_sizes, const std::vector<Sym>& extents,
                                 const graph::SymContext& context, IndexEmitter* emitter) {
  std::vector<Index> result(operand_sizes.size(), constant_index(0));
  // Nothing is read of an empty tensor.
  for (const Sym& size : operand_sizes)
    if (is_zero(size)) return result;
  for (const Group& group : match_dims(sizes, operand_sizes, context)) {
    Index linear = constant_index(0);
    for (int dim : group.out) linear = add(scale(linear, sizes[dim]), index[dim]);
    if (group.in.size() == 1) {
      result[group.in[0]] = linear;
      continue;
    }
    if (group.in.empty()) continue;
    if (is_constant(linear) && linear.offset.is_constant() && linear.offset.constant() == 0) continue;
    std::optional<std::vector<int>> axes = group_axes(group, index, sizes, extents);
    const bool may_cut = !emitter || emitter->may_cut_axes();
    if (axes && distribute(group, *axes, operand_sizes, extents, may_cut, result)) continue;
    if (!emitter) throw CannotFuse{"an index is not affine"};
    Sym divisor(1);
    for (size_t k = group.in.size(); k-- > 0;) {
      const int dim = group.in[k];
      result[dim] =
          register_index(emitter->div_mod(linear, is_one(divisor) ? std::nullopt : std::optional(divisor),
                                          k == 0 ? std::nullopt : std::optional(operand_sizes[dim])));
      divisor = divisor * operand_sizes[dim];
    }
  }
  return result;
}

}  // namespace cdynamo::lowering
