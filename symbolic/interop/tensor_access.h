// Access to torch.Tensor and numpy.ndarray objects in nanoseconds, without linking either library and without
// importing them: symbols and layouts are looked up at first use in what the process has loaded, and probed
// on tensors of known shape before they are trusted. Where one is missing or disagrees, a slower way through
// Python attributes is taken.
//
//   TensorCheck check = make_tensor_check(guard.tensor);             // once, when a cache entry is made
//   runtime::TensorView view;
//   if (check_tensor(check, object, &view, scratch)) …                // on each call: metadata compared,
//   pointers read void* data; PyRef result = make_torch_tensor(dtype, device, sizes, strides, rank, &data);
//
// Every function needs the GIL. None throws but for those that say so.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/types.h"
#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

inline constexpr int kMaxRank = 64;

// True when the library is in sys.modules and its entry points are resolved; the first call after its import
// resolves them. Cheap when already true.
bool torch_is_loaded();
bool numpy_is_loaded();

// ---- what a tensor is

enum class TensorKind : uint8_t { kNone, kTorch, kNumpy };

// kTorch for instances of torch.Tensor and subclasses, kNumpy for numpy.ndarray and subclasses.
TensorKind tensor_kind(PyObject* object);

struct TensorInfo {
  TensorKind kind = TensorKind::kNone;
  // Pointers stay valid while the object is alive and not resized. NumPy's strides point into
  // `stride_buffer`.
  runtime::TensorView view;
  // Empty for a plain strided tensor that compiled code may read: one of cdynamo's dtypes, a device it has,
  // exact class (torch.Tensor, Parameter, ndarray), no lazy conjugate or negative bit, no wrapper, native
  // byte order, aligned. Otherwise why not, in the user's terms; then only `kind` is set.
  std::string obstacle;
  bool requires_grad = false;
  bool is_parameter = false;
  bool inference = false;  // made under inference mode
  bool writeable = true;
  // The bytes that its elements lie in; begin == end when it has none.
  const char* begin = nullptr;
  const char* end = nullptr;
  std::array<int64_t, kMaxRank> stride_buffer;
};

// False when the object is no tensor at all.
bool read_tensor(PyObject* object, TensorInfo* info);

// As the attribute of a torch tensor says; false for other objects.
bool requires_grad(PyObject* object);

// Of exactly that class.
bool is_parameter(PyObject* object);

// The bytes that a view's elements lie in.
void memory_range(const runtime::TensorView& view, const char** begin, const char** end);

// ---- guards on tensors

// What a guard on a tensor asks for.
struct TensorGuard {
  PyRef type;  // torch.Tensor, Parameter, numpy.ndarray; exact
  bool numpy = false;
  graph::DType dtype{};
  graph::Device device{};
  // A constant, or an expression that is just a symbol (binds it), or any expression (checked after binding).
  std::vector<graph::Sym> sizes, strides;
  bool requires_grad = false;
  bool inference = false;  // torch: made under inference mode
  bool writeable = true;   // NumPy
};

// Expected metadata, in the form that is compared fastest.
struct TensorCheck {
  PyTypeObject* type = nullptr;  // exact; kept alive by `type_ref`
  PyRef type_ref;
  TensorKind kind = TensorKind::kTorch;
  bool requires_grad = false;
  bool writeable = true;  // NumPy: a read-only array is another case
  runtime::DType dtype{};
  runtime::Device device;
  int32_t rank = 0;
  uint64_t key_set = 0;  // torch: the dispatch keys of such a tensor, all compared; NumPy: the type number
  std::vector<int64_t> sizes, strides;  // expected where static
  uint64_t dynamic_sizes = 0,
           dynamic_strides = 0;  // bit d: entry d is not compared here, the caller's symbols decide
};
TensorCheck make_tensor_check(const TensorGuard& guard);

// Compares and, where all holds, fills `view`. `stride_scratch` (room for `rank` entries) is used for arrays
// of NumPy with dynamic strides; otherwise view->strides points at the tensor's own or at check.strides.
bool check_tensor(const TensorCheck& check, PyObject* object, runtime::TensorView* view,
                  int64_t* stride_scratch);

// What differs, for the recompilation log: "dtype was float32, is float64"; "shape[0] was 8, is 16".
std::string explain_mismatch(const TensorCheck& check, PyObject* object);
// The dimension whose size differs where that is the only difference but for strides that follow from it;
// else -1.
int mismatched_size(const TensorCheck& check, PyObject* object);

// ---- torch's thread-local and global state

// Compared as a whole: one value at capture, one at each call.
struct TorchState {
  enum Flag : uint32_t {
    kGradMode = 1,
    kInferenceMode = 2,
    kDeterministic = 4,
    kDeterministicWarnOnly = 8,
    kFunctionModes = 16,  // a __torch_function__ mode is active (torch.set_default_device is one)
    kFunctionDisabled = 32,
    kAutocast = 64,  // torch.autocast("cpu")
    kAutocastCache = 128,
    kAutocastCuda = 256,
    kSavedTensorHooks = 512,           // of a program's own, with grad mode on
    kSavedTensorHooksDisabled = 1024,  // torch.autograd.graph.disable_saved_tensors_hooks
  };
  uint64_t included_keys = 0,
           excluded_keys = 0;  // the thread's dispatch keys: autocast, functorch, dispatch modes, tracing
  uint32_t flags = 0;
  int32_t default_dtype = -1;  // c10::ScalarType
  // The same, by runtime::DeviceType; -1 where autocast cannot be read.
  std::array<int32_t, 2> autocast_dtypes = {-1, -1};
  int32_t current_device = 0;  // of CUDA; 0 until a program uses it
  friend bool operator==(const TorchState&, const TorchState&) = default;
  bool grad_mode() const { return flags & kGradMode; }
};
TorchState read_torch_state();

// Null when compiled code may run in this state; otherwise what is in the way: "a __torch_dispatch__ mode is
// active". Inference mode, no_grad and autocast for the CPU and CUDA are fine.
const char* torch_state_obstacle(const TorchState& state);

// Are there hooks of saved tensors (torch.autograd.graph.saved_tensors_hooks) on this thread?
bool has_saved_tensor_hooks();

// ---- making results

// What PyTorch raises where a GPU has no memory left. Borrowed.
PyObject* device_memory_error();
// A new torch.Tensor with uninitialised memory; sizes and strides count elements. Null with a Python error on
// failure.
PyRef make_torch_tensor(runtime::DType dtype, runtime::Device device, const int64_t* sizes,
                        const int64_t* strides, int rank, void** data);
// A torch.Tensor of a tensor of PyTorch's C interface (AtenTensorHandle), which stays the caller's.
PyRef wrap_torch_handle(const void* handle);
// A new numpy.ndarray; strides count elements.
PyRef make_numpy_array(runtime::DType dtype, const int64_t* sizes, const int64_t* strides, int rank,
                       void** data);
// A view of a tensor or array, with `dtype` of its bytes as elements of that: strides and `offset` count those, from the base's data
// pointer. A NumPy view keeps `base` alive.
PyRef as_strided_view(PyObject* base, const int64_t* sizes, const int64_t* strides, int rank, int64_t offset,
                      std::optional<runtime::DType> dtype = std::nullopt);
// A tensor over the same memory with the history that `tensor` has now: a later write to `tensor` does not change that, and it does not
// keep `tensor`. A leaf, and what is no plain tensor, is itself. Null with a Python error set.
PyRef alias_with_history(PyObject* tensor);
// The node of autograd's graph that `tensor` is a result of, as the engine knows it; it is not kept alive. Null for a leaf, and where
// this torch does not tell.
const void* autograd_node_of(PyObject* tensor);
// Is the gradient of this edge of the node asked for by the backward that runs now in this thread?
bool engine_goes_along(const void* node, size_t edge);
// numpy.float64(...) and the like, from one element at `data`.
PyRef make_numpy_scalar(runtime::DType dtype, const void* data);
// numpy.float16, float32 or float64, exactly.
bool is_numpy_real(PyObject* object, runtime::DType* dtype = nullptr);
// numpy.float64, numpy.int64, numpy.bool ...: a class of scalars that hold nothing but a number.
bool is_numpy_number_type(PyTypeObject* type);
// One of NumPy's integers, of a dtype that graphs have.
bool is_numpy_integer(PyObject* object, runtime::DType* dtype = nullptr);
// Its value, as it lies in memory: no more than eight bytes.
void read_numpy_scalar(PyObject* scalar, void* memory);
// float, int or bool from one element at `data`.
PyRef make_python_scalar(runtime::DType dtype, const void* data);
// After compiled code has written to a torch tensor's memory: moves its version counter on, as an in-place
// operator does, so that autograd notices. No effect on arrays of NumPy.
void bump_version(PyObject* tensor);

// ---- dtypes

// torch.device(...); a new reference.
PyRef torch_device_object(runtime::Device device);
// torch.float32 and the like; borrowed, null when torch is not loaded.
PyObject* torch_dtype_object(runtime::DType dtype);
// False for objects that are no torch.dtype or one that cdynamo does not have.
bool dtype_of_torch_object(PyObject* object, runtime::DType* dtype);
// numpy.dtype object; a new reference.
PyRef numpy_dtype_object(runtime::DType dtype);
bool dtype_of_numpy_object(PyObject* numpy_dtype, runtime::DType* dtype);

}  // namespace cdynamo::symbolic
