// Views as index maps: given where a view's result is read, where its operand is read. Indices are sums of
// loop axes and registers times symbolic strides (lowering/loops/loop_ir.h).
//
// A reshape merges dims by a sum of products, and splits one along the loop axes it is made of. Where an axis
// would have to be cut, the map asks for that by throwing SplitAxis: the caller starts again with the axis
// cut in two, so that the index stays affine. What cannot be cut becomes a division and a remainder.
#pragma once

#include <exception>
#include <optional>
#include <vector>

#include "lowering/loops/loop_ir.h"

namespace cdynamo::lowering {

// Thrown: axis `axis` must be cut into an outer one and an inner one of extent `inner`.
struct SplitAxis {
  int axis;
  Sym inner;
};

// Thrown by lowering itself where a group of nodes cannot be one kernel; says why. An error of lowering's where nobody asked.
struct CannotFuse : std::exception {
  CannotFuse(const char* why) : reason(why) {}
  const char* what() const noexcept override { return reason; }
  const char* reason;
};

Index constant_index(Sym value);
Index axis_index(int axis);
Index register_index(int reg);
Index add(const Index& a, const Index& b);
Index scale(const Index& a, Sym factor);
bool equal(const Index& a, const Index& b);
bool equal(const std::vector<Index>& a, const std::vector<Index>& b);
bool is_constant(const Index& index);

Sym product(const std::vector<Sym>& sizes);

// An index that is a mixed-radix number of loop axes: i0*(n1*n2) + i1*n2 + i2.
struct MixedRadix {
  std::vector<int> axes;  // most significant first
};
// The mixed radix form of `index` if it runs through 0 .. size-1 exactly once as its axes run; none
// otherwise.
std::optional<MixedRadix> mixed_radix(const Index& index, const Sym& size, const std::vector<Sym>& extents);

// True where the indices together run through a tensor of `sizes` exactly once as the axes in `axes` run
// (each axis used once).
bool covers(const std::vector<Index>& indices, const std::vector<Sym>& sizes, const std::vector<int>& axes,
            const std::vector<Sym>& extents);

// True where no element is read twice as all axes run; places outside of the tensor may be met.
bool visits_once(const std::vector<Index>& indices, const std::vector<Sym>& extents);

// What emits the arithmetic of an index that is not affine: gives the register of (index / divisor) %
// modulus.
class IndexEmitter {
 public:
  virtual ~IndexEmitter() = default;
  // Can the caller start again with an axis cut in two? Where not, a division and a remainder stand for the
  // cut.
  virtual bool may_cut_axes() const { return true; }
  virtual int div_mod(const Index& index, const std::optional<Sym>& divisor,
                      const std::optional<Sym>& modulus) = 0;
};

// Operand indices of a reshape from `operand_sizes` to `sizes`, whose result is read at `index`. `extents`:
// of the loop axes. `emitter` null: throws CannotFuse where the map is not affine.
std::vector<Index> reshape_index(const std::vector<Index>& index, const std::vector<Sym>& sizes,
                                 const std::vector<Sym>& operand_sizes, const std::vector<Sym>& extents,
                                 const graph::SymContext& context, IndexEmitter* emitter);

}  // namespace cdynamo::lowering
