#include <gtest/gtest.h>

#include <stdexcept>

#include "graph/op.h"

namespace cdynamo::graph {
namespace {

TEST(Schema, ReadsNamesKindsAndDefaults) {
  Schema s = Schema::parse(
      "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor");
  EXPECT_EQ(s.name, "sum");
  EXPECT_EQ(s.overload, "dim_IntList");
  ASSERT_EQ(s.params.size(), 4u);
  EXPECT_EQ(s.params[1].kind, ParamKind::kIntList);
  EXPECT_EQ(s.params[1].list_size, 1);
  EXPECT_TRUE(s.params[1].optional);
  EXPECT_FALSE(s.params[1].has_default);
  EXPECT_EQ(std::get<bool>(s.params[2].default_value), false);
  EXPECT_TRUE(s.params[3].keyword_only);
  EXPECT_TRUE(s.params[3].has_default);
  EXPECT_EQ(s.find("dtype"), 3);
  EXPECT_EQ(s.find("nothing"), -1);
}

TEST(Schema, ReadsResultsAndAliases) {
  Schema s = Schema::parse("max.dim(Tensor(a!) self, int dim) -> (Tensor values, Tensor indices)");
  EXPECT_EQ(s.num_results, 2);
  EXPECT_TRUE(s.params[0].mutated);
  Schema list = Schema::parse("chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor[]");
  EXPECT_TRUE(list.result_is_list);
}

TEST(Schema, ReadsListDefaultsAndOptionalElements) {
  Schema s = Schema::parse(
      "f(Tensor?[] indices, int[2] stride=1, int[] dims=[0,1], str mode=\"none\", float eps=1e-05, Scalar "
      "alpha=1) -> Tensor");
  EXPECT_TRUE(s.params[0].list_elements_optional);
  EXPECT_EQ(std::get<std::vector<Sym>>(s.params[1].default_value), (std::vector<Sym>{1, 1}));
  EXPECT_EQ(std::get<std::vector<Sym>>(s.params[2].default_value), (std::vector<Sym>{0, 1}));
  EXPECT_EQ(std::get<std::string>(s.params[3].default_value), "none");
  EXPECT_DOUBLE_EQ(std::get<double>(s.params[4].default_value), 1e-5);
  EXPECT_EQ(std::get<Sym>(s.params[5].default_value), Sym(1));
}

TEST(Schema, NumpyNamesKeepTheirPrefix) {
  EXPECT_EQ(Schema::parse("np.sum(Tensor a) -> Tensor").name, "np.sum");
  EXPECT_EQ(Schema::parse("np.split.indices(Tensor a) -> Tensor[]").overload, "indices");
}

TEST(Schema, SaysWhereItIsBroken) {
  EXPECT_THROW(Schema::parse("f(Tensor self -> Tensor"), std::invalid_argument);
  EXPECT_THROW(Schema::parse("f(Tensr self) -> Tensor"), std::invalid_argument);
  EXPECT_THROW(Schema::parse("f(Tensor self)"), std::invalid_argument);
}

TEST(Args, OneIntegerStandsForAList) {
  Schema s = Schema::parse("f(int[2] stride, Scalar alpha) -> Tensor");
  std::vector<Arg> values{std::vector<Sym>{3}, 2.5};
  Args args(s, values);
  EXPECT_EQ(args.constants("stride"), (std::vector<int64_t>{3, 3}));
  EXPECT_DOUBLE_EQ(args.number("alpha"), 2.5);
  EXPECT_THROW(args.integer("alpha"), InternalError);
  EXPECT_THROW(args["beta"], InternalError);
}

}  // namespace
}  // namespace cdynamo::graph
