// The operator table: everything that is known of an operator is one OpDef, in one place (graph/ops/*.cpp).
//
// A new pointwise operator is an entry of a few lines:
//
//   {.name = "silu",
//    .family = Family::kPointwise,
//    .schemas = {"silu(Tensor self) -> Tensor"},
//    .promotion = Promotion::kFloat,
//    .scalar = CDYNAMO_SCALAR(return b.div(x[0], b.add(number(b, 1, x[0]), b.exp(b.neg(x[0]))))),
//    .derivative = CDYNAMO_DERIVATIVE(Tensor s = sigmoid(d.operand(0));
//                                     d.set(0, d.grad() * s * (d.operand(0) * (1 - s) + 1)))},
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
  kRandom,       // core: numbers from the framework's generator
  kLibrary,      // known by schema only: called through the framework at run time
};

// What an operator does beside giving its results. Families say it, but of the framework's calls in core graphs, of which the
// table demands it.
enum class Effects : uint8_t {
  kUnset,
  kNone,     // nothing: not run where nobody reads the results
  kDraws,    // takes numbers from the framework's generator: those of later calls depend on it
  kUnknown,  // the framework's, or the user's: run whether the results are read or not
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
  bool accepts_number = false;          // a Tensor for which a Python number may stand (set by the table)
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
// Half types: which operands eager's kernel takes as they were given, in float32, where they have one element. Any
// other is rounded first.
enum class WideScalar : uint8_t { kNone, kSecond, kEither };
// What eager refuses beyond shapes and dtypes: throws UserError or Unsupported.
using CheckFn = void (*)(Graph&, const Args&);

// A reduction: `identity` for a dtype, an associative `combine` of two accumulators.
struct ReductionDef {
  Scalar (*identity)(ScalarBuilder&, DType);
  Scalar (*combine)(ScalarBuilder&, Scalar accumulator, Scalar value);
  bool returns_index = false;  // argmax, argmin: ties go to the lowest index, NaN wins
  bool is_greatest = false;    // argmax: which extremum the index is of
};

// ---- what core operators have beside these (graph/core.h lists them)

// How lowering computes an operator. Families say it for pointwise operators, reductions, scans and library calls;
// for the others the table demands it.
enum class CoreKind : uint8_t {
  kUnset,
  kNone,     // no core operator: a composite, or known by schema only
  kGone,     // there for derivatives, and replaced by its operand before lowering
  kRegroup,  // there for views, and computed by other operators before lowering
  kPointwise,
  kCast,
  // Index maps with at most a fill value: they cost nothing, and are repeated where they are read.
  kFull,
  kIota,
  kExpand,
  kPermute,
  kReshape,
  kSlice,
  kDiagonal,
  kWindow,
  kPad,
  // Computed element by element in a loop over the result's sizes.
  kConcat,
  kGather,
  kIndex,
  kSliceScatter,
  kDiagonalScatter,
  // Loops of their own.
  kScatter,
  kIndexPut,
  kReduction,
  kScan,
  kRunningCounts,
  kCompress,
  // Between devices: no target computes it, a graph is cut in parts there (lowering/device_parts.h).
  kTransfer,
  // A number becomes a size symbol: no target computes it either, a graph is cut there too.
  kReadInt,
  // Steps of their own with operands in memory: CallDef says what they are given, a target what computes them.
  kMatmul,
  kBatchMatmul,
  kConvolution,
  kConvolutionWeightGrad,
  kAttention,
  kAttentionBackward,
  kRandom,
  kLibrary,
};
constexpr bool is_view(CoreKind kind) { return kind >= CoreKind::kFull && kind <= CoreKind::kPad; }
constexpr bool is_elementwise(CoreKind kind) {
  return kind == CoreKind::kPointwise || kind == CoreKind::kCast ||
         (kind >= CoreKind::kConcat && kind <= CoreKind::kDiagonalScatter);
}
// Kernels of their own, which read their operands element by element.
constexpr bool is_sequential(CoreKind kind) {
  return kind == CoreKind::kScatter || kind == CoreKind::kIndexPut || kind == CoreKind::kScan ||
         kind == CoreKind::kRunningCounts || kind == CoreKind::kCompress;
}
constexpr bool is_library_call(CoreKind kind) { return kind >= CoreKind::kMatmul; }

// In which of its operands an operator is linear.
enum class Linearity : uint8_t {
  kUnset,        // of a pointwise operator: none
  kNone,         // not linear, or not known to be
  kAll,          // in all of them taken together: add, views, sum
  kProduct,      // in each of them while the others are fixed: mul, mm
  kFirst,        // in the first, the others fixed: div, gather
  kRest,         // in all but the first, the first fixed: where
  kAffine,       // in all taken together, but for what has no gradient: pad, floor, frac
  kFirstAffine,  // in the first, whose gradient is the result's; not in the others: remainder, addcmul
};

// A view as a map of memory (graph/passes/view_step.h).
struct ViewStep;
struct StorageLayout;
struct ViewDef {
  // The layout of the result from that of the operand; false where the result has to be a copy.
  bool (*advance)(SymContext&, const Args&, StorageLayout&);
  // `operand` with the elements that the view selects replaced by `content`.
  Value* (*scatter_back)(Builder&, const ViewStep&, Value* operand, Value* content);
};

// One element after the other: the interpreter's kernel (graph/interpreter/kernels.h).
struct KernelCall;
struct DenseTensor;
using InterpretFn = void (*)(const KernelCall&, std::vector<DenseTensor>& results);

// Which arguments a library call is given, by the schema's names. `integers` are those of type int, int[] and bool;
// lists one entry after the other.
struct CallDef {
  std::vector<std::string_view> tensors, integers, numbers;
  std::string_view text = {};     // a string
  bool may_omit_results = false;  // results that nobody reads need not be written
};

// A core operator that PyTorch cannot compute: it stands for something of the compiler's.
inline constexpr std::string_view kNoEager = "-";

// Facets of core operators. What an operator of its family must have and has not is refused when the table is built.
struct CoreDef {
  CoreKind kind = CoreKind::kUnset;
  Linearity linearity = Linearity::kUnset;
  const ViewDef* view = nullptr;
  InterpretFn interpret = nullptr;  // pointwise operators: their scalar code; reductions: `reduction`
  std::optional<CallDef> call = {};
  // How PyTorch computes it: an expression of Python over the schema's parameters, torch, and the functions of
  // python/cdynamo/_core_ops.py. Operators that are ATen's have none.
  std::string_view eager = {};
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
  const ReductionDef* reduction = nullptr;  // kReduction, kScan
  InferFn infer = nullptr;                  // required for core families but kPointwise; optional otherwise
  StridesFn strides = nullptr;
  DerivativeFn derivative = nullptr;  // required unless derived (composite) or `differentiable` is false
  bool differentiable = true;
  bool saves_result = true;      // eager's operator does where the derivative reads it
  bool in_place_variant = true;  // op_() exists and means: op, then write into the first operand
  bool view = false;             // captured graphs: the result shares the first operand's storage
  AliasFn alias = nullptr;       // where that depends on the call: reshape, contiguous, to
  CheckFn check = nullptr;
  bool places_results =
      false;  // `infer` says on which device results are; else they are where operands are, or device= says
  bool numbers_as_tensors = false;  // PyTorch's parser lets a Python number stand for a Tensor
  bool numbers_of_graph = false;    // for its Scalars weak 0-dim values may stand
  WideScalar wide_scalar = WideScalar::kNone;
  Effects effects = Effects::kUnset;  // beside writes to operands, which the schema tells
  std::string_view rounded_number =
      {};  // a parameter that eager rounds to the operands' half type: alpha of add
  CoreDef core = {};

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

// `x.logical_not_()` and the like: eager's autograd does not look at these writes, the tensor keeps the history it has.
inline bool writes_untracked(const OpDef& op) { return op.name.starts_with("logical_"); }

// The user's mistake, in eager's words as far as we know them. At capture it becomes a graph break: eager
// then raises its own.
struct UserError : std::exception {
  enum class Kind { kType, kValue, kIndex, kRuntime };
  UserError(Kind kind, std::string message) : kind(kind), message(std::move(message)) {}
  const char* what() const noexcept override { return message.c_str(); }
  Kind kind;
  std::string message;
};
// A broken invariant of ours.
struct InternalError : std::exception {
  explicit InternalError(std::string message) : message(std::move(message)) {}
  const char* what() const noexcept override { return message.c_str(); }
  std::string message;
};

}  // namespace cdynamo::graph
