#include "symbolic/interop/tensor_access.h"

#include <algorithm>
#include <cstring>

#include "symbolic/interop/numpy_access.h"
#include "symbolic/interop/torch_access.h"

namespace cdynamo::symbolic {

using runtime::Device;
using runtime::DeviceType;
using runtime::DType;
using runtime::TensorView;

bool torch_is_loaded() { return torch_access::api() != nullptr; }
bool numpy_is_loaded() { return numpy_access::api() != nullptr; }

TensorKind tensor_kind(PyObject* object) {
  if (PyTypeObject* type = torch_access::tensor_type())
    if (PyObject_TypeCheck(object, type)) return TensorKind::kTorch;
  if (const auto* numpy = numpy_access::api())
    if (PyObject_TypeCheck(object, numpy->array_type)) return TensorKind::kNumpy;
  return TensorKind::kNone;
}

void memory_range(const TensorView& view, const char** begin, const char** end) {
  int64_t low = 0, high = 0;
  for (int d = 0; d < view.rank; ++d) {
    if (view.sizes[d] == 0) {
      *begin = *end = static_cast<const char*>(view.data);
      return;
    }
    int64_t reach = (view.sizes[d] - 1) * view.strides[d];
    (reach < 0 ? low : high) += reach;
  }
  const char* data = static_cast<const char*>(view.data);
  *begin = data + low * runtime::bytes(view.dtype);
  *end = data + (high + 1) * runtime::bytes(view.dtype);
}

// ---- reading

namespace {

void read_torch(PyObject* object, TensorInfo* info) {
  const torch_access::Api* api = torch_access::api();
  if (!api) return void(info->obstacle = "this build of PyTorch is not one that cdynamo knows");
  info->is_parameter = Py_TYPE(object) == api->parameter_type;
  if (Py_TYPE(object) != api->tensor_type && !info->is_parameter)
    return void(info->obstacle =
                    std::string("a subclass of torch.Tensor (") + Py_TYPE(object)->tp_name + ")");
  uint64_t keys = torch_access::key_set(*api, object);
  torch_access::TensorHandle h = torch_access::handle(object);
  int32_t device_type = 0, device_index = 0;
  constexpr int32_t kCuda = 1;
  if (!api->get_device_type(h, &device_type) && device_type == kCuda && torch_access::probe_cuda() &&
      !api->get_device_index(h, &device_index))
    info->view.device = {DeviceType::kCUDA, static_cast<int8_t>(device_index)};
  const bool cuda = info->view.device.type == DeviceType::kCUDA;
  info->inference = keys == (cuda ? api->cuda_inference_keys : api->inference_keys);
  if (keys != (cuda ? api->cuda_keys : api->plain_keys) && !info->inference)
    return void(info->obstacle =
                    "not a plain strided tensor of the CPU or a CUDA device (its device, its layout, or a "
                    "lazy conjugate or negative)");
  int32_t scalar_type = -1;
  int64_t rank = 0, *sizes = nullptr, *strides = nullptr;
  if (api->get_dtype(h, &scalar_type) || !torch_access::dtype_of_scalar_type(scalar_type, &info->view.dtype))
    return void(info->obstacle = "a dtype that cdynamo does not compile");
  if (api->get_dim(h, &rank) || rank > kMaxRank)
    return void(info->obstacle = "a tensor of too many dimensions");
  if (api->get_sizes(h, &sizes) || api->get_strides(h, &strides) || api->get_data_ptr(h, &info->view.data))
    return void(info->obstacle = "a tensor whose memory cannot be read");
  info->view.sizes = sizes;
  info->view.strides = strides;
  info->view.rank = static_cast<int32_t>(rank);
  info->requires_grad = api->requires_grad(torch_access::impl(object));
}

void read_numpy(PyObject* object, TensorInfo* info) {
  const numpy_access::Api* api = numpy_access::api();
  if (Py_TYPE(object) != api->array_type)
    return void(info->obstacle =
                    std::string("a subclass of numpy.ndarray (") + Py_TYPE(object)->tp_name + ")");
  const numpy_access::Array* a = numpy_access::array(object);
  if (!numpy_access::dtype_of_descr(a->descr, &info->view.dtype))
    return void(info->obstacle = "an array of a dtype that cdynamo does not compile");
  if (!(a->flags & numpy_access::kAligned))
    return void(info->obstacle = "an array that is not aligned in memory");
  static_assert(sizeof(intptr_t) == sizeof(int64_t));
  const int item = runtime::bytes(info->view.dtype);
  for (int d = 0; d < a->rank; ++d) {
    if (a->strides[d] % item != 0)
      return void(info->obstacle = "an array whose strides are no multiples of its item size");
    info->stride_buffer[d] = a->strides[d] / item;
  }
  info->view.data = a->data;
  info->view.rank = a->rank;
  info->view.sizes = reinterpret_cast<const int64_t*>(a->sizes);
  info->view.strides = info->stride_buffer.data();
  info->writeable = a->flags & numpy_access::kWriteable;
}

}  // namespace

bool read_tensor(PyObject* object, TensorInfo* info) {
  info->kind = tensor_kind(object);
  info->obstacle.clear();
  info->requires_grad = info->is_parameter = info->inference = false;
  info->writeable = true;
  info->view = {};
  if (info->kind == TensorKind::kNone) return false;
  info->kind == TensorKind::kTorch ? read_torch(object, info) : read_numpy(object, info);
  if (info->obstacle.empty()) memory_range(info->view, &info->begin, &info->end);
  return true;
}

bool requires_grad(PyObject* object) {
  const auto* api = torch_access::api();
  return api && tensor_kind(object) == TensorKind::kTorch && api->requires_grad(torch_access::impl(object));
}

bool is_parameter(PyObject* object) {
  const auto* api = torch_access::api();
  return api && Py_TYPE(object) == api->parameter_type;
}

// ---- guards

TensorCheck make_tensor_check(const TensorGuard& guard) {
  TensorCheck check;
  check.type_ref = guard.type;
  check.type = reinterpret_cast<PyTypeObject*>(guard.type.get());
  check.kind = guard.numpy ? TensorKind::kNumpy : TensorKind::kTorch;
  check.requires_grad = guard.requires_grad;
  check.writeable = guard.writeable;
  check.dtype = guard.dtype;
  check.device = guard.device;
  check.rank = static_cast<int32_t>(guard.sizes.size());
  for (int d = 0; d < check.rank; ++d) {
    check.sizes.push_back(guard.sizes[d].maybe_constant().value_or(-1));
    check.strides.push_back(guard.strides[d].maybe_constant().value_or(-1));
    if (!guard.sizes[d].is_constant()) check.dynamic_sizes |= uint64_t{1} << d;
    if (!guard.strides[d].is_constant()) check.dynamic_strides |= uint64_t{1} << d;
  }
  if (guard.numpy) {
    check.key_set = static_cast<uint64_t>(numpy_access::kTypeNumbers[static_cast<int>(guard.dtype)]);
  } else if (const auto* api = torch_access::api()) {
    const bool cuda = guard.device.type == DeviceType::kCUDA;
    check.key_set = cuda ? (guard.inference ? api->cuda_inference_keys : api->cuda_keys)
                         : (guard.inference ? api->inference_keys : api->plain_keys);
  }
  return check;
}

namespace {

inline bool same_entries(const int64_t* expected, const int64_t* found, int rank, uint64_t dynamic) {
  for (int d = 0; d < rank; ++d)
    if (expected[d] != found[d] && !(dynamic >> d & 1)) return false;
  return true;
}

inline bool check_torch(const TensorCheck& check, PyObject* object, TensorView* view) {
  const torch_access::Api& api = *torch_access::api();
  const char* impl = torch_access::impl(object);
  if (*reinterpret_cast<const uint64_t*>(impl + api.key_set_offset) != check.key_set) return false;
  torch_access::TensorHandle h = torch_access::handle(object);
  int32_t scalar_type;
  int64_t rank, *sizes, *strides;
  if (api.get_dtype(h, &scalar_type) ||
      scalar_type != torch_access::kScalarTypes[static_cast<int>(check.dtype)])
    return false;
  if (api.get_dim(h, &rank) || rank != check.rank) return false;
  if (api.get_sizes(h, &sizes) || !same_entries(check.sizes.data(), sizes, check.rank, check.dynamic_sizes))
    return false;
  if (api.get_strides(h, &strides) ||
      !same_entries(check.strides.data(), strides, check.rank, check.dynamic_strides))
    return false;
  if (api.requires_grad(impl) != check.requires_grad) return false;
  if (check.device.type == DeviceType::kCUDA) {
    int32_t index;
    if (api.get_device_index(h, &index) || index != check.device.index) return false;
  }
  view->sizes = sizes;
  view->strides = strides;
  return api.get_data_ptr(h, &view->data) == 0;
}

inline bool check_numpy(const TensorCheck& check, PyObject* object, TensorView* view, int64_t* scratch) {
  const numpy_access::Array* a = numpy_access::array(object);
  DType dtype;
  if (a->rank != check.rank || !(a->flags & numpy_access::kAligned)) return false;
  if (((a->flags & numpy_access::kWriteable) != 0) != check.writeable) return false;
  if (!numpy_access::dtype_of_descr(a->descr, &dtype) || dtype != check.dtype) return false;
  const int64_t* sizes = reinterpret_cast<const int64_t*>(a->sizes);
  if (!same_entries(check.sizes.data(), sizes, check.rank, check.dynamic_sizes)) return false;
  const int64_t item = runtime::bytes(check.dtype);
  if (check.dynamic_strides == 0) {
    for (int d = 0; d < check.rank; ++d)
      if (a->strides[d] != check.strides[d] * item) return false;
    view->strides = check.strides.data();
  } else {
    for (int d = 0; d < check.rank; ++d) {
      if (a->strides[d] % item != 0) return false;
      scratch[d] = a->strides[d] / item;
    }
    if (!same_entries(check.strides.data(), scratch, check.rank, check.dynamic_strides)) return false;
    view->strides = scratch;
  }
  view->data = a->data;
  view->sizes = sizes;
  return true;
}

std::string shape_text(const int64_t* values, int rank, uint64_t dynamic) {
  std::string text = "(";
  for (int d = 0; d < rank; ++d)
    text += (d ? ", " : "") + (dynamic >> d & 1 ? std::string("any") : std::to_string(values[d]));
  return text + ")";
}

}  // namespace

bool check_tensor(const TensorCheck& check, PyObject* object, TensorView* view, int64_t* stride_scratch) {
  if (Py_TYPE(object) != check.type) return false;
  view->rank = check.rank;
  view->dtype = check.dtype;
  view->device = check.device;
  return check.kind == TensorKind::kTorch ? check_torch(check, object, view)
                                          : check_numpy(check, object, view, stride_scratch);
}

std::string explain_mismatch(const TensorCheck& check, PyObject* object) {
  if (Py_TYPE(object) != check.type)
    return std::string("type was ") + check.type->tp_name + ", is " + Py_TYPE(object)->tp_name;
  TensorInfo info;
  if (!read_tensor(object, &info)) return "is no tensor";
  if (!info.obstacle.empty()) return "is " + info.obstacle;
  const TensorView& view = info.view;
  auto was_is = [](const char* what, std::string was, std::string is) {
    return std::string(what) + " was " + was + ", is " + is;
  };
  auto yes = [](bool b) { return std::string(b ? "True" : "False"); };
  if (view.dtype != check.dtype)
    return was_is("dtype", runtime::info(check.dtype).name, runtime::info(view.dtype).name);
  if (view.rank != check.rank) return was_is("ndim", std::to_string(check.rank), std::to_string(view.rank));
  for (int d = 0; d < view.rank; ++d)
    if (!(check.dynamic_sizes >> d & 1) && view.sizes[d] != check.sizes[d])
      return was_is(("shape[" + std::to_string(d) + "]").c_str(), std::to_string(check.sizes[d]),
                    std::to_string(view.sizes[d]));
  if (!same_entries(check.strides.data(), view.strides, view.rank, check.dynamic_strides))
    return was_is("stride", shape_text(check.strides.data(), check.rank, check.dynamic_strides),
                  shape_text(view.strides, view.rank, 0));
  if (info.requires_grad != check.requires_grad)
    return was_is("requires_grad", yes(check.requires_grad), yes(info.requires_grad));
  if (check.kind == TensorKind::kNumpy && info.writeable != check.writeable)
    return was_is("flags.writeable", yes(check.writeable), yes(info.writeable));
  return "was made under another inference mode";
}

int mismatched_size(const TensorCheck& check, PyObject* object) {
  TensorInfo info;
  if (Py_TYPE(object) != check.type || !read_tensor(object, &info) || !info.obstacle.empty()) return -1;
  const TensorView& view = info.view;
  if (view.dtype != check.dtype || view.rank != check.rank || info.requires_grad != check.requires_grad)
    return -1;
  for (int d = 0; d < view.rank; ++d)
    if (!(check.dynamic_sizes >> d & 1) && view.sizes[d] != check.sizes[d]) return d;
  return -1;
}

}  // namespace cdynamo::symbolic
