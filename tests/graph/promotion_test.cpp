#include "graph/promotion.h"

#include <gtest/gtest.h>

namespace cdynamo::graph {
namespace {

constexpr DType kBool = DType::kBool, kU8 = DType::kU8, kI8 = DType::kI8, kU16 = DType::kU16,
                kI16 = DType::kI16, kU32 = DType::kU32, kI32 = DType::kI32, kU64 = DType::kU64,
                kI64 = DType::kI64, kF16 = DType::kF16, kBF16 = DType::kBF16, kF32 = DType::kF32,
                kF64 = DType::kF64;

DType torch(std::initializer_list<PromotedOperand> operands) {
  return result_type(Framework::kTorch, kF32, {operands.begin(), operands.size()});
}
DType numpy(std::initializer_list<PromotedOperand> operands) {
  return result_type(Framework::kNumpy, kF64, {operands.begin(), operands.size()});
}
PromotedOperand dims(DType dtype) { return {dtype, false, true}; }
PromotedOperand zero_dim(DType dtype) { return {dtype, false, false}; }
PromotedOperand number(DType dtype) { return {dtype, true, false}; }

TEST(Promotion, TablesAgreeWithTheFrameworks) {
  EXPECT_EQ(promote_types(Framework::kTorch, kU8, kI8), kI16);
  EXPECT_EQ(promote_types(Framework::kTorch, kU8, kI64), kI64);
  EXPECT_EQ(promote_types(Framework::kTorch, kI64, kF16), kF16);
  EXPECT_EQ(promote_types(Framework::kTorch, kF16, kBF16), kF32);
  EXPECT_EQ(promote_types(Framework::kNumpy, kI32, kF32), kF64);
  EXPECT_EQ(promote_types(Framework::kNumpy, kI16, kF16), kF32);
  EXPECT_EQ(promote_types(Framework::kNumpy, kI8, kF16), kF16);
  EXPECT_EQ(promote_types(Framework::kNumpy, kBool, kF16), kF16);
}

TEST(Promotion, UnsignedTypesTakeWhatHoldsBoth) {
  auto numpy = [](DType a, DType b) { return promote_types(Framework::kNumpy, a, b); };
  EXPECT_EQ(numpy(kU8, kI8), kI16);
  EXPECT_EQ(numpy(kU16, kI8), kI32);
  EXPECT_EQ(numpy(kU16, kI16), kI32);
  EXPECT_EQ(numpy(kU16, kI32), kI32);
  EXPECT_EQ(numpy(kU32, kI8), kI64);
  EXPECT_EQ(numpy(kU32, kU16), kU32);
  EXPECT_EQ(numpy(kU64, kI8), kF64);
  EXPECT_EQ(numpy(kU64, kI64), kF64);
  EXPECT_EQ(numpy(kU64, kBool), kU64);
  EXPECT_EQ(numpy(kU16, kF16), kF32);
  EXPECT_EQ(numpy(kU32, kF32), kF64);
  EXPECT_THROW(promote_types(Framework::kTorch, kU16, kI32), UserError);
  EXPECT_EQ(promote_types(Framework::kTorch, kU16, kF16), kF16);
}

bool is_refused(DType a, DType b) {
  const auto is_wide = [](DType dtype) { return runtime::is_unsigned(dtype) && dtype != kU8; };
  return a != b && !runtime::is_float(a) && !runtime::is_float(b) && (is_wide(a) || is_wide(b));
}

TEST(Promotion, IsSymmetric) {
  for (Framework framework : {Framework::kTorch, Framework::kNumpy})
    for (int a = 0; a < runtime::kNumDTypes; ++a)
      for (int b = 0; b < runtime::kNumDTypes; ++b)
        if (framework == Framework::kNumpy || !is_refused(DType(a), DType(b)))
          EXPECT_EQ(promote_types(framework, DType(a), DType(b)),
                    promote_types(framework, DType(b), DType(a)))
              << a << " " << b;
}

TEST(Promotion, TorchRanksTensorsOverZeroDimOverNumbers) {
  EXPECT_EQ(torch({dims(kF32), zero_dim(kF64)}), kF32);
  EXPECT_EQ(torch({dims(kI32), zero_dim(kI64)}), kI32);
  EXPECT_EQ(torch({dims(kI32), zero_dim(kF64)}), kF64);
  EXPECT_EQ(torch({dims(kI32), number(kF64)}), kF32);
  EXPECT_EQ(torch({dims(kF16), number(kF64)}), kF16);
  EXPECT_EQ(torch({dims(kBool), number(kI64)}), kI64);
  EXPECT_EQ(torch({zero_dim(kI32), number(kF64)}), kF32);
  EXPECT_EQ(torch({dims(kBool), zero_dim(kU8), number(kI64)}), kU8);
  EXPECT_EQ(torch({number(kF64), number(kI64)}), kF64);
}

TEST(Promotion, NumpyNumbersAreWeakAndZeroDimArraysAreNot) {
  EXPECT_EQ(numpy({dims(kF32), number(kF64)}), kF32);
  EXPECT_EQ(numpy({dims(kF32), zero_dim(kF64)}), kF64);
  EXPECT_EQ(numpy({dims(kI8), number(kI64)}), kI8);
  EXPECT_EQ(numpy({dims(kI8), number(kF64)}), kF64);
  EXPECT_EQ(numpy({dims(kBool), number(kI64)}), kI64);
}

TEST(Promotion, RulesOfOperators) {
  std::vector<PromotedOperand> ints{dims(kI32), dims(kI32)};
  auto result = [&](Framework framework, Promotion rule) {
    return promote(framework, framework == Framework::kTorch ? kF32 : kF64, rule, ints, "op").result;
  };
  EXPECT_EQ(result(Framework::kTorch, Promotion::kFloat), kF32);
  EXPECT_EQ(result(Framework::kNumpy, Promotion::kFloat), kF64);
  EXPECT_EQ(result(Framework::kTorch, Promotion::kDivide), kF32);
  EXPECT_EQ(result(Framework::kNumpy, Promotion::kCompare), kBool);
  std::vector<PromotedOperand> bytes{dims(kI8)};
  EXPECT_EQ(promote(Framework::kNumpy, kF64, Promotion::kFloat, bytes, "sin").result, kF16);
  EXPECT_EQ(promote(Framework::kNumpy, kF64, Promotion::kDivide, bytes, "divide").result, kF64);
  std::vector<PromotedOperand> floats{dims(kF32)};
  EXPECT_THROW(promote(Framework::kTorch, kF32, Promotion::kBitwise, floats, "bitwise_not"), UserError);
}

TEST(Promotion, ChoiceBetweenNumbersHasTheDefaultFloat) {
  std::vector<PromotedOperand> choice{dims(kBool), number(kF64), number(kF64)};
  EXPECT_EQ(promote(Framework::kTorch, kF32, Promotion::kSelect, choice, "where").result, kF32);
}

TEST(Promotion, InPlaceCasts) {
  EXPECT_TRUE(can_cast_in_place(Framework::kTorch, kF64, kF32));
  EXPECT_FALSE(can_cast_in_place(Framework::kTorch, kF32, kI64));
  EXPECT_FALSE(can_cast_in_place(Framework::kTorch, kI64, kBool));
  EXPECT_TRUE(can_cast_in_place(Framework::kNumpy, kF64, kF32));
  EXPECT_FALSE(can_cast_in_place(Framework::kNumpy, kF64, kI64));
}

}  // namespace
}  // namespace cdynamo::graph
