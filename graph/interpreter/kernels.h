// The interpreter's implementation of one core operator each.
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

// `out` has its dtype and sizes; contractions may have several. False: no such operator here.
bool run_view(const KernelCall& call, DenseTensor& out);
bool run_indexing(const KernelCall& call, DenseTensor& out);
bool run_reduction(const KernelCall& call, DenseTensor& out);
bool run_contraction(const KernelCall& call, std::vector<DenseTensor>& outs);

// Calls fn(index) for each index of the box, in row-major order.
void for_each_index(const std::vector<int64_t>& sizes,
                    const std::function<void(const std::vector<int64_t>&)>& fn);
size_t flat(const std::vector<int64_t>& index, const std::vector<int64_t>& sizes);
// -size..size-1 to 0..size-1; throws UserError (IndexError).
int64_t checked_index(int64_t index, int64_t size);
void store(DenseTensor& out, size_t at, double value);

}  // namespace cdynamo::graph
