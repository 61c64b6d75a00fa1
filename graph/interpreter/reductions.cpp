#include <cmath>

#include "graph/interpreter/kernels.h"
#include "graph/reference.h"

namespace cdynamo::graph {
namespace {

using Index = std::vector<int64_t>;

// The index of `i` without the reduced dims, and that within the reduced dims.
struct Split {
  Index kept, reduced, reduced_sizes;
};
Split split(const Index& i, const Index& sizes, const Index& dims) {
  Split result;
  size_t next = 0;
  for (size_t d = 0; d < i.size(); ++d) {
    if (next < dims.size() && dims[next] == static_cast<int64_t>(d)) {
      result.reduced.push_back(i[d]);
      result.reduced_sizes.push_back(sizes[d]);
      ++next;
    } else {
      result.kept.push_back(i[d]);
    }
  }
  return result;
}

void reduce_values(const KernelCall& call, const ReductionDef& def, DenseTensor& out) {
  const DenseTensor& self = call.tensor("self");
  Index dims = call.integers("dims");
  ReferenceBuilder b;
  // Sums are accumulated in double: what an exact order of summation would give, or close to it.
  bool real = runtime::is_float(self.dtype);
  DType accumulator = real ? DType::kF64 : self.dtype;
  std::vector<Scalar> totals(out.elements.size(), def.identity(b, accumulator));
  size_t at = 0;
  for_each_index(self.sizes, [&](const Index& i) {
    Scalar& total = totals[flat(split(i, self.sizes, dims).kept, out.sizes)];
    Scalar value = real ? b.constant(self.elements[at].real, accumulator)
                        : b.constant_int(self.elements[at].integer, accumulator);
    total = def.combine(b, total, value);
    ++at;
  });
  for (size_t i = 0; i < totals.size(); ++i) {
    if (real)
      out.set(i, b.real(totals[i]));
    else
      out.elements[i].integer = wrap_to(b.integer(totals[i]), out.dtype);
  }
}

void reduce_index(const KernelCall& call, bool largest, DenseTensor& out) {
  const DenseTensor& self = call.tensor("self");
  Index dims = call.integers("dims");
  std::vector<int64_t> best(out.elements.size(), -1);  // position in self
  size_t at = 0;
  for_each_index(self.sizes, [&](const Index& i) {
    Split parts = split(i, self.sizes, dims);
    size_t to = flat(parts.kept, out.sizes);
    bool better = best[to] < 0;
    if (!better) {
      double old_value = self.number(static_cast<size_t>(best[to])), value = self.number(at);
      better =
          !std::isnan(old_value) && (std::isnan(value) || (largest ? value > old_value : value < old_value));
    }
    if (better) {
      best[to] = static_cast<int64_t>(at);
      out.elements[to].integer = static_cast<int64_t>(flat(parts.reduced, parts.reduced_sizes));
    }
    ++at;
  });
}

}  // namespace

void interpret_reduction(const KernelCall& call, Results& results) {
  const ReductionDef& reduction = *call.node.op->reduction;
  if (reduction.returns_index)
    reduce_index(call, reduction.is_greatest, results[0]);
  else
    reduce_values(call, reduction, results[0]);
}

}  // namespace cdynamo::graph
