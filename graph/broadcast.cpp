#include "graph/broadcast.h"

#include <algorithm>

namespace cdynamo::graph {

void runtime_error(std::string message) { throw UserError(UserError::Kind::kRuntime, std::move(message)); }
void value_error(std::string message) { throw UserError(UserError::Kind::kValue, std::move(message)); }
void type_error(std::string message) { throw UserError(UserError::Kind::kType, std::move(message)); }
void index_error(std::string message) { throw UserError(UserError::Kind::kIndex, std::move(message)); }

std::string sizes_text(const std::vector<Sym>& sizes) {
  std::string text;
  for (const Sym& size : sizes) text += (text.empty() ? "" : ", ") + size.str();
  return "[" + text + "]";
}

[[noreturn]] static void refuse(const Graph& graph, const std::vector<Sym>& a, const std::vector<Sym>& b,
                                size_t i, size_t j, size_t dim) {
  if (graph.framework == Framework::kNumpy)
    value_error("operands could not be broadcast together with shapes " + sizes_text(a) + " " +
                sizes_text(b));
  auto number = [&](const Sym& size) { return std::to_string(graph.sym->hint(size)); };
  runtime_error("The size of tensor a (" + number(a[i]) + ") must match the size of tensor b (" +
                number(b[j]) + ") at non-singleton dimension " + std::to_string(dim));
}

std::vector<Sym> broadcast_sizes(const Graph& graph, const std::vector<Sym>& a, const std::vector<Sym>& b) {
  if (a == b) return a;
  SymContext& sym = *graph.sym;
  size_t rank = std::max(a.size(), b.size());
  std::vector<Sym> result(rank);
  for (size_t back = 1; back <= rank; ++back) {
    size_t dim = rank - back;
    if (back > a.size()) {
      result[dim] = b[b.size() - back];
      continue;
    }
    if (back > b.size()) {
      result[dim] = a[a.size() - back];
      continue;
    }
    const Sym &x = a[a.size() - back], &y = b[b.size() - back];
    if (x == y || sym.guard_eq(y, 1, "broadcast"))
      result[dim] = x;
    else if (sym.guard_eq(x, 1, "broadcast"))
      result[dim] = y;
    else if (sym.expect_eq(x, y, "broadcast"))
      result[dim] = x.is_constant() || sym.reads_data(y) ? x : y.is_constant() || sym.reads_data(x) ? y : x;
    else
      refuse(graph, a, b, a.size() - back, b.size() - back, dim);
  }
  return result;
}

int64_t wrap_dim(int64_t dim, int64_t rank, bool allow_zero_dim) {
  int64_t range = rank;
  if (rank == 0) {
    if (!allow_zero_dim)
      index_error("Dimension specified as " + std::to_string(dim) + " but tensor has no dimensions");
    range = 1;
  }
  if (dim < -range || dim >= range)
    index_error("Dimension out of range (expected to be in range of [" + std::to_string(-range) + ", " +
                std::to_string(range - 1) + "], but got " + std::to_string(dim) + ")");
  return dim < 0 ? dim + range : dim;
}

std::vector<int64_t> wrap_dims(std::vector<int64_t> dims, int64_t rank, bool empty_is_all) {
  if (rank > 64) runtime_error("only tensors with up to 64 dims are supported");
  if (dims.empty() && empty_is_all)
    for (int64_t d = 0; d < rank; ++d) dims.push_back(d);
  for (int64_t& dim : dims) dim = wrap_dim(dim, rank);
  std::sort(dims.begin(), dims.end());
  auto twice = std::adjacent_find(dims.begin(), dims.end());
  if (twice != dims.end())
    runtime_error("dim " + std::to_string(*twice) + " appears multiple times in the list of dims");
  if (rank == 0) dims.clear();
  return dims;
}

}  // namespace cdynamo::graph
