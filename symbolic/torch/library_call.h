// Operators that the table lacks: core.library nodes, which call PyTorch (python/cdynamo/_library.py).
//
// What a call gives is learnt at capture from tensors without content; calls that a node cannot stand for (they write, draw, give
// views, or sizes that depend on data) break the graph. A node names its call by a number, which is good for as long as somebody
// holds the LibraryCall: capture's result, and what is compiled from it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "runtime/executable.h"
#include "runtime/library/torch_attention.h"
#include "symbolic/tensors/array_value.h"

namespace cdynamo::symbolic {

struct LibraryCall {
  explicit LibraryCall(PyRef call);
  LibraryCall(const LibraryCall&) = delete;
  // Its results turned out to be of other types than the graph says.
  bool is_stale() const;

  const int id;
  const PyRef object;                                      // cdynamo._library.Call
  const std::optional<runtime::FusedAttention> attention;  // what it may be called as without Python
  const int64_t differentiable;                            // as core.library has it
};

// What the core.library nodes of one graph name.
class LibraryCalls {
 public:
  explicit LibraryCalls(const std::vector<std::shared_ptr<LibraryCall>>& calls);
  // By the `call` of a core.library or core.library_backward node. Borrowed. Throws graph::InternalError where the graph
  // has no such call.
  PyObject* find(int64_t number) const;
  // Runs a node without Python, in a thread that need not hold the GIL. False where it has to be run with it; outputs are as they were
  // then. The outputs' views follow the inputs' in memory.
  bool run_native(int64_t number, const runtime::TensorView* inputs, int num_inputs, int num_outputs,
                  runtime::BroughtMemory* const* brought) const;
  // Runs a node on memory: the outputs are written, or brought where `brought` (runtime::LibraryArgs) says so. False with a
  // Python error set.
  bool run(int64_t number, const runtime::TensorView* inputs, int num_inputs,
           const runtime::TensorView* outputs, int num_outputs, runtime::BroughtMemory* const* brought) const;

 private:
  absl::flat_hash_map<int64_t, std::shared_ptr<LibraryCall>> calls_;
};

// The user call that is being recorded, as a node; breaks the graph where that cannot be. For bodies of recorded_call.
ValuePtr call_library(Executor& ex, const CallArgs& args);
// The same, or null where no node can stand for the call (sizes that change, say).
ValuePtr try_library(Executor& ex, const CallArgs& args);
// The same where a rule for the call exists and has broken the graph, for want of a constant too: throws `broken` again where a node cannot be.
ValuePtr call_library_after(Executor& ex, const GraphBreak& broken, const CallArgs& args);

// A function of PyTorch's that may be an operator, by the kind of object.
bool may_be_library_operator(PyObject* callable);

}  // namespace cdynamo::symbolic
