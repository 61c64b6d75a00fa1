#include "frame_eval/resume/entered_code.h"

#include <algorithm>
#include <memory>

#include "frame_eval/hook/code_slot.h"
#include "graph/op.h"

namespace cdynamo::frame_eval {
namespace {

using symbolic::ArgKind;
using symbolic::checked;
using symbolic::Instruction;
using symbolic::make;
using symbolic::Op;
using symbolic::WayOut;

// ---- origins

void free_origin(void* origin) { delete static_cast<CodeOrigin*>(origin); }

const CodeSlot& origin_slot() {
  static const CodeSlot slot(free_origin);
  return slot;
}

CodeOrigin* registered_origin(PyCodeObject* code) {
  return static_cast<CodeOrigin*>(origin_slot().get(code));
}

void register_origin(PyObject* code, CodeOrigin origin) {
  auto owned = std::make_unique<CodeOrigin>(std::move(origin));
  if (!origin_slot().set(reinterpret_cast<PyCodeObject*>(code), owned.get())) throw symbolic::PythonError{};
  owned.release();
}

std::vector<std::string> string_tuple(PyObject* tuple) {
  std::vector<std::string> strings;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    const char* text = PyUnicode_AsUTF8(PyTuple_GET_ITEM(tuple, i));
    if (!text) throw symbolic::PythonError{};
    strings.emplace_back(text);
  }
  return strings;
}

PyRef attribute(PyObject* object, const char* name) { return checked(PyObject_GetAttrString(object, name)); }

std::shared_ptr<OriginalCode> read_original(PyCodeObject* code) {
  auto original = std::make_shared<OriginalCode>();
  PyObject* object = reinterpret_cast<PyObject*>(code);
  PyRef replace = attribute(object, "replace");
  original->code = checked(PyObject_CallNoArgs(replace.get()));
  original->program = symbolic::decode(code);
  original->depths = symbolic::stack_depths(original->program);
  original->names = slot_names(code);
  original->num_plain = static_cast<int>(string_tuple(attribute(object, "co_varnames").get()).size());
  for (const char* kind : {"co_cellvars", "co_freevars"}) {
    original->num_own_cells = static_cast<int>(original->cells.size());
    for (const std::string& name : string_tuple(attribute(object, kind).get()))
      original->cells.push_back(original->slot_of(name));
  }
  const std::vector<std::string> globals = string_tuple(attribute(object, "co_names").get());
  original->names_super = std::find(globals.begin(), globals.end(), "super") != globals.end();
  const auto first = std::find(original->cells.begin(), original->cells.end(), 0);
  if (original->names_super && code->co_argcount > 0 && first != original->cells.end())
    original->first_argument = static_cast<int>(first - original->cells.begin());
  return original;
}

// ---- building

// The slots of entered code: parameters (the first argument of OriginalCode, own cells, locals, stack items), the other
// locals, free variables.
struct EnteredLayout {
  std::vector<std::string> varnames, cellvars, freevars;
  std::vector<int> slot;  // of the original's slot
  int argcount = 0;
  int first_stack = 0;  // slot of the first stack parameter
  int scratch = -1;     // slots that stubs put stack items into; the first takes what is empty
};

EnteredLayout lay_out(const OriginalCode& original, const EntryPoint& entry, int scratch_slots) {
  EnteredLayout layout;
  layout.slot.assign(original.names.size(), -1);
  auto add = [&](int slot) {
    layout.slot[slot] = static_cast<int>(layout.varnames.size());
    layout.varnames.push_back(original.names[slot]);
  };
  if (original.first_argument >= 0) layout.varnames.push_back(".first");
  for (int i = 0; i < original.num_own_cells; ++i) {
    add(original.cells[i]);
    layout.cellvars.push_back(layout.varnames.back());
  }
  for (int slot : entry.locals) add(slot);
  layout.first_stack = static_cast<int>(layout.varnames.size());
  for (size_t i = 0; i < entry.empty_slots.size(); ++i)
    if (!entry.empty_slots[i]) layout.varnames.push_back(".stack" + std::to_string(i));
  layout.argcount = static_cast<int>(layout.varnames.size());
  for (int slot = 0; slot < original.num_plain; ++slot)
    if (layout.slot[slot] < 0 && !original.is_cell(slot)) add(slot);
  layout.scratch = static_cast<int>(layout.varnames.size());
  for (int i = 0; i < scratch_slots; ++i) layout.varnames.push_back(".scratch" + std::to_string(i));
  int next = static_cast<int>(layout.varnames.size());
  for (size_t i = original.num_own_cells; i < original.cells.size(); ++i) {
    layout.slot[original.cells[i]] = next++;
    layout.freevars.push_back(original.names[original.cells[i]]);
  }
  return layout;
}

// It is on the line that is entered at: a frame that is looked at in its prologue (by a finalizer) is there.
std::vector<Instruction> make_prologue(const OriginalCode& original, const EntryPoint& entry,
                                       const EnteredLayout& layout, const std::vector<int>& preset) {
  const int line = original.program.code[entry.target].line;
  std::vector<Instruction> code;
  if (!layout.freevars.empty())
    code.push_back(make(Op::COPY_FREE_VARS, static_cast<int>(layout.freevars.size())));
  code.push_back(make(Op::RESUME, 0));
  int next = layout.first_stack;
  for (bool empty : entry.empty_slots)
    code.push_back(empty ? make(Op::PUSH_NULL) : make(Op::LOAD_FAST, next++));
  // The stack alone holds its items.
  for (int slot = layout.first_stack; slot < next; ++slot) code.push_back(make(Op::DELETE_FAST, slot));
  for (int slot : preset) {
    code.push_back(symbolic::load_const(PyRef::borrow(Py_None)));
    code.push_back(make(Op::STORE_FAST, layout.slot[slot]));
  }
  code.push_back(make(Op::JUMP, 0));  // its target is set by the caller
  for (Instruction& instruction : code) instruction.line = instruction.end_line = line;
  return code;
}

// An instruction of the original as it stands in entered code. What sets up a frame is done by the prologue. MAKE_CELL stays:
// it is not run again, but CPython looks for it before it takes what a slot holds for a cell (frame.f_locals).
Instruction renumbered(const Program& program, int at, const EnteredLayout& layout) {
  Instruction copy = program.code[at];
  if (copy.op == Op::COPY_FREE_VARS || copy.op == Op::RETURN_GENERATOR) {
    copy.op = Op::NOP;
    copy.arg = 0;
  } else if (symbolic::op_arg_kind(copy.op) == ArgKind::kLocal) {
    copy.arg = layout.slot.at(copy.arg);
  }
  return copy;
}

PyRef assemble_entered(const OriginalCode& original, const Program& program, const EnteredLayout& layout) {
  auto* code = reinterpret_cast<PyCodeObject*>(original.code.get());
  symbolic::CodeOptions options;
  options.varnames = layout.varnames;
  options.cellvars = layout.cellvars;
  options.freevars = layout.freevars;
  options.argcount = layout.argcount;
  options.posonly = options.kwonly = 0;
  options.flags = code->co_flags & ~(CO_VARARGS | CO_VARKEYWORDS);
  options.replace_layout = true;
  return symbolic::assemble(code, program, options);
}

// For each instruction that `code` is decoded to: the one of `program`, which it was assembled from. The two
// are the same but where an opcode says more than was asked for: before 3.13, to convert alone is FORMAT_VALUE,
// which formats as well. What comes on top stands for the instruction that follows.
std::vector<int> decoded_from(PyCodeObject* code, const Program& program) {
  std::vector<int> result;
  const int size = static_cast<int>(program.code.size());
  int next = 0;
  for (const Instruction& instruction : symbolic::decode(code).code) {
    result.push_back(next);
    if (next < size && program.code[next].op == instruction.op) ++next;
  }
  if (next != size) throw graph::InternalError("a resume function does not decode to what it was made from");
  return result;
}

// ---- stubs of a continuation

// A method that is looked up by the broken instruction: a plain attribute and an empty slot, so that it is
// known which of the two slots of the call is the empty one.
void split_method_load(std::vector<Instruction>& code) {
  Instruction load = code.back();
  if (load.op == Op::LOAD_METHOD)
    code.back().op = Op::LOAD_ATTR;
  else if (load.op == Op::LOAD_SUPER_METHOD)
    code.back().op = Op::LOAD_SUPER_ATTR;
  else
    return;
  const size_t first = code.size();
  symbolic::append_push_null(code);
  for (size_t i = first; i < code.size(); ++i) code[i].handler = load.handler;
}

bool loads_method(Op op) { return op == Op::LOAD_METHOD || op == Op::LOAD_SUPER_METHOD; }

// Which slots are empty after the instruction at `entry.target` has run and gone to `next`.
std::vector<bool> empty_after(const OriginalCode& original, const EntryPoint& entry, int next) {
  const Instruction& broken = original.program.code[entry.target];
  const int before = static_cast<int>(entry.empty_slots.size()), after = original.depths.at(next);
  if (after < 0) throw graph::InternalError("the way out of a graph break is not reachable");
  std::vector<bool> empty(entry.empty_slots.begin(), entry.empty_slots.begin() + std::min(before, after));
  empty.resize(after, false);
  const Op op = broken.op;
  if (loads_method(op)) {
    empty[after - 2] = symbolic::kNullIsLower;
    empty[after - 1] = !symbolic::kNullIsLower;
  } else if (op == Op::PUSH_NULL) {
    empty[after - 1] = true;
  } else if (op == Op::CALL || op == Op::CALL_KW || op == Op::CALL_FUNCTION_EX) {
    empty[after - 1] = false;  // nothing else takes an empty slot off the stack
  }
  return empty;
}

// The locals (ascending) that hold values after the instruction at `entry.target` has run.
std::vector<int> locals_after(const OriginalCode& original, const EntryPoint& entry) {
  const Instruction& instruction = original.program.code[entry.target];
  std::vector<int> locals = entry.locals;
  // What a comprehension puts back may be nothing (LOAD_FAST_AND_CLEAR).
  const bool stores =
      instruction.op == Op::STORE_FAST && !entry.empty_slots.back() && !original.is_cell(instruction.arg);
  if (instruction.op == Op::DELETE_FAST || (instruction.op == Op::STORE_FAST && !stores))
    std::erase(locals, instruction.arg);
  if (stores) {
    auto place = std::lower_bound(locals.begin(), locals.end(), instruction.arg);
    if (place == locals.end() || *place != instruction.arg) locals.insert(place, instruction.arg);
  }
  return locals;
}

// The slots that a loop may or may not fill, and that are handed on: until then they hold None, which nobody reads.
std::vector<int> preset_in(const OriginalCode& original, const EntryPoint& entry,
                           const std::vector<WayOut>& ways) {
  auto* code = reinterpret_cast<PyCodeObject*>(original.code.get());
  std::vector<bool> known = symbolic::live_slots(code, original.program, entry.target);
  for (int slot : entry.locals) known[slot] = true;
  std::vector<int> preset;
  for (const WayOut& way : ways)
    for (int slot : way.locals)
      if (!known[slot]) {
        known[slot] = true;
        preset.push_back(slot);
      }
  return preset;
}

// The ways out of the one instruction that is entered at.
std::vector<WayOut> ways_out_of(const OriginalCode& original, const EntryPoint& entry) {
  const Instruction& instruction = original.program.code[entry.target];
  const std::vector<int> locals = locals_after(original, entry);
  std::vector<WayOut> ways;
  if (symbolic::falls_through(instruction.op)) ways.push_back({entry.target, entry.target + 1, locals});
  if (symbolic::is_jump(instruction.op)) ways.push_back({entry.target, instruction.arg, locals});
  return ways;
}

// The stub that `way` leads to: it hands the locals and the stack of `exit` to `resume`.
void append_stub(Program& program, const OriginalCode& original, const EnteredLayout& layout,
                 const WayOut& way, const EntryPoint& exit, PyRef resume) {
  std::vector<Instruction>& code = program.code;
  const size_t first = code.size();
  // What FOR_ITER jumps to is skipped, or takes off the stack what a generator left there.
  for (int at = way.to; at < exit.target; ++at) code.push_back(make(original.program.code[at].op));
  int next = layout.scratch;
  std::vector<int> kept(exit.empty_slots.size());
  for (int i = static_cast<int>(exit.empty_slots.size()) - 1; i >= 0; --i) {
    kept[i] = exit.empty_slots[i] ? layout.scratch : ++next;
    code.push_back(make(Op::STORE_FAST, kept[i]));
  }
  code.push_back(symbolic::load_const(std::move(resume)));
  symbolic::append_push_null(code);
  std::vector<int> moved;
  if (original.first_argument >= 0) moved.push_back(0);
  for (int slot : exit.locals) moved.push_back(layout.slot[slot]);
  for (size_t i = 0; i < exit.empty_slots.size(); ++i)
    if (!exit.empty_slots[i]) moved.push_back(kept[i]);
  const auto own_end = original.cells.begin() + original.num_own_cells;
  for (auto cell = own_end; cell != original.cells.end(); ++cell)
    code.push_back(make(Op::LOAD_CLOSURE, layout.slot[*cell]));
  if (original.first_argument >= 0) code.push_back(make(Op::LOAD_FAST, 0));
  for (auto cell = original.cells.begin(); cell != own_end; ++cell)
    code.push_back(make(Op::LOAD_CLOSURE, layout.slot[*cell]));
  for (int slot : moved)
    if (original.first_argument < 0 || slot != 0) code.push_back(make(Op::LOAD_FAST, slot));
  // From here on the resumed function alone holds them (ResumePoint empties the list).
  for (int slot : moved) code.push_back(make(Op::DELETE_FAST, slot));
  code.push_back(make(Op::BUILD_LIST, static_cast<int>(original.cells.size() + moved.size())));
  code.push_back(make(Op::CALL, 1));
  code.push_back(make(Op::RETURN_VALUE));
  const Instruction& broken = original.program.code[exit.target > 0 ? exit.target - 1 : 0];
  for (size_t i = first; i < code.size(); ++i) code[i].line = code[i].end_line = broken.line;
}

}  // namespace

bool OriginalCode::is_cell(int slot) const {
  return std::find(cells.begin(), cells.end(), slot) != cells.end();
}

int OriginalCode::slot_of(const std::string& name) const {
  auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

int after_landing(const Program& program, int at) {
  while (symbolic::is_landing(program.code[at].op)) ++at;
  return at;
}

std::vector<std::string> slot_names(PyCodeObject* code) {
  PyObject* object = reinterpret_cast<PyObject*>(code);
  std::vector<std::string> names;
  for (const char* kind : {"co_varnames", "co_cellvars", "co_freevars"})
    for (const std::string& name : string_tuple(attribute(object, kind).get()))
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

CodeOrigin origin_of(PyCodeObject* code) {
  if (CodeOrigin* origin = registered_origin(code)) return *origin;
  CodeOrigin origin{read_original(code), {}};
  register_origin(reinterpret_cast<PyObject*>(code), origin);
  return origin;
}

PyRef make_resume_code(const std::shared_ptr<OriginalCode>& original, const EntryPoint& entry) {
  const EnteredLayout layout = lay_out(*original, entry, 0);
  Program program{make_prologue(*original, entry, layout, {}), original->program.handlers};
  const int shift = static_cast<int>(program.code.size());
  program.code.back().arg = entry.target + shift;
  for (int i = 0; i < static_cast<int>(original->program.code.size()); ++i) {
    program.code.push_back(renumbered(original->program, i, layout));
    if (symbolic::is_jump(program.code.back().op)) program.code.back().arg += shift;
  }
  for (symbolic::Handler& handler : program.handlers) handler.target += shift;
  PyRef code = assemble_entered(*original, program, layout);
  std::vector<int> instructions = decoded_from(reinterpret_cast<PyCodeObject*>(code.get()), program);
  for (int& instruction : instructions) instruction = std::max(instruction - shift, -1);
  register_origin(code.get(), {original, std::move(instructions)});
  return code;
}

PyRef make_continuation_code(const std::shared_ptr<OriginalCode>& original, const EntryPoint& entry,
                             const BrokenCode& broken, ResumeFactory resume) {
  const std::vector<WayOut> ways = broken.whole_loop ? broken.ways_out : ways_out_of(*original, entry);
  const int scratch = 1 + *std::max_element(original->depths.begin(), original->depths.end());
  const EnteredLayout layout = lay_out(*original, entry, scratch + 1);
  Program program{make_prologue(*original, entry, layout,
                                broken.whole_loop ? preset_in(*original, entry, ways) : std::vector<int>()),
                  original->program.handlers};
  const int shift = static_cast<int>(program.code.size());
  const int size = static_cast<int>(original->program.code.size());
  std::vector<int> place(size + 1), fall_through(size, -1);
  for (int i = 0; i < size; ++i) {
    const Instruction& instruction = original->program.code[i];
    place[i] = static_cast<int>(program.code.size());
    program.code.push_back(renumbered(original->program, i, layout));
    if (i == entry.target) split_method_load(program.code);
    const bool stubbed =
        std::any_of(ways.begin(), ways.end(), [&](const WayOut& w) { return w.from == i && w.to == i + 1; });
    if (!stubbed || !symbolic::falls_through(instruction.op)) continue;
    fall_through[i] = static_cast<int>(program.code.size());
    program.code.push_back(make(Op::JUMP, 0));
    program.code.back().line = instruction.line;
  }
  for (int i = 0; i < size; ++i)
    if (symbolic::is_jump(original->program.code[i].op))
      program.code[place[i]].arg = place[original->program.code[i].arg];
  for (symbolic::Handler& handler : program.handlers) handler.target = place[handler.target];
  program.code[shift - 1].arg = place[entry.target];

  for (const WayOut& way : ways) {
    std::vector<bool> empty = entry.empty_slots;
    if (broken.whole_loop)
      empty.resize(original->depths.at(way.to));  // a loop leaves what is below its own alone
    else
      empty = empty_after(*original, entry, way.to);
    const EntryPoint exit{after_landing(original->program, way.to), std::move(empty), way.locals};
    const int stub = static_cast<int>(program.code.size());
    append_stub(program, *original, layout, way, exit, resume(original, exit));
    const Instruction& last = original->program.code[way.from];
    if (fall_through[way.from] >= 0 && way.to == way.from + 1)
      program.code[fall_through[way.from]].arg = stub;
    if (symbolic::is_jump(last.op) && last.arg == way.to) program.code[place[way.from]].arg = stub;
  }
  return assemble_entered(*original, program, layout);
}

}  // namespace cdynamo::frame_eval
