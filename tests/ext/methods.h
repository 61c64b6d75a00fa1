// What the tests reach inside the extension: functions that cdynamo._C has where it is built with CDYNAMO_TEST_HOOKS.
#pragma once

#include <Python.h>

namespace cdynamo::test_hooks {

// For PyModule_AddFunctions: _capture(function, arguments), _decode, _roundtrip, _reencode(code, nops), _opcodes,
// _run_in_place(function, replacement, *arguments, **keywords), _dict_version, _is_tracing, _python_side.
PyMethodDef* methods();

}  // namespace cdynamo::test_hooks
