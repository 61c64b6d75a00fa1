// A graph as plain Python objects, in the form that python/cdynamo/_graph.py reads: captured graphs for backends in
// Python, and core graphs for what explain() and the log topic aot show of the joint, forward and backward ones.
#pragma once

#include <string_view>

#include "graph/graph.h"
#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {
class LibraryCalls;
}

namespace cdynamo::frame_eval {

using symbolic::PyRef;

// All throw PythonError.
PyRef python_text(std::string_view text);
void append(const PyRef& list, const PyRef& item);
// (file, line, function, source text) of a node; None where it has no place.
PyRef location_of(const graph::Graph& graph, const graph::Node& node);

// The whole description. `symbols`: (name, input, dim) of each size symbol; `calls`: records as in
// symbolic/tensors/user_call.h; `locations`: one for each call.
PyRef describe(const graph::Graph& graph, const PyRef& symbols, const PyRef& calls, const PyRef& locations);
// Of a core graph; the functions that its nodes call are those of python/cdynamo/_core_ops.py.
// `library`: what its core.library nodes name; may be null where there are none.
PyRef describe_core(const graph::Graph& core, const symbolic::LibraryCalls* library);

}  // namespace cdynamo::frame_eval
