// Opcodes of the stack, constants, locals and cells.
#include <algorithm>
#include <ranges>
#include <string>
#include <string_view>

#include "symbolic/bytecode/control_flow.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/frame.h"
#include "symbolic/frames/functions.h"
#include "symbolic/interop/finalizers.h"
#include "symbolic/values/dict.h"
#include "symbolic/values/holder_search.h"
#include "symbolic/values/object_ends.h"
#include "symbolic/values/value_tools.h"
#include "symbolic/values/weak_reference.h"

namespace cdynamo::symbolic {

namespace {

void nop(Executor&, SymbolicFrame&, const Instruction&) {}
void push_null(Executor&, SymbolicFrame& frame, const Instruction&) { frame.push(nullptr); }
void copy(Executor&, SymbolicFrame& frame, const Instruction& in) {
  frame.push(ValuePtr(frame.peek(in.arg)));
}
void swap(Executor&, SymbolicFrame& frame, const Instruction& in) {
  std::swap(frame.peek(1), frame.peek(in.arg));
}

void load_const(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  PyObject* constant = in.value ? in.value.get() : PyTuple_GET_ITEM(frame.code->object()->co_consts, in.arg);
  frame.push(ex.constant(PyRef::borrow(constant)));
}

[[noreturn]] void raise_unbound_local(Executor& ex, SymbolicFrame& frame, int slot) {
  std::string name = frame.slot_name(slot);
  raise_error(ex, PyExc_UnboundLocalError,
              "cannot access local variable '" + name + "' where it is not associated with a value");
}

// The argument in `slot`, where entered code is to hand it on to what it calls (frame_eval/resume/entered_code.h).
SourcePtr argument_handed_on(const SymbolicFrame& frame, int slot) {
  if (!frame.pending[slot] || !std::string_view(frame.slot_name(slot)).starts_with(".inner.")) return nullptr;
  return frame.pending[slot];
}

// An item of the stack that a graph break has left: nothing else need hold it.
bool is_left_by_break(const SymbolicFrame& frame, const ValuePtr& value) {
  return frame.is_linked && value->source && value->source->kind == SourceKind::kArgument &&
         value->source->label.starts_with(".stack");
}

void load_fast(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  if (SourcePtr argument = argument_handed_on(frame, in.arg))
    return frame.push(std::make_shared<UnseenArgument>(std::move(argument)));
  const ValuePtr& value = frame.local(ex, in.arg);
  if (!value) raise_unbound_local(ex, frame, in.arg);
  if (is_left_by_break(frame, value)) note_held_by_stack(ex, value);
  frame.push(value);
}

void load_fast_and_clear(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  frame.push(frame.local(ex, in.arg));
  frame.set_local(in.arg, nullptr);
}

// Whether the frame holds what is in `slot` at another place too.
bool held_twice(const SymbolicFrame& frame, int slot) {
  const ValuePtr& value = frame.locals[slot];
  if (!value) return false;
  return std::find(frame.stack.begin(), frame.stack.end(), value) != frame.stack.end() ||
         std::count(frame.locals.begin(), frame.locals.end(), value) > 1;
}

void let_go(Executor& ex, PyObject* object) {
  if (runs_code_when_it_dies(object)) break_before_end(object);
  if (Py_TYPE(object)->tp_weaklistoffset != 0) ex.state().let_go.insert(object);
}

// The object that is there in this call; null: none, or one that is made during capture.
PyRef live_local(Executor& ex, const SymbolicFrame& frame, int slot) {
  if (frame.pending[slot]) return follow(*frame.pending[slot], ex.state().request.roots);
  return frame.locals[slot] ? PyRef::borrow(frame.locals[slot]->real_object()) : PyRef();
}

// Whether a frame around this one holds the object as well.
bool caller_holds(Executor& ex, const SymbolicFrame& frame, const PyRef& object) {
  for (const SymbolicFrame* caller = frame.back; caller; caller = caller->back)
    for (int slot = 0; slot < std::ssize(caller->locals); ++slot)
      if (live_local(ex, *caller, slot).get() == object.get()) return true;
  return false;
}

bool is_argument(Executor& ex, const PyObject* object) {
  const Roots& roots = ex.state().request.roots;
  return std::find(roots.arguments, roots.arguments + roots.num_arguments, object) !=
         roots.arguments + roots.num_arguments;
}

bool comes_by_argument(const SourcePtr& source) {
  const Source* root = source.get();
  while (root && root->base) root = root->base.get();
  return root && root->kind == SourceKind::kArgument;
}

// What a local held may die with it; where that runs code, it happens in Python.
void let_go(Executor& ex, SymbolicFrame& frame, int slot) {
  const PyRef object = live_local(ex, frame, slot);
  if (!object || (frame.is_resumed && caller_holds(ex, frame, object))) return;
  if (held_twice(frame, slot)) {
    const ValuePtr& value = frame.locals[slot];
    if (ex.state().request.owns_arguments && comes_by_argument(value->source)) note_held_by_stack(ex, value);
    return;
  }
  const SourcePtr& source = frame.pending[slot] ? frame.pending[slot] : frame.locals[slot]->source;
  // What was read from somewhere is held there, unless it was passed as well.
  const bool is_held = source && !may_be_held_by_nothing(source) && !is_argument(ex, object.get()) &&
                       !runs_other_code_when_it_dies(object.get());
  const bool came_with_call = source && source->kind == SourceKind::kArgument;
  const bool is_own = came_with_call && ex.state().request.owns_arguments;
  if (is_own && runs_code_when_all_of_it_dies(object.get())) break_before_end(object.get());
  if (!is_held) let_go(ex, object.get());
  if (is_own) add_guard(ex, GuardKind::kDiesQuietly, source);
  if (came_with_call) ex.state().note_let_go(object.get());
}

void pop_top(Executor&, SymbolicFrame& frame, const Instruction&) { frame.pop(); }

void store_fast(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  let_go(ex, frame, in.arg);
  frame.set_local(in.arg, frame.pop());
}

void delete_fast(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  if (argument_handed_on(frame, in.arg)) return frame.set_local(in.arg, nullptr);
  if (!frame.is_bound(in.arg)) raise_unbound_local(ex, frame, in.arg);
  let_go(ex, frame, in.arg);
  frame.set_local(in.arg, nullptr);
}

void make_cell(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  ValuePtr contents = frame.local(ex, in.arg);
  auto cell = std::make_shared<CellValue>(std::move(contents));
  ex.state().cyclic[cell.get()] = cell;
  if (const Executor::IsolatedRegion* region = ex.isolated_region();
      region && (region->pure || region->runs_later >= 0))
    ex.state().made_in_region.insert(cell);
  frame.set_local(in.arg, std::move(cell));
}

void copy_free_vars(Executor&, SymbolicFrame& frame, const Instruction& in) {
  size_t first = frame.locals.size() - static_cast<size_t>(in.arg);
  if (frame.closure.size() < static_cast<size_t>(in.arg))
    throw graph::InternalError("a closure has too few cells");
  for (size_t i = 0; i < static_cast<size_t>(in.arg); ++i)
    frame.set_local(static_cast<int>(first + i), frame.closure[i]);
}

CellValue& cell_at(Executor& ex, SymbolicFrame& frame, int slot) {
  auto* cell = dynamic_cast<CellValue*>(frame.local(ex, slot).get());
  if (!cell) break_graph("CD0107", frame.slot_name(slot));
  return *cell;
}

[[noreturn]] void raise_unbound_cell(Executor& ex, SymbolicFrame& frame, int slot) {
  PyCodeObject* code = frame.code->object();
  if (slot < code->co_nlocalsplus - code->co_nfreevars) raise_unbound_local(ex, frame, slot);
  std::string name = frame.slot_name(slot);
  raise_error(ex, PyExc_NameError,
              "cannot access free variable '" + name +
                  "' where it is not associated with a value in enclosing scope");
}

void load_closure(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  frame.push(frame.local(ex, in.arg));
}

// Whether a frame that runs may assign to the variable from here on.
bool is_assigned_later(const SymbolicFrame* frame, const CellValue& cell) {
  for (; frame; frame = frame->back)
    for (size_t slot = 0; slot < frame->locals.size(); ++slot)
      if (frame->locals[slot].get() == &cell)
        if (assigned_slots(frame->code->object(), frame->code->program, frame->pc)[slot]) return true;
  return false;
}

void note_read(Executor& ex, const SymbolicFrame& frame, CellValue& cell) {
  if (!ex.isolated_region() || ex.state().made_in_region.contains(cell.shared_from_this())) return;
  cell.note_read(ex);
  if (is_assigned_later(&frame, cell)) ex.asks_later("a variable that is assigned again");
}

void load_deref(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  CellValue& cell = cell_at(ex, frame, in.arg);
  ValuePtr value = cell.contents(ex);
  if (!value) raise_unbound_cell(ex, frame, in.arg);
  note_read(ex, frame, cell);
  frame.push(std::move(value));
}

// A free variable of a class body: a name of the namespace, else what the cell holds.
void load_from_dict_or_deref(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  const ValuePtr mapping = frame.pop();
  DictValue* names = dict_in(mapping);
  if (!names) break_graph("CD0010", frame.slot_name(in.arg));
  ValuePtr value = names->lookup_string(ex, interned(frame.slot_name(in.arg)));
  if (!value) return load_deref(ex, frame, in);
  frame.push(std::move(value));
}

// What the cell held, unless the frame holds it elsewhere.
void let_go_of_contents(Executor& ex, const SymbolicFrame& frame, const CellValue& cell) {
  PyObject* object = cell.live_contents();
  const auto is_it = [&](const ValuePtr& value) { return value && value->real_object() == object; };
  if (object && std::ranges::none_of(frame.stack, is_it) && std::ranges::none_of(frame.locals, is_it)) {
    let_go(ex, object);
    ex.state().note_let_go(object);
  }
}

void store_deref(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  CellValue& cell = cell_at(ex, frame, in.arg);
  let_go_of_contents(ex, frame, cell);
  cell.set_contents(ex, frame.pop());
}

void delete_deref(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  CellValue& cell = cell_at(ex, frame, in.arg);
  const ValuePtr contents = cell.contents(ex);
  if (!contents) raise_unbound_cell(ex, frame, in.arg);
  let_go_of_contents(ex, frame, cell);
  cell.set_contents(ex, nullptr);
}

constexpr OpRow kStackRows[] = {
    {Op::NOP, nop},
    {Op::POP_TOP, pop_top},
    {Op::PUSH_NULL, push_null},
    {Op::COPY, copy},
    {Op::SWAP, swap},
    {Op::LOAD_CONST, load_const},
    {Op::LOAD_FAST, load_fast},
    {Op::LOAD_FAST_CHECK, load_fast},
    {Op::LOAD_FAST_AND_CLEAR, load_fast_and_clear},
    {Op::STORE_FAST, store_fast},
    {Op::DELETE_FAST, delete_fast},
    {Op::MAKE_CELL, make_cell},
    {Op::COPY_FREE_VARS, copy_free_vars},
    {Op::LOAD_CLOSURE, load_closure},
    {Op::LOAD_DEREF, load_deref},
    {Op::LOAD_FROM_DICT_OR_DEREF, load_from_dict_or_deref},
    {Op::STORE_DEREF, store_deref},
    {Op::DELETE_DEREF, delete_deref},
};

}  // namespace

void let_go_of_locals(Executor& ex, SymbolicFrame& frame) {
  if (!frame.is_resumed) return;
  for (int slot = 0; slot < std::ssize(frame.locals); ++slot) let_go(ex, frame, slot);
}

namespace {

bool is_own_argument(const SymbolicFrame& root, int slot) {
  const SourcePtr& source = root.locals[slot]->source;
  return source && source->kind == SourceKind::kArgument && source->label == root.slot_name(slot);
}

// What captured code has made and the collector alone frees: a class, and what is in a cycle.
bool is_held_by_garbage(Executor& ex, HolderSearch& search) {
  const auto is_in_new = [&](const ValuePtr& holder) {
    return holder && !holder->source && search.is_in(holder);
  };
  return std::ranges::any_of(ex.state().made_classes.stand_ins | std::views::keys, is_in_new) ||
         std::ranges::any_of(ex.state().cyclic | std::views::values,
                             [&](const auto& holder) { return is_in_new(holder.lock()); });
}

}  // namespace

void require_ends_in_order(Executor& ex, const SymbolicFrame& root) {
  if (!ex.state().request.owns_arguments) return;
  const auto require = [&](PyObject* object, const ValuePtr& value) {
    if (!object || !comes_by_argument(value->source) || !runs_other_code_when_it_dies(object)) return;
    HolderSearch search(ex, value);
    for (int slot = 0; slot < std::ssize(root.locals); ++slot)
      if (root.locals[slot] && !is_own_argument(root, slot) && search.is_in(root.locals[slot]))
        break_before_end(object);
    if (is_held_by_garbage(ex, search)) break_before_end(object);
  };
  for (const auto& [object, value] : ex.state().by_object) require(object, value);
  for (const ValuePtr& local : root.locals)
    if (auto* cell = dynamic_cast<CellValue*>(local.get())) require(cell->live_contents(), local);
}

std::vector<ValuePtr> held_in_cells(Executor& ex, const ValuePtr& holder) {
  if (auto* cell = dynamic_cast<CellValue*>(holder.get())) return {cell->known_contents()};
  auto* function = dynamic_cast<FunctionValue*>(holder.get());
  return function && !function->source ? function->closure(ex) : std::vector<ValuePtr>();
}

bool is_held_by_frame(Executor& ex, PyObject* object) {
  const auto known = ex.state().by_object.find(object);
  const ValuePtr value = known == ex.state().by_object.end() ? nullptr : known->second;
  for (const SymbolicFrame* frame = ex.frame(); frame; frame = frame->back)
    for (int slot = 0; slot < std::ssize(frame->locals); ++slot)
      if ((value && frame->locals[slot] == value) || live_local(ex, *frame, slot).get() == object)
        return true;
  return false;
}

bool any_local(Executor& ex, const std::function<bool(const ValuePtr&)>& test) {
  const auto holds = [&](const ValuePtr& value) {
    auto* cell = dynamic_cast<CellValue*>(value.get());
    return value && test(cell ? cell->known_contents() : value);
  };
  for (const SymbolicFrame* frame = ex.frame(); frame; frame = frame->back)
    if (std::ranges::any_of(frame->locals, holds)) return true;
  return false;
}

bool any_held(Executor& ex, const std::function<bool(const ValuePtr&)>& test) {
  const auto holds = [&](const ValuePtr& value) { return value && test(value); };
  for (const SymbolicFrame* frame = ex.frame(); frame; frame = frame->back)
    if (std::ranges::any_of(frame->stack, holds) || holds(frame->result)) return true;
  return any_local(ex, test);
}

std::span<const OpRow> stack_ops() { return kStackRows; }

}  // namespace cdynamo::symbolic
