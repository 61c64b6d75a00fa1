// Operators on bits.
#include "graph/ops/entry.h"

namespace cdynamo::graph {
namespace {

// C++ leaves shifts by the width and more undefined; eager gives 0 (or -1 for a negative number shifted
// right).
Scalar shift_scalar(ScalarBuilder& b, const Scalar* x, bool left) {
  int width = 8 * runtime::bytes(x[0].dtype);
  Scalar zero = number(b, 0, x[0]), last = number(b, width - 1, x[0]);
  Scalar too_far = b.bit_or(b.lt(x[1], zero), b.gt(x[1], last));
  const bool keeps_sign = !left && runtime::info(x[0].dtype).is_signed;
  Scalar amount = b.select(too_far, keeps_sign ? last : zero, x[1]);
  Scalar shifted = left ? b.shl(x[0], amount) : b.shr(x[0], amount);
  return keeps_sign ? shifted : b.select(too_far, zero, shifted);
}

void check_shift(Graph& graph, const Args& args) {
  const DType dtype = common_dtype(graph, args);
  if (is_float(dtype)) runtime_error("\"shift\" not implemented for floating point types");
  if (dtype == DType::kBool && graph.framework == Framework::kTorch)
    runtime_error("\"lshift_cpu\" not implemented for 'Bool'");
}

}  // namespace

std::vector<OpDef> bitwise_ops() {
  return {
      {.name = "bitwise_and",
       .family = Family::kPointwise,
       .schemas = {"bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor",
                   "bitwise_and.Scalar(Tensor self, Scalar other) -> Tensor",
                   "bitwise_and.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"},
       .torch_names = {"torch.Tensor.__and__", "torch.Tensor.__rand__", "torch.Tensor.__iand__"},
       .numpy_names = {"np.bitwise_and"},
       .promotion = Promotion::kBitwise,
       .scalar = CDYNAMO_SCALAR(return b.bit_and(x[0], x[1])),
       .differentiable = false},
      {.name = "bitwise_or",
       .family = Family::kPointwise,
       .schemas = {"bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor",
                   "bitwise_or.Scalar(Tensor self, Scalar other) -> Tensor",
                   "bitwise_or.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"},
       .torch_names = {"torch.Tensor.__or__", "torch.Tensor.__ror__", "torch.Tensor.__ior__"},
       .numpy_names = {"np.bitwise_or"},
       .promotion = Promotion::kBitwise,
       .scalar = CDYNAMO_SCALAR(return b.bit_or(x[0], x[1])),
       .differentiable = false},
      {.name = "bitwise_xor",
       .family = Family::kPointwise,
       .schemas = {"bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor",
                   "bitwise_xor.Scalar(Tensor self, Scalar other) -> Tensor",
                   "bitwise_xor.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"},
       .torch_names = {"torch.Tensor.__xor__", "torch.Tensor.__rxor__", "torch.Tensor.__ixor__"},
       .numpy_names = {"np.bitwise_xor"},
       .promotion = Promotion::kBitwise,
       .scalar = CDYNAMO_SCALAR(return b.bit_xor(x[0], x[1])),
       .differentiable = false},
      {.name = "bitwise_not",
       .family = Family::kPointwise,
       .schemas = {"bitwise_not(Tensor self) -> Tensor"},
       .torch_names = {"torch.Tensor.__invert__"},
       .numpy_names = {"np.bitwise_not", "np.invert"},
       .promotion = Promotion::kBitwise,
       .scalar = CDYNAMO_SCALAR(return b.bit_not(x[0])),
       .differentiable = false},
      {.name = "bitwise_left_shift",
       .family = Family::kPointwise,
       .schemas = {"bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor",
                   "bitwise_left_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor",
                   "bitwise_left_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"},
       .torch_names = {"torch.Tensor.__lshift__", "torch.Tensor.__ilshift__"},
       .numpy_names = {"np.left_shift"},
       .promotion = Promotion::kInteger,
       .scalar = CDYNAMO_SCALAR(return shift_scalar(b, x, true)),
       .differentiable = false,
       .check = check_shift},
      {.name = "bitwise_right_shift",
       .family = Family::kPointwise,
       .schemas = {"bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor",
                   "bitwise_right_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor",
                   "bitwise_right_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"},
       .torch_names = {"torch.Tensor.__rshift__", "torch.Tensor.__irshift__"},
       .numpy_names = {"np.right_shift"},
       .promotion = Promotion::kInteger,
       .scalar = CDYNAMO_SCALAR(return shift_scalar(b, x, false)),
       .differentiable = false,
       .check = check_shift},
  };
}

}  // namespace cdynamo::graph
