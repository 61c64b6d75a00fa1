#include "symbolic/bytecode/bytecode.h"

#include <algorithm>

namespace cdynamo::symbolic {
namespace {

struct OpRow {
  const char* name;
  ArgKind kind;
  int (*effect)(int arg);
  int (*jump_effect)(int arg);
};

constexpr OpRow kRows[] = {
#define CDYNAMO_OP(name, kind, effect, jump_effect)                         \
  {#name, ArgKind::kind, []([[maybe_unused]] int arg) { return (effect); }, \
   []([[maybe_unused]] int arg) { return (jump_effect); }},
#include "symbolic/bytecode/opcodes.def"
#undef CDYNAMO_OP
};
static_assert(std::size(kRows) == kNumOps);

const OpRow& row(Op op) { return kRows[static_cast<int>(op)]; }

}  // namespace

const char* op_name(Op op) { return row(op).name; }
ArgKind op_arg_kind(Op op) { return row(op).kind; }

int op_stack_effect(Op op, int arg, bool jump) {
  // An unconditional jump has one effect.
  return jump && op != Op::JUMP ? row(op).jump_effect(arg) : row(op).effect(arg);
}

bool falls_through(Op op) {
  return op != Op::JUMP && op != Op::RETURN_VALUE && op != Op::RAISE_VARARGS && op != Op::RERAISE;
}

Instruction make(Op op, int arg) {
  Instruction instruction{op};
  instruction.arg = arg;
  return instruction;
}

Instruction load_const(PyRef object) {
  Instruction instruction{Op::LOAD_CONST};
  instruction.value = std::move(object);
  return instruction;
}

Instruction with_name(Op op, const char* name) {
  Instruction instruction{op};
  instruction.value = checked(PyUnicode_InternFromString(name));
  return instruction;
}

Instruction call_kw(int num_args, PyRef names) {
  Instruction instruction{Op::CALL_KW};
  instruction.arg = num_args;
  instruction.value = std::move(names);
  return instruction;
}

void append_push_null(std::vector<Instruction>& code) {
  code.push_back(make(Op::PUSH_NULL));
  if (kNullIsLower) code.push_back(make(Op::SWAP, 2));
}

std::vector<int> stack_depths(const Program& program) {
  const int size = static_cast<int>(program.code.size());
  std::vector<int> depths(size, -1);
  std::vector<int> work;
  auto reach = [&](int index, int depth) {
    if (index < 0 || index >= size || depths[index] >= 0) return;
    depths[index] = depth;
    work.push_back(index);
  };
  reach(0, 0);
  while (!work.empty()) {
    const int index = work.back();
    work.pop_back();
    const Instruction& instruction = program.code[index];
    const int depth = depths[index];
    if (instruction.handler >= 0) {
      const Handler& handler = program.handlers[instruction.handler];
      reach(handler.target, handler.depth + handler.push_lasti + 1);
    }
    if (is_jump(instruction.op)) {
      reach(instruction.arg, depth + op_stack_effect(instruction.op, instruction.arg, true));
    }
    if (falls_through(instruction.op))
      reach(index + 1, depth + op_stack_effect(instruction.op, instruction.arg));
  }
  return depths;
}

}  // namespace cdynamo::symbolic
