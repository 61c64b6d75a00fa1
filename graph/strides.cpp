#include "graph/strides.h"

#include <algorithm>
#include <numeric>

#include "graph/op.h"

namespace cdynamo::graph {
namespace {

bool equal(SymContext& sym, const Sym& a, const Sym& b) { return a == b || sym.guard_eq(a, b, "strides"); }
bool less(SymContext& sym, const Sym& a, const Sym& b) {
  return sym.guard(Relation::kLt, a, b, "order of strides");
}

bool has_no_elements(SymContext& sym, const TensorType& type) {
  return std::any_of(type.sizes.begin(), type.sizes.end(),
                     [&](const Sym& size) { return equal(sym, size, 0); });
}

// Are the strides what the dims in this order (innermost first) have when packed? Dims of size 1 are not
// looked at.
bool packed(SymContext& sym, const TensorType& type, const std::vector<int>& order) {
  Sym expected = 1;
  for (int dim : order) {
    if (equal(sym, type.sizes[dim], 1)) continue;
    if (!equal(sym, type.strides[dim], expected)) return false;
    expected = expected * type.sizes[dim];
  }
  return true;
}

std::vector<int> row_major_order(int rank) {
  std::vector<int> order(rank);
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

std::vector<int> channels_last_order(int rank) {
  return rank == 4 ? std::vector<int>{1, 3, 2, 0} : std::vector<int>{1, 4, 3, 2, 0};
}

std::vector<Sym> strides_in_order(const std::vector<Sym>& sizes, const std::vector<int>& order) {
  std::vector<Sym> strides(sizes.size());
  Sym next = 1;
  for (int dim : order) {
    strides[dim] = next;
    next = next * sizes[dim];
  }
  return strides;
}

// TensorIterator's should_swap: 1: dim a comes after dim b, -1: before, 0: cannot be said.
int compare_dims(SymContext& sym, const std::vector<Sym>& sizes,
                 const std::vector<std::vector<Sym>>& operands, int a, int b) {
  for (const std::vector<Sym>& strides : operands) {
    const Sym &x = strides[a], &y = strides[b];
    if (equal(sym, x, 0) || equal(sym, y, 0)) continue;
    if (less(sym, x, y)) return -1;
    if (!equal(sym, x, y)) return 1;
    if (less(sym, sizes[b], sizes[a])) return 1;
  }
  return 0;
}

Sym magnitude(SymContext& sym, const Sym& stride) { return less(sym, stride, 0) ? 0 - stride : stride; }

// An operand's, by dim; none where they say nothing of the order.
using NumpyStrides = std::vector<std::optional<Sym>>;

// 1: dim a comes after dim b, as every operand has it that tells them apart; -1: before; 0: cannot be said.
int compare_numpy_dims(SymContext& sym, const std::vector<NumpyStrides>& operands, int a, int b) {
  int comparison = 0;
  for (const NumpyStrides& strides : operands) {
    if (!strides[a] || !strides[b]) continue;
    if (!less(sym, magnitude(sym, *strides[b]), magnitude(sym, *strides[a]))) return -1;
    comparison = 1;
  }
  return comparison;
}

// The insertion sorts of NumPy 2: npyiter_find_best_axis_ordering, which starts from the innermost dim, and
// PyArray_CreateMultiSortedStridePerm, which starts from the outermost. Given and returned innermost first.
std::vector<int> numpy_iteration_order(SymContext& sym, const std::vector<NumpyStrides>& operands, int rank,
                                       bool from_outermost) {
  std::vector<int> order = row_major_order(rank);
  if (from_outermost) std::reverse(order.begin(), order.end());
  for (int i = 1; i < rank; ++i) {
    int place = i;
    for (int earlier = i - 1; earlier >= 0; --earlier) {
      const int inner = from_outermost ? i : earlier, outer = from_outermost ? earlier : i;
      const int comparison = compare_numpy_dims(sym, operands, order[inner], order[outer]);
      if (comparison < 0) break;
      if (comparison > 0) place = earlier;
    }
    std::rotate(order.begin() + place, order.begin() + i, order.begin() + i + 1);
  }
  if (from_outermost) std::reverse(order.begin(), order.end());
  return order;
}

// Insertion sort that copes with pairs that cannot be compared, as TensorIterator's.
std::vector<int> iteration_order(SymContext& sym, const std::vector<Sym>& sizes,
                                 const std::vector<std::vector<Sym>>& operands) {
  int rank = static_cast<int>(sizes.size());
  std::vector<int> order = row_major_order(rank);
  for (int i = 1; i < rank; ++i) {
    int later = i;
    for (int earlier = i - 1; earlier >= 0; --earlier) {
      int comparison = compare_dims(sym, sizes, operands, order[earlier], order[later]);
      if (comparison > 0) {
        std::swap(order[earlier], order[later]);
        later = earlier;
      } else if (comparison < 0) {
        break;
      }
    }
  }
  return order;
}

bool plainly_contiguous(const TensorType& type) { return type.strides == contiguous_strides(type.sizes); }

}  // namespace

std::vector<Sym> broadcast_strides(SymContext& sym, const std::vector<Sym>& sizes, const TensorType& type) {
  std::vector<Sym> strides(sizes.size(), 0);
  size_t offset = sizes.size() - type.sizes.size();
  for (size_t i = 0; i < type.sizes.size(); ++i) {
    bool expanded = equal(sym, type.sizes[i], 1) && !equal(sym, sizes[offset + i], 1);
    if (!expanded) strides[offset + i] = type.strides[i];
  }
  return strides;
}

bool is_contiguous(SymContext& sym, const TensorType& type) {
  if (plainly_contiguous(type) || has_no_elements(sym, type)) return true;
  return packed(sym, type, row_major_order(type.rank()));
}

bool is_column_major(SymContext& sym, TensorType type) {
  std::ranges::reverse(type.sizes);
  std::ranges::reverse(type.strides);
  return is_contiguous(sym, type);
}

bool is_channels_last(SymContext& sym, const TensorType& type) {
  if (type.rank() != 4 && type.rank() != 5) return false;
  return packed(sym, type, channels_last_order(type.rank()));
}

bool is_non_overlapping_and_dense(SymContext& sym, const TensorType& type) {
  if (is_contiguous(sym, type)) return true;
  std::vector<int> order;
  for (int d = 0; d < type.rank(); ++d)
    if (!equal(sym, type.sizes[d], 1)) order.push_back(d);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return less(sym, type.strides[a], type.strides[b]); });
  return packed(sym, type, order);
}

bool suggests_channels_last(SymContext& sym, const TensorType& type) {
  if ((type.rank() != 4 && type.rank() != 5) || plainly_contiguous(type)) return false;
  if (equal(sym, type.strides[1], 0)) return false;
  Sym least = 0;
  for (int dim : channels_last_order(type.rank())) {
    if (equal(sym, type.sizes[dim], 0) || less(sym, type.strides[dim], least)) return false;
    // One channel or one place: both orders fit, and the plain one counts.
    if (dim == 0 && equal(sym, least, type.strides[1])) return false;
    least = type.strides[dim];
    if (!equal(sym, type.sizes[dim], 1)) least = least * type.sizes[dim];
  }
  return true;
}

std::vector<Sym> suggested_strides(SymContext& sym, const TensorType& type, const std::vector<Sym>& sizes) {
  return suggests_channels_last(sym, type) ? channels_last_strides(sizes) : contiguous_strides(sizes);
}

std::vector<Sym> column_major_strides(std::vector<Sym> sizes) {
  std::ranges::reverse(sizes);
  std::vector<Sym> strides = contiguous_strides(sizes);
  std::ranges::reverse(strides);
  return strides;
}

std::vector<Sym> channels_last_strides(const std::vector<Sym>& sizes) {
  std::vector<Sym> strides(sizes.size());
  Sym next = 1;
  for (int dim : channels_last_order(static_cast<int>(sizes.size()))) {
    strides[dim] = next;
    bool positive = !sizes[dim].is_constant() || sizes[dim].constant() > 1;
    if (positive) next = next * sizes[dim];
  }
  return strides;
}

// Strides that are numbers, none of them twice the way to an element.
static bool is_dense(const TensorType& type) {
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (int d = 0; d < type.rank(); ++d) {
    if (!type.sizes[d].is_constant() || !type.strides[d].is_constant()) return false;
    dims.push_back({type.strides[d].constant(), type.sizes[d].constant()});
  }
  std::ranges::sort(dims);
  int64_t expected = 1;
  for (const auto& [stride, size] : dims) {
    if (size == 0 || (size != 1 && stride != expected)) return false;
    expected *= size;
  }
  return true;
}

std::vector<Sym> inner_strides(const Value& value) {
  const std::vector<Sym>& sizes = value.type.sizes;
  const CoreKind kind = value.node ? value.node->op->core.kind : CoreKind::kNone;
  if (kind == CoreKind::kLibrary && value.type.strides.size() == sizes.size() && is_dense(value.type))
    return value.type.strides;
  const bool attention =
      sizes.size() == 4 && (kind == CoreKind::kAttention || kind == CoreKind::kAttentionBackward);
  return attention ? strides_in_order(sizes, {3, 1, 2, 0}) : contiguous_strides(sizes);
}

std::vector<Sym> elementwise_strides(SymContext& sym, const std::vector<Sym>& sizes,
                                     const std::vector<const TensorType*>& operands) {
  bool same_shape = true, contiguous = true;
  // Sizes of two operands may be two symbols that broadcasting has found to be equal.
  const auto known_equal = [&](const Sym& a, const Sym& b) {
    return a == b || sym.known(Relation::kEq, a, b).value_or(false);
  };
  for (const TensorType* type : operands) {
    same_shape &= std::ranges::equal(type->sizes, sizes, known_equal);
    contiguous &= plainly_contiguous(*type);
  }
  if (operands.empty() || sizes.size() <= 1 || (same_shape && contiguous)) return contiguous_strides(sizes);
  if (same_shape) {
    auto all = [&](auto&& test) {
      return std::all_of(operands.begin(), operands.end(),
                         [&](const TensorType* type) { return test(sym, *type); });
    };
    if (all(is_contiguous)) return contiguous_strides(sizes);
    if (all(is_channels_last)) return channels_last_strides(sizes);
    if (all(is_non_overlapping_and_dense)) {
      bool same = std::all_of(operands.begin(), operands.end(), [&](const TensorType* t) {
        return std::ranges::equal(t->strides, operands[0]->strides, known_equal);
      });
      if (same) return operands[0]->strides;
    }
  }
  std::vector<std::vector<Sym>> strides;
  for (const TensorType* type : operands) strides.push_back(broadcast_strides(sym, sizes, *type));
  std::vector<int> order = iteration_order(sym, sizes, strides);
  if (order == row_major_order(static_cast<int>(sizes.size()))) return contiguous_strides(sizes);
  return strides_in_order(sizes, order);
}

// An operand's strides, broadcast to `sizes`, where they say something of the order.
static NumpyStrides telling_strides(SymContext& sym, const std::vector<Sym>& sizes, const TensorType& type) {
  NumpyStrides telling;
  for (const Sym& stride : broadcast_strides(sym, sizes, type)) {
    const bool tells = !equal(sym, sizes[telling.size()], 1) && !equal(sym, stride, 0);
    telling.push_back(tells ? std::optional(stride) : std::nullopt);
  }
  return telling;
}

std::vector<Sym> numpy_strides(SymContext& sym, const std::vector<Sym>& sizes,
                               const std::vector<const TensorType*>& operands) {
  std::vector<NumpyStrides> strides;
  for (const TensorType* type : operands) {
    if (plainly_contiguous(*type) && type->sizes == sizes) return contiguous_strides(sizes);
    strides.push_back(telling_strides(sym, sizes, *type));
  }
  return strides_in_order(sizes, numpy_iteration_order(sym, strides, static_cast<int>(sizes.size()), false));
}

std::vector<Sym> numpy_kept_strides(SymContext& sym, const std::vector<Sym>& sizes, const TensorType& array) {
  if (plainly_contiguous(array)) return contiguous_strides(sizes);
  return strides_in_order(sizes, numpy_iteration_order(sym, {telling_strides(sym, array.sizes, array)},
                                                       static_cast<int>(sizes.size()), false));
}

std::vector<Sym> numpy_concat_strides(SymContext& sym, const std::vector<Sym>& sizes,
                                      const std::vector<const TensorType*>& arrays) {
  std::vector<NumpyStrides> strides;
  for (const TensorType* type : arrays) {
    if (plainly_contiguous(*type) && type->sizes == sizes) return contiguous_strides(sizes);
    NumpyStrides& given = strides.emplace_back();
    for (size_t d = 0; d < sizes.size(); ++d)
      given.push_back(equal(sym, type->sizes[d], 1) ? std::nullopt : std::optional(type->strides[d]));
  }
  return strides_in_order(sizes, numpy_iteration_order(sym, strides, static_cast<int>(sizes.size()), true));
}

std::vector<Sym> numpy_ufunc_strides(SymContext& sym, const std::vector<Sym>& sizes,
                                     const std::vector<const TensorType*>& operands, bool casts) {
  bool column_major = false;  // and not row-major too
  bool one_loop = !casts && sizes.size() > 1;
  for (const TensorType* type : operands) {
    if (!one_loop) break;
    if (type->rank() == 0) continue;
    one_loop = std::ranges::equal(type->sizes, sizes,
                                  [&](const Sym& a, const Sym& b) { return equal(sym, a, b); }) &&
               is_column_major(sym, *type) && !is_contiguous(sym, *type);
    column_major = true;
  }
  if (one_loop && column_major) return column_major_strides(sizes);
  return numpy_strides(sym, sizes, operands);
}

// PyArray_NewLikeArray: dims of size 1 and expanded ones have their place by their strides, like any other.
static std::vector<Sym> numpy_copy_strides(SymContext& sym, const TensorType& type) {
  if (type.rank() <= 1 || is_contiguous(sym, type)) return contiguous_strides(type.sizes);
  if (is_column_major(sym, type)) return column_major_strides(type.sizes);
  std::vector<Sym> magnitudes;
  for (const Sym& stride : type.strides) magnitudes.push_back(magnitude(sym, stride));
  std::vector<int> order = row_major_order(type.rank());
  std::ranges::stable_sort(order, [&](int a, int b) { return less(sym, magnitudes[a], magnitudes[b]); });
  return strides_in_order(type.sizes, order);
}

std::vector<Sym> preserved_strides(const Graph& graph, const TensorType& type) {
  SymContext& sym = *graph.sym;
  if (graph.framework == Framework::kNumpy) return numpy_copy_strides(sym, type);
  if (is_non_overlapping_and_dense(sym, type)) return type.strides;
  return elementwise_strides(sym, type.sizes, {&type});
}

std::optional<std::vector<Sym>> view_strides(SymContext& sym, const TensorType& type,
                                             const std::vector<Sym>& new_sizes) {
  if (plainly_contiguous(type)) return contiguous_strides(new_sizes);
  if (has_no_elements(sym, type)) {
    if (type.sizes == new_sizes) return type.strides;
    return contiguous_strides(new_sizes);
  }
  std::vector<Sym> strides(new_sizes.size(), 1);
  if (type.sizes.empty()) return strides;
  // ATen's computeStride: walk chunks of old dims that lie packed in memory, innermost first.
  int view_dim = static_cast<int>(new_sizes.size()) - 1;
  Sym base = type.strides.back(), old_count = 1, new_count = 1;
  for (int dim = type.rank() - 1; dim >= 0; --dim) {
    old_count = old_count * type.sizes[dim];
    bool chunk_ends = dim == 0 || (!equal(sym, type.sizes[dim - 1], 1) &&
                                   !equal(sym, type.strides[dim - 1], old_count * base));
    if (!chunk_ends) continue;
    while (view_dim >= 0 && (less(sym, new_count, old_count) || equal(sym, new_sizes[view_dim], 1))) {
      strides[view_dim] = new_count * base;
      new_count = new_count * new_sizes[view_dim];
      --view_dim;
    }
    if (!equal(sym, new_count, old_count)) return std::nullopt;
    if (dim > 0) {
      base = type.strides[dim - 1];
      old_count = 1;
      new_count = 1;
    }
  }
  if (view_dim != -1) return std::nullopt;
  return strides;
}

}  // namespace cdynamo::graph
