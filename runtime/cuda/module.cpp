#include "runtime/cuda/module.h"

#include <absl/strings/str_cat.h>

namespace cdynamo::runtime::cuda {
namespace {

// CUjit_option, CUjitInputType, CUfunction_attribute
constexpr int kErrorLogBuffer = 5, kErrorLogBufferSize = 6, kInputPtx = 1;
constexpr int kMaxDynamicSharedSize = 8;
constexpr int64_t kSharedWithoutAsking = 48 << 10;

struct Link {
  LinkState state = nullptr;
  ~Link() {
    if (state) find_driver()->link_destroy(state);
  }
};

}  // namespace

std::string assemble(std::string_view ptx, const DeviceInfo& device) {
  const Driver& driver = *find_driver();
  const CurrentContext current(device.context);
  char log[4096] = "";
  int keys[] = {kErrorLogBuffer, kErrorLogBufferSize};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  Link link;
  check(driver.link_create(2, keys, values, &link.state), "starting the PTX assembler");
  std::string text(ptx);  // with the zero at its end that the driver asks for
  Result result = driver.link_add_data(link.state, kInputPtx, text.data(), text.size() + 1, "kernel", 0,
                                       nullptr, nullptr);
  void* cubin = nullptr;
  size_t size = 0;
  if (result == kSuccess) result = driver.link_complete(link.state, &cubin, &size);
  if (result != kSuccess) check(result, absl::StrCat("assembling PTX (", log, ")").c_str());
  return std::string(static_cast<const char*>(cubin), size);
}

LoadedKernel::LoadedKernel(std::string_view cubin, const char* name, const DeviceInfo& device,
                           int64_t shared_bytes)
    : device_(device) {
  const Driver& driver = *find_driver();
  const CurrentContext current(device.context);
  check(driver.module_load_data(&module_, cubin.data()), "loading a kernel");
  Result result = driver.module_get_function(&function_, module_, name);
  if (result == kSuccess && shared_bytes > kSharedWithoutAsking)
    result = driver.func_set_attribute(function_, kMaxDynamicSharedSize, static_cast<int>(shared_bytes));
  if (result != kSuccess) {
    driver.module_unload(module_);
    check(result, "loading a kernel");
  }
}

LoadedKernel::~LoadedKernel() {
  try {
    const CurrentContext current(device_.context);
    find_driver()->module_unload(module_);
  } catch (const CudaError&) {
    // The driver is gone, as it is while the process ends.
  }
}

}  // namespace cdynamo::runtime::cuda
