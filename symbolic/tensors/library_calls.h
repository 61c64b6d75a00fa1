// Calls of a framework's own functions: core.library nodes, and what runs them.
//
// Capture makes a LibraryCall of an object in Python (python/cdynamo/_library: call.py has PyTorch's, numbers.py Python's,
// _numpy_library.py NumPy's) whose `run` computes the node. A node names its call by a number, which is good for as long as
// somebody holds the LibraryCall: capture's result, and what is compiled from it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/sizes/sym.h"
#include "runtime/executable.h"
#include "runtime/library/torch_attention.h"
#include "symbolic/interop/py_ref.h"
#include "symbolic/tensors/numpy_call.h"

namespace cdynamo::symbolic {

// The ints of a tuple, sizes or strides that a call's object in Python says.
std::vector<graph::Sym> read_sizes(PyObject* tuple);

struct LibraryCall {
  explicit LibraryCall(PyRef call);
  LibraryCall(const LibraryCall&) = delete;
  // Its results turned out to be of other types than the graph says.
  bool is_stale() const;

  const int id;
  const PyRef object;  // cdynamo._library.call.Call, or one that has its form
  const std::optional<runtime::FusedAttention> attention;  // what it may be called as without Python
  const int64_t differentiable;                            // as core.library has it
  const std::vector<graph::Sym> gradient_strides;          // likewise
  const bool takes_arrays;                                 // NumPy's, not PyTorch's tensors
  const std::unique_ptr<NumpyCall> numpy;                  // how it is made without Python; null: it is not
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

}  // namespace cdynamo::symbolic
