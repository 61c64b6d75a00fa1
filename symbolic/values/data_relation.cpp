#include "symbolic/values/data_relation.h"

#include "symbolic/capture/executor.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

using graph::Relation;
using graph::Sym;

namespace {

graph::SymContext& context(Executor& ex) { return *ex.graph().sym; }

const char* name_of(Relation relation) {
  switch (relation) {
    case Relation::kEq: return "eq";
    case Relation::kNe: return "ne";
    case Relation::kLt: return "lt";
    case Relation::kLe: return "le";
  }
  throw graph::InternalError("a relation of another kind");
}

class DataRelation final : public DataBoolValue {
 public:
  DataRelation(Executor& ex, Relation relation, Sym left, Sym right)
      : ex_(ex), relation_(relation), left_(std::move(left)), right_(std::move(right)) {}

  std::string describe() const override { return "a comparison of a number that was read from a tensor"; }
  std::optional<bool> truth(Executor& ex) override { return context(ex).known(relation_, left_, right_); }
  ValuePtr unary(Executor& ex, Op op) override {
    return op == Op::UNARY_NOT ? std::make_shared<DataRelation>(negated()) : DataBoolValue::unary(ex, op);
  }
  graph::Value* value() override { return computed().value(); }
  ValuePtr number() override { return computed().number(); }

  bool require(Executor& ex, bool holds, const char* reason) const {
    if (!holds) return negated().require(ex, true, reason);
    if (context(ex).known(relation_, left_, right_) == std::optional(false)) return false;
    context(ex).require(relation_, left_, right_, reason);
    return true;
  }

 private:
  DataRelation negated() const {
    switch (relation_) {
      case Relation::kEq: return {ex_, Relation::kNe, left_, right_};
      case Relation::kNe: return {ex_, Relation::kEq, left_, right_};
      case Relation::kLt: return {ex_, Relation::kLe, right_, left_};
      case Relation::kLe: return {ex_, Relation::kLt, right_, left_};
    }
    throw graph::InternalError("a relation of another kind");
  }

  // The bool that the graph computes, where a program does more with it than to ask for it.
  DataBoolValue& computed() {
    const auto compute = [&] {
      const auto operand = [&](const Sym& sym) {
        return ex_.builder().call1("core.full", {std::vector<Sym>{}, sym, graph::DType::kI64});
      };
      return make_data_bool(ex_, ex_.builder().call1(name_of(relation_), {operand(left_), operand(right_)}));
    };
    if (!computed_)
      computed_ =
          recorded_operator(ex_, name_of(relation_), {make_int(ex_, left_), make_int(ex_, right_)}, compute);
    return dynamic_cast<DataBoolValue&>(*computed_);
  }

  Executor& ex_;
  const Relation relation_;
  const Sym left_, right_;
  ValuePtr computed_;
};

}  // namespace

ValuePtr data_relation(Executor& ex, Relation relation, const Sym& left, const Sym& right) {
  return std::make_shared<DataRelation>(ex, relation, left, right);
}

bool require_relation(Executor& ex, const ValuePtr& condition, bool holds, const char* reason) {
  auto* relation = dynamic_cast<DataRelation*>(condition.get());
  return relation && relation->require(ex, holds, reason);
}

}  // namespace cdynamo::symbolic
