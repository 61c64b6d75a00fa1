#include "runtime/cuda/cublas_lt.h"

#include <absl/container/flat_hash_map.h>
#include <absl/hash/hash.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cuda/algorithm_timing.h"
#include "runtime/cuda/symbol_table.h"
#include "runtime/cuda/torch_memory.h"
#include "runtime/host/kernel_cache.h"
#include "runtime/host/parallel.h"
#include "runtime/library/convert.h"

namespace cdynamo::runtime::cuda {
namespace {

// ---- the library: cublasLt.h, of cuBLAS 12 and 13

using Handle = struct OpaqueHandle*;
using Descriptor = struct OpaqueDescriptor*;
using Layout = struct OpaqueLayout*;
using Preference = struct OpaquePreference*;

struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

constexpr int kNoTranspose = 0, kTranspose = 1;  // cublasOperation_t
// cublasLtMatmulDescAttributes_t, cublasLtMatrixLayoutAttribute_t, cublasLtMatmulPreferenceAttributes_t
constexpr int kTransposeA = 3, kTransposeB = 4, kEpilogue = 7, kBiasPointer = 8;
constexpr int kBatchCount = 5, kBatchStride = 6;
constexpr int kMaxWorkspace = 1, kReductionSchemes = 3, kAlignmentA = 5;
// cublasLtEpilogue_t, cublasLtReductionScheme_t
constexpr uint32_t kEpilogueBias = 4, kExactReductions = 1 | 2;  // in place, or in the type of the sums
constexpr size_t kWorkspace = size_t{32} << 20;

struct Library {
  size_t (*get_version)();
  int (*create)(Handle*);
  int (*desc_create)(Descriptor*, int compute_type, int scale_type);
  int (*desc_destroy)(Descriptor);
  int (*desc_set)(Descriptor, int attribute, const void*, size_t);
  int (*layout_create)(Layout*, int type, uint64_t rows, uint64_t columns, int64_t leading);
  int (*layout_destroy)(Layout);
  int (*layout_set)(Layout, int attribute, const void*, size_t);
  int (*preference_create)(Preference*);
  int (*preference_destroy)(Preference);
  int (*preference_set)(Preference, int attribute, const void*, size_t);
  int (*get_heuristic)(Handle, Descriptor, Layout a, Layout b, Layout c, Layout d, Preference, int wanted,
                       Heuristic*, int* found);
  int (*matmul)(Handle, Descriptor, const void* alpha, const void* a, Layout, const void* b, Layout,
                const void* beta, const void* c, Layout, void* d, Layout, const Algorithm*, void* workspace,
                size_t workspace_bytes, Stream);
};

#define CDYNAMO_LT(member, name) {name, offsetof(Library, member)}
constexpr Symbol kCublasLtSymbols[] = {
    CDYNAMO_LT(get_version, "cublasLtGetVersion"),
    CDYNAMO_LT(create, "cublasLtCreate"),
    CDYNAMO_LT(desc_create, "cublasLtMatmulDescCreate"),
    CDYNAMO_LT(desc_destroy, "cublasLtMatmulDescDestroy"),
    CDYNAMO_LT(desc_set, "cublasLtMatmulDescSetAttribute"),
    CDYNAMO_LT(layout_create, "cublasLtMatrixLayoutCreate"),
    CDYNAMO_LT(layout_destroy, "cublasLtMatrixLayoutDestroy"),
    CDYNAMO_LT(layout_set, "cublasLtMatrixLayoutSetAttribute"),
    CDYNAMO_LT(preference_create, "cublasLtMatmulPreferenceCreate"),
    CDYNAMO_LT(preference_destroy, "cublasLtMatmulPreferenceDestroy"),
    CDYNAMO_LT(preference_set, "cublasLtMatmulPreferenceSetAttribute"),
    CDYNAMO_LT(get_heuristic, "cublasLtMatmulAlgoGetHeuristic"),
    CDYNAMO_LT(matmul, "cublasLtMatmul"),
};
#undef CDYNAMO_LT

// Null where the process has none: a framework without CUDA libraries of its own.
const Library* find_library() {
  static const Library* found = []() -> const Library* {
    auto library = std::make_unique<Library>();
    return fill_table(*library, kCublasLtSymbols, find_process_symbol) ? nullptr : library.release();
  }();
  return found;
}

// ---- a product as the library has it: matrices by columns

struct Matrix {
  char* data = nullptr;
  int64_t rows = 0, columns = 0, row_stride = 0, column_stride = 0, batch_stride = 0;
  Matrix transposed() const { return {data, columns, rows, column_stride, row_stride, batch_stride}; }
};

Matrix matrix_of(const TensorView& view) {
  const int r = view.rank - 2;
  return {
      static_cast<char*>(view.data), view.sizes[r], view.sizes[r + 1], view.strides[r], view.strides[r + 1],
      r > 0 ? view.strides[0] : 0};
}

// The distance of columns where the matrix lies by columns.
std::optional<int64_t> leading(const Matrix& matrix) {
  if (matrix.row_stride != 1 && matrix.rows > 1) return std::nullopt;
  const int64_t distance = matrix.columns > 1 ? matrix.column_stride : std::max<int64_t>(1, matrix.rows);
  if (distance < matrix.rows || distance > INT32_MAX) return std::nullopt;
  return distance;
}

struct Operand {
  int64_t rows = 0, columns = 0, leading = 0, batch_stride = 0;  // as it lies in memory
  int operation = kNoTranspose, alignment = 0;
};

int alignment_of(const Matrix& matrix, int64_t element) {
  const auto bits =
      reinterpret_cast<uintptr_t>(matrix.data) | static_cast<uintptr_t>(matrix.batch_stride * element) | 16;
  return static_cast<int>(bits & -bits);
}

std::optional<Operand> operand_of(const Matrix& matrix, int64_t element) {
  Operand operand{.batch_stride = matrix.batch_stride, .alignment = alignment_of(matrix, element)};
  const Matrix flipped = matrix.transposed();
  const auto distance = leading(matrix), flipped_distance = leading(flipped);
  if (!distance && !flipped_distance) return std::nullopt;
  const Matrix& lying = distance ? matrix : flipped;
  operand.operation = distance ? kNoTranspose : kTranspose;
  operand.leading = distance ? *distance : *flipped_distance;
  operand.rows = lying.rows;
  operand.columns = lying.columns;
  return operand;
}

// What a prepared product is kept by.
struct Product {
  int device = 0;
  DType dtype = DType::kF32;
  bool tf32 = false, bias = false, addend = false;
  bool timed = false;  // its algorithm is the fastest of some, not the first
  int64_t batch = 1;
  Operand left, right, added, result;

  using Key = std::array<int64_t, 31>;
  Key key() const {
    Key fields{device, static_cast<int64_t>(dtype), tf32, bias, addend, timed, batch};
    size_t at = 7;
    for (const Operand* o : {&left, &right, &added, &result})
      for (int64_t field :
           {o->rows, o->columns, o->leading, o->batch_stride, int64_t{o->operation}, int64_t{o->alignment}})
        fields[at++] = field;
    return fields;
  }
};

struct Choice {
  Algorithm algorithm{};
  size_t workspace_bytes = 0;
};

struct Prepared {
  Descriptor descriptor = nullptr;
  Layout left = nullptr, right = nullptr, added = nullptr, result = nullptr;
  std::vector<Choice> choices;  // the best as far as known first; more than one: they have yet to be timed
  size_t workspace_bytes = 0;   // that any of them needs
  bool possible() const { return !choices.empty(); }
};

constexpr int kMostChoices = 8;

// cudaDataType_t and cublasComputeType_t of a product.
struct Types {
  int data, compute, scale;
};
std::optional<Types> types_of(DType dtype, bool tf32) {
  constexpr int kR32F = 0, kR64F = 1, kR16F = 2, kR16BF = 14, kCompute32F = 68, kCompute64F = 70,
                kComputeTf32 = 77;
  switch (dtype) {
    case DType::kF32: return Types{kR32F, tf32 ? kComputeTf32 : kCompute32F, kR32F};
    case DType::kF64: return Types{kR64F, kCompute64F, kR64F};
    case DType::kF16: return Types{kR16F, kCompute32F, kR32F};
    case DType::kBF16: return Types{kR16BF, kCompute32F, kR32F};
    default: return std::nullopt;
  }
}

class Products {
 public:
  explicit Products(const Library& library) : library_(library) {}

  // Prepared for ever: a process has as many products as shapes.
  Prepared& find(const Product& product) {
    auto [entry, is_new] = prepared_.try_emplace(product.key());
    if (is_new) entry->second = std::make_unique<Prepared>(prepare(product));
    return *entry->second;
  }
  // Only `fastest` is left, in later processes too.
  void choose(const Product& product, Prepared& prepared, int fastest) const {
    const Choice choice = prepared.choices.at(fastest);
    prepared.choices = {choice};
    prepared.workspace_bytes = choice.workspace_bytes;
    KernelCache::process().put(cache_key(product), {reinterpret_cast<const char*>(&choice), sizeof choice});
  }
  Handle handle(int device) {
    Handle& handle = handles_[device];
    if (!handle && library_.create(&handle) != 0) handle = nullptr;
    return handle;
  }
  // Memory for the product that runs next on the stream; null where there is none. Products of a stream run one after the other, so
  // they share it.
  char* workspace(int device, Stream stream, size_t bytes) {
    Workspace& kept = workspaces_[{device, stream}];
    if (kept.bytes < bytes) {
      kept.block.free();
      kept.block = DeviceBlock(bytes);
      kept.bytes = kept.block.data() ? bytes : 0;
    }
    return kept.block.data();
  }
  std::mutex mutex;

 private:
  struct Workspace {
    DeviceBlock block;
    size_t bytes = 0;
  };

  // What a choice is good for: the library, the kind of device, the product.
  std::string cache_key(const Product& product) const {
    Product::Key fields = product.key();
    const DeviceInfo& device = device_info(product.device);
    fields[0] = 0;
    std::string key = absl::StrCat("cublasLt algorithm ", library_.get_version(), " ",
                                   device.compute_capability, " ", device.processors);
    for (int64_t field : fields) absl::StrAppend(&key, " ", field);
    return key;
  }
  std::optional<Choice> known_choice(const Product& product) const {
    const std::optional<std::string> found = KernelCache::process().get(cache_key(product));
    if (!found || found->size() != sizeof(Choice)) return std::nullopt;
    Choice choice;
    std::memcpy(&choice, found->data(), sizeof choice);
    return choice.workspace_bytes <= kWorkspace ? std::optional(choice) : std::nullopt;
  }

  Layout layout_of(const Operand& operand, int type, int64_t batch) {
    Layout layout = nullptr;
    if (library_.layout_create(&layout, type, static_cast<uint64_t>(operand.rows),
                               static_cast<uint64_t>(operand.columns), operand.leading) != 0)
      return nullptr;
    const auto count = static_cast<int32_t>(batch);
    if (batch > 1 &&
        (library_.layout_set(layout, kBatchCount, &count, sizeof count) != 0 ||
         library_.layout_set(layout, kBatchStride, &operand.batch_stride, sizeof operand.batch_stride) != 0))
      return nullptr;
    return layout;
  }

  Prepared prepare(const Product& product) {
    Prepared result;
    const auto types = types_of(product.dtype, product.tf32);
    Handle handle = this->handle(product.device);
    if (!types || !handle || library_.desc_create(&result.descriptor, types->compute, types->scale) != 0)
      return result;
    auto describe = [&](int attribute, const auto& value) {
      return library_.desc_set(result.descriptor, attribute, &value, sizeof value) == 0;
    };
    bool good = describe(kTransposeA, int32_t{product.left.operation}) &&
                describe(kTransposeB, int32_t{product.right.operation});
    if (product.bias) good = good && describe(kEpilogue, kEpilogueBias);
    result.left = layout_of(product.left, types->data, product.batch);
    result.right = layout_of(product.right, types->data, product.batch);
    result.result = layout_of(product.result, types->data, product.batch);
    result.added = product.addend ? layout_of(product.added, types->data, product.batch) : result.result;
    if (!good || !result.left || !result.right || !result.result || !result.added) return result;
    Preference preference = nullptr;
    if (library_.preference_create(&preference) != 0) return result;
    auto prefer = [&](int attribute, const auto& value) {
      return library_.preference_set(preference, attribute, &value, sizeof value) == 0;
    };
    good = prefer(kMaxWorkspace, kWorkspace) && prefer(kReductionSchemes, kExactReductions);
    const Operand& added = product.addend ? product.added : product.result;
    int attribute = kAlignmentA;
    for (const Operand* operand : {&product.left, &product.right, &added, &product.result})
      good = good && prefer(attribute++, static_cast<uint32_t>(operand->alignment));
    std::array<Heuristic, kMostChoices> heuristics{};
    int found = 0;
    good = good && library_.get_heuristic(handle, result.descriptor, result.left, result.right, result.added,
                                          result.result, preference, product.timed ? kMostChoices : 1,
                                          heuristics.data(), &found) == 0;
    library_.preference_destroy(preference);
    for (int i = 0; good && i < std::min(found, kMostChoices); ++i)
      if (heuristics[i].state == 0)
        result.choices.push_back({heuristics[i].algorithm, heuristics[i].workspace_bytes});
    if (product.timed && result.possible())
      if (const std::optional<Choice> known = known_choice(product)) result.choices = {*known};
    for (const Choice& choice : result.choices)
      result.workspace_bytes = std::max(result.workspace_bytes, choice.workspace_bytes);
    return result;
  }

  const Library& library_;
  std::map<int, Handle> handles_;
  std::map<std::pair<int, Stream>, Workspace> workspaces_;
  absl::flat_hash_map<Product::Key, std::unique_ptr<Prepared>> prepared_;
};

// d = left @ right (+ addend), matrices by columns. `bias`: a vector along d's rows.
struct Problem {
  Matrix left, right, addend, d;
  const void* bias = nullptr;
};

bool run(const Library& library, Problem& problem, const TensorView& output, double alpha, double beta) {
  const int64_t element = bytes(output.dtype);
  Product product{.device = output.device.index,
                  .dtype = output.dtype,
                  .tf32 = output.dtype == DType::kF32 && products_use_tf32(),
                  .bias = problem.bias != nullptr,
                  .addend = problem.addend.data != nullptr,
                  .timed = TimedAlgorithms::are_on(),
                  .batch = output.rank == 3 ? output.sizes[0] : 1};
  if (product.batch > INT32_MAX) return false;
  const auto left = operand_of(problem.left, element), right = operand_of(problem.right, element),
             result = operand_of(problem.d, element);
  if (!left || !right || !result || result->operation != kNoTranspose) return false;
  product.left = *left;
  product.right = *right;
  product.result = *result;
  if (product.addend) {
    const auto added = operand_of(problem.addend, element);
    if (!added || added->operation != kNoTranspose) return false;
    product.added = *added;
  }
  static auto* products = new Products(library);
  const Stream stream = current_stream(output.device.index);
  const float factors[] = {static_cast<float>(alpha), static_cast<float>(product.addend ? beta : 0)};
  const double wide_factors[] = {alpha, product.addend ? beta : 0};
  const bool f64 = output.dtype == DType::kF64;
  auto factor = [&](int i) -> const void* {
    return f64 ? static_cast<const void*>(&wide_factors[i]) : &factors[i];
  };
  std::lock_guard lock(products->mutex);
  Prepared& prepared = products->find(product);
  if (!prepared.possible()) return false;
  // What is recorded, by us or by the framework, has memory of its own: it is replayed on other streams. The default stream is never.
  const bool is_recorded = Recording::current() || (stream && is_capturing(stream));
  const DeviceBlock own(is_recorded ? prepared.workspace_bytes : 0);
  char* workspace = own.data();
  if (prepared.workspace_bytes > 0 && !is_recorded)
    workspace = products->workspace(product.device, stream, prepared.workspace_bytes);
  if (prepared.workspace_bytes > 0 && !workspace) return false;
  if (product.bias && library.desc_set(prepared.descriptor, kBiasPointer, &problem.bias, sizeof(void*)) != 0)
    return false;
  const void* c = product.addend ? problem.addend.data : problem.d.data;
  const auto launch = [&](int choice) {
    return library.matmul(products->handle(product.device), prepared.descriptor, factor(0), problem.left.data,
                          prepared.left, problem.right.data, prepared.right, factor(1), c, prepared.added,
                          problem.d.data, prepared.result, &prepared.choices[choice].algorithm, workspace,
                          prepared.workspace_bytes, stream) == 0;
  };
  // Where the result is not added to itself the launches that are timed write it again and again.
  const bool times = prepared.choices.size() > 1 && !is_recorded && !(product.addend && c == problem.d.data);
  if (times)
    if (const int fastest = find_fastest(stream, static_cast<int>(prepared.choices.size()), launch);
        fastest >= 0)
      products->choose(product, prepared, fastest);
  return launch(0);
}

}  // namespace

bool lt_matmul(const LibraryArgs& args) {
  const Library* library = find_library();
  const TensorView& output = args.output();
  if (!library || (output.rank != 2 && output.rank != 3)) return false;
  for (int i = 0; i < args.num_operands; ++i)
    if (args.operands[i].dtype != output.dtype) return false;
  const Matrix a = matrix_of(args.operands[0]), b = matrix_of(args.operands[1]), d = matrix_of(output);
  if (count_elements(output) == 0 || a.columns == 0) return false;
  const bool adds = args.num_inputs > 2;
  const double beta = adds ? args.numbers[0] : 0, alpha = adds ? args.numbers[1] : 1;
  const bool by_rows = d.column_stride == 1 || d.columns == 1;
  // What lies by rows is its transpose by columns: d^T = b^T a^T.
  Problem problem =
      by_rows ? Problem{b.transposed(), a.transposed(), {}, d.transposed()} : Problem{a, b, {}, d};
  if (adds && beta != 0) {
    const Matrix addend = matrix_of(args.operands[2]);
    const bool is_row = addend.row_stride == 0 && addend.batch_stride == 0 && addend.column_stride == 1;
    if (is_row && by_rows && beta == 1)
      problem.bias = addend.data;
    else
      problem.addend = by_rows ? addend.transposed() : addend;
  }
  return run(*library, problem, output, alpha, beta);
}

}  // namespace cdynamo::runtime::cuda
