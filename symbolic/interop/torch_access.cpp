#include "symbolic/interop/torch_access.h"

#include <absl/strings/str_cat.h>
#include <dlfcn.h>
#include <malloc.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>

#include "graph/torch_release.h"
#include "runtime/host/parallel.h"
#include "symbolic/interop/interruption.h"
#include "symbolic/interop/logs.h"
#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic::torch_access {
namespace {

bool g_refused = false;
Api g_api;
PyTypeObject* g_tensor_type = nullptr;

PyObject* loaded_module(const char* name) {
  PyObject* modules = PyImport_GetModuleDict();
  return modules ? PyDict_GetItemString(modules, name) : nullptr;
}

// An attribute of a module's dict, borrowed; null without an error.
PyObject* module_item(PyObject* module, const char* name) {
  if (!module || !PyModule_Check(module)) return nullptr;
  return PyDict_GetItemString(PyModule_GetDict(module), name);
}

template <typename F>
bool resolve(std::initializer_list<void*> libraries, const char* symbol, F& function) {
  for (void* library : libraries)
    if (library)
      if (void* address = dlsym(library, symbol)) {
        static_assert(sizeof(F) == sizeof(void*));
        std::memcpy(&function, &address, sizeof address);
        return true;
      }
  return false;
}

bool resolve_symbols(Api& api) {
  // Already loaded by torch; RTLD_NOLOAD takes a reference and never opens another copy.
  void* c10 = dlopen("libc10.so", RTLD_NOLOAD | RTLD_LAZY);
  void* cpu = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
  void* python = dlopen("libtorch_python.so", RTLD_NOLOAD | RTLD_LAZY);
  if (!c10 || !cpu || !python) return false;
  api.libc10 = c10;
  auto libraries = {cpu, c10, python};
  resolve(libraries, "_ZN2at6detail17empty_strided_cpuEN3c108ArrayRefIlEES3_NS1_10ScalarTypeEb",
          api.empty_strided_cpu);
  resolve(libraries,
          "_ZN2at6detail9empty_cpuEN3c108ArrayRefIlEENS1_10ScalarTypeEbSt8optionalINS1_12MemoryFormatEE",
          api.empty_cpu);
  if (!resolve(libraries, "_Z16THPVariable_WrapON2at10TensorBaseE", api.wrap_moved))
    api.empty_strided_cpu = nullptr;
  if (api.wrap_moved)
    resolve(libraries,
            "_ZN2at4_ops10as_strided4callERKNS_6TensorEN3c108ArrayRefINS5_6SymIntEEES8_St8optionalIS7_E",
            api.as_strided);
  if (resolve(libraries, "_ZN5torch8autograd4impl13gradient_edgeERKN2at6TensorE", api.gradient_edge))
    resolve(libraries, "_ZN5torch8autograd4impl17set_gradient_edgeERKN2at6TensorENS0_4EdgeE",
            api.set_gradient_edge);
  if (resolve(libraries, "_ZN5torch8autograd4impl14grad_fn_unsafeERKN2at6TensorE", api.node_behind))
    resolve(libraries, "_ZNK5torch8autograd4Node26task_should_compute_outputEm", api.engine_goes_along);
  resolve(libraries, "aoti_torch_create_tensor_from_blob_v2", api.tensor_from_memory);
  resolve(libraries, "_ZN2at8autocast19is_autocast_enabledEN3c1010DeviceTypeE", api.autocast_enabled);
  resolve(libraries, "_ZN2at8autocast20set_autocast_enabledEN3c1010DeviceTypeEb", api.set_autocast_enabled);
  resolve(libraries, "_ZN2at8autocast18get_autocast_dtypeEN3c1010DeviceTypeE", api.autocast_dtype);
  resolve(libraries, "_ZN2at8autocast25is_autocast_cache_enabledEv", api.autocast_cache);
  resolve(libraries, "_ZN2at9NamesMode10is_enabledEv", api.names_enabled);
  resolve(libraries, "_ZN2at9NamesMode11set_enabledEb", api.set_names_enabled);
  if (resolve(libraries, "_ZN2at23SavedTensorDefaultHooks10is_enabledEv", api.saved_tensor_hooks_enabled))
    resolve(libraries, "_ZN2at23SavedTensorDefaultHooks9get_hooksEb", api.saved_tensor_hooks);
  return resolve(libraries, "aoti_torch_get_data_ptr", api.get_data_ptr) &&
         resolve(libraries, "aoti_torch_get_dim", api.get_dim) &&
         resolve(libraries, "aoti_torch_get_sizes", api.get_sizes) &&
         resolve(libraries, "aoti_torch_get_strides", api.get_strides) &&
         resolve(libraries, "aoti_torch_get_dtype", api.get_dtype) &&
         resolve(libraries, "aoti_torch_get_device_type", api.get_device_type) &&
         resolve(libraries, "aoti_torch_get_device_index", api.get_device_index) &&
         resolve(libraries, "aoti_torch_get_storage_offset", api.get_storage_offset) &&
         resolve(libraries, "aoti_torch_empty_strided", api.empty_strided) &&
         resolve(libraries, "aoti_torch_delete_tensor_object", api.delete_tensor) &&
         resolve(libraries, "_Z16THPVariable_WrapRKN2at10TensorBaseE", api.wrap) &&
         resolve(libraries, "_ZNK3c1010TensorImpl13requires_gradEv", api.requires_grad) &&
         resolve(libraries, "_ZN3c108GradMode10is_enabledEv", api.grad_mode) &&
         resolve(libraries, "_ZN3c1013InferenceMode10is_enabledEv", api.inference_mode) &&
         resolve(libraries, "_ZN3c1031get_default_dtype_as_scalartypeEv", api.default_dtype) &&
         resolve(libraries, "_ZN2at13globalContextEv", api.global_context) &&
         resolve(libraries, "_ZNK2at7Context23deterministicAlgorithmsEv", api.deterministic) &&
         resolve(libraries, "_ZNK2at7Context31deterministicAlgorithmsWarnOnlyEv",
                 api.deterministic_warn_only) &&
         resolve(libraries, "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv", api.function_mode_count) &&
         resolve(libraries, "_ZN2at4impl22PythonTorchFunctionTLS18get_disabled_stateEv",
                 api.function_disabled) &&
         dlsym(c10, "_ZN3c104impl26raw_local_dispatch_key_setE") != nullptr;
}

bool resolve_types(Api& api, PyObject* torch) {
  api.tensor_type = g_tensor_type;
  PyObject* nn = loaded_module("torch.nn.parameter");
  PyObject* parameter = module_item(nn, "Parameter");
  if (!parameter || !PyType_Check(parameter)) return false;
  api.parameter_type = reinterpret_cast<PyTypeObject*>(parameter);
  for (int i = 0; i < runtime::kNumDTypes; ++i) {
    api.dtypes[i] = module_item(torch, runtime::kDTypes[i].name);
    if (!api.dtypes[i]) return false;
    Py_INCREF(api.dtypes[i]);
  }
  Py_INCREF(api.tensor_type);
  Py_INCREF(api.parameter_type);
  return true;
}

// The probe's tensors, made in Python without modes: known shapes, strides, dtypes and dispatch keys.
constexpr const char kProbe[] = R"(
import torch
def keys(t): return torch._C._dispatch_keys(t).raw_repr()
with torch._C.DisableTorchFunction(), torch.inference_mode(False):
    plain = torch.empty_strided((3, 5), (7, 2), dtype=torch.float32, device='cpu')
    integer = torch.empty((2, 1, 4), dtype=torch.int16, device='cpu')
    scalar = torch.empty((), dtype=torch.bool, device='cpu').view(())
    parameter = torch.nn.Parameter(torch.empty(6, dtype=torch.float64, device='cpu'))
    deep = torch.empty((1, 2, 1, 2, 1, 2, 3), dtype=torch.bfloat16, device='cpu')
    view = plain[1:, 2]
    negative = torch._neg_view(plain)
    leaf = plain.detach().requires_grad_()
    with torch.enable_grad():
        derived = leaf.clone()
with torch.inference_mode():
    inference = torch.empty((2,), dtype=torch.float32, device='cpu')
probes = [(t, tuple(t.shape), tuple(t.stride()), t.data_ptr(), t.requires_grad, keys(t), t.storage_offset())
          for t in (plain, integer, scalar, parameter, deep, view, negative, inference)]
scalar_types = (6, 2, 11, 7, 15, 6, 6, 6)
guard_class = torch._C._InferenceMode
)";

constexpr const char kCudaProbe[] = R"(
import torch
with torch._C.DisableTorchFunction():
    with torch.inference_mode(False):
        plain = torch.empty_strided((2,), (1,), dtype=torch.float32, device='cuda')
    with torch.inference_mode():
        inference = torch.empty_strided((2,), (1,), dtype=torch.float32, device='cuda')
several = torch.cuda.device_count() > 1
)";

bool read_ints(PyObject* tuple, const int64_t* values, int64_t count) {
  if (PyTuple_GET_SIZE(tuple) != count) return false;
  for (int64_t i = 0; i < count; ++i)
    if (PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i)) != values[i]) return false;
  return true;
}

bool probe_tensor(const Api& api, PyObject* row, int scalar_type) {
  PyObject* tensor = PyTuple_GET_ITEM(row, 0);
  TensorHandle h = handle(tensor);
  int64_t dim = 0, offset = 0;
  int64_t *sizes = nullptr, *strides = nullptr;
  int32_t dtype = 0, device = -1;
  void* data = nullptr;
  if (api.get_dim(h, &dim) || api.get_sizes(h, &sizes) || api.get_strides(h, &strides) ||
      api.get_dtype(h, &dtype) || api.get_device_type(h, &device) || api.get_storage_offset(h, &offset))
    return false;
  if (!read_ints(PyTuple_GET_ITEM(row, 1), sizes, dim) || !read_ints(PyTuple_GET_ITEM(row, 2), strides, dim))
    return false;
  if (dtype != scalar_type || device != 0 || offset != PyLong_AsLongLong(PyTuple_GET_ITEM(row, 6)))
    return false;
  if (api.requires_grad(impl(tensor)) != (PyTuple_GET_ITEM(row, 4) == Py_True)) return false;
  if (api.get_data_ptr(h, &data)) return false;
  return reinterpret_cast<uintptr_t>(data) == PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(row, 3));
}

// Scans TensorImpls for the one offset at which all of them hold their dispatch keys.
int find_key_set(PyObject* probes) {
  // 22 to 26 words, by release: no further than the smallest of them has memory.
  size_t bytes = 192;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(probes); ++i)
    bytes = std::min(
        bytes, malloc_usable_size(const_cast<char*>(impl(PyTuple_GET_ITEM(PyList_GET_ITEM(probes, i), 0)))));
  int found = -1;
  for (int offset = 16; offset + 8 <= static_cast<int>(bytes); offset += 8) {
    bool all = true;
    for (Py_ssize_t i = 0; all && i < PyList_GET_SIZE(probes); ++i) {
      PyObject* row = PyList_GET_ITEM(probes, i);
      uint64_t expected = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(row, 5));
      uint64_t there;
      std::memcpy(&there, impl(PyTuple_GET_ITEM(row, 0)) + offset, sizeof there);
      all = expected == there;
    }
    if (all && found >= 0) return -1;  // ambiguous
    if (all) found = offset;
  }
  return found;
}

bool find_inference_mask(Api& api, PyObject* guard_class) {
  bool on = api.inference_mode();
  DispatchKeyState before = thread_keys(api);
  PyRef guard = PyRef::steal(PyObject_CallFunctionObjArgs(guard_class, on ? Py_False : Py_True, nullptr));
  if (!guard) return false;
  PyRef entered = PyRef::steal(PyObject_CallMethod(guard.get(), "__enter__", nullptr));
  if (!entered) return false;
  DispatchKeyState after = thread_keys(api);
  bool changed = api.inference_mode() != on;
  PyRef left = PyRef::steal(PyObject_CallMethod(guard.get(), "__exit__", "OOO", Py_None, Py_None, Py_None));
  api.inference_mask = {before.included ^ after.included, before.excluded ^ after.excluded};
  return left && changed && api.inference_mode() == on;
}

// The dispatch key of a device's autocast; 0 where the functions do not answer as they should.
uint64_t autocast_key_of(Api& api, int8_t device) {
  const bool on = api.autocast_enabled(device);
  const DispatchKeyState before = thread_keys(api);
  api.set_autocast_enabled(device, !on);
  const DispatchKeyState after = thread_keys(api);
  const bool changed = api.autocast_enabled(device) != on;
  api.set_autocast_enabled(device, on);
  const uint64_t key = before.excluded ^ after.excluded;
  runtime::DType dtype;
  return changed && std::has_single_bit(key) && bool(before.excluded & key) == on &&
                 before.included == after.included && dtype_of_scalar_type(api.autocast_dtype(device), &dtype)
             ? key
             : 0;
}

// Autocast is on where one dispatch key, which is excluded by default, is not. Where the functions do not answer so, capture under
// autocast is refused.
void find_autocast_keys(Api& api) {
  if (!api.autocast_enabled || !api.set_autocast_enabled || !api.autocast_dtype || !api.autocast_cache)
    return;
  const uint64_t cpu = autocast_key_of(api, kCpu), cuda = autocast_key_of(api, kCuda);
  if (cpu && cuda) api.autocast_keys = {cpu, cuda};
}

// torch reads saved tensors with their dimensions' names out of sight, and recomputes checkpoints meanwhile (2.11): to
// tensors without names that makes no difference.
void find_names_key(Api& api) {
  if (!api.names_enabled || !api.set_names_enabled) return;
  const bool on = api.names_enabled();
  const DispatchKeyState before = thread_keys(api);
  api.set_names_enabled(!on);
  const DispatchKeyState after = thread_keys(api);
  api.set_names_enabled(on);
  const uint64_t key = before.excluded ^ after.excluded;
  if (std::has_single_bit(key) && before.included == after.included) api.names_key = key;
}

// as_strided of the first tensor must give the view that was asked for; where it does not, torch's own method
// is called.
void probe_as_strided(Api& api, PyObject* tensor) {
  if (!api.as_strided) return;
  const int64_t sizes[] = {2, 2, 1}, strides[] = {2, 1, 5};
  const OptionalSize offset{3, true};
  int64_t rank = 0, found_offset = 0, *found_sizes = nullptr, *found_strides = nullptr;
  OwnedTensor made = api.as_strided(handle(tensor), {sizes, 3}, {strides, 3}, &offset);
  PyRef view = PyRef::steal(api.wrap_moved(made));
  bool good = view && Py_TYPE(view.get()) == api.tensor_type && !api.get_dim(handle(view.get()), &rank) &&
              rank == 3 && !api.get_sizes(handle(view.get()), &found_sizes) &&
              !api.get_strides(handle(view.get()), &found_strides) &&
              !api.get_storage_offset(handle(view.get()), &found_offset) && found_offset == 3 &&
              std::memcmp(sizes, found_sizes, sizeof sizes) == 0 &&
              std::memcmp(strides, found_strides, sizeof strides) == 0;
  if (!good) api.as_strided = nullptr;
}

// A leaf has no node behind it, and where no backward runs a node goes along each of its edges.
void probe_nodes(Api& api, PyObject* leaf, PyObject* derived) {
  const bool is_there = api.node_behind && api.engine_goes_along;
  const void* node = is_there && !api.node_behind(handle(leaf)) ? api.node_behind(handle(derived)) : nullptr;
  if (!node || !api.engine_goes_along(node, 0)) api.engine_goes_along = nullptr;
}

bool probe(Api& api, PyObject* torch) {
  PyRef globals = PyRef::steal(PyDict_New());
  if (!globals || PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins()) < 0) return false;
  PyRef done = PyRef::steal(PyRun_String(kProbe, Py_file_input, globals.get(), globals.get()));
  if (!done) return false;
  PyObject* probes = PyDict_GetItemString(globals.get(), "probes");
  PyObject* types = PyDict_GetItemString(globals.get(), "scalar_types");
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(probes); ++i)
    if (!probe_tensor(api, PyList_GET_ITEM(probes, i),
                      static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(types, i)))))
      return false;
  api.key_set_offset = find_key_set(probes);
  if (api.key_set_offset < 0) return false;
  api.plain_keys = key_set(api, PyTuple_GET_ITEM(PyList_GET_ITEM(probes, 0), 0));
  api.inference_keys = key_set(api, PyTuple_GET_ITEM(PyList_GET_ITEM(probes, 7), 0));
  api.context = api.global_context();
  probe_as_strided(api, PyTuple_GET_ITEM(PyList_GET_ITEM(probes, 0), 0));
  probe_nodes(api, PyDict_GetItemString(globals.get(), "leaf"),
              PyDict_GetItemString(globals.get(), "derived"));
  find_autocast_keys(api);
  find_names_key(api);
  return find_inference_mask(api, PyDict_GetItemString(globals.get(), "guard_class"));
}

struct Release {
  std::string text;
  graph::TorchRelease number;
};
// From 2.10 on a torch.Tensor object holds an at::Tensor right after its header.
constexpr graph::TorchRelease kOldest{2, 11}, kNewestTested{2, 15};

Release release_of(PyObject* torch) {
  PyRef version = PyRef::steal(PyObject_GetAttrString(torch, "__version__"));
  PyRef text = PyRef::steal(version ? PyObject_Str(version.get()) : nullptr);
  const char* s = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (!s) return {"of an unknown release", {}};
  char* end = nullptr;
  const long major = std::strtol(s, &end, 10);
  const long minor = *end == '.' ? std::strtol(end + 1, nullptr, 10) : 0;
  return {s, {major, minor}};
}

std::string name(graph::TorchRelease number) { return absl::StrCat(number.major, ".", number.minor); }

// Once in a process: what a user should know of the torch that is there.
void report(const Release& release, bool works) {
  const std::string torch = absl::StrCat("torch ", release.text);
  if (release.number < kOldest)
    log_warning(absl::StrCat(torch, " is older than ", name(kOldest),
                             ", the oldest that cdynamo compiles for: its programs run in Python"));
  else if (!works)
    log_warning(absl::StrCat(torch, " has not the functions or the tensors that cdynamo knows (tested: ",
                             name(kOldest), " to ", name(kNewestTested), "): its programs run in Python"));
  else if (release.number > kNewestTested)
    log_warning(absl::StrCat(torch, " is newer than ", name(kNewestTested),
                             ", the newest that cdynamo was tested with"));
}

// A signal's handler may raise while the probe runs (Ctrl-C, a time limit): that says nothing about torch, and is the
// program's to handle.
bool probe_twice(Api& api, PyObject* torch) {
  const auto is_good = [&] { return resolve_types(api, torch) && probe(api, torch); };
  if (is_good()) return true;
  if (!PyErr_Occurred()) return false;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  const bool good = is_good();
  PyErr_Clear();
  PyErr_Restore(type, value, traceback);
  if (good || !PyErr_ExceptionMatches(PyExc_Exception)) interrupt_later();
  return good;
}

}  // namespace

PyTypeObject* tensor_type() {
  if (g_tensor_type) return g_tensor_type;
  PyObject* type = module_item(loaded_module("torch"), "Tensor");
  if (!type || !PyType_Check(type)) return nullptr;
  Py_INCREF(type);
  return g_tensor_type = reinterpret_cast<PyTypeObject*>(type);
}

const Api* known_api = nullptr;

const Api* find_api() {
  if (g_refused || !tensor_type()) return nullptr;
  PyObject* torch = loaded_module("torch");
  // While torch is being imported its last names are missing: ask again later.
  if (!module_item(torch, "compile") || !loaded_module("torch.nn.parameter")) return nullptr;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  const Release release = release_of(torch);
  graph::set_torch_release(release.number);
  bool ok = release.number >= kOldest && resolve_symbols(g_api);
  // A mode would answer the probe's calls in place of torch: ask again when it is gone.
  const bool modes = ok && (g_api.function_mode_count() != 0 ||
                            (thread_keys(g_api).included != 0 && !g_api.inference_mode()));
  if (!modes) ok = ok && probe_twice(g_api, torch);
  PyErr_Clear();
  if (!modes) {
    g_refused = !ok;
    if (ok) known_api = &g_api;
    report(release, ok);
  }
  PyErr_Restore(type, value, traceback);
  return known_api;
}

bool probe_cuda() {
  static bool tried = false;
  if (tried) return g_api.cuda_keys != 0;
  tried = true;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyRef globals = PyRef::steal(PyDict_New());
  if (globals && PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins()) == 0) {
    PyRef done = PyRef::steal(PyRun_String(kCudaProbe, Py_file_input, globals.get(), globals.get()));
    PyObject* plain = done ? PyDict_GetItemString(globals.get(), "plain") : nullptr;
    PyObject* inference = done ? PyDict_GetItemString(globals.get(), "inference") : nullptr;
    int32_t device = 0;
    if (plain && inference && !g_api.get_device_type(handle(plain), &device) && device == 1) {
      g_api.cuda_keys = key_set(g_api, plain);
      g_api.cuda_inference_keys = key_set(g_api, inference);
      if (g_api.wrap_moved)
        g_api.empty_strided_cuda =
            reinterpret_cast<decltype(g_api.empty_strided_cuda)>(runtime::find_process_symbol(
                "_ZN2at6detail18empty_strided_cudaEN3c108ArrayRefIlEES3_NS1_10ScalarTypeESt8optionalINS1_"
                "6DeviceEE"));
      if (PyDict_GetItemString(globals.get(), "several") == Py_True)
        g_api.current_device =
            reinterpret_cast<int8_t (*)()>(runtime::find_process_symbol("_ZN3c104cuda14current_deviceEv"));
    }
  }
  PyErr_Clear();
  PyErr_Restore(type, value, traceback);
  return g_api.cuda_keys != 0;
}

bool dtype_of_scalar_type(int scalar_type, runtime::DType* dtype) {
  for (int i = 0; i < runtime::kNumDTypes; ++i)
    if (kScalarTypes[i] == scalar_type) {
      *dtype = static_cast<runtime::DType>(i);
      return true;
    }
  return false;
}

DispatchKeyState thread_keys(const Api& api) {
  // dlsym of a thread-local symbol answers for the calling thread.
  thread_local const DispatchKeyState* keys =
      static_cast<const DispatchKeyState*>(dlsym(api.libc10, "_ZN3c104impl26raw_local_dispatch_key_setE"));
  return *keys;
}

}  // namespace cdynamo::symbolic::torch_access
