// Which locals of the frames that a graph break hands to Python are handed on: those that are read again, and those whose end
// something may see (weak references, finalizers), for in Python they live until the frame ends. Tensors and plain values that
// nobody reads need not.
#pragma once

#include <vector>

#include "symbolic/capture/executor.h"

namespace cdynamo::symbolic {

class SymbolicFrame;

// The slots of each of `frames` (outermost first) that are handed on, those that are read again first. What is handed on has its
// recipe. `dies_unseen`: whether an argument that no instruction has looked at may be left out.
std::vector<std::vector<int>> locals_handed_on(
    Executor& ex, const std::vector<SymbolicFrame*>& frames,
    const std::function<bool(const SymbolicFrame&, int slot)>& dies_unseen);

// A number or a string, Python's or NumPy's.
bool is_number_or_text(PyTypeObject* type);

}  // namespace cdynamo::symbolic
