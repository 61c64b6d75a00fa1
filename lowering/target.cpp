#include "lowering/target.h"

#include "lowering/cpu/target.h"

namespace cdynamo::lowering {

const Target& target_of(const graph::Graph& core) {
  for (const graph::Value* input : core.inputs)
    if (input->type.device.type != runtime::DeviceType::kCPU)
      throw graph::Unsupported("there is no target for the device of an input");
  return cpu_target();
}

}  // namespace cdynamo::lowering
