#include "graph/promotion.h"

#include <algorithm>
#include <optional>

namespace cdynamo::graph {

using runtime::bytes;
using runtime::Category;
using runtime::info;
using runtime::is_float;
using runtime::is_integer;

PromotedOperand promoted_operand(const Arg& arg) {
  if (const auto* value = std::get_if<Value*>(&arg)) {
    const TensorType& type = (*value)->type;
    return {type.dtype, type.weak, type.rank() > 0};
  }
  if (std::holds_alternative<Sym>(arg)) return {DType::kI64, true, false};
  if (std::holds_alternative<double>(arg)) return {DType::kF64, true, false};
  if (std::holds_alternative<bool>(arg)) return {DType::kBool, true, false};
  throw InternalError("an operand is neither a tensor nor a number");
}

static DType promote_integers(DType a, DType b) {
  if (info(a).is_signed == info(b).is_signed) return bytes(a) >= bytes(b) ? a : b;
  const DType with_sign = info(a).is_signed ? a : b, without = info(a).is_signed ? b : a;
  if (bytes(with_sign) > bytes(without)) return with_sign;
  switch (without) {
    case DType::kU8: return DType::kI16;
    case DType::kU16: return DType::kI32;
    case DType::kU32: return DType::kI64;
    default: return DType::kF64;  // NumPy: no integer type holds both
  }
}

// NumPy: a float type holds an integer type where it holds its values: int16 needs float32, int32 float64.
static DType numpy_float_for(DType dtype) {
  if (is_float(dtype)) return dtype;
  int width = bytes(dtype);
  return width == 1 ? DType::kF16 : width == 2 ? DType::kF32 : DType::kF64;
}

static DType promote_floats(DType a, DType b) {
  if (runtime::is_half(a) && runtime::is_half(b)) return DType::kF32;  // float16 with bfloat16
  return bytes(a) >= bytes(b) ? a : b;
}

// PyTorch's "barebones" dtypes.
static bool is_wide_unsigned(DType dtype) { return runtime::is_unsigned(dtype) && bytes(dtype) > 1; }

DType promote_types(Framework framework, DType a, DType b) {
  if (a == b) return a;
  if (framework == Framework::kTorch && !is_float(a) && !is_float(b) &&
      (is_wide_unsigned(a) || is_wide_unsigned(b)))
    throw UserError(UserError::Kind::kRuntime,
                    "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote " +
                        std::string(info(a).name) + " and " + info(b).name);
  if (a == DType::kBool) return b;
  if (b == DType::kBool) return a;
  if (!is_float(a) && !is_float(b)) return promote_integers(a, b);
  if (framework == Framework::kNumpy) {
    DType x = numpy_float_for(a), y = numpy_float_for(b);
    return x == y ? x : promote_floats(x, y);
  }
  if (is_float(a) && is_float(b)) return promote_floats(a, b);
  return is_float(a) ? a : b;
}

namespace {

using Maybe = std::optional<DType>;

Maybe promote_maybe(Framework framework, Maybe a, Maybe b) {
  if (!a) return b;
  if (!b) return a;
  return promote_types(framework, *a, *b);
}

// ATen's combine_categories.
Maybe combine(Maybe higher, Maybe lower) {
  if (!higher) return lower;
  if (is_float(*higher)) return higher;
  if (*higher == DType::kBool || (lower && is_float(*lower)))
    return promote_maybe(Framework::kTorch, higher, lower);
  return higher;
}

DType torch_result_type(DType default_float, std::span<const PromotedOperand> operands) {
  Maybe dims, zero, number;
  for (const PromotedOperand& operand : operands) {
    if (operand.weak) {
      DType dtype = is_float(operand.dtype) ? default_float : operand.dtype;
      number = promote_maybe(Framework::kTorch, number, dtype);
    } else {
      Maybe& rank = operand.has_dims ? dims : zero;
      rank = promote_maybe(Framework::kTorch, rank, operand.dtype);
    }
  }
  return combine(dims, combine(zero, number)).value();
}

DType numpy_result_type(std::span<const PromotedOperand> operands) {
  Maybe strong;
  Category weak = Category::kBool;
  for (const PromotedOperand& operand : operands) {
    if (operand.weak)
      weak = std::max(weak, info(operand.dtype).category);
    else
      strong = promote_maybe(Framework::kNumpy, strong, operand.dtype);
  }
  Category category = strong ? info(*strong).category : Category::kBool;
  if (weak <= category) return strong.value_or(DType::kBool);
  return weak == Category::kFloat ? DType::kF64 : DType::kI64;
}

// The first float type that holds each array: float16 for int8 with uint8, which have int16 in common. A
// number beside them has its say before that.
DType numpy_float_result(std::span<const PromotedOperand> operands) {
  std::vector<PromotedOperand> floats(operands.begin(), operands.end());
  bool has_number = false;
  for (PromotedOperand& operand : floats) {
    has_number |= operand.weak;
    operand.dtype = numpy_float_for(operand.dtype);
  }
  return has_number ? numpy_float_for(numpy_result_type(operands)) : numpy_result_type(floats);
}

}  // namespace

// Arithmetic on Python numbers alone is Python's: floats are doubles.
static DType float_among(DType default_float, std::span<const PromotedOperand> operands) {
  for (const PromotedOperand& operand : operands)
    if (!operand.weak) return default_float;
  return DType::kF64;
}

DType result_type(Framework framework, DType default_float, std::span<const PromotedOperand> operands) {
  if (framework == Framework::kNumpy) return numpy_result_type(operands);
  return torch_result_type(float_among(default_float, operands), operands);
}

DType float_type(Framework framework, DType default_float, DType dtype) {
  if (is_float(dtype)) return dtype;
  return framework == Framework::kTorch ? default_float : numpy_float_for(dtype);
}

static void refuse_float(DType dtype, Framework framework, std::string_view op_name) {
  if (!is_float(dtype)) return;
  if (framework == Framework::kNumpy)
    throw UserError(UserError::Kind::kType,
                    "ufunc '" + std::string(op_name) + "' not supported for the input types");
  std::string name = dtype == DType::kF32   ? "Float"
                     : dtype == DType::kF64 ? "Double"
                     : dtype == DType::kF16 ? "Half"
                                            : "BFloat16";
  throw UserError(UserError::Kind::kRuntime,
                  "\"" + std::string(op_name) + "_cpu\" not implemented for '" + name + "'");
}

// NumPy compares integers exactly, where no dtype holds both.
static void refuse_rounded_comparison(std::span<const PromotedOperand> operands, DType common) {
  if (is_float(common) && std::ranges::all_of(operands, [](const auto& x) { return !is_float(x.dtype); }))
    throw Unsupported("numpy: a comparison of uint64 with signed integers");
}

Promoted promote(Framework framework, DType default_float, Promotion rule,
                 std::span<const PromotedOperand> operands, std::string_view op_name) {
  Promoted promoted;
  default_float = float_among(default_float, operands);
  auto common = [&](size_t from) {
    auto those = operands.subspan(from);
    return framework == Framework::kNumpy ? numpy_result_type(those)
                                          : torch_result_type(default_float, those);
  };
  switch (rule) {
    case Promotion::kCommon:
    case Promotion::kSame:
    case Promotion::kBitwise:
    case Promotion::kInteger:
      promoted.result = common(0);
      if (rule == Promotion::kInteger && framework == Framework::kNumpy && promoted.result == DType::kBool)
        promoted.result = DType::kI8;
      if (rule == Promotion::kBitwise) refuse_float(promoted.result, framework, op_name);
      if (rule == Promotion::kSame && framework == Framework::kTorch)
        for (const PromotedOperand& operand : operands)
          if (!operand.weak && operand.dtype != operands[0].dtype)
            throw UserError(UserError::Kind::kRuntime,
                            std::string(op_name) + ": expected all tensors to have one dtype");
      promoted.operands.assign(operands.size(), promoted.result);
      break;
    case Promotion::kFloat:
      promoted.result = framework == Framework::kNumpy ? numpy_float_result(operands)
                                                       : float_type(framework, default_float, common(0));
      promoted.operands.assign(operands.size(), promoted.result);
      break;
    case Promotion::kDivide: {
      DType type = common(0);
      promoted.result = is_float(type) ? type : default_float;
      promoted.operands.assign(operands.size(), promoted.result);
      break;
    }
    case Promotion::kCompare:
      promoted.result = DType::kBool;
      promoted.operands.assign(operands.size(), common(0));
      refuse_rounded_comparison(operands, promoted.operands[0]);
      break;
    case Promotion::kLogical:
      promoted.result = DType::kBool;
      promoted.operands.assign(operands.size(), DType::kBool);
      // What is narrowed first may become 0: a 0-dim tensor beside one with dims.
      if (const DType type = common(0); framework == Framework::kTorch)
        for (size_t i = 0; i < operands.size(); ++i)
          if (runtime::bytes(operands[i].dtype) > runtime::bytes(type)) promoted.operands[i] = type;
      break;
    case Promotion::kPredicate:
      promoted.result = DType::kBool;
      for (const PromotedOperand& operand : operands) promoted.operands.push_back(operand.dtype);
      break;
    case Promotion::kSelect:
      promoted.result = common(1);
      promoted.operands.assign(operands.size(), promoted.result);
      promoted.operands[0] = DType::kBool;
      break;
    case Promotion::kFirst:
      promoted.result = operands[0].dtype;
      promoted.operands.assign(operands.size(), promoted.result);
      break;
  }
  return promoted;
}

bool can_cast_in_place(Framework framework, DType from, DType to) {
  if (framework == Framework::kTorch) {
    // torch.can_cast: never float to integer, nor anything to bool.
    if (is_float(from) && !is_float(to)) return false;
    return from == DType::kBool || to != DType::kBool;
  }
  // NumPy's "same_kind": within a kind, or up; unsigned counts below signed.
  auto kind = [](DType dtype) {
    return dtype == DType::kBool ? 0 : is_float(dtype) ? 3 : runtime::info(dtype).is_signed ? 2 : 1;
  };
  return kind(from) <= kind(to);
}

}  // namespace cdynamo::graph
