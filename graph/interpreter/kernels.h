// The interpreter's implementations of the core operators.
#pragma once

#include <functional>
#include <string_view>

#include "graph/interpreter.h"
#include "graph/op.h"

namespace cdynamo::graph {

// What a kernel sees of its node.
struct KernelCall {
  const Node& node;
  Args args;
  const SymContext& context;
  const std::vector<int64_t>& symbols;
  const std::vector<DenseTensor>& values;  // by value id

  const DenseTensor& tensor(std::string_view name) const { return values[args.value(name)->id]; }
  std::vector<const DenseTensor*> tensors(std::string_view name) const;
  int64_t integer(std::string_view name) const { return evaluate(args.integer(name)); }
  std::vector<int64_t> integers(std::string_view name) const;
  int64_t evaluate(const Sym& sym) const { return context.evaluate(sym, symbols.data()); }
};

// A kernel for each operator or group of them; OpDef::core.interpret names it. `results` have their dtypes and sizes.
using Results = std::vector<DenseTensor>;
using InterpretKernel = void(const KernelCall& call, Results& results);
// views.cpp
InterpretKernel interpret_full, interpret_iota, interpret_expand, interpret_permute, interpret_reshape,
    interpret_slice, interpret_diagonal, interpret_window, interpret_pad, interpret_detach;
// indexing.cpp
InterpretKernel interpret_concat, interpret_gather, interpret_index, interpret_slice_scatter,
    interpret_diagonal_scatter, interpret_scatter, interpret_index_put, interpret_scan,
    interpret_running_counts, interpret_compress;
// reductions.cpp
InterpretKernel interpret_reduction;
// contractions.cpp
InterpretKernel interpret_matmul, interpret_addmm, interpret_convolution, interpret_convolution_weight_grad,
    interpret_sdpa, interpret_sdpa_backward;

// Calls fn(index) for each index of the box, in row-major order.
void for_each_index(const std::vector<int64_t>& sizes,
                    const std::function<void(const std::vector<int64_t>&)>& fn);
size_t flat(const std::vector<int64_t>& index, const std::vector<int64_t>& sizes);
// -size..size-1 to 0..size-1; throws UserError (IndexError).
int64_t checked_index(int64_t index, int64_t size);
void store(DenseTensor& out, size_t at, double value);

}  // namespace cdynamo::graph
