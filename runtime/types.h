// The plain types that every layer shares: element types, devices, and a tensor as pointer + sizes + strides.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cdynamo::runtime {

// The values index kDTypes and are stored in the disk cache.
enum class DType : uint8_t { kBool, kU8, kI8, kI16, kI32, kI64, kF16, kBF16, kF32, kF64, kU16, kU32, kU64 };
inline constexpr int kNumDTypes = 13;

enum class Category : uint8_t { kBool, kInteger, kFloat };

struct DTypeInfo {
  const char* name;        // "float32": as PyTorch and NumPy print it
  const char* short_name;  // "f32": as graphs are printed
  uint8_t bytes;
  Category category;
  bool is_signed;
};

inline constexpr DTypeInfo kDTypes[kNumDTypes] = {
    {"bool", "b8", 1, Category::kBool, false},       {"uint8", "u8", 1, Category::kInteger, false},
    {"int8", "i8", 1, Category::kInteger, true},     {"int16", "i16", 2, Category::kInteger, true},
    {"int32", "i32", 4, Category::kInteger, true},   {"int64", "i64", 8, Category::kInteger, true},
    {"float16", "f16", 2, Category::kFloat, true},   {"bfloat16", "bf16", 2, Category::kFloat, true},
    {"float32", "f32", 4, Category::kFloat, true},   {"float64", "f64", 8, Category::kFloat, true},
    {"uint16", "u16", 2, Category::kInteger, false}, {"uint32", "u32", 4, Category::kInteger, false},
    {"uint64", "u64", 8, Category::kInteger, false},
};

constexpr const DTypeInfo& info(DType dtype) { return kDTypes[static_cast<int>(dtype)]; }
constexpr int bytes(DType dtype) { return info(dtype).bytes; }
constexpr bool is_float(DType dtype) { return info(dtype).category == Category::kFloat; }
constexpr bool is_integer(DType dtype) {
  return info(dtype).category == Category::kInteger;
}  // bool is not one
constexpr bool is_unsigned(DType dtype) { return is_integer(dtype) && !info(dtype).is_signed; }
constexpr bool is_half(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }
// The type that arithmetic on `dtype` is done in: half types compute in float32 and round at each operator.
constexpr DType compute_type(DType dtype) { return is_half(dtype) ? DType::kF32 : dtype; }

enum class DeviceType : uint8_t { kCPU, kCUDA };
struct Device {
  DeviceType type = DeviceType::kCPU;
  int8_t index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

// A tensor that somebody else owns. Sizes and strides count elements; both arrays have `rank` entries.
struct TensorView {
  void* data = nullptr;
  const int64_t* sizes = nullptr;
  const int64_t* strides = nullptr;
  int32_t rank = 0;
  DType dtype = DType::kF32;
  Device device;
};

}  // namespace cdynamo::runtime
