#include "lowering/loops/loop_ir.h"

#include <algorithm>
#include <sstream>

namespace cdynamo::lowering {
namespace {

const char* const kPrimNames[] = {
#define CDYNAMO_PRIM(name, arity, doc) #name,
#include "graph/prims.def"
#undef CDYNAMO_PRIM
};

const char* short_name(DType dtype) { return runtime::info(dtype).short_name; }

std::string print_index(const Index& index) {
  std::ostringstream out;
  bool first = true;
  auto plus = [&] {
    if (!first) out << " + ";
    first = false;
  };
  for (const IndexTerm& term : index.terms) {
    plus();
    out << (term.axis >= 0 ? "i" : "r") << (term.axis >= 0 ? term.axis : term.reg);
    if (!(term.stride == Sym(1))) out << "*(" << term.stride.str() << ")";
  }
  if (first || !(index.offset == Sym())) {
    plus();
    out << index.offset.str();
  }
  return out.str();
}

void print_operands(std::ostream& out, const Stmt& stmt) {
  out << "(";
  for (size_t i = 0; i < stmt.operands.size(); ++i) out << (i ? ", r" : "r") << stmt.operands[i];
  out << ")";
}

void print_stmt(std::ostream& out, const Stmt& stmt) {
  if (stmt.dst >= 0) out << "r" << stmt.dst << ": " << short_name(stmt.dtype) << " = ";
  auto mask = [&] {
    if (stmt.mask >= 0) out << " where r" << stmt.mask;
  };
  switch (stmt.kind) {
    case StmtKind::kLoad:
      out << "load b" << stmt.buffer << "[" << print_index(stmt.index) << "]";
      mask();
      break;
    case StmtKind::kStore:
      out << "store b" << stmt.buffer << "[" << print_index(stmt.index) << (stmt.adds ? "] += r" : "] = r")
          << stmt.operands.at(0);
      mask();
      break;
    case StmtKind::kConstant:
      if (runtime::is_float(stmt.dtype))
        out << stmt.value;
      else
        out << stmt.int_value;
      break;
    case StmtKind::kAxis: out << "i" << stmt.axis; break;
    case StmtKind::kSize: out << stmt.size.str(); break;
    case StmtKind::kPrim:
      out << kPrimNames[static_cast<int>(stmt.prim)];
      print_operands(out, stmt);
      break;
    case StmtKind::kCast:
      out << "cast";
      print_operands(out, stmt);
      break;
    case StmtKind::kSelect:
      out << "select";
      print_operands(out, stmt);
      break;
    case StmtKind::kOp:
      out << stmt.node->op->name;
      print_operands(out, stmt);
      break;
    case StmtKind::kReduce:
      out << "reduce " << (stmt.node ? stmt.node->op->name : "?");
      print_operands(out, stmt);
      break;
    case StmtKind::kScan:
      out << "scan " << (stmt.node ? stmt.node->op->name : "?");
      print_operands(out, stmt);
      break;
    case StmtKind::kCheckIndex:
      out << "check_index";
      print_operands(out, stmt);
      out << " < " << stmt.size.str();
      break;
  }
}

std::string print_extents(const std::vector<Sym>& extents) {
  std::string text = "[";
  for (size_t i = 0; i < extents.size(); ++i) text += (i ? ", " : "") + extents[i].str();
  return text + "]";
}

class Verifier {
 public:
  explicit Verifier(const Kernel& kernel) : kernel_(kernel), state_(kernel.num_registers, kUndefined) {}

  std::vector<std::string> run() {
    for (phase_ = 0; phase_ < kernel_.phases.size(); ++phase_) check_phase(kernel_.phases[phase_]);
    return std::move(problems_);
  }

 private:
  enum State : uint8_t { kUndefined, kVisible, kThisPhase, kNextPhase };

  void fail(const std::string& what) {
    problems_.push_back(kernel_.name + ", phase " + std::to_string(phase_) + ": " + what);
  }

  void use(int reg, const char* what) {
    if (reg < 0 || reg >= kernel_.num_registers)
      return fail(std::string(what) + ": no register " + std::to_string(reg));
    if (state_[reg] != kVisible && state_[reg] != kThisPhase)
      fail(std::string(what) + ": r" + std::to_string(reg) + " is not visible here");
  }

  void check_index(const Index& index, size_t axes) {
    for (const IndexTerm& term : index.terms) {
      if ((term.axis >= 0) == (term.reg >= 0))
        fail("an index term names not exactly one of axis and register");
      if (term.axis >= static_cast<int>(axes))
        fail("an index names axis " + std::to_string(term.axis) + " of " + std::to_string(axes));
      if (term.reg >= 0) use(term.reg, "index");
    }
  }

  void check_phase(const Phase& phase) {
    const size_t axes = kernel_.outer.size() + phase.inner.size();
    for (const Stmt& stmt : phase.body) check_stmt(phase, stmt, axes);
    for (State& state : state_) {
      if (state == kThisPhase) state = phase.inner.empty() ? kVisible : kUndefined;
      if (state == kNextPhase) state = kVisible;
    }
  }

  void check_stmt(const Phase& phase, const Stmt& stmt, size_t axes) {
    for (int operand : stmt.operands) use(operand, "operand");
    if (stmt.mask >= 0) use(stmt.mask, "mask");
    const bool access = stmt.kind == StmtKind::kLoad || stmt.kind == StmtKind::kStore;
    if (access) {
      if (stmt.buffer < 0 || stmt.buffer >= static_cast<int>(kernel_.buffers.size()))
        return fail("no such buffer");
      check_index(stmt.index, axes);
      if (stmt.kind == StmtKind::kStore && !kernel_.buffers[stmt.buffer].written)
        fail("a store to a buffer that is not marked written");
    }
    if (stmt.kind == StmtKind::kStore) {
      if (stmt.dst >= 0) fail("a store defines a register");
      return;
    }
    if (stmt.kind == StmtKind::kAxis && (stmt.axis < 0 || stmt.axis >= static_cast<int>(axes)))
      fail("kAxis of no axis");
    if (stmt.kind == StmtKind::kOp && (!stmt.node || !stmt.node->op->scalar)) fail("kOp without scalar code");
    if ((stmt.kind == StmtKind::kReduce || stmt.kind == StmtKind::kScan) && !stmt.reduction)
      fail("a reduction without definition");
    if (stmt.kind == StmtKind::kScan && !phase.sequential) fail("kScan in a phase that is not sequential");
    if (stmt.dst < 0 || stmt.dst >= kernel_.num_registers) return fail("a statement without destination");
    if (state_[stmt.dst] != kUndefined) fail("r" + std::to_string(stmt.dst) + " is defined twice");
    state_[stmt.dst] = stmt.kind == StmtKind::kReduce ? kNextPhase : kThisPhase;
  }

  const Kernel& kernel_;
  std::vector<State> state_;
  std::vector<std::string> problems_;
  size_t phase_ = 0;
};

}  // namespace

void renumber_axes(Stmt& stmt, const std::vector<int>& number) {
  if (stmt.kind == StmtKind::kAxis) {
    if (number[stmt.axis] < 0)
      stmt = {.kind = StmtKind::kConstant, .dst = stmt.dst, .dtype = DType::kI64};
    else
      stmt.axis = number[stmt.axis];
  }
  std::vector<IndexTerm> terms;
  for (IndexTerm term : stmt.index.terms) {
    if (term.axis >= 0 && number[term.axis] < 0) continue;
    if (term.axis >= 0) term.axis = number[term.axis];
    terms.push_back(term);
  }
  stmt.index.terms = std::move(terms);
}

std::string print(const Kernel& kernel, const std::string& note) {
  std::ostringstream out;
  out << "kernel " << kernel.name << " outer " << print_extents(kernel.outer) << (note.empty() ? "" : " ")
      << note << "\n";
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    const KernelBuffer& buffer = kernel.buffers[i];
    out << "  b" << i << ": " << short_name(buffer.dtype) << "[" << buffer.size.str() << "]"
        << (buffer.kind == BufferKind::kRowScratch ? " row scratch"
                                                   : " plan buffer " + std::to_string(buffer.plan_buffer))
        << (buffer.written ? ", written" : "") << "\n";
  }
  for (const Phase& phase : kernel.phases) {
    out << "  phase " << print_extents(phase.inner) << (phase.sequential ? " sequential" : "") << "\n";
    for (const Stmt& stmt : phase.body) {
      out << "    ";
      print_stmt(out, stmt);
      out << "\n";
    }
  }
  return out.str();
}

std::vector<std::string> verify(const Kernel& kernel) { return Verifier(kernel).run(); }

}  // namespace cdynamo::lowering
