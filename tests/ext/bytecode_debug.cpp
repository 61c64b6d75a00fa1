#include "tests/ext/bytecode_debug.h"

#include "symbolic/bytecode/opcode_table.h"

namespace cdynamo::symbolic {
namespace {

// Runs `body`, which returns a PyRef, on a code object; a C++ exception becomes a null return.
template <typename Body>
PyObject* with_code(PyObject* object, Body body) {
  if (!PyCode_Check(object)) {
    PyErr_SetString(PyExc_TypeError, "a code object is expected");
    return nullptr;
  }
  try {
    return body(reinterpret_cast<PyCodeObject*>(object)).release();
  } catch (const PythonError&) {
    return nullptr;
  }
}

void append(const PyRef& list, PyRef item) {
  if (PyList_Append(list.get(), item.get()) < 0) throw PythonError{};
}

Program reencoded(const Program& program, int nops) {
  std::vector<bool> is_target(program.code.size());
  for (const Instruction& instruction : program.code) {
    if (is_jump(instruction.op)) is_target[instruction.arg] = true;
  }
  Program result;
  std::vector<int> moved;
  for (size_t i = 0; i < program.code.size(); ++i) {
    // A FOR_ITER has to land on its END_FOR, not on a NOP.
    const bool landing = is_landing(program.code[i].op);
    moved.push_back(static_cast<int>(result.code.size()));
    Instruction nop = program.code[i];
    nop.op = Op::NOP;
    nop.arg = nop.arg2 = 0;
    nop.offset = -1;
    if (is_target[i] && !landing) result.code.insert(result.code.end(), nops, nop);
    result.code.push_back(program.code[i]);
    result.code.back().offset = -1;
  }
  for (Instruction& instruction : result.code) {
    if (is_jump(instruction.op)) instruction.arg = moved[instruction.arg];
  }
  result.handlers = program.handlers;
  for (Handler& handler : result.handlers) handler.target = moved[handler.target];
  return result;
}

}  // namespace

PyObject* debug_decode(PyObject* object) {
  return with_code(object, [](PyCodeObject* code) {
    const Program program = decode(code);
    const std::vector<int> depths = stack_depths(program);
    const PyRef instructions = checked(PyList_New(0)), handlers = checked(PyList_New(0));
    for (size_t i = 0; i < program.code.size(); ++i) {
      const Instruction& in = program.code[i];
      append(instructions,
             checked(Py_BuildValue("(siiiii(iiii))", op_name(in.op), in.arg, in.arg2, in.offset, in.handler,
                                   depths[i], in.line, in.end_line, in.column, in.end_column)));
    }
    for (const Handler& handler : program.handlers) {
      append(handlers, checked(Py_BuildValue("(iiO)", handler.target, handler.depth,
                                             handler.push_lasti ? Py_True : Py_False)));
    }
    return checked(PyTuple_Pack(2, instructions.get(), handlers.get()));
  });
}

PyObject* debug_roundtrip(PyObject* object) {
  return with_code(object, [](PyCodeObject* code) { return assemble(code, decode(code)); });
}

PyObject* debug_reencode(PyObject* object, int nops) {
  return with_code(object,
                   [nops](PyCodeObject* code) { return assemble(code, reencoded(decode(code), nops)); });
}

PyObject* debug_opcodes() {
  try {
    const PyRef rows = checked(PyList_New(0));
    for (const RawOpcode& row : kOpcodeTable.rows) {
      append(rows, checked(Py_BuildValue("(sii)", row.name, row.number, row.caches)));
    }
    return PyRef(rows).release();
  } catch (const PythonError&) {
    return nullptr;
  }
}

}  // namespace cdynamo::symbolic
