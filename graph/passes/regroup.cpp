// core.regroup: what lies in the same bytes as other elements, by shifts and conversions of integers.
#include <algorithm>

#include "graph/builder.h"
#include "graph/op.h"
#include "graph/passes.h"
#include "graph/passes/rewrite.h"

namespace cdynamo::graph {
namespace {

Tensor call(Tensor x, const char* name, DType dtype) {
  return wrap(*x.builder, x.builder->call1(name, {x.value, dtype}));
}
Tensor shift_left(Tensor x, Operand amount) { return apply("bitwise_left_shift", {x, std::move(amount)}); }
Tensor shift_right(Tensor x, Operand amount) { return apply("bitwise_right_shift", {x, std::move(amount)}); }
Tensor bit_or(Tensor x, Operand y) { return apply("bitwise_or", {x, std::move(y)}); }

DType signed_integer(int64_t bytes) {
  return bytes == 1 ? DType::kI8 : bytes == 2 ? DType::kI16 : bytes == 4 ? DType::kI32 : DType::kI64;
}
DType unsigned_integer(int64_t bytes) {
  return bytes == 1 ? DType::kU8 : bytes == 2 ? DType::kU16 : bytes == 4 ? DType::kU32 : DType::kU64;
}

// Integers whose lower bits are those of the elements; what lies above them is nobody's.
Tensor bits_of(Tensor x) {
  const DType dtype = x.dtype();
  const DType same = signed_integer(runtime::bytes(dtype));
  const DType work = runtime::bytes(dtype) <= 4 ? DType::kI32 : DType::kI64;
  if (dtype == DType::kBool) return cast(x, work);
  return cast(dtype == same ? x : call(x, "core.bitcast", same), work);
}

// Elements whose bits are the lower ones of these integers.
Tensor of_bits(Tensor bits, DType dtype) {
  const Tensor whole = cast(bits, signed_integer(runtime::bytes(dtype)));
  return whole.dtype() == dtype ? whole : call(whole, "core.bitcast", dtype);
}

// ---- from one width to another

Tensor narrowed(Tensor x, DType dtype) {
  const int64_t bytes = runtime::bytes(dtype), ratio = runtime::bytes(x.dtype()) / bytes;
  const Tensor bits = bits_of(x);
  std::vector<Sym> sizes = x.sizes();
  sizes.push_back(ratio);
  const Tensor place = iota(*x.builder, sizes, x.rank(), bits.dtype());
  const Tensor parts = of_bits(shift_right(expand(unsqueeze(bits, -1), sizes), place * (8 * bytes)), dtype);
  sizes.pop_back();
  sizes.back() = sizes.back() * ratio;
  return reshape(parts, sizes);
}

Tensor widened(Tensor x, DType dtype) {
  const int64_t bytes = runtime::bytes(x.dtype()), ratio = runtime::bytes(dtype) / bytes;
  std::vector<Sym> sizes = x.sizes();
  sizes.back() = floordiv(sizes.back(), ratio);
  sizes.push_back(ratio);
  const DType work = runtime::bytes(dtype) == 8 ? DType::kI64 : DType::kI32;
  const Tensor parts = reshape(bits_of(x), sizes);
  Tensor whole;
  for (int64_t i = 0; i < ratio; ++i) {
    Tensor part =
        cast(call(cast(select(parts, -1, i), signed_integer(bytes)), "core.bitcast", unsigned_integer(bytes)),
             work);
    if (i > 0) part = shift_left(part, i * 8 * bytes);
    whole = i == 0 ? part : bit_or(whole, part);
  }
  return of_bits(whole, dtype);
}

}  // namespace

void expand_regroups(Graph& core) {
  static const OpDef* const regroup = &op("core.regroup");
  if (std::ranges::none_of(core.nodes, [](const auto& node) { return node->op == regroup; })) return;
  rewrite_nodes(core, [](Builder& builder, Node& node) -> Value* {
    if (node.op != regroup) return nullptr;
    const Tensor x = wrap(builder, std::get<Value*>(node.args[0]));
    const DType dtype = node.results[0]->type.dtype;
    const int from = runtime::bytes(x.dtype()), to = runtime::bytes(dtype);
    return (from == to  ? of_bits(bits_of(x), dtype)
            : from > to ? narrowed(x, dtype)
                        : widened(x, dtype))
        .value;
  });
}

}  // namespace cdynamo::graph
