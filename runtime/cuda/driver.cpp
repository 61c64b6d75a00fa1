#include "runtime/cuda/driver.h"

#include <absl/strings/str_cat.h>
#include <dlfcn.h>

#include <map>
#include <memory>
#include <mutex>

#include "runtime/cuda/symbol_table.h"

namespace cdynamo::runtime::cuda {
namespace {

// CUdevice_attribute
constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76, kSharedPerProcessor = 81,
              kSharedPerBlockOptin = 97;

#define CDYNAMO_DRIVER(member, name) {name, offsetof(Driver, member)}
constexpr Symbol kDriverSymbols[] = {
    CDYNAMO_DRIVER(init, "cuInit"),
    CDYNAMO_DRIVER(driver_get_version, "cuDriverGetVersion"),
    CDYNAMO_DRIVER(get_error_name, "cuGetErrorName"),
    CDYNAMO_DRIVER(get_error_string, "cuGetErrorString"),
    CDYNAMO_DRIVER(device_get_count, "cuDeviceGetCount"),
    CDYNAMO_DRIVER(device_get, "cuDeviceGet"),
    CDYNAMO_DRIVER(device_get_attribute, "cuDeviceGetAttribute"),
    CDYNAMO_DRIVER(device_primary_ctx_retain, "cuDevicePrimaryCtxRetain"),
    CDYNAMO_DRIVER(ctx_get_current, "cuCtxGetCurrent"),
    CDYNAMO_DRIVER(ctx_set_current, "cuCtxSetCurrent"),
    CDYNAMO_DRIVER(module_load_data, "cuModuleLoadData"),
    CDYNAMO_DRIVER(module_unload, "cuModuleUnload"),
    CDYNAMO_DRIVER(module_get_function, "cuModuleGetFunction"),
    CDYNAMO_DRIVER(func_set_attribute, "cuFuncSetAttribute"),
    CDYNAMO_DRIVER(func_get_attribute, "cuFuncGetAttribute"),
    CDYNAMO_DRIVER(launch_kernel, "cuLaunchKernel"),
    CDYNAMO_DRIVER(mem_alloc, "cuMemAlloc_v2"),
    CDYNAMO_DRIVER(mem_host_alloc, "cuMemHostAlloc"),
    CDYNAMO_DRIVER(mem_host_get_device_pointer, "cuMemHostGetDevicePointer_v2"),
    CDYNAMO_DRIVER(memcpy_async, "cuMemcpyDtoDAsync_v2"),
    CDYNAMO_DRIVER(memcpy_to_device_async, "cuMemcpyHtoDAsync_v2"),
    CDYNAMO_DRIVER(memset_async, "cuMemsetD8Async"),
    CDYNAMO_DRIVER(stream_create, "cuStreamCreate"),
    CDYNAMO_DRIVER(stream_synchronize, "cuStreamSynchronize"),
    CDYNAMO_DRIVER(stream_begin_capture, "cuStreamBeginCapture_v2"),
    CDYNAMO_DRIVER(stream_end_capture, "cuStreamEndCapture"),
    CDYNAMO_DRIVER(stream_is_capturing, "cuStreamIsCapturing"),
    CDYNAMO_DRIVER(event_create, "cuEventCreate"),
    CDYNAMO_DRIVER(event_record, "cuEventRecord"),
    CDYNAMO_DRIVER(event_synchronize, "cuEventSynchronize"),
    CDYNAMO_DRIVER(event_elapsed_time, "cuEventElapsedTime"),
    CDYNAMO_DRIVER(event_destroy, "cuEventDestroy_v2"),
    CDYNAMO_DRIVER(graph_instantiate, "cuGraphInstantiateWithFlags"),
    CDYNAMO_DRIVER(graph_launch, "cuGraphLaunch"),
    CDYNAMO_DRIVER(graph_exec_destroy, "cuGraphExecDestroy"),
    CDYNAMO_DRIVER(graph_destroy, "cuGraphDestroy"),
    CDYNAMO_DRIVER(link_create, "cuLinkCreate_v2"),
    CDYNAMO_DRIVER(link_add_data, "cuLinkAddData_v2"),
    CDYNAMO_DRIVER(link_complete, "cuLinkComplete"),
    CDYNAMO_DRIVER(link_destroy, "cuLinkDestroy"),
};
#undef CDYNAMO_DRIVER

struct Found {
  Driver table{};
  bool ready = false;
  std::string obstacle;
};

std::string text_of(const Driver& driver, Result result) {
  const char *name = nullptr, *text = nullptr;
  if (driver.get_error_name(result, &name) != kSuccess || !name) return absl::StrCat("error ", result);
  if (driver.get_error_string(result, &text) != kSuccess || !text) return name;
  return absl::StrCat(text, " (", name, ")");
}

Found search() {
  Found found;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    found.obstacle = "there is no CUDA driver (libcuda.so.1)";
    return found;
  }
  auto find = [&](const char* name) { return dlsym(library, name); };
  if (const char* missing = fill_table(found.table, kDriverSymbols, find)) {
    found.obstacle = absl::StrCat("the CUDA driver is too old: it has no ", missing);
    return found;
  }
  int count = 0;
  Result result = found.table.init(0);
  if (result == kSuccess) result = found.table.device_get_count(&count);
  if (result != kSuccess)
    found.obstacle = absl::StrCat("the CUDA driver does not start: ", text_of(found.table, result));
  else if (count == 0)
    found.obstacle = "there is no CUDA device";
  found.ready = found.obstacle.empty();
  return found;
}

Found& found() {
  static auto* result = new Found(search());
  return *result;
}

DeviceInfo read_device(const Driver& driver, int index) {
  int device = 0, major = 0, minor = 0, shared = 0, shared_processor = 0;
  DeviceInfo info{.index = index};
  check(driver.device_get(&device, index), "asking for a CUDA device");
  auto read = [&](int* value, int attribute) {
    check(driver.device_get_attribute(value, attribute, device), "reading an attribute of a CUDA device");
  };
  read(&major, kMajor);
  read(&minor, kMinor);
  read(&info.processors, kMultiprocessors);
  read(&shared, kSharedPerBlockOptin);
  read(&shared_processor, kSharedPerProcessor);
  info.compute_capability = 10 * major + minor;
  info.shared_bytes_per_block = shared;
  info.shared_bytes_per_processor = shared_processor;
  check(driver.device_primary_ctx_retain(&info.context, device), "taking a CUDA device's context");
  return info;
}

}  // namespace

const Driver* find_driver() { return found().ready ? &found().table : nullptr; }
const std::string& driver_obstacle() { return found().obstacle; }

void replace_driver(const Driver& driver) { found() = {driver, /*ready=*/true, ""}; }

void check(Result result, const char* what) {
  if (result == kSuccess) return;
  throw CudaError(result, absl::StrCat(what, ": ", text_of(found().table, result)));
}

const DeviceInfo& device_info(int index) {
  static auto* mutex = new std::mutex;
  static auto* devices = new std::map<int, std::unique_ptr<DeviceInfo>>;  // they stay where they are
  const Driver* driver = find_driver();
  if (!driver) throw CudaError(100, driver_obstacle());
  std::lock_guard lock(*mutex);
  std::unique_ptr<DeviceInfo>& info = (*devices)[index];
  if (info) return *info;
  auto read = std::make_unique<DeviceInfo>(read_device(*driver, index));
  const CurrentContext current(read->context);
  check(driver->mem_alloc(&read->nothing, 256), "taking memory of a CUDA device");
  info = std::move(read);
  return *info;
}

bool is_capturing(Stream stream) {
  int status = 0;
  check(find_driver()->stream_is_capturing(stream, &status), "asking whether a stream is capturing");
  return status != 0;
}

CurrentContext::CurrentContext(Context context) {
  const Driver& driver = *find_driver();
  check(driver.ctx_get_current(&before_), "asking for the current CUDA context");
  if (before_ == context) return;
  check(driver.ctx_set_current(context), "entering a CUDA context");
  changed_ = true;
}

CurrentContext::~CurrentContext() {
  if (changed_) find_driver()->ctx_set_current(before_);
}

}  // namespace cdynamo::runtime::cuda
