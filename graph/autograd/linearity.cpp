#include "graph/autograd/linearity.h"

#include <algorithm>

#include "graph/op.h"
#include "graph/passes.h"
#include "graph/passes/rewrite.h"

namespace cdynamo::graph {
namespace {

// What each operand of a core operator may be, where one of the operands depends on the inputs.
enum class Operand : uint8_t {
  kLinear,  // one that depends, or zero
  kFree,    // one that depends, or any other
  kOther,   // one that does not depend
};

struct Row {
  std::string_view op;
  std::vector<Operand> operands;  // the last stands for those that follow
  bool one = false;               // one operand depends: a product
};

const std::vector<Row>& rows() {
  using enum Operand;
  static const std::vector<Row> table = {
      {"add", {kLinear}},
      {"sub", {kLinear}},
      {"neg", {kLinear}},
      {"mul", {kFree}, true},
      {"div", {kLinear, kOther}},
      {"where", {kOther, kLinear}},
      {"core.cast", {kLinear}},
      {"core.detach", {kLinear}},
      {"core.own", {kLinear}},
      {"core.unit_strides", {kLinear}},
      {"core.expand", {kLinear}},
      {"core.permute", {kLinear}},
      {"core.reshape", {kLinear}},
      {"core.slice", {kLinear}},
      {"core.diagonal", {kLinear}},
      {"core.sum", {kLinear}},
      {"core.cumsum", {kLinear}},
      {"core.concat", {kLinear}},
      {"core.gather", {kLinear, kOther}},
      {"core.index", {kLinear, kOther}},
      {"core.slice_scatter", {kLinear}},
      {"core.diagonal_scatter", {kLinear}},
      {"core.mm", {kFree}, true},
      {"core.bmm", {kFree}, true},
      {"core.function", {kOther}},
  };
  return table;
}

class Analysis {
 public:
  explicit Analysis(const Graph& core) : depends_(core.next_value_id()) {}

  void begin(const Value* input) { depends_[input->id] = true; }

  bool visit(Node& node) {
    std::vector<const Value*> operands;
    for_each_operand(node, [&](Value*& operand) { operands.push_back(operand); });
    const auto dependent = std::ranges::count_if(operands, [&](const Value* v) { return depends_[v->id]; });
    if (dependent == 0) return true;
    for (const Value* result : node.results) {
      if (!runtime::is_float(result->type.dtype)) return false;
      depends_[result->id] = true;
    }
    const auto row = std::ranges::find(rows(), node.op->name, &Row::op);
    if (row == rows().end() || (row->one && dependent > 1)) return false;
    for (size_t i = 0; i < operands.size(); ++i) {
      const Operand allowed = row->operands[std::min(i, row->operands.size() - 1)];
      const bool depends = depends_[operands[i]->id];
      if (allowed == Operand::kOther && depends) return false;
      if (allowed == Operand::kLinear && !depends && !is_zero(operands[i])) return false;
    }
    return true;
  }

  bool is_linear(const Value* result) const { return depends_[result->id] || is_zero(result); }

 private:
  static bool is_zero(const Value* value) {
    while (value->node && value->node->results.size() == 1 && looks_through(*value->node))
      value = std::get<Value*>(value->node->args[0]);
    return constant_of(value) == 0.0;
  }
  static bool looks_through(const Node& node) {
    static constexpr std::string_view kSame[] = {"core.cast", "core.expand", "core.reshape", "core.permute",
                                                 "core.detach"};
    return std::ranges::find(kSame, node.op->name) != std::end(kSame);
  }

  std::vector<bool> depends_;  // by value id
};

}  // namespace

bool is_linear(const Graph& captured, size_t count) {
  const Prepared prepared = prepare(captured, {}, /*for_training=*/true);
  Graph& core = *prepared.core;
  if (!core.mutations.empty()) return false;
  Analysis analysis(core);
  for (size_t i = 0; i < count; ++i) analysis.begin(core.inputs.at(i));
  for (const auto& node : core.nodes)
    if (!analysis.visit(*node)) return false;
  for (const OutputAlias& output : prepared.outputs) {
    const bool fresh = output.kind == OutputAlias::kFresh || output.kind == OutputAlias::kViewOfOutput;
    if (!analysis.is_linear(fresh ? core.outputs.at(output.index) : core.inputs.at(output.index)))
      return false;
  }
  return true;
}

}  // namespace cdynamo::graph
