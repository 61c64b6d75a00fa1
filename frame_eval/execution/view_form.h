// ViewForm: how a result that is a view is made, so that PyTorch's autograd takes it for what eager's is.
#pragma once

#include <vector>

#include "graph/passes/view_step.h"

namespace cdynamo::frame_eval {

struct ViewForm {
  graph::ViewHistory history;
  bool is_whole = false;       // what `detach` and `.data` give, not a view of it
  bool is_apart = false;       // nor is it a view to autograd, of whatever it shares its elements with
  bool is_from_numpy = false;  // its storage begins where the array does
  // Its storage was written to after it was made: PyTorch refuses to read its history, or makes it anew (without the
  // gradient of a leaf).
  bool is_stale = false;
  bool is_one_of_several = false;
  bool is_unbound = false;  // `unbind` made it, which PyTorch names in errors
  int of_result = -1;       // the whole result that it is a view of: `requires_grad_` of that shows in it
};

// By the captured graph's outputs.
std::vector<ViewForm> view_forms(const graph::Graph& captured);

}  // namespace cdynamo::frame_eval
