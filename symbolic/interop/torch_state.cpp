// torch's modes, as tensor_access.h offers them.
#include <array>

#include "runtime/host/parallel.h"
#include "symbolic/interop/tensor_access.h"
#include "symbolic/interop/torch_access.h"

namespace cdynamo::symbolic {
namespace {

constexpr uint32_t kFirstAttentionFlag = 1u << 16;  // after TorchState::Flag

// Which kernels scaled_dot_product_attention may not choose on a GPU (torch.nn.attention.sdpa_kernel): a flag for each.
uint32_t attention_flags(const void* context) {
  using Enabled = bool (*)(const void*);
  static const auto enabled = [] {
    std::array<Enabled, 5> found{};
    size_t i = 0;
    for (const char* symbol :
         {"_ZNK2at7Context19userEnabledFlashSDPEv", "_ZNK2at7Context26userEnabledMemEfficientSDPEv",
          "_ZNK2at7Context18userEnabledMathSDPEv", "_ZNK2at7Context19userEnabledCuDNNSDPEv",
          "_ZNK2at7Context26userEnabledOverrideableSDPEv"})
      found[i++] = reinterpret_cast<Enabled>(runtime::find_process_symbol(symbol));
    return found;
  }();
  uint32_t flags = 0;
  for (size_t i = 0; i < enabled.size(); ++i)
    if (enabled[i] && !enabled[i](context)) flags |= kFirstAttentionFlag << i;
  return flags;
}

// Hooks of PyTorch's own keep what they are given (save_on_cpu) or compute it again (checkpoints), whatever is saved. What a program's do is
// done with what eager's operators save.
bool is_of_pytorch(PyObject* hook) {
  PyObject* module = PyFunction_Check(hook) ? PyFunction_GetModule(hook) : nullptr;
  if (!module || !PyUnicode_Check(module)) return false;
  return PyUnicode_CompareWithASCIIString(module, "torch.autograd.graph") == 0 ||
         PyUnicode_CompareWithASCIIString(module, "torch.utils.checkpoint") == 0;
}

uint32_t saved_tensor_hook_flags(const torch_access::Api& api, bool grad_mode) {
  if (!api.saved_tensor_hooks) return 0;
  if (!api.saved_tensor_hooks_enabled()) return TorchState::kSavedTensorHooksDisabled;
  if (!grad_mode) return 0;
  const torch_access::SavedTensorHooks hooks = api.saved_tensor_hooks(false);
  if (!hooks.has_value || is_of_pytorch(hooks.pack)) return 0;
  return TorchState::kSavedTensorHooks;
}

}  // namespace

bool has_saved_tensor_hooks() {
  const torch_access::Api* api = torch_access::api();
  return api && api->saved_tensor_hooks && api->saved_tensor_hooks(false).has_value;
}

TorchState read_torch_state() {
  TorchState state;
  const torch_access::Api* api = torch_access::api();
  if (!api) return state;
  torch_access::DispatchKeyState keys = torch_access::thread_keys(*api);
  state.included_keys = keys.included;
  state.excluded_keys = keys.excluded & ~api->names_key;
  state.default_dtype = api->default_dtype();
  if (api->grad_mode()) state.flags |= TorchState::kGradMode;
  // Inference mode shows in the keys: where they are as ever, it is off.
  if ((keys.included | keys.excluded) && api->inference_mode()) state.flags |= TorchState::kInferenceMode;
  if (api->deterministic(api->context)) state.flags |= TorchState::kDeterministic;
  if (api->deterministic_warn_only(api->context)) state.flags |= TorchState::kDeterministicWarnOnly;
  if (api->function_mode_count() != 0) state.flags |= TorchState::kFunctionModes;
  if (api->function_disabled() != 0) state.flags |= TorchState::kFunctionDisabled;
  if (const auto& autocast = api->autocast_keys; autocast[torch_access::kCpu]) {
    if (keys.excluded & autocast[torch_access::kCpu]) state.flags |= TorchState::kAutocast;
    if (keys.excluded & autocast[torch_access::kCuda]) state.flags |= TorchState::kAutocastCuda;
    if (api->autocast_cache()) state.flags |= TorchState::kAutocastCache;
    for (int8_t device : {torch_access::kCpu, torch_access::kCuda})
      state.autocast_dtypes[device] = api->autocast_dtype(device);
  }
  state.flags |= saved_tensor_hook_flags(*api, state.grad_mode());
  if (api->cuda_keys) state.flags |= attention_flags(api->context);
  if (api->current_device) state.current_device = api->current_device();
  return state;
}

const char* torch_state_obstacle(const TorchState& state) {
  const torch_access::Api* api = torch_access::api();
  if (!api) return nullptr;
  if (state.flags & TorchState::kFunctionModes)
    return "a __torch_function__ mode is active (torch.set_default_device is one)";
  if (state.flags & TorchState::kFunctionDisabled) return "__torch_function__ is disabled";
  if (state.flags & TorchState::kSavedTensorHooks)
    return "hooks of saved tensors are on (torch.autograd.graph.saved_tensors_hooks)";
  if (state.flags & TorchState::kSavedTensorHooksDisabled) return "hooks of saved tensors are disabled";
  torch_access::DispatchKeyState ordinary = {};
  if (state.flags & TorchState::kInferenceMode) ordinary = api->inference_mask;
  if (state.included_keys != ordinary.included)
    return "a __torch_dispatch__ mode, a functorch transform or tracing is active";
  const uint64_t autocast = api->autocast_keys[torch_access::kCpu] | api->autocast_keys[torch_access::kCuda];
  if ((state.excluded_keys ^ ordinary.excluded) & ~autocast)
    return "autocast of another device is on, or dispatch keys are excluded";
  return nullptr;
}

}  // namespace cdynamo::symbolic
