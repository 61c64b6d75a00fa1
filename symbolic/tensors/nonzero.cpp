#include "symbolic/tensors/nonzero.h"

#include <algorithm>

#include "graph/op.h"
#include "graph/passes/view_step.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/tensors/data_numbers.h"

namespace cdynamo::symbolic {
namespace {

using graph::DType;
using graph::Sym;
using graph::Value;

using Sizes = std::vector<Sym>;

// Elements of a block: so many that there are far fewer blocks than elements, so few that a device is busy with them. Where one of
// about that size divides all elements, each block is whole.
int64_t block_size(const Sym& size) {
  constexpr int64_t kLeast = 16, kBlock = 4096;
  if (!size.is_constant()) return kBlock;
  const int64_t count = size.constant();
  if (count <= kBlock) return std::max(kLeast, count);
  for (int64_t block = kBlock; block <= 4 * kBlock; block += kLeast)
    if (count % block == 0) return block;
  return kBlock;
}

// The row-major places of the true elements of `flags`, which has one dimension.
Value* places(Executor& ex, Value* flags) {
  graph::SymContext& sym = *ex.graph().sym;
  const Sym size = flags->type.sizes[0], block = block_size(size);
  const auto call = [&](const char* op, std::vector<graph::Arg> args) {
    return append_call1(ex, op, std::move(args));
  };
  Value* counts = call("core.running_counts", {flags, block});
  const Sym last = counts->type.sizes[0] - Sym(1);
  Value* total =
      call("core.reshape", {call("core.slice", {counts, Sizes{last}, Sizes{1}, Sizes{1}}), Sizes{}});
  const Sym found = read_data_symbol(ex, call("clone", {total}), 0);
  sym.require(graph::Relation::kLe, found, size, "the number of elements that are not zero");
  Value* all = call("core.iota", {Sizes{size}, Sym(0), DType::kI64});
  return call("core.compress", {all, flags, counts, block, found});
}

}  // namespace

std::vector<Value*> nonzero_indices(Executor& ex, Value* value, const char* what) {
  TensorCapture& capture = tensor_capture(ex);
  if (!ex.state().request.reads_data || ex.isolated_region()) break_graph("CD0415", what);
  const graph::TensorType& type = value->type;
  const Sym count = type.numel();
  if (type.rank() == 0 || ex.graph().sym->guard_eq(count, 0, what)) break_graph("CD0415", what);
  auto& known = capture.nonzero[value];
  const auto written = capture.written_at.find(graph::view_history(value).counter);
  if (!known.indices.empty() && (written == capture.written_at.end() || written->second <= known.made_at))
    return known.indices;
  const WithoutGradient no_gradient(ex);
  const graph::Builder::OnDevice place_results(ex.builder(), type.device);
  Value* flags = type.dtype == DType::kBool ? value : append_call1(ex, "core.cast", {value, DType::kBool});
  Value* place = places(ex, append_call1(ex, "reshape", {flags, Sizes{count}}));
  std::vector<Value*> indices;
  Sym step = count;
  for (const Sym& size : type.sizes) {
    step = floordiv(step, size);
    Value* index = step == Sym(1) ? place : append_call1(ex, "floor_divide", {place, step});
    if (!indices.empty()) index = append_call1(ex, "remainder", {index, size});
    indices.push_back(index);
  }
  known = {indices, ex.graph().next_value_id()};
  return indices;
}

}  // namespace cdynamo::symbolic
