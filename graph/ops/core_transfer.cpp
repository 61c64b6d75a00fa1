// From one device to another.
#include "graph/interpreter/kernels.h"
#include "graph/ops/entry.h"

namespace cdynamo::graph {
namespace {

std::vector<TensorType> infer_transfer(Graph&, const Args& args) {
  TensorType type = args.value("self")->type;
  type.device = std::get<Device>(args["device"]);
  type.strides = contiguous_strides(type.sizes);
  return {type};
}

void transfer_derivative(Derivative& d) { d.set(0, to_device(d.grad(), d.operand(0).type().device)); }

}  // namespace

std::vector<OpDef> core_transfer_ops() {
  return {
      {.name = "core.to_device",
       .family = Family::kContraction,
       .schemas = {"core.to_device(Tensor self, Device device) -> Tensor"},
       .infer = infer_transfer,
       .derivative = transfer_derivative,
       .in_place_variant = false,
       .places_results = true,
       .core = {.kind = CoreKind::kTransfer,
                .linearity = Linearity::kAll,
                .interpret = interpret_detach,
                .eager = "self.to(device)"}},
  };
}

}  // namespace cdynamo::graph
