#include <set>
#include <stdexcept>
#include <unordered_map>

#include "graph/core.h"
#include "graph/op.h"
#include "graph/ops/groups.h"

namespace cdynamo::graph {
namespace {

// PyTorch's parser lets a Python number stand for a Tensor in these alone.
constexpr std::string_view kNumbersAsTensors[] = {
    "add", "sub", "mul", "div", "floor_divide", "true_divide", "subtract", "multiply", "divide"};

bool accepts_numbers(const OpDef& op, const Schema& schema) {
  if (schema.name.starts_with("np.")) return true;
  for (std::string_view name : kNumbersAsTensors)
    if (op.name == name) return true;
  return false;
}

// What has to be there for an operator of its family.
std::string missing_facet(const OpDef& op) {
  if (op.schemas.empty()) return "a schema";
  switch (op.family) {
    case Family::kPointwise: return op.scalar ? "" : "scalar code";
    case Family::kComposite: return op.body ? "" : "a body";
    case Family::kReduction: return op.reduction && op.infer ? "" : "its reduction and infer";
    case Family::kLibrary: return "";
    default: return op.infer ? "" : "infer";
  }
}

struct Table {
  std::vector<std::vector<OpDef>> groups;
  std::vector<const OpDef*> ops;
  std::unordered_map<std::string_view, const OpDef*> by_name;

  Table() {
    for (GroupFn group : kGroups) groups.push_back(group());
    for (std::vector<OpDef>& group : groups)
      for (OpDef& op : group) add(op);
  }

  void add(OpDef& op) {
    if (std::string missing = missing_facet(op); !missing.empty())
      throw InternalError("operator " + std::string(op.name) + " lacks " + missing);
    for (std::string_view text : op.schemas) {
      op.parsed.push_back(Schema::parse(text));
      Schema& schema = op.parsed.back();
      bool numbers = accepts_numbers(op, schema);
      for (Param& param : schema.params) param.accepts_number = numbers && param.kind == ParamKind::kTensor;
    }
    if (!by_name.emplace(op.name, &op).second)
      throw InternalError("operator " + std::string(op.name) + " is in the table twice");
    ops.push_back(&op);
  }
};

const Table& table() {
  static const Table* const kTable = new Table();
  return *kTable;
}

}  // namespace

std::span<const OpDef* const> all_ops() { return table().ops; }

const OpDef* find_op(std::string_view name) {
  auto it = table().by_name.find(name);
  return it == table().by_name.end() ? nullptr : it->second;
}

const OpDef& op(std::string_view name) {
  if (const OpDef* found = find_op(name)) return *found;
  throw InternalError("no operator " + std::string(name));
}

bool is_core(const OpDef& op) {
  if (op.family == Family::kLibrary) return op.name.starts_with("core.");
  return op.family != Family::kComposite;
}

Alias result_alias(const Node& node) {
  if (node.in_place) return Alias::kSelf;
  if (node.op->alias) return node.op->alias(node);
  return node.op->view ? Alias::kView : Alias::kNone;
}

std::vector<std::string> python_names(const OpDef& op) {
  std::vector<std::string> names;
  for (std::string_view name : op.torch_names)
    names.push_back(name.starts_with("torch.") ? std::string(name) : "torch." + std::string(name));
  for (std::string_view name : op.numpy_names)
    names.push_back(name.starts_with("np.") ? "numpy." + std::string(name.substr(3))
                                            : "numpy." + std::string(name));
  if (op.name.find('.') != op.name.npos) return names;
  std::string base(op.name);
  for (const char* scope : {"torch.", "torch.Tensor.", "torch._C._nn.", "torch._C._VariableFunctions."}) {
    names.push_back(scope + base);
    if (op.in_place_variant) names.push_back(scope + base + "_");
  }
  return names;
}

}  // namespace cdynamo::graph
