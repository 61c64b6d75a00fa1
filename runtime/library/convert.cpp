#include "runtime/library/convert.h"

#include "runtime/gemm/half.h"

namespace cdynamo::runtime {
namespace {

// Calls fn(element offset) for every element in row-major order.
template <typename F>
void walk(const TensorView& view, F&& fn) {
  const int64_t total = count_elements(view);
  std::vector<int64_t> at(view.rank, 0);
  int64_t offset = 0;
  for (int64_t i = 0; i < total; ++i) {
    fn(offset);
    for (int d = view.rank - 1; d >= 0; --d) {
      offset += view.strides[d];
      if (++at[d] < view.sizes[d]) break;
      offset -= view.strides[d] * view.sizes[d];
      at[d] = 0;
    }
  }
}

template <typename T, typename Element>
void read_as(const TensorView& view, T* out) {
  const auto* data = static_cast<const Element*>(view.data);
  walk(view, [&](int64_t offset) { *out++ = static_cast<T>(data[offset]); });
}

template <typename T, typename Element>
void write_as(const TensorView& view, const T* values) {
  auto* data = static_cast<Element*>(view.data);
  walk(view, [&](int64_t offset) {
    if constexpr (requires { Element::from(1.0f); })
      data[offset] = Element::from(static_cast<float>(*values++));
    else
      data[offset] = static_cast<Element>(*values++);
  });
}

template <typename F>
void with_type(DType dtype, F&& fn) {
  switch (dtype) {
    case DType::kBool: return fn(bool{});
    case DType::kU8: return fn(uint8_t{});
    case DType::kI8: return fn(int8_t{});
    case DType::kU16: return fn(uint16_t{});
    case DType::kI16: return fn(int16_t{});
    case DType::kU32: return fn(uint32_t{});
    case DType::kI32: return fn(int32_t{});
    case DType::kU64: return fn(uint64_t{});
    case DType::kI64: return fn(int64_t{});
    case DType::kF16: return fn(Float16{});
    case DType::kBF16: return fn(BFloat16{});
    case DType::kF32: return fn(float{});
    case DType::kF64: return fn(double{});
  }
}

template <typename T>
void read_any(const TensorView& view, T* out) {
  with_type(view.dtype, [&](auto element) { read_as<T, decltype(element)>(view, out); });
}
template <typename T>
void write_any(const TensorView& view, const T* values) {
  with_type(view.dtype, [&](auto element) { write_as<T, decltype(element)>(view, values); });
}

}  // namespace

int64_t count_elements(const TensorView& view) {
  int64_t total = 1;
  for (int d = 0; d < view.rank; ++d) total *= view.sizes[d];
  return total;
}

std::vector<int64_t> dense_strides(const int64_t* sizes, int rank) {
  std::vector<int64_t> strides(rank, 1);
  for (int d = rank - 1; d > 0; --d) strides[d - 1] = strides[d] * sizes[d];
  return strides;
}

void read_dense(const TensorView& view, float* out) { read_any(view, out); }
void read_dense(const TensorView& view, double* out) { read_any(view, out); }
void write_dense(const TensorView& view, const float* values) { write_any(view, values); }
void write_dense(const TensorView& view, const double* values) { write_any(view, values); }

}  // namespace cdynamo::runtime
