#include "graph/converted_numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/broadcast.h"
#include "graph/sizes/sym_context.h"

namespace cdynamo::graph {

using runtime::is_unsigned;

namespace {

enum class Rule : uint8_t {
  kExact,     // integers are kept to the last digit
  kBound,     // as kExact; negative ones of unsigned types, which wrap around or bound nothing, are eager's
  kDouble,    // entries read the number as a double
  kIntegers,  // only where the result is of an integer type
  kTensor,    // so too, and where it is a float32: of the number eager makes a tensor of that type
  kComputed,  // converted to the type that eager computes in
  kNegated,   // its negative is converted too
  kReal,      // a parameter of type float: integers arrive as reals
};

struct Row {
  std::string_view op;
  std::vector<std::string_view> params;
  Rule rule = Rule::kDouble;
  bool numpy = false;  // NumPy refuses them too
};

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      {"fill", {"value"}, Rule::kExact},
      {"full", {"fill_value"}, Rule::kExact, true},
      {"full_like", {"fill_value"}, Rule::kExact, true},
      {"new_full", {"fill_value"}, Rule::kExact, true},
      {"scalar_tensor", {"s"}, Rule::kExact},
      {"masked_fill", {"value"}, Rule::kExact},
      {"index_fill", {"value"}, Rule::kExact},
      {"scatter", {"value"}, Rule::kExact},
      {"clamp", {"min", "max"}, Rule::kBound},
      {"np.clip", {"min", "max", "a_min", "a_max"}, Rule::kBound, true},
      {"clamp_min", {"min"}, Rule::kBound},
      {"clamp_max", {"max"}, Rule::kBound},
      {"where", {"self", "other"}, Rule::kTensor},
      {"floor_divide", {"other"}, Rule::kIntegers},
      {"remainder", {"other"}, Rule::kIntegers},
      {"fmod", {"other"}, Rule::kIntegers},
      {"pad", {"value"}, Rule::kReal},
      {"constant_pad_nd", {"value"}},
      {"pow", {"exponent"}},
      {"pow", {"self", "exponent"}, Rule::kExact, true},
      {"threshold", {"threshold", "value"}},
      {"hardtanh", {"min_val", "max_val"}},
      {"hardshrink", {"lambd"}},
      {"softshrink", {"lambd"}},
      {"hinge_embedding_loss", {"margin"}},
      {"leaky_relu", {"negative_slope"}, Rule::kComputed},
      {"elu", {"alpha", "scale", "input_scale"}, Rule::kComputed},
      {"celu", {"alpha"}, Rule::kComputed},
      {"softplus", {"beta", "threshold"}, Rule::kComputed},
      {"lerp", {"weight"}, Rule::kComputed},
      {"linspace", {"start", "end"}},
      {"add", {"alpha"}},
      {"sub", {"alpha"}, Rule::kNegated},
      {"rsub", {"alpha"}, Rule::kNegated},
      {"index_add", {"alpha"}},
      {"addcmul", {"value"}},
      {"addcdiv", {"value"}},
      {"addmm", {"alpha", "beta"}},
      {"baddbmm", {"alpha", "beta"}},
      {"addbmm", {"alpha", "beta"}},
      {"addmv", {"alpha", "beta"}},
      {"addr", {"alpha", "beta"}},
  };
  return table;
}

double largest(DType dtype) {
  switch (dtype) {
    case DType::kF16: return 65504;
    case DType::kBF16: return 0x1.fep127;
    case DType::kF32: return std::numeric_limits<float>::max();
    case DType::kF64: return std::numeric_limits<double>::max();
    default: return std::pow(2.0, 8.0 * runtime::bytes(dtype) - runtime::info(dtype).is_signed) - 1;
  }
}

// The greatest that a Sym can be of an integer dtype.
int64_t greatest_integer(DType dtype) {
  return runtime::bytes(dtype) == 8 ? std::numeric_limits<int64_t>::max()
                                    : static_cast<int64_t>(largest(dtype));
}

bool fits(double number, DType dtype) {
  if (is_float(dtype)) return !std::isfinite(number) || std::abs(number) <= largest(dtype);
  // Of what is out of range eager gives what the processor does; of uint64 int64 holds the lower half.
  if (runtime::bytes(dtype) == 8 && std::abs(number) >= 0x1p63) return false;
  return number <= largest(dtype) && number >= (runtime::info(dtype).is_signed ? -largest(dtype) - 1 : 0);
}

// Negative integers wrap around in unsigned types, as negative reals do not.
bool fits(Graph& graph, const Sym& number, DType dtype) {
  if ((!is_float(dtype) && runtime::bytes(dtype) == 8) || (is_float(dtype) && dtype != DType::kF16))
    return true;
  const auto high = static_cast<int64_t>(largest(dtype));
  const int64_t low = is_integer(dtype) && runtime::info(dtype).is_signed ? -high - 1 : -high;
  if (number.is_constant()) return number.constant() >= low && number.constant() <= high;
  return graph.sym->guard(Relation::kLe, number, high, "a number's range") &&
         graph.sym->guard(Relation::kLe, low, number, "a number's range");
}

bool is_beyond_double(const Arg& number) {
  const auto* sym = std::get_if<Sym>(&number);
  return sym && sym->is_constant() &&
         (sym->constant() > int64_t{1} << 53 || sym->constant() < -(int64_t{1} << 53));
}

}  // namespace

void require_fits(Graph& graph, const Arg& number, DType dtype) {
  if (dtype == DType::kBool) return;
  const auto* sym = std::get_if<Sym>(&number);
  const auto* real = std::get_if<double>(&number);
  if ((sym && !fits(graph, *sym, dtype)) || (real && !fits(*real, dtype)))
    runtime_error("value cannot be converted to type " + std::string(runtime::info(dtype).name) +
                  " without overflow");
}

namespace {
// A number that the graph holds: eager raises an error where it does not fit, which is known at run time. An element of a
// tensor fits where its dtype does.
bool fits_whatever_it_is(const Value* number, DType dtype) {
  if (dtype == DType::kF64 || dtype == DType::kBool) return true;
  for (const Node* node = number->node; node && !node->args.empty(); node = number->node) {
    const auto* operand = std::get_if<Value*>(&node->args[0]);
    const std::string_view op = node->op->name;
    if (!operand || !(op == "clone" || op == "reshape" || op == "core.cast" || op == "core.to_device")) break;
    number = *operand;
    const DType held = number->type.dtype;
    if (held == dtype || held == DType::kBool) return true;
    if (is_float(held) && is_float(dtype) && largest(held) <= largest(dtype)) return true;
  }
  return number->type.dtype == DType::kBool;
}
bool loses_what_is_no_integer(const Value* number, DType dtype) {
  return is_float(number->type.dtype) && is_integer(dtype);
}

}  // namespace

void check_converted_numbers(Graph& graph, const OpDef& op, const Args& args, DType dtype) {
  const auto row = std::ranges::find_if(rows(), [&](const Row& one) {
    return one.op == op.name && (graph.framework == Framework::kTorch || one.numpy);
  });
  if (row == rows().end()) return;
  if (row->rule == Rule::kIntegers && is_float(dtype)) return;
  if (row->rule == Rule::kTensor && is_float(dtype) && dtype != DType::kF32) return;
  if (row->rule == Rule::kComputed) dtype = runtime::compute_type(dtype);
  for (const std::string_view param : row->params) {
    if (args.schema().find(param) < 0) continue;
    Arg number = args[param];
    const auto* sym = std::get_if<Sym>(&number);
    const auto* held = std::get_if<Value*>(&number);
    if (held && (*held)->type.weak && graph.framework == Framework::kTorch && row->rule == Rule::kExact &&
        (row->op != "fill" || loses_what_is_no_integer(*held, dtype)) && !fits_whatever_it_is(*held, dtype))
      throw Unsupported(std::string(op.name) + " with a number that may not fit");
    if (row->rule == Rule::kReal && sym && sym->is_constant()) number = static_cast<double>(sym->constant());
    require_fits(graph, number, dtype);
    if (graph.framework == Framework::kNumpy)
      check_numpy_integers(graph, Promotion::kCommon, {number}, {dtype});
    if (row->rule == Rule::kNegated && sym) require_fits(graph, 0 - *sym, dtype);
    if (row->rule == Rule::kBound && sym && is_unsigned(dtype) &&
        !graph.sym->guard(Relation::kLe, 0, *sym, "a bound"))
      throw Unsupported(std::string(op.name) + " of an unsigned type with a negative bound");
    const bool exact = row->rule == Rule::kExact || row->rule == Rule::kBound ||
                       row->rule == Rule::kIntegers || row->rule == Rule::kTensor;
    if (!exact && is_beyond_double(number))
      throw Unsupported(std::string(op.name) + " with an integer beyond 2^53");
  }
}

void check_numpy_integers(Graph& graph, Promotion rule, const std::vector<Arg>& operands,
                          const std::vector<DType>& dtypes) {
  for (size_t i = 0; i < operands.size(); ++i) {
    const auto* number = std::get_if<Sym>(&operands[i]);
    const DType dtype = dtypes[i];
    if (!number || !is_integer(dtype) || dtype == DType::kBool || dtype == DType::kI64) continue;
    const int64_t high = greatest_integer(dtype), low = is_unsigned(dtype) ? 0 : -high - 1;
    if (graph.sym->guard(Relation::kLe, *number, high, "a number's range") &&
        graph.sym->guard(Relation::kLe, low, *number, "a number's range"))
      continue;
    if (rule == Promotion::kCompare)
      throw Unsupported("numpy: a comparison with an int out of the dtype's range");
    throw UserError(UserError::Kind::kValue,
                    "Python integer out of bounds for " + std::string(runtime::info(dtype).name));
  }
}

}  // namespace cdynamo::graph
