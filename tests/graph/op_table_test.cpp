#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "graph/core.h"
#include "graph/op.h"

namespace cdynamo::graph {
namespace {

TEST(OpTable, HasManyOperatorsEachOnce) {
  std::set<std::string_view> names;
  int user_visible = 0;
  for (const OpDef* op : all_ops()) {
    EXPECT_TRUE(names.insert(op->name).second) << op->name;
    user_visible += op->name.find('.') == op->name.npos;
  }
  EXPECT_GE(user_visible, 150);
}

TEST(OpTable, SchemasAreNamedForTheirOperator) {
  for (const OpDef* op : all_ops())
    for (const Schema& schema : op->parsed)
      if (!schema.name.starts_with("np.")) {
        EXPECT_EQ(schema.name, op->name) << schema.text;
      }
}

TEST(OpTable, NoTwoOperatorsAnswerToOnePythonName) {
  std::map<std::string, std::string_view> owner;
  for (const OpDef* op : all_ops())
    for (const std::string& name : python_names(*op)) {
      auto [it, inserted] = owner.emplace(name, op->name);
      EXPECT_TRUE(inserted || it->second == op->name) << name << " is " << it->second << " and " << op->name;
    }
}

// The operands of a pointwise operator are the tensors of overload 0: the other overloads have to name them
// alike.
TEST(OpTable, PointwiseOverloadsNameTheSameOperands) {
  for (const OpDef* op : all_ops()) {
    if (op->family != Family::kPointwise) continue;
    for (const Schema& schema : op->parsed)
      for (const Param& param : schema.params) EXPECT_GE(op->parsed[0].find(param.name), 0) << schema.text;
  }
}

TEST(OpTable, CoreOperatorsCanInferTheirTypes) {
  for (const OpDef* op : all_ops())
    if (is_core(*op) && op->family != Family::kPointwise) {
      EXPECT_NE(op->infer, nullptr) << op->name;
    }
}

// The table refuses an operator that lacks a facet; these are what it demands.
TEST(OpTable, CoreOperatorsHaveTheirFacets) {
  for (const OpDef* op : all_ops()) {
    SCOPED_TRACE(op->name);
    const CoreDef& core = op->core;
    EXPECT_EQ(is_core(*op), core.kind != CoreKind::kNone);
    EXPECT_EQ(is_library_call(core.kind), core.call.has_value());
    if (op->family == Family::kScan) {
      EXPECT_NE(op->reduction, nullptr);
    }
    if (is_core(*op) && op->name.starts_with("core.")) {
      EXPECT_FALSE(core.eager.empty());
    }
    if (core.call)
      for (const auto& names : {core.call->tensors, core.call->integers, core.call->numbers})
        for (std::string_view name : names) EXPECT_GE(op->parsed[0].find(name), 0) << name;
  }
}

}  // namespace
}  // namespace cdynamo::graph
