// The operator table: everything that is known of an operator is one OpDef, in one place (graph/ops/*.cpp).
//
// A new pointwise operator is an entry of a few lines:
//
//   {.name = "silu", .family = Family::kPointwise,
//    .schemas = {"silu(Tensor self) -> Tensor"},
//    .promotion = Promotion::kFloat,
//    .scalar = [](ScalarBuilder& b, const Scalar* x, const Args&) { return b.div(x[0], b.add(one(b, x[0]),
//    b.exp(b.neg(x[0])))); }, .derivative = [](Derivative& d) { Tensor s = sigmoid(d.operand(0)); d.set(0,
//    d.grad() * s * (1 + d.operand(0) * (1 - s))); }},
//
// Derived where not written: result types, in-place variants (`silu_`), names in Python (torch.silu,
// Tensor.silu, torch._C._nn.silu, torch.special.silu: those of them that exist), fusion, folding, reference
// values, tests.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/scalar.h"

namespace cdynamo::graph {

class Builder;
struct Derivative;

enum class Family : uint8_t {
  kPointwise,    // scalar code; operands broadcast and promote
  kComposite,    // a body in terms of other operators
  kReduction,    // core: identity, combine, finish
  kView,         // core: output-to-input index map
  kIndexing,     // core: gather, scatter, concat, pad, iota, full
  kScan,         // core: running sum and the like along one dimension
  kContraction,  // core: matmul, convolution, attention: a template or a library call
  kRandom,       // core: draws from the framework's generator
  kLibrary,      // known by schema only: called through the framework at run time
};

// How operands' dtypes become the dtype that is computed in (NumPy's rules where Graph::framework says so).
enum class Promotion : uint8_t {
  kCommon,     // the promoted type: add, mul, maximum
  kFloat,      // integers and bool become the default float: sin, div, sigmoid
  kCompare,    // computed in the promoted type, result bool: lt, eq
  kLogical,    // each operand to bool first, result bool
  kPredicate,  // operand as it is, result bool: isnan
  kBitwise,    // promoted type; floats are refused
  kDivide,     // as kFloat; NumPy divides all integers in float64
  kSelect,     // operand 0 is bool, the others as kCommon: where
  kFirst,      // the dtype of operand 0, into which the others are cast: masked_fill
  kInteger,    // as kCommon; NumPy computes bool in int8: remainder, shifts
  kSame,       // as kCommon, but torch refuses operands of several dtypes
};

enum class ParamKind : uint8_t {
  kTensor,
  kTensorList,
  kScalar,
  kInt,
  kFloat,
  kBool,
  kString,
  kDType,
  kDevice,
  kLayout,
  kMemoryFormat,
  kGenerator,
  kIntList,
  kFloatList,
  kBoolList,
  kScalarList,
  kDimname,
  kGraph
};

// One parameter of an ATen schema: `int[2] stride=1`, `Tensor? bias=None`, `Tensor(a!) out`.
struct Param {
  ParamKind kind;
  std::string name;
  bool optional = false;  // Type?
  bool keyword_only = false;
  bool mutated = false;                 // Tensor(a!)
  bool list_elements_optional = false;  // Tensor?[]
  int list_size = 0;                    // int[2]: one int stands for two
  bool accepts_number =
      false;  // a Tensor for which torch lets a Python number stand (set by the table); NumPy always does
  bool has_default = false;
  Arg default_value;
};

// An ATen schema in ATen's notation: "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *,
// ScalarType? dtype=None) -> Tensor".
struct Schema {
  std::string text, name, overload;
  std::vector<Param> params;
  int num_results = 1;
  bool result_is_list = false;                 // Tensor[]
  int find(std::string_view param) const;      // -1: no such parameter
  static Schema parse(std::string_view text);  // throws std::invalid_argument
};

// A node's arguments, read by the names of the schema. A wrong name or kind is an error of ours and throws
// InternalError.
class Args {
 public:
  Args(const Schema& schema, const std::vector<Arg>& args) : schema_(schema), args_(args) {}
  const Arg& operator[](std::string_view name) const;
  bool has(std::string_view name) const;      // the schema knows it and it is not None
  Value* value(std::string_view name) const;  // null for None
  Sym integer(std::string_view name) const;
  int64_t constant(std::string_view name) const;  // an integer that must be static: a dim, a count
  double number(std::string_view name) const;     // Scalar or float, as a double
  bool boolean(std::string_view name) const;
  std::string_view string(std::string_view name) const;
  std::vector<Sym> sizes(std::string_view name) const;  // int[] (one int stands for a list)
  std::vector<int64_t> constants(std::string_view name) const;
  std::vector<Value*> values(std::string_view name) const;
  std::optional<DType> dtype(std::string_view name) const;
  const Graph& graph(std::string_view name) const;
  const Schema& schema() const { return schema_; }
  const std::vector<Arg>& all() const { return args_; }

 private:
  const Schema& schema_;
  const std::vector<Arg>& args_;
};

using ScalarFn = Scalar (*)(ScalarBuilder&, const Scalar* operands, const Args&);
// The types of the results. Throws UserError for what eager would refuse.
using InferFn = std::vector<TensorType> (*)(Graph&, const Args&);
using BodyFn = std::vector<Value*> (*)(Builder&, const Args&);
using DerivativeFn = void (*)(Derivative&);
// Strides of the results of a composite where they are observable and differ from what the body leaves:
// eager's rule.
using StridesFn = void (*)(Graph&, const Args&, std::vector<TensorType>& results);

// How the result of a captured node relates to its first operand.
enum class Alias : uint8_t {
  kNone,
  kView,  // shares its storage
  kSelf,  // is the operand itself: the same object in Python
};
using AliasFn = Alias (*)(const Node&);
// What eager refuses beyond shapes and dtypes: throws UserError or Unsupported.
using CheckFn = void (*)(Graph&, const Args&);

// A reduction: `identity` for a dtype, an associative `combine` of two accumulators.
struct ReductionDef {
  Scalar (*identity)(ScalarBuilder&, DType);
  Scalar (*combine)(ScalarBuilder&, Scalar accumulator, Scalar value);
  bool returns_index = false;  // argmax, argmin: ties go to the lowest index, NaN wins
};

struct OpDef {
  std::string_view name;  // ATen's base name; core operators that ATen lacks are "core.<name>"
  Family family;
  std::vector<std::string_view> schemas;  // overloads, tried in order when arguments are bound
  std::vector<std::string_view> torch_names =
      {};  // beyond the derived ones: "torch.special.expit", "Tensor.__add__"
  std::vector<std::string_view> numpy_names = {};  // "np.add", "ndarray.sum"
  std::string_view opinfo = {};                    // its name in PyTorch's op_db where that differs
  Promotion promotion = Promotion::kCommon;
  ScalarFn scalar = nullptr;                // kPointwise
  BodyFn body = nullptr;                    // kComposite
  const ReductionDef* reduction = nullptr;  // kReduction
  InferFn infer = nullptr;                  // required for core families but kPointwise; optional otherwise
  StridesFn strides = nullptr;
  DerivativeFn derivative = nullptr;  // required unless derived (composite) or `differentiable` is false
  bool differentiable = true;
  bool in_place_variant = true;  // op_() exists and means: op, then write into the first operand
  bool view = false;             // captured graphs: the result shares the first operand's storage
  AliasFn alias = nullptr;       // where that depends on the call: reshape, contiguous, to
  CheckFn check = nullptr;

  std::vector<Schema> parsed = {};  // filled by the table
};

Alias result_alias(const Node& node);

// The table. Operators keep their addresses for the life of the process.
std::span<const OpDef* const> all_ops();
const OpDef* find_op(std::string_view name);  // null: unknown
const OpDef& op(std::string_view name);       // throws InternalError
// Where Python may find the operator: the derived names and those of the entry, dotted ("torch.Tensor.add",
// "torch.add", "numpy.add", "numpy.ndarray.sum"); some do not exist. A method's receiver is the parameter
// `self` (NumPy: the first).
std::vector<std::string> python_names(const OpDef& op);

// The user's mistake, in eager's words as far as we know them. At capture it becomes a graph break: eager
// then raises its own.
struct UserError : std::exception {
  enum class Kind { kType, kValue, kIndex, kRuntime };
  UserError(Kind kind, std::string message) : kind(kind), message(std::move(message)) {}
  const char* what() const noexcept override { return message.c_str(); }
  Kind kind;
  std::string message;
};
// A case that an operator's entry does not cover: a graph break that names it.
struct Unsupported : std::exception {
  explicit Unsupported(std::string message) : message(std::move(message)) {}
  const char* what() const noexcept override { return message.c_str(); }
  std::string message;
};
// A broken invariant of ours.
struct InternalError : std::exception {
  explicit InternalError(std::string message) : message(std::move(message)) {}
  const char* what() const noexcept override { return message.c_str(); }
  std::string message;
};

}  // namespace cdynamo::graph
