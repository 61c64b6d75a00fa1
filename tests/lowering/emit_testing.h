// What the emission tests share: kernels written by hand, buffers that end at an unmapped page, and the loop
// interpreter as oracle.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "lowering/cpu/emit.h"
#include "lowering/loops/loop_interpreter.h"
#include "runtime/executable.h"
#include "runtime/host/kernel.h"
#include "tests/lowering/emulated_gpu.h"

namespace cdynamo::lowering::testing {

using graph::Prim;
using graph::Scalar;
using graph::ScalarBuilder;

// The core's reductions, stated here so that these tests need no operator table.
inline Scalar number(ScalarBuilder& b, DType t, double v) {
  return runtime::is_float(t) ? b.constant(v, t) : b.constant_int(static_cast<int64_t>(v), t);
}
inline double least(DType t) {
  if (runtime::is_float(t)) return -std::numeric_limits<double>::infinity();
  return runtime::info(t).is_signed ? -std::ldexp(1.0, 8 * runtime::bytes(t) - 1) : 0;
}
inline const graph::ReductionDef kSum{[](ScalarBuilder& b, DType t) { return number(b, t, 0); },
                                      [](ScalarBuilder& b, Scalar x, Scalar y) { return b.add(x, y); }};
inline const graph::ReductionDef kMax{[](ScalarBuilder& b, DType t) { return number(b, t, least(t)); },
                                      [](ScalarBuilder& b, Scalar x, Scalar y) { return b.max(x, y); }};
inline const graph::ReductionDef kAll{[](ScalarBuilder& b, DType t) { return b.constant_int(1, t); },
                                      [](ScalarBuilder& b, Scalar x, Scalar y) { return b.bit_and(x, y); }};
inline const graph::ReductionDef kArgmax{kMax.identity, kMax.combine, true};

// Memory whose last byte is followed by (or whose first byte follows) a page that may not be touched.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(size_t bytes, bool guard_front = false) : bytes_(bytes) {
    page_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    pages_ = (bytes + page_ - 1) / page_ + 2;
    base_ = static_cast<char*>(mmap(nullptr, pages_ * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + page_, (pages_ - 2) * page_, PROT_READ | PROT_WRITE);
    data_ = guard_front ? base_ + page_ : base_ + (pages_ - 1) * page_ - bytes;
  }
  GuardedBuffer(const GuardedBuffer&) = delete;
  ~GuardedBuffer() { munmap(base_, pages_ * page_); }
  void* data() { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_, page_, pages_;
  char *base_, *data_;
};

// Writes kernels statement by statement.
struct KernelWriter {
  ScheduledKernel kernel;
  int phase = -1;

  explicit KernelWriter(std::vector<Sym> outer, bool lanes_outer) {
    kernel.name = "test";
    kernel.outer = std::move(outer);
    kernel.lanes_outer = lanes_outer;
  }
  void begin(std::vector<Sym> inner = {}, bool sequential = false) {
    kernel.phases.push_back({std::move(inner), {}, sequential});
    phase = static_cast<int>(kernel.phases.size()) - 1;
  }
  int buffer(DType dtype, Sym size, bool written = false, BufferKind kind = BufferKind::kGlobal) {
    kernel.buffers.push_back({kind, dtype, static_cast<int>(kernel.buffers.size()), size, written});
    return static_cast<int>(kernel.buffers.size()) - 1;
  }
  int add(Stmt stmt, bool defines = true) {
    if (defines) stmt.dst = kernel.num_registers++;
    kernel.phases[phase].body.push_back(std::move(stmt));
    return kernel.phases[phase].body.back().dst;
  }
  static Index index(std::vector<std::pair<int, Sym>> axes, Sym offset = 0) {
    Index out;
    for (auto& [axis, stride] : axes) out.terms.push_back({axis, -1, stride});
    out.offset = offset;
    return out;
  }
  int load(int from, Index at, int mask = -1, double other = 0) {
    return add({.kind = StmtKind::kLoad,
                .dtype = kernel.buffers[from].dtype,
                .mask = mask,
                .buffer = from,
                .index = std::move(at),
                .value = other});
  }
  void store(int to, Index at, int value, int mask = -1) {
    kernel.buffers[to].written = true;
    add({.kind = StmtKind::kStore,
         .dtype = kernel.buffers[to].dtype,
         .operands = {value},
         .mask = mask,
         .buffer = to,
         .index = std::move(at)},
        false);
  }
  int prim(Prim p, DType dtype, std::vector<int> operands) {
    return add({.kind = StmtKind::kPrim, .dtype = dtype, .operands = std::move(operands), .prim = p});
  }
  int constant(DType dtype, double value) {
    return add({.kind = StmtKind::kConstant,
                .dtype = dtype,
                .value = value,
                .int_value = static_cast<int64_t>(value)});
  }
  int cast(DType dtype, int x) { return add({.kind = StmtKind::kCast, .dtype = dtype, .operands = {x}}); }
  int select(DType dtype, int c, int y, int n) {
    return add({.kind = StmtKind::kSelect, .dtype = dtype, .operands = {c, y, n}});
  }
  int axis(int a) { return add({.kind = StmtKind::kAxis, .dtype = DType::kI64, .axis = a}); }
  int size(Sym s) { return add({.kind = StmtKind::kSize, .dtype = DType::kI64, .size = s}); }
  int check(int x, Sym s) {
    return add({.kind = StmtKind::kCheckIndex,
                .dtype = DType::kI64,
                .operands = {x},
                .int_value = runtime::RunError::kIndexError,
                .size = s});
  }
  int reduce(const graph::ReductionDef& def, DType dtype, int x) {
    return add({.kind = StmtKind::kReduce,
                .dtype = def.returns_index ? DType::kI64 : dtype,
                .operands = {x},
                .reduction = &def});
  }
  int scan(const graph::ReductionDef& def, DType dtype, int x) {
    return add({.kind = StmtKind::kScan, .dtype = dtype, .operands = {x}, .reduction = &def});
  }
};

// Random contents: numbers of moderate size with some special ones among floats, small ones where `small`,
// small whole ones (sums of which are exact in any order) where `whole`.
inline void fill(void* data, DType dtype, size_t count, std::mt19937_64& random, bool small = false,
                 bool whole = false) {
  static const double kSpecial[] = {0.0, -0.0, 1, -1, 0.5, INFINITY, -INFINITY, NAN, 65504, 1e-7, 3e-45};
  for (size_t i = 0; i < count; ++i) {
    double real = std::uniform_real_distribution<double>(-4, 4)(random);
    if (!small && !whole && random() % 16 == 0) real = kSpecial[random() % std::size(kSpecial)];
    if (whole) real = std::round(real);
    uint64_t bits = random();
    if (small || whole) bits = static_cast<uint64_t>(static_cast<int64_t>(bits % 9) - 4);
    auto put = [&](auto value) {
      std::memcpy(static_cast<char*>(data) + i * sizeof value, &value, sizeof value);
    };
    switch (dtype) {
      case DType::kBool: put(static_cast<uint8_t>(bits & 1)); break;
      case DType::kU8:
      case DType::kI8: put(static_cast<uint8_t>(bits)); break;
      case DType::kU16:
      case DType::kI16: put(static_cast<uint16_t>(bits)); break;
      case DType::kU32:
      case DType::kI32: put(static_cast<uint32_t>(bits)); break;
      case DType::kU64:
      case DType::kI64: put(bits); break;
      case DType::kF16: put(static_cast<_Float16>(real)); break;
      case DType::kBF16: {
        float f = static_cast<float>(real);
        uint32_t u;
        std::memcpy(&u, &f, 4);
        put(static_cast<uint16_t>(std::isnan(f) ? 0x7fc0 : u >> 16));
        break;
      }
      case DType::kF32: put(static_cast<float>(real)); break;
      case DType::kF64: put(real); break;
    }
  }
}

inline double element(const void* data, DType dtype, size_t i) {
  auto get = [&](auto value) {
    std::memcpy(&value, static_cast<const char*>(data) + i * sizeof value, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::kBool:
    case DType::kU8: return get(uint8_t{});
    case DType::kI8: return get(int8_t{});
    case DType::kU16: return get(uint16_t{});
    case DType::kI16: return get(int16_t{});
    case DType::kU32: return get(uint32_t{});
    case DType::kI32: return get(int32_t{});
    case DType::kU64: return static_cast<double>(get(uint64_t{}));
    case DType::kI64: return static_cast<double>(get(int64_t{}));
    case DType::kF16: return static_cast<double>(get(_Float16{}));
    case DType::kBF16: {
      uint32_t u = static_cast<uint32_t>(get(uint16_t{})) << 16;
      float f;
      std::memcpy(&f, &u, 4);
      return f;
    }
    case DType::kF32: return get(float{});
    case DType::kF64: return get(double{});
  }
  return 0;
}

struct CheckOptions {
  double tolerance = 0;  // relative, for floats; 0: the same bits, any NaN for any NaN
  bool small_values = false;
  bool whole_values = false;
  bool guard_front = false;
  std::vector<int64_t> symbols = {};
  bool gpu = false;  // emulated
  int parts = 3;     // the work items are run in this many calls
  // Contents of buffers, by number; others are random.
  std::vector<std::pair<int, std::vector<int64_t>>> contents = {};
};

// Runs a kernel compiled and interpreted on the same data and compares every buffer.
inline void check(const ScheduledKernel& kernel, const graph::SymContext& context,
                  const CheckOptions& options = {}, int64_t* error_out = nullptr) {
  for (const std::string& broken : verify(kernel)) FAIL() << broken << "\n" << print(kernel);
  std::vector<ScheduledKernel> kernels = {kernel};
  std::unique_ptr<CompiledModule> module;
  if (options.gpu)
    module = std::make_unique<EmulatedModule>(kernels, context, kSmallGpu);
  else
    module = emit_cpu(kernels, context, {.use_disk_cache = false});
  const CompiledKernel& compiled = module->kernels.at(0);
  const int64_t* symbols = options.symbols.data();
  auto value = [&](const Sym& sym) { return context.evaluate(sym, symbols); };

  std::mt19937_64 random(7);
  std::vector<std::unique_ptr<GuardedBuffer>> got, want;
  std::vector<void*> got_pointers, want_pointers;
  for (size_t b = 0; b < kernel.buffers.size(); ++b) {
    const KernelBuffer& buffer = kernel.buffers[b];
    if (buffer.kind != BufferKind::kGlobal) continue;
    size_t count = static_cast<size_t>(value(buffer.size));
    size_t bytes = count * runtime::bytes(buffer.dtype);
    got.push_back(std::make_unique<GuardedBuffer>(bytes, options.guard_front));
    want.push_back(std::make_unique<GuardedBuffer>(bytes));
    fill(got.back()->data(), buffer.dtype, count, random, options.small_values, options.whole_values);
    for (const auto& [number, contents] : options.contents)
      if (number == static_cast<int>(b)) std::memcpy(got.back()->data(), contents.data(), bytes);
    std::memcpy(want.back()->data(), got.back()->data(), bytes);
    got_pointers.push_back(got.back()->data());
    want_pointers.push_back(want.back()->data());
  }

  int64_t points = 1, items = 1;
  for (const Sym& extent : kernel.outer) points *= value(extent);
  for (const Sym& extent : compiled.grid) items *= value(extent);
  int64_t want_error[3] = {}, got_error[3] = {};
  for (int64_t point = 0; point < points; ++point)
    interpret_item(kernel, context, want_pointers.data(), symbols, point, want_error);
  GuardedBuffer scratch((static_cast<size_t>(value(compiled.scratch_bytes)) + 63) / 64 * 64);
  for (int part = 0; part < options.parts; ++part)
    runtime::host_kernel(compiled.code)(got_pointers.data(), symbols, items * part / options.parts,
                                        items * (part + 1) / options.parts, scratch.data(), got_error);
  if (error_out) {
    std::memcpy(error_out, got_error, sizeof got_error);
    EXPECT_EQ(got_error[0], want_error[0]);
    return;
  }
  ASSERT_EQ(got_error[0], 0);
  size_t next = 0;
  for (const KernelBuffer& buffer : kernel.buffers) {
    if (buffer.kind != BufferKind::kGlobal) continue;
    const void *g = got[next]->data(), *w = want[next]->data();
    size_t count = got[next]->bytes() / runtime::bytes(buffer.dtype);
    ++next;
    const int width = runtime::bytes(buffer.dtype);
    for (size_t i = 0; i < count; ++i) {
      if (std::memcmp(static_cast<const char*>(g) + i * width, static_cast<const char*>(w) + i * width,
                      width) == 0)
        continue;
      double a = element(g, buffer.dtype, i), b = element(w, buffer.dtype, i);
      bool close = runtime::is_float(buffer.dtype) &&
                   ((std::isnan(a) && std::isnan(b)) ||
                    (options.tolerance > 0 &&
                     (a == b || std::fabs(a - b) <= options.tolerance * std::max(1e-30, std::fabs(b)))));
      ASSERT_TRUE(close) << "buffer " << next - 1 << " element " << i << " of " << count << ": " << a
                         << ", should be " << b << "\n"
                         << print(kernel);
    }
  }
}

}  // namespace cdynamo::lowering::testing
