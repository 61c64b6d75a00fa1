#include "frame_eval/hook.h"

#include <algorithm>

#include "frame_eval/code_cache.h"
#include "frame_eval/frame.h"
#include "symbolic/py_ref.h"

namespace cdynamo::frame_eval {
