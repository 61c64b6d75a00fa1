// Opcodes of the stack, constants, locals and cells.
#include <algorithm>
#include <string>

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/frame.h"
#include "symbolic/frames/functions.h"
#include "symbolic/values/value_tools.h"

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

void load_fast(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  const ValuePtr& value = frame.local(ex, in.arg);
  if (!value) raise_unbound_local(ex, frame, in.arg);
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

// What a local held may die with it; where its class has a finalizer, that happens in Python.
void let_go(Executor& ex, SymbolicFrame& frame, int slot) {
  PyObject* object = nullptr;
  PyRef waiting;
  if (frame.pending[slot]) {
    waiting = follow(*frame.pending[slot], ex.state().request.roots);
    object = waiting.get();
  } else if (frame.locals[slot]) {
    object = frame.locals[slot]->real_object();
  }
  if (object && _PyType_Lookup(Py_TYPE(object), interned("__del__")) && !held_twice(frame, slot))
    break_graph("CD0221", std::string("class ") + Py_TYPE(object)->tp_name);
}

// An item of the stack that a graph break has left: nothing else need hold it, and a generator in a `try` runs its
// handlers as it dies.
bool only_stack_holds(const SymbolicFrame& frame, const ValuePtr& value) {
  return frame.is_root && value && value->source && value->source->kind == SourceKind::kArgument &&
         value->source->label.starts_with(".stack");
}

void pop_top(Executor&, SymbolicFrame& frame, const Instruction&) {
  refuse_finalizer(frame, frame.peek(1));
  frame.pop();
}

void store_fast(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  let_go(ex, frame, in.arg);
  frame.set_local(in.arg, frame.pop());
}

void delete_fast(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  if (!frame.is_bound(in.arg)) raise_unbound_local(ex, frame, in.arg);
  let_go(ex, frame, in.arg);
  frame.set_local(in.arg, nullptr);
}

void make_cell(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  ValuePtr contents = frame.local(ex, in.arg);
  auto cell = std::make_shared<CellValue>(std::move(contents));
  ex.state().cyclic[cell.get()] = cell;
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

void load_deref(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  ValuePtr value = cell_at(ex, frame, in.arg).contents(ex);
  if (!value) raise_unbound_cell(ex, frame, in.arg);
  frame.push(std::move(value));
}

void store_deref(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  cell_at(ex, frame, in.arg).set_contents(ex, frame.pop());
}

void delete_deref(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  CellValue& cell = cell_at(ex, frame, in.arg);
  if (!cell.contents(ex)) raise_unbound_cell(ex, frame, in.arg);
  cell.set_contents(ex, nullptr);
}

constexpr OpRow kRows[] = {
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
    {Op::STORE_DEREF, store_deref},
    {Op::DELETE_DEREF, delete_deref},
};

}  // namespace

void refuse_finalizer(const SymbolicFrame& frame, const ValuePtr& item) {
  PyObject* object = only_stack_holds(frame, item) ? item->real_object() : nullptr;
  if (object && _PyType_Lookup(Py_TYPE(object), interned("__del__")))
    break_graph("CD0221", std::string("class ") + Py_TYPE(object)->tp_name);
}

std::span<const OpRow> stack_ops() { return kRows; }

}  // namespace cdynamo::symbolic
