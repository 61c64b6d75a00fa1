#include "frame_eval/resume/entered_code.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "frame_eval/hook/code_slot.h"
#include "frame_eval/hook/hook.h"
#include "frame_eval/resume/ways_out.h"
#include "graph/op.h"
#include "symbolic/interop/loaded_object.h"
#include "symbolic/interop/moving_call.h"

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
  original->loops = symbolic::find_loops(original->program);
  const SlotNames slots = slot_names(code);
  original->names = slots.names;
  original->first_free = slots.first_free;
  original->num_plain = static_cast<int>(string_tuple(attribute(object, "co_varnames").get()).size());
  for (const std::string& name : string_tuple(attribute(object, "co_cellvars").get()))
    original->cells.push_back(
        static_cast<int>(std::find(slots.names.begin(), slots.names.end(), name) - slots.names.begin()));
  original->num_own_cells = static_cast<int>(original->cells.size());
  for (int slot = slots.first_free; slot < static_cast<int>(slots.names.size()); ++slot)
    original->cells.push_back(slot);
  const std::vector<std::string> globals = string_tuple(attribute(object, "co_names").get());
  original->names_super = std::find(globals.begin(), globals.end(), "super") != globals.end();
  return original;
}

// ---- building

// The slots of entered code: parameters (own cells and locals, stack items, what is called in place of the program's function
// and with what), the other locals, free variables.
struct EnteredLayout {
  std::vector<std::string> varnames, cellvars, freevars;
  std::vector<int> slot;  // of the original's slot
  int argcount = 0;
  int first_stack = 0;  // slot of the first stack parameter
  int first_inner = 0;  // and of what is called
  int scratch = -1;     // slots that stubs put stack items into; the first takes what is empty
};

EnteredLayout lay_out(const OriginalCode& original, const EntryPoint& entry, int scratch_slots,
                      const std::vector<std::string>& inner = {}) {
  EnteredLayout layout;
  layout.slot.assign(original.names.size(), -1);
  auto add = [&](int slot) {
    layout.slot[slot] = static_cast<int>(layout.varnames.size());
    layout.varnames.push_back(original.names[slot]);
  };
  for (int slot : parameter_slots(original, entry)) {
    add(slot);
    if (original.is_cell(slot)) layout.cellvars.push_back(layout.varnames.back());
  }
  layout.first_stack = static_cast<int>(layout.varnames.size());
  for (size_t i = 0; i < entry.empty_slots.size(); ++i)
    if (!entry.empty_slots[i]) layout.varnames.push_back(stack_parameter(static_cast<int>(i)));
  layout.first_inner = static_cast<int>(layout.varnames.size());
  layout.varnames.insert(layout.varnames.end(), inner.begin(), inner.end());
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
  // To whoever looks, the frame begins behind this.
  for (int slot : entry.unbound) code.push_back(make(Op::DELETE_FAST, layout.slot[slot]));
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

constexpr const char* kInner = ".inner";

// What the program calls at `at` is running in a frame of its own: calls that instead, under the same handler.
void append_inner_call(std::vector<Instruction>& code, const Instruction& at, const EnteredLayout& layout) {
  const size_t first = code.size();
  const int num_arguments = layout.argcount - layout.first_inner - 1;
  if (num_arguments > 0) {
    code.push_back(symbolic::load_const(PyRef::borrow(symbolic::moving_call())));
    symbolic::append_push_null(code);
  }
  for (int slot = layout.first_inner; slot < layout.argcount; ++slot) {
    code.push_back(make(Op::LOAD_FAST, slot));
    if (num_arguments == 0) symbolic::append_push_null(code);
    code.push_back(make(Op::DELETE_FAST, slot));
  }
  code.push_back(make(Op::CALL, num_arguments == 0 ? 0 : num_arguments + 1));
  code.back().handler = at.handler;
  for (size_t i = first; i < code.size(); ++i) {
    code[i].line = at.line;
    code[i].end_line = at.end_line;
    code[i].column = at.column;
    code[i].end_column = at.end_column;
  }
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

// Where a program uses both, torch.compile's hook sees the frames of entered code as well, whose constants it cannot copy.
void hide_from_torch_compile(PyObject* code) {
  const PyRef skip_code = symbolic::loaded_object("torch._dynamo.eval_frame.skip_code");
  if (!skip_code) return;
  HookScope nothing_is_compiled(nullptr, nullptr);
  symbolic::checked(PyObject_CallOneArg(skip_code.get(), code));
}

PyRef assemble_entered(const OriginalCode& original, const Program& program, const EnteredLayout& layout) {
  auto* code = original.object();
  symbolic::CodeOptions options;
  options.varnames = layout.varnames;
  options.cellvars = layout.cellvars;
  options.freevars = layout.freevars;
  options.argcount = layout.argcount;
  options.posonly = options.kwonly = 0;
  options.flags = code->co_flags & ~(CO_VARARGS | CO_VARKEYWORDS);
  options.replace_layout = true;
  PyRef entered = symbolic::assemble(code, program, options);
  hide_from_torch_compile(entered.get());
  return entered;
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

// The slots that a loop may or may not fill, and that are handed on: until then they hold None, which nobody reads.
std::vector<int> preset_in(const OriginalCode& original, const EntryPoint& entry,
                           const std::vector<WayOut>& ways) {
  auto* code = original.object();
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
  const size_t first_part = code.size();
  for (size_t cell = original.num_own_cells; cell < original.cells.size(); ++cell)
    code.push_back(make(Op::LOAD_CLOSURE, layout.slot[original.cells[cell]]));
  for (int slot : parameter_slots(original, exit))
    code.push_back(make(original.is_cell(slot) ? Op::LOAD_CLOSURE : Op::LOAD_FAST, layout.slot[slot]));
  for (size_t i = 0; i < exit.empty_slots.size(); ++i)
    if (!exit.empty_slots[i]) code.push_back(make(Op::LOAD_FAST, kept[i]));
  const size_t end_of_parts = code.size();
  // From here on the resumed function alone holds them (ResumePoint empties the list).
  for (size_t i = first_part; i < end_of_parts; ++i)
    if (code[i].op == Op::LOAD_FAST) code.push_back(make(Op::DELETE_FAST, code[i].arg));
  code.push_back(make(Op::BUILD_LIST, static_cast<int>(end_of_parts - first_part)));
  code.push_back(make(Op::CALL, 1));
  code.push_back(make(Op::RETURN_VALUE));
  const Instruction& broken = original.program.code[exit.target > 0 ? exit.target - 1 : 0];
  for (size_t i = first; i < code.size(); ++i) code[i].line = code[i].end_line = broken.line;
}

}  // namespace

bool OriginalCode::is_cell(int slot) const {
  return std::find(cells.begin(), cells.end(), slot) != cells.end();
}

int OriginalCode::slot_of(const SlotNames& other, int slot) const {
  const std::string& name = other.names.at(slot);
  const auto free = names.begin() + first_free;
  const auto begin = slot < other.first_free ? names.begin() : free;
  const auto end = slot < other.first_free ? free : names.end();
  const auto found = std::find(begin, end, name);
  return found == end ? -1 : static_cast<int>(found - names.begin());
}

int after_landing(const Program& program, int at) {
  while (symbolic::is_landing(program.code[at].op)) ++at;
  return at;
}

SlotNames slot_names(PyCodeObject* code) {
  PyObject* object = reinterpret_cast<PyObject*>(code);
  SlotNames slots{string_tuple(attribute(object, "co_varnames").get())};
  std::vector<std::string>& names = slots.names;
  for (const std::string& name : string_tuple(attribute(object, "co_cellvars").get()))
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  slots.first_free = static_cast<int>(names.size());
  for (std::string& name : string_tuple(attribute(object, "co_freevars").get()))
    names.push_back(std::move(name));
  return slots;
}

std::vector<int> slots_bound_later(const OriginalCode& original, const EntryPoint& entry, int from) {
  int last = entry.locals.empty() ? 0 : entry.locals.back();
  for (int cell : original.own_cells()) last = std::max(last, cell);
  const std::vector<bool> assigned = symbolic::assigned_slots(original.object(), original.program, from);
  std::vector<int> slots;
  for (int slot = 0; slot < last; ++slot)
    if (assigned[slot] && !original.is_cell(slot) && !std::ranges::binary_search(entry.locals, slot))
      slots.push_back(slot);
  return slots;
}

std::vector<int> parameter_slots(const OriginalCode& original, const EntryPoint& entry) {
  const std::span<const int> cells = original.own_cells();
  std::vector<int> slots(cells.begin(), cells.end());
  slots.insert(slots.end(), entry.locals.begin(), entry.locals.end());
  slots.insert(slots.end(), entry.unbound.begin(), entry.unbound.end());
  std::ranges::sort(slots);
  return slots;
}

std::string stack_parameter(int depth) { return ".stack" + std::to_string(depth); }

const CodeOrigin* known_origin(PyCodeObject* code) { return registered_origin(code); }

CodeOrigin origin_of(PyCodeObject* code) {
  if (const CodeOrigin* origin = known_origin(code)) return *origin;
  CodeOrigin origin{read_original(code), {}};
  register_origin(reinterpret_cast<PyObject*>(code), origin);
  return origin;
}

namespace {

// `prologue` ends in a jump to `target` of the original.
PyRef assemble_resume_code(const OriginalCode& original, const EntryPoint& entry, const EnteredLayout& layout,
                           std::vector<Instruction> prologue, int target, CodeOrigin origin) {
  Program program{std::move(prologue), original.program.handlers};
  const int shift = static_cast<int>(program.code.size());
  program.code.back().arg = target + shift;
  for (int i = 0; i < static_cast<int>(original.program.code.size()); ++i) {
    program.code.push_back(renumbered(original.program, i, layout));
    if (symbolic::is_jump(program.code.back().op)) program.code.back().arg += shift;
  }
  for (symbolic::Handler& handler : program.handlers) handler.target += shift;
  PyRef code = assemble_entered(original, program, layout);
  origin.entered_at = entry.target;
  origin.first_stack = layout.first_stack;
  for (int slot : entry.unbound) origin.unbound.push_back(layout.slot[slot]);
  origin.instructions = decoded_from(reinterpret_cast<PyCodeObject*>(code.get()), program);
  for (int& instruction : origin.instructions)
    instruction = instruction == origin.inner_call ? origin.entered_at : std::max(instruction - shift, -1);
  register_origin(code.get(), std::move(origin));
  return code;
}

// Parameters for a function whose code is `inner` and for what it is called with.
std::vector<std::string> inner_parameters(PyCodeObject* inner) {
  std::vector<std::string> names{kInner};
  const std::vector<std::string> slots = slot_names(inner).names;
  for (int i = 0; i < inner->co_argcount; ++i) names.push_back(absl::StrCat(kInner, ".", slots.at(i)));
  return names;
}

}  // namespace

PyRef make_resume_code(const std::shared_ptr<OriginalCode>& original, EntryPoint entry) {
  entry.unbound = slots_bound_later(*original, entry, entry.target);
  const EnteredLayout layout = lay_out(*original, entry, 0);
  return assemble_resume_code(*original, entry, layout, make_prologue(*original, entry, layout, {}),
                              entry.target, {.original = original});
}

PyRef make_resume_code_at_call(const std::shared_ptr<OriginalCode>& original, EntryPoint entry,
                               PyCodeObject* inner) {
  entry.unbound = slots_bound_later(*original, entry, entry.target);
  const EnteredLayout layout = lay_out(*original, entry, 0, inner_parameters(inner));
  std::vector<Instruction> prologue = make_prologue(*original, entry, layout, {});
  const Instruction jump = prologue.back();
  prologue.pop_back();
  append_inner_call(prologue, original->program.code[entry.target], layout);
  CodeOrigin origin{.original = original,
                    .inner_call = static_cast<int>(prologue.size()) - 1,
                    .below_inner_call = static_cast<int>(entry.empty_slots.size())};
  prologue.push_back(jump);
  return assemble_resume_code(*original, entry, layout, std::move(prologue), entry.target + 1,
                              std::move(origin));
}

namespace {

// The original's code with its stubs: `fall_through` is where a jump to a stub stands, `place` where an instruction does.
struct ContinuationBody {
  std::vector<int> place, fall_through;
};

bool falls_into_stub(const Program& original, const std::vector<WayOut>& ways, int at) {
  return symbolic::falls_through(original.code[at].op) &&
         std::ranges::any_of(ways, [&](const WayOut& way) { return way.from == at && way.to == at + 1; });
}

// A slot that is deleted here and handed on all the same holds None from then on.
void append_refill(std::vector<Instruction>& code, const Instruction& deletion, int slot) {
  for (Instruction added : {symbolic::load_const(PyRef::borrow(Py_None)), make(Op::STORE_FAST, slot)}) {
    added.line = deletion.line;
    added.end_line = deletion.end_line;
    added.handler = deletion.handler;
    code.push_back(std::move(added));
  }
}

// `splits_methods`: an exception may lead back into a loop whose stubs know which slots below it are empty; method loads then
// leave the same one empty as in captured code.
ContinuationBody append_original(Program& program, const OriginalCode& original, const EnteredLayout& layout,
                                 const std::vector<WayOut>& ways, bool splits_methods) {
  std::vector<bool> refilled(original.program.code.size(), false);
  if (!ways.empty()) refilled = symbolic::unread_deletes(original.object(), original.program);
  const int size = static_cast<int>(original.program.code.size());
  ContinuationBody body{std::vector<int>(size + 1), std::vector<int>(size, -1)};
  for (int i = 0; i < size; ++i) {
    body.place[i] = static_cast<int>(program.code.size());
    program.code.push_back(renumbered(original.program, i, layout));
    if (splits_methods) split_method_load(program.code);
    if (refilled[i]) append_refill(program.code, original.program.code[i], program.code.back().arg);
    if (!falls_into_stub(original.program, ways, i)) continue;
    body.fall_through[i] = static_cast<int>(program.code.size());
    program.code.push_back(make(Op::JUMP, 0));
    program.code.back().line = original.program.code[i].line;
  }
  for (int i = 0; i < size; ++i)
    if (symbolic::is_jump(original.program.code[i].op))
      program.code[body.place[i]].arg = body.place[original.program.code[i].arg];
  for (symbolic::Handler& handler : program.handlers) handler.target = body.place[handler.target];
  return body;
}

// Never executed: in `frame.f_locals` a slot stands for what its cell holds where a MAKE_CELL comes before the instruction
// that runs. `code` ends in a jump, and so it does afterwards.
void append_makers_of_cells(const OriginalCode& original, const EnteredLayout& layout,
                            std::vector<Instruction>& code) {
  if (original.num_own_cells == 0) return;
  const int line = code.back().line;
  for (int cell : original.own_cells()) code.push_back(make(Op::MAKE_CELL, layout.slot[cell]));
  code.push_back(make(Op::NOP));
  code[code.size() - original.num_own_cells - 2].arg = static_cast<int>(code.size()) - 1;
  for (size_t i = code.size() - original.num_own_cells - 1; i < code.size(); ++i)
    code[i].line = code[i].end_line = line;
}

}  // namespace

PyRef make_continuation_code(const std::shared_ptr<OriginalCode>& original, const EntryPoint& entry,
                             const BrokenCode& broken, ResumeFactory resume) {
  const int scratch = 1 + *std::max_element(original->depths.begin(), original->depths.end());
  const std::vector<std::string> inner =
      broken.is_call ? std::vector<std::string>{kInner} : std::vector<std::string>{};
  const EnteredLayout layout = lay_out(*original, entry, scratch + 1, inner);
  const std::vector<WayOut> ways =
      broken.whole_loop ? ways_of_whole_loop(*original, entry, broken) : ways_to_cut_loops(*original, entry);
  Program program{make_prologue(*original, entry, layout, preset_in(*original, entry, ways)),
                  original->program.handlers};
  std::vector<Instruction>& code = program.code;
  const auto add_stub = [&](const WayOut& way, std::vector<bool> empty) {
    const EntryPoint exit{after_landing(original->program, way.to), std::move(empty), way.locals};
    const int stub = static_cast<int>(code.size());
    append_stub(program, *original, layout, way, exit, resume(original, exit));
    return stub;
  };
  // The broken instruction stands by itself: where the frame comes to it again, after an exception, its stack may look
  // different.
  if (!broken.whole_loop) append_makers_of_cells(*original, layout, code);
  const int first = static_cast<int>(code.size()) - 1;
  int fall_through = -1;
  if (!broken.whole_loop) {
    if (broken.is_call) {
      code.pop_back();
      append_inner_call(code, original->program.code[entry.target], layout);
    } else {
      code.back() = renumbered(original->program, entry.target, layout);
      split_method_load(code);
    }
    if (symbolic::falls_through(original->program.code[entry.target].op)) {
      fall_through = static_cast<int>(code.size());
      code.push_back(make(Op::JUMP, 0));
      code.back().line = original->program.code[entry.target].line;
    }
  }
  const ContinuationBody body =
      append_original(program, *original, layout, ways, !ways.empty() && entry.has_empty_slots());
  if (broken.whole_loop) {
    code[first].arg = body.place[entry.target];
  } else {
    for (const WayOut& way : ways_out_of(*original, entry)) {
      const int stub = add_stub(way, empty_after(*original, entry, way.to));
      code[way.to == entry.target + 1 && symbolic::falls_through(original->program.code[entry.target].op)
               ? fall_through
               : first]
          .arg = stub;
    }
  }
  for (const WayOut& way : ways) {
    std::vector<bool> empty = entry.empty_slots;
    empty.resize(original->depths.at(way.to));  // a loop leaves what is below its own alone
    const int stub = add_stub(way, std::move(empty));
    const Instruction& last = original->program.code[way.from];
    if (body.fall_through[way.from] >= 0 && way.to == way.from + 1)
      code[body.fall_through[way.from]].arg = stub;
    if (symbolic::is_jump(last.op) && last.arg == way.to) code[body.place[way.from]].arg = stub;
  }
  return assemble_entered(*original, program, layout);
}

}  // namespace cdynamo::frame_eval
