// Calls through a code's cache, for the rooms below frame_eval/cache: implemented by frame_eval/call. The only seam of
// frame_eval that calls upwards (tools/layers.py).
#pragma once

#include <memory>

#include "frame_eval/hook/config.h"
#include "frame_eval/hook/frame.h"
#include "frame_eval/hook/owned_arguments.h"

namespace cdynamo::frame_eval {

class CodeCache;

// A call of `function` through its code's cache, or in Python where it is to run there. `cache` is looked up
// where it is null or another code's. `owned`: the references of `args`, where they are handed over. A new
// reference, null with a Python error.
PyObject* call_function(PyObject* function, const ConfigPtr& config, std::shared_ptr<CodeCache>& cache,
                        PyObject* const* args, size_t nargsf, PyObject* kwnames, OwnedArguments owned = {});

// Runs a frame of `code` that has not started through its code's cache, under `config`; ends it and sets `result` (null
// with a Python error). False: the frame is still to be evaluated.
bool run_compiled(PyThreadState* tstate, CdynamoFrame* frame, PyCodeObject* code, const ConfigPtr& config,
                  PyObject** result);

}  // namespace cdynamo::frame_eval
