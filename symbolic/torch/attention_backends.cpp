// torch.nn.attention.sdpa_kernel during capture: the flags that it sets, in C, of which kernels scaled_dot_product_attention may choose.
// What a capture leaves changed is set after the graph has run.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "symbolic/torch/callables.h"
#include "symbolic/values/pending_effect.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

constexpr const char* kNames[] = {"flash", "mem_efficient", "math", "cudnn", "overrideable"};
static_assert(std::size(kNames) == std::tuple_size_v<decltype(AttentionBackends::flags)>);

bool is_enabled(const char* name) {
  PyObject* getter = library_object("torch._C", absl::StrCat("_get_", name, "_sdp_enabled").c_str());
  return getter && checked(PyObject_CallNoArgs(getter)).get() == Py_True;
}

AttentionBackends::Flag& flag_of(Executor& ex, size_t index) {
  AttentionBackends::Flag& flag = torch_capture(ex).attention_backends.flags[index];
  if (!flag.known) flag = {true, is_enabled(kNames[index]), is_enabled(kNames[index])};
  return flag;
}

// Stands for the flags among the mutated values.
class BackendsEffect final : public PendingEffect {
 public:
  void emit_effects(Executor& ex) override {
    for (size_t i = 0; i < std::size(kNames); ++i) {
      const AttentionBackends::Flag& flag = tensor_capture(ex).attention_backends.flags[i];
      if (flag.now == flag.before) continue;
      const std::string setter = absl::StrCat("_set_sdp_use_", kNames[i]);
      Effect effect{.kind = EffectKind::kCall};
      effect.target = make_recipe(RecipeKind::kConstant, library_object("torch._C", setter.c_str()));
      effect.value = make_recipe(RecipeKind::kTuple, nullptr,
                                 {make_recipe(RecipeKind::kConstant, flag.now ? Py_True : Py_False)});
      ex.effect(std::move(effect));
    }
  }
};

template <size_t index>
ValuePtr get_flag(Executor& ex, PyObject*, const CallArgs&) {
  return ex.constant_bool(flag_of(ex, index).now);
}

template <size_t index>
ValuePtr set_flag(Executor& ex, PyObject* callable, const CallArgs& args) {
  PyObject* wanted = args.positional.size() == 1 ? constant_object(args.positional[0]) : nullptr;
  if (wanted != Py_True && wanted != Py_False) break_graph("CD0413", "torch.nn.attention");
  AttentionBackends::Flag& flag = flag_of(ex, index);
  std::shared_ptr<SymbolicValue>& effect = tensor_capture(ex).attention_backends.effect;
  if (!effect) ex.mutated(effect = std::make_shared<BackendsEffect>());
  if (flag.now == (wanted == Py_True)) return ex.none();
  return recorded_call(ex, "call_function", PyRef::borrow(callable), args, [&] {
    flag.now = wanted == Py_True;
    return ex.none();
  });
}

constexpr SpecialRow kAttentionBackendRows[] = {
    {"torch._C._get_flash_sdp_enabled", get_flag<0>},
    {"torch._C._get_mem_efficient_sdp_enabled", get_flag<1>},
    {"torch._C._get_math_sdp_enabled", get_flag<2>},
    {"torch._C._get_cudnn_sdp_enabled", get_flag<3>},
    {"torch._C._get_overrideable_sdp_enabled", get_flag<4>},
    {"torch._C._set_sdp_use_flash", set_flag<0>},
    {"torch._C._set_sdp_use_mem_efficient", set_flag<1>},
    {"torch._C._set_sdp_use_math", set_flag<2>},
    {"torch._C._set_sdp_use_cudnn", set_flag<3>},
    {"torch._C._set_sdp_use_overrideable", set_flag<4>},
};

}  // namespace

bool AttentionBackends::are_changed() const {
  return std::ranges::any_of(flags, [](const Flag& flag) { return flag.now != flag.before; });
}

std::span<const SpecialRow> attention_backend_functions() { return kAttentionBackendRows; }

}  // namespace cdynamo::symbolic
