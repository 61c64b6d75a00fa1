// Graphs that are cut into parts, which run in order. Those on several devices have parts of one device each, with copies between
// them where core.to_device stands: numbers of the CPU beside tensors of a GPU, or a program that begins on one device and goes
// on on another. Those with sizes that depend on data are cut where core.read_int stands: what has such sizes runs later.
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

// The device that all of the graph runs on; unset where it has to be cut into parts. Throws graph::Unsupported where a node reads tensors
// of two.
std::optional<runtime::Device> device_of(const graph::Graph& core);

std::unique_ptr<runtime::Executable> compile_parts(const graph::Graph& core, const Devices& devices,
                                                   const CompileOptions& options, CompileReport* report);

}  // namespace cdynamo::lowering
