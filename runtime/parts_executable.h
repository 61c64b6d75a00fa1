// A graph on several devices, or with sizes that it reads from tensors: executables of one device each that run one after the
// other, with copies between them, and numbers that become symbols. Tensors between two parts live as long as they are read.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/executable.h"

namespace cdynamo::runtime {

// Where a tensor lies while a call runs.
struct PartSlot {
  enum Where : uint8_t { kInput, kOutput, kTemporary } where = kTemporary;
  int index = 0;  // of the graph's input or output
  OutputSpec type;
};

// Runs an executable on slots, or, where there is none, copies one slot to another, or reads a symbol from one.
struct PartStep {
  std::unique_ptr<Executable> executable;
  std::vector<int> inputs, outputs;  // slots
  int from = -1, to = -1;
  int symbol = -1;
  int64_t min = 0, max = 0;  // of the symbol
  // What was assumed of it and of those before it: the text of what does not hold, or null.
  std::function<const char*(const int64_t* symbols)> broken_assumption;
};

struct PartsPlan {
  std::vector<PartSlot> slots;
  std::vector<PartStep> steps;
};

// Memory of all devices.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual void* allocate(Device device, int64_t bytes) const = 0;  // null where memory ran out
  virtual void free(Device device, void* data) const = 0;
  // Copies between devices, or within one. What is on the host may be overwritten once it returns.
  virtual bool copy(const TensorView& from, const TensorView& to, RunError* error) const = 0;
};

// The caller sets outputs, num_inputs and num_symbols.
std::unique_ptr<Executable> make_parts_executable(PartsPlan plan, const DeviceMemory& memory);

}  // namespace cdynamo::runtime
