// What the tests see of the decoder and the assembler: functions of the extension module. New references,
// null on error.
#pragma once

#include <Python.h>

namespace cdynamo::symbolic {

// (instructions, handlers) of a code object: instructions are tuples (name, arg, arg2, offset, handler,
// depth, (line, end_line, column, end_column)), handlers are tuples (target, depth, push_lasti). depth: of
// the stack before it, -1 if unreachable.
PyObject* debug_decode(PyObject* code);
// Decoded and assembled again.
PyObject* debug_roundtrip(PyObject* code);
// As debug_roundtrip, with each instruction taken for a new one (offset -1) and `nops` NOPs put in front of
// each that is the target of a jump: nothing of the original encoding is used again.
PyObject* debug_reencode(PyObject* code, int nops);
// The rows of this version's table: tuples (name, number, caches).
PyObject* debug_opcodes();

}  // namespace cdynamo::symbolic
