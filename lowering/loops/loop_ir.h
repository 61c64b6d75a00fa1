// Loop IR: what a fused kernel computes, in the words of no target. Fusion (lowering/fusion) makes Kernels from a core
// graph; a target (lowering/target.h) maps their axes to what its device has and turns each into machine code.
//
// A kernel is a nest of parallel `outer` axes and, for each point of them, a list of phases run in order. A
// phase loops over its own `inner` axes and executes a straight list of statements on scalar registers;
// reductions accumulate over the phase's inner axes and their results are registers that later phases may
// read. So a softmax over rows is
//
//   outer [rows]
//     phase [cols]: r0 = load x;  r1 = reduce max r0
//     phase [cols]: r2 = load x;  r3 = exp(r2 - r1);  store row_scratch, r3;  r4 = reduce sum r3
//     phase [cols]: r5 = load row_scratch;  store y, r5 / r4
//
// and a pointwise kernel is outer axes and one phase without inner axes. Axes come in the order of the values' dims:
// in which order they are walked, and which of them become lanes, threads or blocks, is the target's choice.
//
// Registers are SSA within a kernel. One defined in a phase without inner axes, and the result of a kReduce,
// may be read in all later phases; any other only in its own phase, later in the body. Points of the outer
// axes are independent; points of the inner axes too, unless the phase is `sequential`. Loads of what the
// same outer point stored in an earlier phase see it.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/op.h"
#include "graph/scalar.h"

namespace cdynamo::lowering {

using graph::DType;
using graph::Sym;

// An axis is named by its position: outer axes are 0 .. outer.size()-1, a phase's inner axes follow.
struct IndexTerm {
  int axis = -1;  // >= 0: loop axis
  int reg = -1;   // >= 0: an int64 register (an indirect or non-affine index); exactly one of the two is set
  Sym stride;     // in elements
};
struct Index {
  std::vector<IndexTerm> terms;
  Sym offset;
};

enum class StmtKind : uint8_t {
  kLoad,      // dst = buffer[index], or `other` where mask is false (no access happens there)
  kStore,     // buffer[index] = a (where mask is true)
  kConstant,  // dst = value
  kAxis,      // dst = int64 value of loop axis `axis`
  kSize,      // dst = int64 value of `size`
  kPrim,      // dst = prim(operands)
  kCast,      // dst = operands[0] as dtype
  kSelect,    // dst = operands[0] ? operands[1] : operands[2]
  kOp,        // dst = scalar code of a pointwise operator: node->op->scalar(operands, args of node)
  kReduce,  // dst (readable in later phases) = reduction of operands[0] over the phase's inner axes. dtype is
            // the accumulator's; an index-returning reduction gives the row-major position in the inner axes
            // (int64). How partial sums are put together is emission's choice; float ones of long axes in
            // float64.
  kCheckIndex,  // operands[0] (int64) must be in [-size, size): else the kernel ends with error code
                // int_value; dst =
                // wrapped index, 0 where bad
  kScan,  // dst = running reduction of operands[0] along the last inner axis, this point included; starts
  // afresh for each point of the other axes; float sums and products run in float64, but where `stepwise`. Only in a
  // sequential phase
};

struct Stmt {
  StmtKind kind;
  int dst = -1;  // register defined; registers are SSA within a kernel
  DType dtype =
      DType::kF32;  // of dst (kStore: of the buffer's element). Registers hold half values as float32,
                    // already rounded: kOp and kCast to a half dtype round; kLoad extends; kStore narrows.
  std::vector<int> operands;          // registers
  int mask = -1;                      // kLoad, kStore: bool register or -1
  int buffer = -1;                    // kLoad, kStore
  Index index;                        // kLoad, kStore
  double value = 0;                   // kConstant of a float dtype; `other` of a masked kLoad
  int64_t int_value = 0;              // kConstant of an integer or bool dtype; kCheckIndex: a RunError::Kind
  bool adds = false;                  // kStore: to what is there, as other points may do at the same time
  bool stepwise = false;              // kScan: in order, rounded to `dtype` at each point
  int axis = -1;                      // kAxis
  Sym size;                           // kSize, kCheckIndex
  graph::Prim prim = {};              // kPrim
  const graph::Node* node = nullptr;  // kOp; also whose source line it is
  const graph::ReductionDef* reduction = nullptr;  // kReduce, kScan
};

struct Phase {
  std::vector<Sym>
      inner;  // extents of the inner axes; the last is innermost. Empty: executed once per outer point
  std::vector<Stmt> body;
  // true: the inner axes run in order, one point at a time: scans and scatters, whose loads see the stores of earlier
  // points.
  bool sequential = false;
};

enum class BufferKind : uint8_t {
  kGlobal,      // a pointer argument: input, output or part of the arena
  kRowScratch,  // private to one outer point, `size` elements, in cache
};

struct KernelBuffer {
  BufferKind kind = BufferKind::kGlobal;
  DType dtype = DType::kF32;
  int plan_buffer = -1;  // kGlobal: index in the plan's buffers
  Sym size;              // elements
  bool written = false;
};

struct Kernel {
  std::string name;  // "fused_exp_sum_div": made from the operators
  std::vector<Sym> outer;
  std::vector<Phase> phases;
  std::vector<KernelBuffer> buffers;
  int num_registers = 0;
  std::vector<const graph::Node*> nodes;  // what was fused, for reports
};

// Numbers the axes of a statement anew, by the number that each had; axes of -1 have one point, and go.
void renumber_axes(Stmt& stmt, const std::vector<int>& number);

// `note`: what a target says of the kernel, on the first line.
std::string print(const Kernel& kernel, const std::string& note = "");
std::vector<std::string> verify(const Kernel& kernel);

}  // namespace cdynamo::lowering
