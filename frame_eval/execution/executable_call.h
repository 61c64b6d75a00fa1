// What running an executable from Python takes: buffers for its outputs, the GIL given up where that pays,
// errors as Python exceptions.
#pragma once

#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "runtime/executable.h"
#include "symbolic/interop/py_ref.h"

namespace cdynamo::frame_eval {

using symbolic::PyRef;

// Sizes or strides of one tensor, evaluated in place; static ones once.
struct Extents {
  Extents() = default;
  explicit Extents(std::vector<runtime::SizeExpr> expressions);
  const int64_t* get(const int64_t* symbols, std::vector<int64_t>& scratch) const;

  std::vector<runtime::SizeExpr> expressions;
  std::vector<int64_t> values;
  bool is_static = true;
};

// A tensor that is allocated on each call.
struct FreshTensor {
  FreshTensor() = default;
  explicit FreshTensor(const runtime::OutputSpec& spec);
  int rank() const { return static_cast<int>(sizes.values.size()); }
  PyRef make_torch(const int64_t* symbols, void** data) const;
  PyRef make_numpy(const int64_t* symbols, void** data) const;

  runtime::DType dtype{};
  runtime::Device device;
  Extents sizes, strides;
};

// A torch tensor for an output of an executable, made once.
PyRef make_output(const runtime::OutputSpec& spec, const int64_t* symbols, void** data);

// What is known of a call that failed.
enum class CallFailure : uint8_t {
  kBeforeWrites,      // the inputs are as they were
  kUnexpectedNumber,  // as are they here
  kMidway,            // some of them may have been written
  kNoMemory,          // the same, for want of memory on a GPU
  kOfEarlierCall      // kernels of a call before had failed, which is found out now
};

// Without the GIL where the executable takes long; `inputs` are held meanwhile. False with a Python error set.
// Fills in `call.library`, which is valid only meanwhile.
bool execute(runtime::Executable& executable, runtime::Call& call, std::span<PyObject* const> inputs,
             CallFailure* failure = nullptr);

// Takes the memory of an output; false with a Python error set.
using AllocateOutput = absl::FunctionRef<bool(int output, void** data)>;

// The same, where each output is allocated before the first step that writes it, or is a tensor that a library call gave;
// `outputs` has one entry for each.
bool execute_allocating(runtime::Executable& executable, runtime::Call& call,
                        std::span<PyObject* const> inputs, std::vector<PyRef>& outputs,
                        AllocateOutput allocate, CallFailure* failure = nullptr);

// The same for a call that owns its inputs: each is dropped after the last step that reads it, and each output is allocated before the
// first that writes it. All outputs are torch tensors; empty on error.
std::vector<PyRef> execute_releasing(runtime::Executable& executable, std::vector<PyRef> inputs,
                                     const std::vector<runtime::TensorView>& views, const int64_t* symbols);

}  // namespace cdynamo::frame_eval
