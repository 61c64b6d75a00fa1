// The loop domain: the sizes of one value, each dim made of one or more axes. Starts with an axis a dim; where an index
// map asks for a cut (SplitAxis), `split` makes two of an axis and the map is made again.
#pragma once

#include <utility>
#include <vector>

#include "graph/op.h"
#include "lowering/loops/index_map.h"

namespace cdynamo::lowering {

constexpr int kMostSplits = 24;  // of the axes of one domain

struct Domain {
  struct Dim {
    std::vector<Sym> factors;  // outermost first; their product is the size, or just covers it where `padded`
    bool padded = false;
  };
  std::vector<Dim> dims;

  explicit Domain(const std::vector<Sym>& sizes) {
    for (const Sym& size : sizes)
      dims.push_back({size == Sym(1) ? std::vector<Sym>{} : std::vector<Sym>{size}});
  }
  std::vector<Sym> extents() const {
    std::vector<Sym> result;
    for (const Dim& dim : dims) result.insert(result.end(), dim.factors.begin(), dim.factors.end());
    return result;
  }
  std::vector<Index> index() const {
    std::vector<Index> result;
    int axis = 0;
    for (const Dim& dim : dims) {
      Index at = constant_index(Sym());
      for (const Sym& factor : dim.factors) at = add(scale(at, factor), axis_index(axis++));
      result.push_back(at);
    }
    return result;
  }
  std::pair<size_t, size_t> locate(int axis) const {
    for (size_t d = 0; d < dims.size(); ++d) {
      if (axis < static_cast<int>(dims[d].factors.size())) return {d, axis};
      axis -= static_cast<int>(dims[d].factors.size());
    }
    throw graph::InternalError("no such axis");
  }
  void split(const SplitAxis& request) {
    auto [d, k] = locate(request.axis);
    const Sym outer = floordiv(dims[d].factors[k], request.inner);
    dims[d].factors[k] = request.inner;
    dims[d].factors.insert(dims[d].factors.begin() + k, outer);
  }
};

}  // namespace cdynamo::lowering
