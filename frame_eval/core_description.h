// A core graph as plain Python objects, in the form that python/cdynamo/_graph.py reads: what explain() and
// the log topic aot show of the joint, forward and backward graphs, and what to_fx makes a GraphModule from.
#pragma once

#include "graph/graph.h"
#include "symbolic/py_ref.h"

namespace cdynamo::frame_eval {

// Throws PythonError. The functions that nodes call are those of python/cdynamo/_core_ops.py.
symbolic::PyRef describe_core(const graph::Graph& core);

}  // namespace cdynamo::frame_eval
