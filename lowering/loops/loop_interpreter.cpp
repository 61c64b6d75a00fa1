#include "lowering/loops/loop_interpreter.h"

#include <cstring>
#include <map>
#include <utility>

#include "graph/reference.h"
#include "lowering/loops/core_kind.h"
#include "runtime/gemm/half.h"

namespace cdynamo::lowering {
namespace {

using graph::ReferenceBuilder;
using graph::Scalar;

Scalar read_element(const void* base, int64_t index, DType dtype, ReferenceBuilder& builder) {
  const char* at = static_cast<const char*>(base) + index * runtime::bytes(dtype);
  auto as = [&]<typename T>(T) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::kBool: return builder.constant_int(as(uint8_t{}) != 0, dtype);
    case DType::kU8: return builder.constant_int(as(uint8_t{}), dtype);
    case DType::kI8: return builder.constant_int(as(int8_t{}), dtype);
    case DType::kU16: return builder.constant_int(as(uint16_t{}), dtype);
    case DType::kI16: return builder.constant_int(as(int16_t{}), dtype);
    case DType::kU32: return builder.constant_int(as(uint32_t{}), dtype);
    case DType::kI32: return builder.constant_int(as(int32_t{}), dtype);
    case DType::kU64:
    case DType::kI64: return builder.constant_int(as(int64_t{}), dtype);
    case DType::kF16: return builder.constant(as(runtime::Float16{}), DType::kF32);
    case DType::kBF16: return builder.constant(as(runtime::BFloat16{}), DType::kF32);
    case DType::kF32: return builder.constant(as(float{}), dtype);
    case DType::kF64: return builder.constant(as(double{}), dtype);
  }
  return {};
}

void write_element(void* base, int64_t index, DType dtype, Scalar value) {
  char* at = static_cast<char*>(base) + index * runtime::bytes(dtype);
  auto put = [&](auto typed) { std::memcpy(at, &typed, sizeof typed); };
  if (!runtime::is_float(dtype)) {
    const int64_t integer = ReferenceBuilder::integer(value);
    std::memcpy(at, &integer, runtime::bytes(dtype));  // little-endian: the low bytes
    return;
  }
  const double real = ReferenceBuilder::real(value);
  if (dtype == DType::kF64)
    put(real);
  else if (dtype == DType::kF32)
    put(static_cast<float>(real));
  else if (dtype == DType::kF16)
    put(runtime::Float16::from(static_cast<float>(real)));
  else
    put(runtime::BFloat16::from(static_cast<float>(real)));
}

class ItemInterpreter {
 public:
  ItemInterpreter(const Kernel& kernel, const graph::SymContext& context, void* const* buffers,
                  const int64_t* symbols, int64_t* error)
      : kernel_(kernel),
        context_(context),
        symbols_(symbols),
        error_(error),
        registers_(kernel.num_registers) {
    size_t next = 0;
    for (const KernelBuffer& buffer : kernel.buffers) {
      if (buffer.kind == BufferKind::kGlobal) {
        pointers_.push_back(buffers[next++]);
      } else {
        scratch_.push_back(std::vector<char>(value(buffer.size) * runtime::bytes(buffer.dtype)));
        pointers_.push_back(scratch_.back().data());
      }
    }
  }

  void run(int64_t item) {
    axes_.assign(kernel_.outer.size(), 0);
    for (size_t axis = kernel_.outer.size(); axis-- > 0;) {
      const int64_t extent = value(kernel_.outer[axis]);
      axes_[axis] = item % extent;
      item /= extent;
    }
    for (const Phase& phase : kernel_.phases) run_phase(phase);
  }

 private:
  int64_t value(const Sym& size) const {
    return size.is_constant() ? size.constant() : context_.evaluate(size, symbols_);
  }

  void run_phase(const Phase& phase) {
    accumulators_.clear();
    std::vector<int64_t> extents;
    int64_t total = 1;
    for (const Sym& extent : phase.inner) {
      extents.push_back(value(extent));
      total *= extents.back();
    }
    for (const Stmt& stmt : phase.body)
      if (stmt.kind == StmtKind::kReduce) start_reduction(stmt);
    axes_.resize(kernel_.outer.size());
    axes_.resize(kernel_.outer.size() + extents.size(), 0);
    for (position_ = 0; position_ < total; ++position_) {
      int64_t rest = position_;
      for (size_t d = extents.size(); d-- > 0;) {
        axes_[kernel_.outer.size() + d] = rest % extents[d];
        rest /= extents[d];
      }
      run_starts_ = extents.empty() || axes_.back() == 0;
      for (const Stmt& stmt : phase.body) run_stmt(stmt);
    }
    for (const Stmt& stmt : phase.body)
      if (stmt.kind == StmtKind::kReduce) registers_[stmt.dst] = joined(stmt);
  }

  struct Accumulator {
    Scalar value, best;
  };

  // Floats are accumulated in float64.
  static DType wide(DType dtype) { return runtime::is_float(dtype) ? DType::kF64 : dtype; }

  Scalar joined(const Stmt& stmt) {
    const Scalar value = accumulators_[stmt.dst].value;
    return stmt.reduction->returns_index ? value : as(value, stmt.dtype);
  }

  void start_reduction(const Stmt& stmt) {
    accumulators_[stmt.dst].value = stmt.reduction->returns_index
                                        ? builder_.constant_int(0, DType::kI64)
                                        : stmt.reduction->identity(builder_, wide(stmt.dtype));
    accumulators_[stmt.dst].best = {};
  }

  void reduce(const Stmt& stmt) {
    Accumulator& accumulator = accumulators_[stmt.dst];
    const Scalar operand = registers_[stmt.operands[0]];
    if (!stmt.reduction->returns_index) {
      accumulator.value =
          stmt.reduction->combine(builder_, accumulator.value, builder_.cast(operand, wide(operand.dtype)));
      return;
    }
    auto is_nan = [](Scalar x) {
      return runtime::is_float(x.dtype) && ReferenceBuilder::real(x) != ReferenceBuilder::real(x);
    };
    const bool first = position_ == 0;
    bool better = first;
    if (!first && !is_nan(accumulator.best)) {
      const Scalar combined = stmt.reduction->combine(builder_, accumulator.best, operand);
      better =
          is_nan(combined) || ReferenceBuilder::real(combined) != ReferenceBuilder::real(accumulator.best);
      if (!runtime::is_float(operand.dtype))
        better = ReferenceBuilder::integer(combined) != ReferenceBuilder::integer(accumulator.best);
    }
    if (!better) return;
    accumulator.best = operand;
    accumulator.value = builder_.constant_int(position_, DType::kI64);
  }

  Scalar scan(const Stmt& stmt, Scalar operand) {
    Scalar& running = accumulators_[stmt.dst].value;
    const Scalar value = stmt.stepwise ? operand : builder_.cast(operand, wide(operand.dtype));
    running = run_starts_ ? value : stmt.reduction->combine(builder_, running, value);
    if (stmt.stepwise) running = as(running, stmt.dtype);
    return builder_.cast(running, operand.dtype);
  }

  int64_t address(const Index& index) const {
    int64_t at = value(index.offset);
    for (const IndexTerm& term : index.terms)
      at += (term.axis >= 0 ? axes_[term.axis] : ReferenceBuilder::integer(registers_[term.reg])) *
            value(term.stride);
    return at;
  }

  bool masked_off(const Stmt& stmt) const {
    return stmt.mask >= 0 && ReferenceBuilder::integer(registers_[stmt.mask]) == 0;
  }

  Scalar number(double value, int64_t int_value, DType dtype) {
    const DType compute = runtime::compute_type(dtype);
    return runtime::is_float(dtype) ? builder_.constant(graph::round_to(value, dtype), compute)
                                    : builder_.constant_int(int_value, dtype);
  }

  // Half types live as rounded float32.
  Scalar as(Scalar value, DType dtype) {
    if (!runtime::is_half(dtype)) return builder_.cast(value, dtype);
    return builder_.constant(
        graph::round_to(ReferenceBuilder::real(builder_.cast(value, DType::kF32)), dtype), DType::kF32);
  }

  Scalar check_index(const Stmt& stmt) {
    const int64_t index = ReferenceBuilder::integer(registers_[stmt.operands[0]]), size = value(stmt.size);
    if (index >= -size && index < size)
      return builder_.constant_int(index < 0 ? index + size : index, DType::kI64);
    error_[0] = stmt.int_value;
    error_[1] = index;
    error_[2] = size;
    return builder_.constant_int(0, DType::kI64);
  }

  void run_stmt(const Stmt& stmt) {
    std::vector<Scalar> operands;
    for (int reg : stmt.operands) operands.push_back(registers_[reg]);
    Scalar result;
    switch (stmt.kind) {
      case StmtKind::kLoad:
        result = masked_off(stmt)
                     ? number(stmt.value, static_cast<int64_t>(stmt.value), stmt.dtype)
                     : read_element(pointers_[stmt.buffer], address(stmt.index), stmt.dtype, builder_);
        break;
      case StmtKind::kStore:
        if (masked_off(stmt)) return;
        if (stmt.adds) {
          const Scalar before =
              read_element(pointers_[stmt.buffer], address(stmt.index), stmt.dtype, builder_);
          operands[0] = builder_.add(before, operands[0]);
        }
        write_element(pointers_[stmt.buffer], address(stmt.index), stmt.dtype, operands[0]);
        return;
      case StmtKind::kConstant: result = number(stmt.value, stmt.int_value, stmt.dtype); break;
      case StmtKind::kAxis: result = builder_.constant_int(axes_[stmt.axis], DType::kI64); break;
      case StmtKind::kSize: result = builder_.constant_int(value(stmt.size), DType::kI64); break;
      case StmtKind::kPrim:
        result = builder_.prim(stmt.prim, operands.data(), static_cast<int>(operands.size()));
        break;
      case StmtKind::kCast: result = as(operands[0], stmt.dtype); break;
      case StmtKind::kSelect:
        result = ReferenceBuilder::integer(operands[0]) ? operands[1] : operands[2];
        break;
      case StmtKind::kOp:
        result = as(stmt.node->op->scalar(builder_, operands.data(), args_of(*stmt.node)), stmt.dtype);
        break;
      case StmtKind::kReduce: return reduce(stmt);
      case StmtKind::kScan: result = scan(stmt, operands[0]); break;
      case StmtKind::kCheckIndex: result = check_index(stmt); break;
    }
    registers_[stmt.dst] = result;
  }

  const Kernel& kernel_;
  const graph::SymContext& context_;
  const int64_t* symbols_;
  int64_t* error_;
  ReferenceBuilder builder_;
  std::vector<Scalar> registers_;
  std::vector<void*> pointers_;
  std::vector<std::vector<char>> scratch_;
  std::vector<int64_t> axes_;
  std::map<int, Accumulator> accumulators_;
  int64_t position_ = 0;
  bool run_starts_ = false;
};

}  // namespace

void interpret_item(const Kernel& kernel, const graph::SymContext& context, void* const* buffers,
                    const int64_t* symbols, int64_t item, int64_t* error) {
  ItemInterpreter(kernel, context, buffers, symbols, error).run(item);
}

}  // namespace cdynamo::lowering
