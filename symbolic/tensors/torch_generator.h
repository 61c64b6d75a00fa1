// A torch.Generator that comes in, or that captured code makes: each call makes one before the graph runs, and seeds it. A graph that
// draws from it takes it as an input, so another one may come with the next call: it draws when the graph runs, in the program's order,
// and is left in the state that eager leaves it in.
#pragma once

#include "symbolic/capture/executor.h"

namespace cdynamo::symbolic {

// Null: another object.
ValuePtr wrap_torch_generator(Executor& ex, PyObject* object, const SourcePtr& source);
// torch.Generator(device)
ValuePtr make_torch_generator(Executor& ex, PyObject* cls, const CallArgs& args);
// The graph's input for a generator of the CPU; null: another value, or a PyTorch whose C interface takes no generators.
graph::Value* generator_input(Executor& ex, const ValuePtr& value);

}  // namespace cdynamo::symbolic
