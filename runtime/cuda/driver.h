// The CUDA driver as a table of functions, found in libcuda.so.1 at first use and never linked: a machine without a GPU
// notices nothing. No header of CUDA's is needed.
//
//   if (const Driver* driver = find_driver()) ...              // null where there is none, or no device
//   check(driver->launch_kernel(...), "launching a kernel");   // CudaError with the driver's own text
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>

namespace cdynamo::runtime::cuda {

// Handles of the driver's.
using Context = struct OpaqueContext*;
using Module = struct OpaqueModule*;
using Function = struct OpaqueFunction*;
using Stream = struct OpaqueStream*;
using Event = struct OpaqueEvent*;
using LinkState = struct OpaqueLinkState*;
using Graph = struct OpaqueGraph*;
using GraphExec = struct OpaqueGraphExec*;
using DevicePointer = uint64_t;
using Result = int;

inline constexpr Result kSuccess = 0, kOutOfMemory = 2;

// The driver's functions by their names in cuda.h, cu first and the version last left out.
struct Driver {
  Result (*init)(unsigned flags);
  Result (*driver_get_version)(int* version);
  Result (*get_error_name)(Result, const char**);
  Result (*get_error_string)(Result, const char**);
  Result (*device_get_count)(int*);
  Result (*device_get)(int* device, int ordinal);
  Result (*device_get_attribute)(int* value, int attribute, int device);
  Result (*device_primary_ctx_retain)(Context*, int device);
  Result (*ctx_get_current)(Context*);
  Result (*ctx_set_current)(Context);
  Result (*module_load_data)(Module*, const void* image);
  Result (*module_unload)(Module);
  Result (*module_get_function)(Function*, Module, const char* name);
  Result (*func_set_attribute)(Function, int attribute, int value);
  Result (*func_get_attribute)(int* value, int attribute, Function);
  Result (*launch_kernel)(Function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream,
                          void** parameters, void** extra);
  Result (*mem_alloc)(DevicePointer*, size_t);
  Result (*mem_host_alloc)(void**, size_t, unsigned flags);
  Result (*mem_host_get_device_pointer)(DevicePointer*, void* host, unsigned flags);
  Result (*memcpy_async)(DevicePointer to, DevicePointer from, size_t, Stream);
  Result (*memcpy_to_device_async)(DevicePointer to, const void* from, size_t, Stream);
  Result (*memset_async)(DevicePointer, unsigned char value, size_t bytes, Stream);
  Result (*stream_create)(Stream*, unsigned flags);
  Result (*stream_synchronize)(Stream);
  Result (*stream_begin_capture)(Stream, int mode);
  Result (*stream_end_capture)(Stream, Graph*);
  Result (*stream_is_capturing)(Stream, int* status);
  Result (*event_create)(Event*, unsigned flags);
  Result (*event_record)(Event, Stream);
  Result (*event_synchronize)(Event);
  Result (*event_elapsed_time)(float* milliseconds, Event from, Event to);
  Result (*event_destroy)(Event);
  Result (*graph_instantiate)(GraphExec*, Graph, unsigned long long flags);
  Result (*graph_launch)(GraphExec, Stream);
  Result (*graph_exec_destroy)(GraphExec);
  Result (*graph_destroy)(Graph);
  Result (*link_create)(unsigned options, int* keys, void** values, LinkState*);
  Result (*link_add_data)(LinkState, int type, void* data, size_t, const char* name, unsigned options,
                          int* keys, void** values);
  Result (*link_complete)(LinkState, void** cubin, size_t* size);
  Result (*link_destroy)(LinkState);
};

struct CudaError : std::exception {
  CudaError(Result code, std::string message) : code(code), message(std::move(message)) {}
  const char* what() const noexcept override { return message.c_str(); }
  Result code;
  std::string message;
};

// Initialized; null where there is no driver, one that lacks a function of the table, or no device. Asked once a process.
const Driver* find_driver();
// Why find_driver() is null.
const std::string& driver_obstacle();

// For tests: the driver from here on, before any device was asked for.
void replace_driver(const Driver& driver);

// Throws CudaError: "launching a kernel: an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)".
void check(Result result, const char* what);

// What is known of a device of this process, by the framework's index.
struct DeviceInfo {
  int index = 0;
  int compute_capability = 0;  // 90 for 9.0
  int processors = 0;
  int64_t shared_bytes_per_block = 0;  // that a kernel may ask for
  int64_t shared_bytes_per_processor = 0;
  Context context = nullptr;  // the primary one, which the framework uses
  DevicePointer nothing = 0;  // where tensors without elements point
};
// Throws CudaError where there is no such device.
const DeviceInfo& device_info(int index);

// Whether what is launched on the stream is recorded and not run. Throws CudaError.
bool is_capturing(Stream stream);

// While one lives, the device's primary context is the thread's.
class CurrentContext {
 public:
  explicit CurrentContext(Context context);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;

 private:
  Context before_ = nullptr;
  bool changed_ = false;
};

}  // namespace cdynamo::runtime::cuda
