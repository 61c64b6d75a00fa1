// float16 and bfloat16 <-> float32 on the CPU, rounding to nearest even.
#pragma once

#include <bit>
#include <cstdint>

namespace cdynamo::runtime {

struct BFloat16 {
  uint16_t bits;
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  static BFloat16 from(float value) {
    uint32_t word = std::bit_cast<uint32_t>(value);
    if (value != value) return {0x7fc0};
    return {static_cast<uint16_t>((word + 0x7fff + ((word >> 16) & 1)) >> 16)};
  }
};

struct Float16 {
  uint16_t bits;
  operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = (bits >> 10) & 31,
                   mantissa = bits & 0x3ff;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
    if (exponent == 0) {
      const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
      return sign ? -magnitude : magnitude;
    }
    return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  }
  static Float16 from(float value) {
    const uint32_t word = std::bit_cast<uint32_t>(value), magnitude = word & 0x7fffffff;
    const auto sign = static_cast<uint16_t>(word >> 16 & 0x8000);
    if (magnitude > 0x7f800000) return {static_cast<uint16_t>(sign | 0x7e00)};
    if (magnitude >= 0x477ff000) return {static_cast<uint16_t>(sign | 0x7c00)};  // 65520 and more
    if (magnitude < 0x38800000) {  // subnormal: the float adder rounds
      const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
      return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000))};
    }
    return {static_cast<uint16_t>(sign | ((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13))};
  }
};

}  // namespace cdynamo::runtime
