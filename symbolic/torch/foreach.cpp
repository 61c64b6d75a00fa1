// torch._foreach_add and the like: an operator on each tensor of a list, as ATen's own fallback does it.
#include <cstring>

#include "symbolic/capture/value_factories.h"
#include "symbolic/torch/callables.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

ValuePtr call_foreach(Executor& ex, PyObject* callable, const CallArgs& args) {
  PyRef name = checked(PyObject_GetAttrString(callable, "__name__"));
  const char* op = PyUnicode_AsUTF8(name.get()) + std::strlen("_foreach_");
  CallArgs all = args;
  all.positional.insert(all.positional.begin(), ex.constant(checked(PyUnicode_FromString(op))));
  return polyfill(ex, PythonSide::kTrainingPolyfills, "foreach")->call(ex, all);
}

constexpr SpecialRow kForeachRows[] = {
    {"torch._foreach_abs", call_foreach},         {"torch._foreach_abs_", call_foreach},
    {"torch._foreach_acos", call_foreach},        {"torch._foreach_acos_", call_foreach},
    {"torch._foreach_add", call_foreach},         {"torch._foreach_add_", call_foreach},
    {"torch._foreach_addcdiv", call_foreach},     {"torch._foreach_addcdiv_", call_foreach},
    {"torch._foreach_addcmul", call_foreach},     {"torch._foreach_addcmul_", call_foreach},
    {"torch._foreach_ceil", call_foreach},        {"torch._foreach_ceil_", call_foreach},
    {"torch._foreach_clamp_max", call_foreach},   {"torch._foreach_clamp_max_", call_foreach},
    {"torch._foreach_clamp_min", call_foreach},   {"torch._foreach_clamp_min_", call_foreach},
    {"torch._foreach_copy", call_foreach},        {"torch._foreach_copy_", call_foreach},
    {"torch._foreach_cos", call_foreach},         {"torch._foreach_cos_", call_foreach},
    {"torch._foreach_div", call_foreach},         {"torch._foreach_div_", call_foreach},
    {"torch._foreach_erf", call_foreach},         {"torch._foreach_erf_", call_foreach},
    {"torch._foreach_exp", call_foreach},         {"torch._foreach_exp_", call_foreach},
    {"torch._foreach_expm1", call_foreach},       {"torch._foreach_expm1_", call_foreach},
    {"torch._foreach_floor", call_foreach},       {"torch._foreach_floor_", call_foreach},
    {"torch._foreach_frac", call_foreach},        {"torch._foreach_frac_", call_foreach},
    {"torch._foreach_lerp", call_foreach},        {"torch._foreach_lerp_", call_foreach},
    {"torch._foreach_lgamma", call_foreach},      {"torch._foreach_lgamma_", call_foreach},
    {"torch._foreach_log", call_foreach},         {"torch._foreach_log_", call_foreach},
    {"torch._foreach_log10", call_foreach},       {"torch._foreach_log10_", call_foreach},
    {"torch._foreach_log1p", call_foreach},       {"torch._foreach_log1p_", call_foreach},
    {"torch._foreach_log2", call_foreach},        {"torch._foreach_log2_", call_foreach},
    {"torch._foreach_maximum", call_foreach},     {"torch._foreach_maximum_", call_foreach},
    {"torch._foreach_minimum", call_foreach},     {"torch._foreach_minimum_", call_foreach},
    {"torch._foreach_mul", call_foreach},         {"torch._foreach_mul_", call_foreach},
    {"torch._foreach_neg", call_foreach},         {"torch._foreach_neg_", call_foreach},
    {"torch._foreach_norm", call_foreach},        {"torch._foreach_pow", call_foreach},
    {"torch._foreach_pow_", call_foreach},        {"torch._foreach_reciprocal", call_foreach},
    {"torch._foreach_reciprocal_", call_foreach}, {"torch._foreach_round", call_foreach},
    {"torch._foreach_round_", call_foreach},      {"torch._foreach_rsqrt", call_foreach},
    {"torch._foreach_rsqrt_", call_foreach},      {"torch._foreach_sigmoid", call_foreach},
    {"torch._foreach_sigmoid_", call_foreach},    {"torch._foreach_sign", call_foreach},
    {"torch._foreach_sign_", call_foreach},       {"torch._foreach_sin", call_foreach},
    {"torch._foreach_sin_", call_foreach},        {"torch._foreach_sqrt", call_foreach},
    {"torch._foreach_sqrt_", call_foreach},       {"torch._foreach_sub", call_foreach},
    {"torch._foreach_sub_", call_foreach},        {"torch._foreach_tan", call_foreach},
    {"torch._foreach_tan_", call_foreach},        {"torch._foreach_tanh", call_foreach},
    {"torch._foreach_tanh_", call_foreach},       {"torch._foreach_trunc", call_foreach},
    {"torch._foreach_trunc_", call_foreach},      {"torch._foreach_zero_", call_foreach},
};

}  // namespace

std::span<const SpecialRow> foreach_functions() { return kForeachRows; }

}  // namespace cdynamo::symbolic
