// Numbers of tensors that sizes, indices and Python's ints of the same graph are made of.
#include "graph/interpreter/kernels.h"
#include "graph/ops/entry.h"

namespace cdynamo::graph {
namespace {

std::vector<TensorType> infer_read_int(Graph&, const Args& args) {
  const Value* self = args.value("self");
  if (self->type.rank() != 0 || (self->type.dtype != DType::kI64 && self->type.dtype != DType::kF64))
    throw InternalError("core.read_int of what is no int64 or float64 number");
  return {contiguous_type(self, {}, self->type.dtype)};
}

}  // namespace

std::vector<OpDef> core_data_ops() {
  return {
      {.name = "core.read_int",
       .family = Family::kContraction,
       .schemas = {"core.read_int(Tensor self, int symbol) -> Tensor"},
       .infer = infer_read_int,
       .differentiable = false,
       .in_place_variant = false,
       .effects = Effects::kUnknown,
       .core = {.kind = CoreKind::kReadInt,
                .linearity = Linearity::kNone,
                .interpret = interpret_detach,
                .eager = "read_int(self)"}},
  };
}

}  // namespace cdynamo::graph
