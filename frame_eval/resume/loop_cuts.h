// What captures have learnt of a function's loops: which ones graph breaks have cut into turns (LoopCut). It is kept with the
// original code, for all resume functions of it.
#pragma once

#include "symbolic/capture/capture_result.h"

namespace cdynamo::frame_eval {

// What is known of `code`, an original or a resume function, before it is captured. Numbers that change from turn to turn are
// dynamic from the first one on.
void add_loop_cuts(PyCodeObject* code, symbolic::CaptureRequest& request);
void note_loop_cuts(PyCodeObject* code, const symbolic::CaptureResult& capture);
void forget_loop_cuts(PyCodeObject* code);

}  // namespace cdynamo::frame_eval
