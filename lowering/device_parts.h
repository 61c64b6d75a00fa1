// Graphs on several devices. A graph is cut into parts of one device each, which run in order, with copies between them where
// core.to_device stands: numbers of the CPU beside tensors of a GPU, or a program that begins on one device and goes on on another.
#pragma once

#include <optional>

#include "lowering/compile.h"
#include "lowering/target.h"
#include "runtime/parts_executable.h"

namespace cdynamo::lowering {

// What a device is compiled with, and what copies; tests have their own.
struct Devices {
  const Target& (*target)(runtime::Device device);
  const runtime::DeviceMemory& memory;
};

// The device that all of the graph runs on; unset where there are several. Throws graph::Unsupported where a node reads tensors
// of two.
std::optional<runtime::Device> device_of(const graph::Graph& core);

std::unique_ptr<runtime::Executable> compile_parts(const graph::Graph& core, const Devices& devices,
                                                   const CompileOptions& options, CompileReport* report);

}  // namespace cdynamo::lowering
