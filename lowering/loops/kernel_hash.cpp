#include "lowering/loops/kernel_hash.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

namespace cdynamo::lowering {
namespace {

using graph::Prim;
using graph::Scalar;

// Cycles on a 64-byte vector of float32, as measured on a core that starts two a cycle; what is not here
// costs half of one.
double prim_cost(Prim prim) {
  switch (prim) {
    case Prim::k_div:
    case Prim::k_sqrt: return 4;
    case Prim::k_rem: return 16;
    case Prim::k_exp:
    case Prim::k_exp2:
    case Prim::k_sin:
    case Prim::k_cos: return 5;
    case Prim::k_expm1:
    case Prim::k_log: return 7;
    case Prim::k_log2:
    case Prim::k_log10:
    case Prim::k_tanh:
    case Prim::k_log1p: return 10;
    case Prim::k_erf: return 12;
    case Prim::k_tan:
    case Prim::k_asin:
    case Prim::k_acos:
    case Prim::k_atan:
    case Prim::k_sinh:
    case Prim::k_cosh:
    case Prim::k_hypot: return 16;
    case Prim::k_atan2: return 25;
    case Prim::k_asinh:
    case Prim::k_acosh:
    case Prim::k_atanh:
    case Prim::k_erfc:
    case Prim::k_pow:
    case Prim::k_lgamma:
    case Prim::k_digamma: return 90;
    default: return 0.5;
  }
}

// Writes down what scalar code does; handles are line numbers.
class Recorder final : public graph::ScalarBuilder {
 public:
  Scalar leaf(const char* what, size_t number, DType dtype) {
    text += what + std::to_string(number);
    return next(dtype);
  }
  Scalar constant(double value, DType dtype) override {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    text += "f" + std::to_string(bits);
    return next(dtype);
  }
  Scalar constant_int(int64_t value, DType dtype) override {
    text += "i" + std::to_string(value);
    return next(dtype);
  }
  Scalar prim(Prim prim, const Scalar* operands, int count) override {
    text += "p" + std::to_string(static_cast<int>(prim));
    for (int i = 0; i < count; ++i) use(operands[i]);
    cost += prim_cost(prim);
    bool comparison = prim >= Prim::k_eq && prim <= Prim::k_ge;
    return next(comparison ? DType::kBool : operands[0].dtype);
  }
  Scalar cast(Scalar value, DType dtype) override {
    text += "c";
    use(value);
    cost += 0.5;
    text += "'" + std::to_string(static_cast<int>(dtype));
    return next(runtime::compute_type(dtype));
  }
  Scalar select(Scalar condition, Scalar yes, Scalar no) override {
    text += "s";
    use(condition), use(yes), use(no);
    cost += 0.5;
    return next(yes.dtype);
  }
  Scalar bitcast(Scalar value, DType dtype) override {
    text += "b";
    use(value);
    return next(dtype);
  }
  void use(Scalar scalar) { text += "," + std::to_string(reinterpret_cast<uintptr_t>(scalar.handle)); }

  std::string text;
  double cost = 0;

 private:
  Scalar next(DType dtype) {
    text += ":" + std::to_string(static_cast<int>(dtype)) + ";";
    return {reinterpret_cast<void*>(++count_), dtype};
  }
  uintptr_t count_ = 0;
};

void record_scalar_code(const Stmt& stmt, const std::vector<DType>& dtypes, Recorder& recorder) {
  if (stmt.kind == StmtKind::kOp) {
    std::vector<Scalar> operands;
    for (size_t i = 0; i < stmt.operands.size(); ++i)
      operands.push_back(recorder.leaf("x", i, dtypes.at(stmt.operands[i])));
    graph::Args args(stmt.node->op->parsed.at(stmt.node->overload), stmt.node->args);
    recorder.use(stmt.node->op->scalar(recorder, operands.data(), args));
  } else if (stmt.reduction) {
    DType dtype = dtypes.at(stmt.operands.at(0));
    recorder.text += stmt.reduction->returns_index ? "index " : "value ";
    recorder.use(stmt.reduction->identity(recorder, dtype));
    Scalar accumulator = recorder.leaf("a", 0, dtype), value = recorder.leaf("v", 0, dtype);
    recorder.use(stmt.reduction->combine(recorder, accumulator, value));
  }
}

std::vector<DType> register_dtypes(const Kernel& kernel) {
  std::vector<DType> dtypes(kernel.num_registers, DType::kF32);
  for (const Phase& phase : kernel.phases)
    for (const Stmt& stmt : phase.body)
      if (stmt.dst >= 0) dtypes.at(stmt.dst) = runtime::compute_type(stmt.dtype);
  return dtypes;
}

// A size by the numbers of its symbols: their names are the program's and say nothing here.
void write_size(std::string& out, const Sym& sym) {
  if (sym.is_constant()) {
    out += std::to_string(sym.constant());
    return;
  }
  const graph::SymNode& node = *sym.node();
  out += "(" + std::to_string(static_cast<int>(node.kind));
  if (node.kind == graph::SymKind::kSymbol) out += "#" + std::to_string(node.symbol);
  for (const Sym& operand : node.operands) {
    out += " ";
    write_size(out, operand);
  }
  out += ")";
}

void write_stmt(std::string& out, const Stmt& stmt, const std::vector<DType>& dtypes) {
  auto number = [&](const char* what, int64_t value) { out += what + std::to_string(value); };
  number("k", static_cast<int>(stmt.kind)), number("d", stmt.dst), number("t", static_cast<int>(stmt.dtype));
  for (int reg : stmt.operands) number("r", reg);
  number("m", stmt.mask), number("b", stmt.buffer), number("+", stmt.adds), number("^", stmt.stepwise);
  uint64_t bits;
  std::memcpy(&bits, &stmt.value, sizeof bits);
  number("v", static_cast<int64_t>(bits)), number("i", stmt.int_value), number("a", stmt.axis);
  number("p", static_cast<int>(stmt.prim));
  out += "s";
  write_size(out, stmt.size);
  out += "o";
  write_size(out, stmt.index.offset);
  for (const IndexTerm& term : stmt.index.terms) {
    number("[", term.axis), number(",", term.reg);
    out += "*";
    write_size(out, term.stride);
    out += "]";
  }
  Recorder recorder;
  record_scalar_code(stmt, dtypes, recorder);
  out += "{" + recorder.text + "}\n";
}

std::vector<bool> symbols_of(const Kernel& kernel, size_t count) {
  std::vector<bool> used(count);
  const auto mark = [&](const std::vector<Sym>& sizes) {
    for (const Sym& size : sizes) graph::mark_symbols(size, used);
  };
  mark(kernel.outer);
  for (const KernelBuffer& buffer : kernel.buffers) mark({buffer.size});
  for (const Phase& phase : kernel.phases) {
    mark(phase.inner);
    for (const Stmt& stmt : phase.body) {
      mark({stmt.size, stmt.index.offset});
      for (const IndexTerm& term : stmt.index.terms) mark({term.stride});
    }
  }
  return used;
}

}  // namespace

SizeFacts::SizeFacts(const graph::SymContext& context) : context_(context) {
  for (const graph::SymGuard& guard : context.guards()) {
    std::vector<bool>& symbols = mentioned_.emplace_back(context.symbols().size());
    graph::mark_symbols(guard.left, symbols);
    graph::mark_symbols(guard.right, symbols);
  }
}

std::string SizeFacts::about(const Kernel& kernel) const {
  const std::vector<graph::SymbolInfo>& symbols = context_.symbols();
  std::vector<bool> used = symbols_of(kernel, symbols.size());
  if (std::ranges::none_of(used, std::identity())) return {};
  std::string out;
  std::vector<bool> told(mentioned_.size());
  // A guard may tie a symbol of the kernel's to one of which another guard says something.
  for (bool grows = true; grows;) {
    grows = false;
    for (size_t i = 0; i < told.size(); ++i) {
      bool matters = false;
      for (size_t s = 0; s < used.size(); ++s) matters |= mentioned_[i][s] && used[s];
      if (told[i] || !matters) continue;
      told[i] = grows = true;
      for (size_t s = 0; s < used.size(); ++s) used[s] = used[s] || mentioned_[i][s];
      const graph::SymGuard& guard = context_.guards()[i];
      out += "fact " + std::to_string(static_cast<int>(guard.relation)) + " ";
      write_size(out, guard.left);
      out += " ";
      write_size(out, guard.right);
      out += "\n";
    }
  }
  for (size_t s = 0; s < used.size(); ++s)
    if (used[s])
      out += "symbol " + std::to_string(s) + " " + std::to_string(symbols[s].min) + " " +
             std::to_string(symbols[s].max) + "\n";
  return out;
}

std::string serialize(const Kernel& kernel) {
  std::string out = "kernel";
  std::vector<DType> dtypes = register_dtypes(kernel);
  auto sizes = [&](const std::vector<Sym>& list) {
    for (const Sym& sym : list) {
      out += " ";
      write_size(out, sym);
    }
    out += "\n";
  };
  sizes(kernel.outer);
  for (const KernelBuffer& buffer : kernel.buffers) {
    out += "buffer " + std::to_string(static_cast<int>(buffer.kind)) + " " +
           std::to_string(static_cast<int>(buffer.dtype));
    sizes(buffer.kind == BufferKind::kRowScratch ? std::vector<Sym>{buffer.size} : std::vector<Sym>{});
  }
  for (const Phase& phase : kernel.phases) {
    out += phase.sequential ? "sequential" : "phase";
    sizes(phase.inner);
    for (const Stmt& stmt : phase.body) write_stmt(out, stmt, dtypes);
  }
  return out;
}

double statement_cost(const Stmt& stmt, const Kernel& kernel) {
  switch (stmt.kind) {
    case StmtKind::kPrim: return prim_cost(stmt.prim);
    case StmtKind::kConstant:
    case StmtKind::kSize: return 0;
    case StmtKind::kOp:
    case StmtKind::kScan:
    case StmtKind::kReduce: {
      Recorder recorder;
      record_scalar_code(stmt, register_dtypes(kernel), recorder);
      return std::max(0.5, recorder.cost);
    }
    default: return 1;
  }
}

}  // namespace cdynamo::lowering
