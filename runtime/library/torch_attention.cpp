#include "runtime/library/torch_attention.h"

#include <array>
#include <span>

#include "runtime/host/parallel.h"
#include "runtime/library/torch_handles.h"
#include "runtime/library/torch_shim.h"

namespace cdynamo::runtime {

using namespace torch_handles;

namespace {

// (B, H, L, E) as its kernels have it, (B, L, H, E), without a copy where numbers of a head follow each other.
struct Heads {
  Heads(const Shim& torch, const TensorView& view) {
    const int64_t sizes[4] = {view.sizes[0], view.sizes[2], view.sizes[1], view.sizes[3]},
                  strides[4] = {view.strides[0], view.strides[2], view.strides[1], view.strides[3]};
    TensorView turned = view;
    turned.sizes = sizes;
    turned.strides = strides;
    tensor = TorchTensor(torch, turned);
    if (strides[3] == 1 || !tensor.get()) return;
    const int64_t dense[4] = {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1};
    turned.strides = dense;
    TorchTensor copy = empty_like(torch, turned);
    if (copy.get() && torch.copy(copy.get(), tensor.get(), 1) == 0) tensor = std::move(copy);
  }
  Handle get() const { return tensor.get(); }
  // Back to (B, H, L, E).
  static TorchTensor result(const Shim& torch, TorchTensor turned) {
    int64_t *sizes = nullptr, *strides = nullptr;
    if (!turned.get() || torch.get_sizes(turned.get(), &sizes) || torch.get_strides(turned.get(), &strides))
      return {};
    const int64_t to_sizes[4] = {sizes[0], sizes[2], sizes[1], sizes[3]},
                  to_strides[4] = {strides[0], strides[2], strides[1], strides[3]};
    return reinterpreted(torch, turned, 4, to_sizes, to_strides);
  }
  TorchTensor tensor;
};

}  // namespace

bool torch_efficient_attention(const LibraryArgs& args) {
  const Shim* torch = shim(args.output());
  if (!torch || !torch->efficient_attention || args.operands[3].data) return false;
  // The function turns its operands itself.
  Heads query(*torch, args.operands[0]), key(*torch, args.operands[1]), value(*torch, args.operands[2]);
  TorchTensor turned[3] = {Heads::result(*torch, std::move(query.tensor)),
                           Heads::result(*torch, std::move(key.tensor)),
                           Heads::result(*torch, std::move(value.tensor))};
  if (!turned[0].get() || !turned[1].get() || !turned[2].get()) return false;
  const TensorView& rows = args.output(1);
  double scale = args.numbers[0];
  Handle results[4] = {};
  if (torch->efficient_attention(turned[0].get(), turned[1].get(), turned[2].get(), nullptr,
                                 rows.data || args.brings(1), 0.0, args.integers[0] != 0, &scale, &results[0],
                                 &results[1], &results[2], &results[3]) != 0)
    return false;
  TorchTensor out(*torch, results[0]), logsumexp(*torch, results[1]), seed(*torch, results[2]),
      offset(*torch, results[3]);
  if ((rows.data || args.brings(1)) && !deliver(*torch, std::move(logsumexp), args, 1)) return false;
  return deliver(*torch, std::move(out), args, 0);
}

bool torch_efficient_attention_backward(const LibraryArgs& args) {
  const TensorView* operands = args.operands;  // gradient, query, key, value, mask, output, log-sum-exp
  const Shim* torch = shim(operands[0]);
  if (!torch || !torch->efficient_attention_backward || operands[4].data) return false;
  Heads grad(*torch, operands[0]), query(*torch, operands[1]), key(*torch, operands[2]),
      value(*torch, operands[3]), out(*torch, operands[5]);
  TorchTensor logsumexp(*torch, operands[6]);
  // State of random numbers, which nothing reads without dropout.
  const TensorView number{.rank = 0, .dtype = DType::kI64, .device = operands[0].device};
  TorchTensor state = empty_like(*torch, number);
  if (!grad.get() || !query.get() || !key.get() || !value.get() || !out.get() || !logsumexp.get() ||
      !state.get())
    return false;
  constexpr int64_t kNoMask = 0, kCausal = 1;  // sdp::CustomMaskType
  double scale = args.numbers[0];
  Handle results[4] = {};
  if (torch->efficient_attention_backward(
          grad.get(), query.get(), key.get(), value.get(), nullptr, out.get(), nullptr, nullptr,
          operands[1].sizes[2], operands[2].sizes[2], logsumexp.get(), 0.0, state.get(), state.get(),
          args.integers[0] != 0 ? kCausal : kNoMask, 0, &scale, nullptr, nullptr, 0, &results[0], &results[1],
          &results[2], &results[3]) != 0)
    return false;
  TorchTensor owners[4];
  for (int i = 0; i < 4; ++i) owners[i] = TorchTensor(*torch, results[i]);
  for (int i = 0; i < 3; ++i) {
    if (!args.output(i).data && !args.brings(i)) continue;
    TorchTensor gradient = Heads::result(*torch, std::move(owners[i]));
    if (!gradient.get() || !deliver(*torch, std::move(gradient), args, i)) return false;
  }
  return true;
}

// ---- the kernel that eager chose

namespace {

// Of at::Context. What torch.backends.cuda enables is part of the guard on PyTorch's state.
struct Settings {
  void* (*context)() = nullptr;
  bool (*deterministic)(const void*) = nullptr;
  bool (*fa3)(const void*) = nullptr;
  // at::sDPPriorityOrder returns an array of enumerators of int, through memory.
  struct Order {
    std::array<int32_t, 16> kernels;
    ~Order() {}
  };
  Order (*order)(void*) = nullptr;
};

Settings find_settings() {
  Settings found;
  const auto bind = [](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(find_process_symbol(name));
  };
  bind(found.context, "_ZN2at13globalContextEv");
  bind(found.deterministic, "_ZNK2at7Context23deterministicAlgorithmsEv");
  bind(found.fa3, "_ZNK2at7Context17userEnabledFA3SDPEv");
  bind(found.order, "_ZN2at7Context16sDPPriorityOrderEv");
  return found;
}

// A tensor that is none, as optional operands that are no pointers are given.
TorchTensor undefined(const Shim& torch) {
  Handle handle = nullptr;
  if (!torch.undefined_tensor || torch.undefined_tensor(&handle) != 0) return {};
  return {torch, handle};
}

bool takes(const TensorView& view) { return view.rank == 4 && (view.sizes[3] == 1 || view.strides[3] == 1); }

// Expanded to all scores, as the memory-efficient kernel wants it. False where its rows do not begin at multiples of 16 elements.
bool expand_mask(const Shim& torch, const LibraryArgs& args, TorchTensor& mask) {
  const TensorView &given = args.operands[3], &query = args.operands[0], &key = args.operands[1];
  const int64_t sizes[4] = {query.sizes[0], query.sizes[1], query.sizes[2], key.sizes[2]};
  if (given.rank < 1 || given.rank > 4 || given.strides[given.rank - 1] != 1 ||
      given.sizes[given.rank - 1] != sizes[3])
    return false;
  int64_t strides[4] = {};
  for (int d = 0; d < given.rank; ++d) {
    const int to = 4 - given.rank + d;
    if (d + 1 < given.rank && given.strides[d] % 16 != 0) return false;
    if (given.sizes[d] != 1 && given.sizes[d] != sizes[to]) return false;
    strides[to] = given.sizes[d] == 1 && sizes[to] != 1 ? 0 : given.strides[d];
  }
  TensorView view = given;
  view.rank = 4;
  view.sizes = sizes;
  view.strides = strides;
  mask = TorchTensor(torch, view);
  return mask.get() != nullptr;
}

// Results are tensors that autograd takes for no views.
bool deliver_own(const Shim& torch, TorchTensor result, const LibraryArgs& args, int i) {
  int64_t *sizes = nullptr, *strides = nullptr, rank = 0;
  if (!result.get() || torch.get_dim(result.get(), &rank) || torch.get_sizes(result.get(), &sizes) ||
      torch.get_strides(result.get(), &strides))
    return false;
  return deliver(torch,
                 args.brings(i) ? reinterpreted(torch, result, rank, sizes, strides) : std::move(result),
                 args, i);
}

bool is_wanted(const LibraryArgs& args, int i) {
  return i < args.num_operands - args.num_inputs && (args.output(i).data || args.brings(i));
}

struct Operands {
  TorchTensor query, key, value, mask;
  bool good = false;
};

Operands operands_of(const Shim& torch, const FusedAttention& attention, const LibraryArgs& args,
                     bool has_mask) {
  Operands found;
  for (int i = 0; i < 3; ++i)
    if (!takes(args.operands[i])) return found;
  found.query = TorchTensor(torch, args.operands[0]);
  found.key = TorchTensor(torch, args.operands[1]);
  found.value = TorchTensor(torch, args.operands[2]);
  if (has_mask && (attention.kernel != FusedAttention::kEfficient || !expand_mask(torch, args, found.mask)))
    return found;
  found.good = found.query.get() && found.key.get() && found.value.get();
  return found;
}

template <size_t N>
std::array<TorchTensor, N> own(const Shim& torch, const std::array<Handle, N>& handles) {
  std::array<TorchTensor, N> owners;
  for (size_t i = 0; i < N; ++i) owners[i] = TorchTensor(torch, handles[i]);
  return owners;
}

}  // namespace

uint64_t FusedAttention::current_settings() {
  static const Settings settings = find_settings();
  if (!settings.context || !settings.deterministic || !settings.order) return 0;
  void* context = settings.context();
  uint64_t code = settings.deterministic(context) ? 2 : 1;
  code = code * 2 + (settings.fa3 && settings.fa3(context) ? 1 : 0);
  Settings::Order order = settings.order(context);
  constexpr int kRanked = 4;  // of those that there are in every version
  for (int i = 0; i < kRanked; ++i) code = code * 16 + static_cast<uint64_t>(order.kernels[i] & 15);
  return code;
}

bool torch_fused_attention(const FusedAttention& attention, const LibraryArgs& args) {
  const Shim* torch = shim(args.operands[0]);
  const bool flash = attention.kernel == FusedAttention::kFlash;
  if (!torch || !(flash ? torch->sdpa_flash != nullptr : torch->efficient_attention != nullptr)) return false;
  if (attention.settings == 0 || FusedAttention::current_settings() != attention.settings) return false;
  Operands operands = operands_of(*torch, attention, args, args.num_inputs > 3);
  if (!operands.good) return false;
  double scale = attention.scale;
  std::array<Handle, 7> results = {};
  Handle query = operands.query.get(), key = operands.key.get(), value = operands.value.get(),
         mask = operands.mask.get();
  int64_t longest[2];
  const Status refused =
      flash ? torch->sdpa_flash(query, key, value, 0.0, attention.is_causal, 0, &scale, &results[0],
                                &results[1], &results[2], &results[3], &longest[0], &longest[1], &results[4],
                                &results[5], &results[6])
            : torch->efficient_attention(query, key, value, mask ? &mask : nullptr, attention.gives_logsumexp,
                                         0.0, attention.is_causal, &scale, &results[0], &results[1],
                                         &results[2], &results[3]);
  if (refused != 0) return false;
  std::array<TorchTensor, 7> owners = own(*torch, results);
  if (is_wanted(args, 1) && !deliver_own(*torch, std::move(owners[1]), args, 1)) return false;
  return !is_wanted(args, 0) || deliver_own(*torch, std::move(owners[0]), args, 0);
}

bool torch_fused_attention_backward(const FusedAttention& attention, const LibraryArgs& args) {
  const Shim* torch = shim(args.operands[0]);
  const bool flash = attention.kernel == FusedAttention::kFlash;
  if (!torch || !(flash ? torch->sdpa_flash_backward != nullptr : torch->sdpa_efficient_backward != nullptr))
    return false;
  const int num_operands = args.num_inputs - 3;  // then the output, the log-sum-exp, and the gradient
  const bool has_mask = num_operands > 3;
  if (num_operands < 3 || is_wanted(args, 3)) return false;  // a mask's gradient is summed
  Operands operands = operands_of(*torch, attention, args, has_mask);
  if (!operands.good) return false;
  const TensorView* rest = args.operands + num_operands;
  TorchTensor out(*torch, rest[0]), logsumexp(*torch, rest[1]), grad(*torch, rest[2]),
      none = undefined(*torch);
  // State of random numbers, which nothing reads without dropout.
  static int64_t nothing[2] = {};
  constexpr int64_t kTwo[1] = {2}, kDense[1] = {1};
  constexpr int32_t kUInt64 = 29, kInt64 = 4;  // c10::ScalarType
  const auto number = [&](void* data, int64_t rank, int32_t type, Device device) -> TorchTensor {
    Handle handle = nullptr;
    if (torch->create_tensor_from_blob(data, rank, kTwo, kDense, 0, type, device_type(device),
                                       device_index(device), &handle, 0, nullptr, 0) != 0)
      return {};
    return {*torch, handle};
  };
  TorchTensor state =
      flash ? number(rest[1].data, 1, kUInt64, rest[1].device) : number(nothing, 0, kInt64, {});
  if (!out.get() || !logsumexp.get() || !grad.get() || !none.get() || !state.get()) return false;
  double scale = attention.scale;
  std::array<Handle, 4> results = {};
  const int32_t wanted[4] = {is_wanted(args, 0), is_wanted(args, 1), is_wanted(args, 2), 0};
  Handle query = operands.query.get(), key = operands.key.get(), value = operands.value.get();
  const Status refused =
      flash ? torch->sdpa_flash_backward(grad.get(), query, key, value, out.get(), logsumexp.get(),
                                         none.get(), none.get(), args.operands[0].sizes[2],
                                         args.operands[1].sizes[2], 0.0, attention.is_causal, state.get(),
                                         none.get(), &scale, &results[0], &results[1], &results[2])
            : torch->sdpa_efficient_backward(
                  grad.get(), query, key, value, has_mask ? operands.mask.get() : none.get(), out.get(),
                  logsumexp.get(), state.get(), state.get(), 0.0, wanted, 4, attention.is_causal, &scale,
                  &results[0], &results[1], &results[2], &results[3]);
  if (refused != 0) return false;
  std::array<TorchTensor, 4> owners = own(*torch, results);
  for (int i = 0; i < 3; ++i)
    if (wanted[i] && !deliver_own(*torch, std::move(owners[i]), args, i)) return false;
  return true;
}

}  // namespace cdynamo::runtime
