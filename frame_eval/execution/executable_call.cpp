#include "frame_eval/execution/executable_call.h"

#include "absl/container/inlined_vector.h"

#include "symbolic/interop/logs.h"
#include "symbolic/interop/tensor_access.h"
#include "symbolic/torch/library_call.h"

namespace cdynamo::frame_eval {
namespace {

bool set_error(const runtime::RunError& error) {
  if (PyErr_Occurred()) return false;
  PyObject* type = PyExc_RuntimeError;
  if (error.kind == runtime::RunError::kIndexError) type = PyExc_IndexError;
  if (error.kind == runtime::RunError::kMemoryError) type = PyExc_MemoryError;
  if (error.kind == runtime::RunError::kDeviceMemoryError) type = symbolic::device_memory_error();
  PyErr_SetString(type, error.message.c_str());
  return false;
}

// Operators that PyTorch runs: steps of a plan, most of which take the GIL back.
bool call_library(const void* context, int call, const runtime::TensorView* inputs, int num_inputs,
                  runtime::TensorView* outputs, int num_outputs, runtime::BroughtMemory* const* brought) {
  const auto* calls = static_cast<const symbolic::LibraryCalls*>(context);
  if (calls->run_native(call, inputs, num_inputs, num_outputs, brought)) return true;
  const PyGILState_STATE gil = PyGILState_Ensure();
  const bool done = calls->run(call, inputs, num_inputs, outputs, num_outputs, brought);
  PyGILState_Release(gil);
  return done;
}

// Inputs and outputs of one call, which may run without the GIL.
struct OwnedMemory {
  AllocateOutput allocate;
  std::vector<PyRef>& outputs;
  std::vector<PyRef> inputs = {};
  std::vector<bool> taken = std::vector<bool>(outputs.size());
  static void* allocate_callback(void* context, int output) {
    const PyGILState_STATE gil = PyGILState_Ensure();
    void* data = nullptr;
    auto& memory = *static_cast<OwnedMemory*>(context);
    const bool done = memory.allocate(output, &data);
    memory.taken[output] = true;
    PyGILState_Release(gil);
    static char nothing;  // where tensors without elements point
    return done && !data ? &nothing : data;
  }
  static bool adopt_callback(void* context, int output, runtime::BroughtMemory memory) {
    const PyGILState_STATE gil = PyGILState_Ensure();
    static_cast<OwnedMemory*>(context)->taken[output] = true;
    PyRef& owned = static_cast<OwnedMemory*>(context)->outputs[output];
    owned = memory.kind() == runtime::BroughtMemory::kObject
                ? PyRef::steal(static_cast<PyObject*>(memory.release()))
                : symbolic::wrap_torch_handle(memory.owner());
    const bool done = owned.get() != nullptr;
    PyGILState_Release(gil);
    return done;
  }
  static void release_callback(void* context, int input) {
    const PyGILState_STATE gil = PyGILState_Ensure();
    static_cast<OwnedMemory*>(context)->inputs[input] = PyRef();
    PyGILState_Release(gil);
  }
  // What no step writes has no elements.
  bool allocate_rest() {
    for (size_t i = 0; i < outputs.size(); ++i) {
      void* data = nullptr;
      if (!taken[i] && !allocate(static_cast<int>(i), &data)) return false;
    }
    return true;
  }
};

}  // namespace

std::vector<PyRef> execute_releasing(runtime::Executable& executable, std::vector<PyRef> inputs,
                                     const std::vector<runtime::TensorView>& views, const int64_t* symbols) {
  std::vector<PyRef> outputs(executable.outputs.size());
  const auto allocate = [&](int output, void** data) {
    outputs[output] = make_output(executable.outputs[output], symbols, data);
    return outputs[output].get() != nullptr;
  };
  OwnedMemory memory{allocate, outputs, std::move(inputs)};
  runtime::MemoryCallbacks callbacks{&memory, OwnedMemory::allocate_callback, OwnedMemory::release_callback,
                                     OwnedMemory::adopt_callback};
  runtime::Call call{.inputs = views.data(), .symbols = symbols, .memory = &callbacks};
  if (!execute(executable, call, {}) || !memory.allocate_rest()) return {};
  return outputs;
}

bool execute_allocating(runtime::Executable& executable, runtime::Call& call,
                        std::span<PyObject* const> inputs, std::vector<PyRef>& outputs,
                        AllocateOutput allocate, CallFailure* failure) {
  OwnedMemory memory{allocate, outputs};
  runtime::MemoryCallbacks callbacks{
      .context = &memory, .allocate = OwnedMemory::allocate_callback, .adopt = OwnedMemory::adopt_callback};
  call.memory = &callbacks;
  return execute(executable, call, inputs, failure) && memory.allocate_rest();
}

Extents::Extents(std::vector<runtime::SizeExpr> given) : expressions(std::move(given)) {
  values.resize(expressions.size());
  for (size_t i = 0; i < expressions.size(); ++i) {
    is_static &= expressions[i].is_constant();
    if (expressions[i].is_constant()) values[i] = expressions[i].constant;
  }
}

const int64_t* Extents::get(const int64_t* symbols, std::vector<int64_t>& scratch) const {
  if (is_static) return values.data();
  scratch.resize(expressions.size());
  for (size_t i = 0; i < expressions.size(); ++i) scratch[i] = expressions[i].evaluate(symbols);
  return scratch.data();
}

PyRef make_output(const runtime::OutputSpec& spec, const int64_t* symbols, void** data) {
  absl::InlinedVector<int64_t, 12> extents;
  for (const std::vector<runtime::SizeExpr>* expressions : {&spec.sizes, &spec.strides})
    for (const runtime::SizeExpr& size : *expressions)
      extents.push_back(size.is_constant() ? size.constant : size.evaluate(symbols));
  const size_t rank = spec.sizes.size();
  return symbolic::make_torch_tensor(spec.dtype, spec.device, extents.data(), extents.data() + rank,
                                     static_cast<int>(rank), data);
}

FreshTensor::FreshTensor(const runtime::OutputSpec& spec)
    : dtype(spec.dtype), device(spec.device), sizes(spec.sizes), strides(spec.strides) {}

PyRef FreshTensor::make_torch(const int64_t* symbols, void** data) const {
  std::vector<int64_t> size_scratch, stride_scratch;
  return symbolic::make_torch_tensor(dtype, device, sizes.get(symbols, size_scratch),
                                     strides.get(symbols, stride_scratch), rank(), data);
}

PyRef FreshTensor::make_numpy(const int64_t* symbols, void** data) const {
  std::vector<int64_t> size_scratch, stride_scratch;
  return symbolic::make_numpy_array(dtype, sizes.get(symbols, size_scratch),
                                    strides.get(symbols, stride_scratch), rank(), data);
}

bool execute(runtime::Executable& executable, runtime::Call& call, std::span<PyObject* const> inputs,
             CallFailure* failure) {
  runtime::LibraryCallbacks library{.context = executable.library_context.get(), .call = call_library};
  call.library = library.context ? &library : nullptr;
  runtime::RunError error;
  bool done;
  if (executable.takes_long) {
    // Another thread may drop what holds the inputs while the GIL is away.
    std::vector<PyRef> held;
    held.reserve(inputs.size());
    for (PyObject* input : inputs) held.push_back(PyRef::borrow(input));
    Py_BEGIN_ALLOW_THREADS;
    done = executable.run(call, &error);
    Py_END_ALLOW_THREADS;
  } else {
    done = executable.run(call, &error);
  }
  if (!error.remark.empty() && symbolic::log_enabled(symbolic::Topic::kPerf))
    symbolic::log(symbolic::Topic::kPerf, error.remark);
  if (done) return true;
  // Inputs are written when all that may fail has run (lowering/fusion/in_place.cpp).
  const bool midway = error.kind == runtime::RunError::kNone || error.kind == runtime::RunError::kMemoryError,
             no_memory = error.kind == runtime::RunError::kDeviceMemoryError;
  if (failure)
    *failure = error.of_earlier_call                                ? CallFailure::kOfEarlierCall
               : error.kind == runtime::RunError::kUnexpectedNumber ? CallFailure::kUnexpectedNumber
               : no_memory                                          ? CallFailure::kNoMemory
               : midway                                             ? CallFailure::kMidway
                                                                    : CallFailure::kBeforeWrites;
  return set_error(error);
}

}  // namespace cdynamo::frame_eval
