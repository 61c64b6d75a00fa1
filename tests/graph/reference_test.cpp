#include "graph/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "graph/op.h"

namespace cdynamo::graph {
namespace {

TEST(Reference, RoundsToTheDType) {
  EXPECT_EQ(round_to(1.0 + 0x1p-30, DType::kF32), 1.0);
  EXPECT_EQ(round_to(65520.0, DType::kF16), HUGE_VAL);
  EXPECT_EQ(round_to(65519.0, DType::kF16), 65504.0);
  EXPECT_EQ(round_to(0x1p-24, DType::kF16), 0x1p-24);
  EXPECT_EQ(round_to(0x1p-26, DType::kF16), 0.0);
  EXPECT_EQ(round_to(1.00390625, DType::kBF16), 1.0);  // a tie goes to even
  EXPECT_EQ(round_to(1.01171875, DType::kBF16), 1.015625);
}

TEST(Reference, IntegersWrap) {
  ReferenceBuilder b;
  auto i8 = [&](int64_t v) { return b.constant_int(v, DType::kI8); };
  EXPECT_EQ(b.integer(b.add(i8(127), i8(1))), -128);
  EXPECT_EQ(b.integer(b.div(i8(-7), i8(2))), -3);
  EXPECT_EQ(b.integer(b.rem(i8(-7), i8(2))), -1);
  EXPECT_EQ(b.integer(b.div(i8(1), i8(0))), 0);
  EXPECT_EQ(b.integer(b.bit_not(b.constant_int(1, DType::kBool))), 0);
}

TEST(Reference, NanWinsInExtremes) {
  ReferenceBuilder b;
  Scalar nan = b.constant(NAN, DType::kF32), one = b.constant(1, DType::kF32);
  EXPECT_TRUE(std::isnan(b.real(b.max(nan, one))));
  EXPECT_TRUE(std::isnan(b.real(b.min(one, nan))));
}

double evaluate(std::string_view name, std::vector<double> operands, std::vector<Arg> more = {},
                DType dtype = DType::kF64) {
  ReferenceBuilder b;
  const OpDef& def = op(name);
  std::vector<Arg> args;
  static Value placeholder;
  placeholder.type.dtype = dtype;
  std::vector<Scalar> scalars;
  for (double x : operands) {
    scalars.push_back(b.constant(x, dtype));
    args.emplace_back(&placeholder);
  }
  args.insert(args.end(), more.begin(), more.end());
  for (size_t i = args.size(); i < def.parsed[0].params.size(); ++i)
    args.push_back(def.parsed[0].params[i].default_value);
  return b.real(def.scalar(b, scalars.data(), Args(def.parsed[0], args)));
}

TEST(ScalarCode, FollowsPythonAndC) {
  EXPECT_EQ(evaluate("remainder", {-7, 3}), 2);
  EXPECT_EQ(evaluate("remainder", {7, -3}), -2);
  EXPECT_EQ(evaluate("fmod", {-7, 3}), -1);
  EXPECT_EQ(evaluate("floor_divide", {-7, 2}), -4);
  EXPECT_EQ(evaluate("floor_divide", {-7, 2}, {}, DType::kI32), -4);
  EXPECT_EQ(evaluate("round", {2.5}), 2);
  EXPECT_EQ(evaluate("core.pow", {3, 4}, {}, DType::kI64), 81);
  EXPECT_EQ(evaluate("core.pow", {-1, -3}, {}, DType::kI64), -1);
  EXPECT_EQ(evaluate("sign", {-0.5}), -1);
}

TEST(ScalarCode, ActivationsAreTheirFormulas) {
  double x = 0.7;
  EXPECT_NEAR(evaluate("sigmoid", {x}), 1 / (1 + std::exp(-x)), 1e-15);
  EXPECT_NEAR(evaluate("silu", {x}), x / (1 + std::exp(-x)), 1e-15);
  EXPECT_NEAR(evaluate("gelu", {x}), x * 0.5 * std::erfc(-x / std::sqrt(2)), 1e-15);
  EXPECT_EQ(evaluate("relu", {-x}), 0);
  EXPECT_TRUE(std::isnan(evaluate("relu", {NAN})));
  EXPECT_NEAR(evaluate("softplus", {x}), std::log1p(std::exp(x)), 1e-15);
  EXPECT_NEAR(evaluate("logaddexp", {1000, 1000}), 1000 + std::log(2), 1e-12);
}

// Each pointwise operator of one float gives a number of the dtype that was computed in, for plain and
// special values.
TEST(ScalarCode, UnaryOperatorsEvaluateEverywhere) {
  for (const OpDef* def : all_ops()) {
    if (def->family != Family::kPointwise || def->infer ||
        def->parsed[0].params[0].kind != ParamKind::kTensor)
      continue;
    size_t tensors = 0;
    bool defaults = true;
    for (const Param& param : def->parsed[0].params) {
      tensors += param.kind == ParamKind::kTensor;
      defaults &= param.kind == ParamKind::kTensor || param.has_default;
    }
    if (tensors != 1 || !defaults || def->promotion == Promotion::kBitwise ||
        def->promotion == Promotion::kLogical)
      continue;
    for (double x : {-2.0, -0.0, 0.5, 3.0, HUGE_VAL, -HUGE_VAL, double(NAN)})
      EXPECT_NO_THROW(evaluate(def->name, {x})) << def->name << " " << x;
  }
}

}  // namespace
}  // namespace cdynamo::graph
