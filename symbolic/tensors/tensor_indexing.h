// x[...] and x[...] = y of tensors and arrays: the subscript becomes views (select, slice, unsqueeze) and at
// most one gather (index) or scatter (index_put). PyTorch's rules and NumPy's differ in negative steps and in
// how an integer beside index arrays counts.
#pragma once

#include "symbolic/tensors/array_value.h"

namespace cdynamo::symbolic {

// What a subscript selects: a view of the base, and index tensors for some of the view's dimensions (null:
// all of it).
struct Selection {
  graph::Value* view = nullptr;
  std::vector<graph::Value*> indices;  // empty: the view is the result
  graph::Value* mask = nullptr;        // x[mask]: one bool index; `indices` holds it too
  bool has_bool = false;               // the mask is a 0-d bool, which selects all of the view or nothing
};
Selection select_items(Executor& ex, graph::Value* base, const ValuePtr& key, graph::Framework framework);

graph::Value* read_selection(Executor& ex, const Selection& selection);
// `value` is a tensor, an array or a number.
void write_selection(Executor& ex, const Selection& selection, const ValuePtr& value,
                     graph::Framework framework);

}  // namespace cdynamo::symbolic
