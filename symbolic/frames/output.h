// What programs write: text, log records, warnings. They are effects, which come when the graph has run; where it raises an error
// nothing has been written, and Python runs the call.
#pragma once

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

// function(*arguments), `function` being one of cdynamo/_output.py and the like. Breaks the graph in a region that eager runs
// again: it would be written twice.
void write_later(Executor& ex, PyObject* function, std::vector<RecipePtr> arguments, const char* what);
RecipePtr text_recipe(const char* text);
// sys.stdout or sys.stderr: `name`. Breaks the graph where it is not what it was when the call began, or runs Python.
ValuePtr standard_stream(Executor& ex, const char* name, const char* what);
// A log record among effects.
bool is_log(const Effect& effect);

// A function of the warnings module that is no row of a table; null: none of those. warnings.cpp
ValuePtr call_warnings_function(Executor& ex, PyObject* function, const CallArgs& args);

}  // namespace cdynamo::symbolic
