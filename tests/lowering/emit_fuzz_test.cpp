// Random kernels, compiled and interpreted on the same data. Values are small whole numbers, so that every
// result is exact.
#include <numeric>

#include "emit_testing.h"

namespace cdynamo::lowering {
namespace {

using namespace testing;

class RandomKernel {
 public:
  RandomKernel(uint64_t seed, graph::SymContext& context)
      : random_(seed), context_(context), writer_({}, false) {
    int outer = pick(4);
    std::vector<Sym> axes;
    for (int i = 0; i < outer; ++i) axes.push_back(extent(i + 1 == outer ? 100 : 4));
    writer_ = KernelWriter(axes, outer > 0 && pick(2));
    for (const Sym& axis : axes) extents_.push_back(axis);
    const int phases = 1 + pick(3);
    for (int i = 0; i < phases; ++i) add_phase(i + 1 == phases);
  }
  ScheduledKernel kernel() const { return writer_.kernel; }
  const std::vector<int64_t>& symbols() const { return symbols_; }

 private:
  struct Register {
    int id;
    DType dtype;
  };

  int pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }

  // Static or a symbol, at most `limit`.
  Sym extent(int limit) {
    static const int kSizes[] = {1, 2, 3, 4, 7, 16, 17, 31, 64, 65, 100};
    int n = kSizes[pick(std::size(kSizes))];
    while (n > limit) n = kSizes[pick(std::size(kSizes))];
    if (pick(2)) return n;
    symbols_.push_back(n);
    return context_.new_symbol("s" + std::to_string(symbols_.size() - 1), n, 0);
  }

  // Row-major over some of the axes in some order; the size of what it covers.
  Index index(std::vector<int> axes, Sym* size) {
    std::shuffle(axes.begin(), axes.end(), random_);
    if (pick(3)) std::sort(axes.begin(), axes.end());
    Sym stride = 1;
    std::vector<std::pair<int, Sym>> terms;
    for (size_t i = axes.size(); i-- > 0;) {
      terms.push_back({axes[i], stride});
      stride = stride * extents_[axes[i]];
    }
    *size = stride;
    return KernelWriter::index(terms);
  }
  std::vector<int> all_axes() const {
    std::vector<int> axes(extents_.size());
    std::iota(axes.begin(), axes.end(), 0);
    return axes;
  }
  std::vector<int> some_axes() {
    std::vector<int> axes;
    for (int axis : all_axes())
      if (pick(4)) axes.push_back(axis);
    return axes;
  }

  int mask() {
    if (extents_.empty() || pick(4)) return -1;
    int i = writer_.axis(pick(static_cast<int>(extents_.size())));
    return writer_.prim(pick(2) ? Prim::k_lt : Prim::k_ge, DType::kBool,
                        {i, writer_.constant(DType::kI64, pick(20))});
  }

  Register load() {
    static const DType kTypes[] = {DType::kF32,  DType::kF32, DType::kF64, DType::kI64, DType::kI32,
                                   DType::kBF16, DType::kF16, DType::kI8,  DType::kBool};
    DType dtype = kTypes[pick(std::size(kTypes))];
    Sym size;
    Index at = index(some_axes(), &size);
    int m = mask();
    return {writer_.load(writer_.buffer(dtype, size), at, m, dtype == DType::kBool ? 1 : 3), dtype};
  }

  Register operand() { return registers_[pick(static_cast<int>(registers_.size()))]; }

  int as(Register r, DType dtype) { return r.dtype == dtype ? r.id : writer_.cast(dtype, r.id); }

  void add_operation() {
    static const DType kTypes[] = {DType::kF32, DType::kF32, DType::kF64, DType::kI64, DType::kI32};
    static const Prim kPrims[] = {Prim::k_add, Prim::k_sub, Prim::k_min, Prim::k_max,
                                  Prim::k_neg, Prim::k_abs, Prim::k_lt,  Prim::k_eq};
    DType dtype = kTypes[pick(std::size(kTypes))];
    Prim prim = kPrims[pick(std::size(kPrims))];
    Register a = operand(), b = operand();
    if (pick(6) == 0) {
      int c = as(operand(), DType::kBool);
      registers_.push_back({writer_.select(dtype, c, as(a, dtype), as(b, dtype)), dtype});
      return;
    }
    bool unary = prim == Prim::k_neg || prim == Prim::k_abs,
         comparison = prim == Prim::k_lt || prim == Prim::k_eq;
    std::vector<int> operands = {as(a, dtype)};
    if (!unary) operands.push_back(as(b, dtype));
    DType result = comparison ? DType::kBool : dtype;
    registers_.push_back({writer_.prim(prim, result, operands), result});
  }

  void add_phase(bool last) {
    std::vector<Sym> inner;
    int count = pick(3);
    for (int i = 0; i < count; ++i) inner.push_back(extent(i + 1 == count ? 100 : 4));
    extents_.resize(writer_.kernel.outer.size());
    extents_.insert(extents_.end(), inner.begin(), inner.end());
    writer_.begin(inner, !inner.empty() && pick(5) == 0);
    registers_ = carried_;
    for (int i = 0, n = 1 + pick(3); i < n; ++i) registers_.push_back(load());
    if (!extents_.empty() && pick(2))
      registers_.push_back({writer_.axis(pick(static_cast<int>(extents_.size()))), DType::kI64});
    for (int i = 0, n = pick(6); i < n; ++i) add_operation();
    if (pick(2) || last) store();
    if (!inner.empty() && pick(3)) reduce();
    if (inner.empty()) carried_ = registers_;
  }

  void store() {
    static const DType kTypes[] = {DType::kF32, DType::kF64, DType::kI64, DType::kI16, DType::kBool};
    DType dtype = kTypes[pick(std::size(kTypes))];
    Sym size;
    Index at = index(all_axes(), &size);
    int value = as(operand(), dtype);
    int m = mask();
    writer_.store(writer_.buffer(dtype, size, true), at, value, m);
  }

  void reduce() {
    static const DType kTypes[] = {DType::kF32, DType::kF64, DType::kI64, DType::kI32};
    DType dtype = kTypes[pick(std::size(kTypes))];
    static const graph::ReductionDef* const kDefs[] = {&kSum, &kMax, &kArgmax};
    const graph::ReductionDef& def = *kDefs[pick(3)];
    int r = writer_.reduce(def, dtype, as(operand(), dtype));
    carried_.push_back({r, def.returns_index ? DType::kI64 : dtype});
  }

  std::mt19937_64 random_;
  graph::SymContext& context_;
  KernelWriter writer_;
  std::vector<Sym> extents_;
  std::vector<int64_t> symbols_;
  std::vector<Register> registers_, carried_;
};

void try_kernels(bool gpu) {
  const char* count = std::getenv("CDYNAMO_FUZZ_COUNT");
  for (int seed = 0; seed < (count ? std::atoi(count) : 120); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    graph::SymContext context;
    RandomKernel random(static_cast<uint64_t>(seed), context);
    CheckOptions options;
    options.whole_values = true;
    options.guard_front = seed % 2 != 0;
    options.symbols = random.symbols();
    options.gpu = gpu;
    check(random.kernel(), context, options);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(EmitFuzz, RandomKernels) { try_kernels(false); }
TEST(EmitFuzz, RandomKernelsOnAGpu) { try_kernels(true); }

}  // namespace
}  // namespace cdynamo::lowering
