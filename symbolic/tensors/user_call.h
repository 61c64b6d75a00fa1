// What the user's program called, at the level of the user's own calls: CaptureResult::user_calls, from which
// python/cdynamo builds a torch.fx.GraphModule or a cdynamo.Graph. Node::user_call is an index in that list.
//
// Each record is a Python tuple
//
//     (kind, target, args, kwargs, result)
//
//   kind     "call_function" (target: the callable, operator.add and operator.getitem for operators and
//   subscripts) or
//            "call_method" (target: the name; args[0] is the receiver)
//   args     a tuple of encoded values; kwargs: a dict from str to encoded values
//   result   an encoded value, or None where the call gave no tensor (x[0] = y)
//
// An encoded value is a pair (tag, content):
//
//     ("value", id)            a value of the graph: graph::Value::id of an input or of a node's result
//     ("const", object)        any object known at capture: numbers, strings, dtypes, devices, None, Ellipsis
//     ("int", (text, hint))    an int over size symbols: "4*s0 + 1", and its value in this call
//     ("tuple", [encoded...])  also torch.Size and namedtuples
//     ("list", [encoded...])
//     ("dict", [(encoded key, encoded value)...])   of a result alone
//     ("slice", (start, stop, step))   each encoded
//     ("unknown", text)        an object that has no such form; text describes it
//
// Calls are in the order of execution. Several nodes may carry one record's index (x[1, 2:] is one call, two
// nodes).
#pragma once

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

PyRef encode_value(Executor& ex, const ValuePtr& value);
// Of a record, the text of an argument, or of a part of one, that is "unknown"; borrowed. Null: there is none.
PyObject* unknown_argument(PyObject* record);
// The same of its result.
PyObject* unknown_result(PyObject* record);
// A record without a result, for Executor::record_user_call.
PyRef make_user_call(Executor& ex, const char* kind, PyObject* target, const CallArgs& args);
// The record with its result filled in. Records are replaced in the list, not changed.
PyRef with_result(Executor& ex, PyObject* record, const ValuePtr& result);

}  // namespace cdynamo::symbolic
