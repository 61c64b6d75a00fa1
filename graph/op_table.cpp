#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "graph/core.h"
#include "graph/op.h"
#include "graph/ops/groups.h"
#include "runtime/abseil.h"

namespace cdynamo::graph {
namespace {

CoreKind kind_of_family(const OpDef& op) {
  switch (op.family) {
    case Family::kPointwise: return CoreKind::kPointwise;
    case Family::kReduction: return CoreKind::kReduction;
    case Family::kScan: return CoreKind::kScan;
    case Family::kLibrary: return op.name.starts_with("core.") ? CoreKind::kLibrary : CoreKind::kNone;
    case Family::kComposite: return CoreKind::kNone;
    default: return CoreKind::kUnset;
  }
}

Effects effects_of_family(const OpDef& op) {
  switch (op.family) {
    case Family::kRandom: return Effects::kDraws;
    case Family::kLibrary: return is_core(op) ? Effects::kUnset : Effects::kUnknown;
    default: return Effects::kNone;
  }
}

// What a core operator has to have beside the facets of its family; `op.core.kind` is set.
std::string missing_core_facet(const OpDef& op) {
  const CoreDef& core = op.core;
  const bool is_pointwise = op.family == Family::kPointwise;
  if (core.kind == CoreKind::kUnset) return "its kind";
  if (is_library_call(core.kind) && !core.call) return "the arguments of its library call";
  if (op.effects == Effects::kUnset) return "its effects";
  if (op.name.starts_with("core.") && core.eager.empty()) return "a form in PyTorch (eager)";
  if (core.kind == CoreKind::kLibrary || core.kind == CoreKind::kRandom || is_pointwise) return "";
  if (core.linearity == Linearity::kUnset) return "its linearity";
  if (op.family != Family::kReduction && core.kind > CoreKind::kRegroup && !core.interpret)
    return "a kernel of the interpreter";
  return "";
}

// What has to be there for an operator of its family.
std::string missing_facet(const OpDef& op) {
  if (op.schemas.empty()) return "a schema";
  switch (op.family) {
    case Family::kPointwise: return op.scalar ? "" : "scalar code";
    case Family::kComposite: return op.body ? "" : "a body";
    case Family::kReduction:
    case Family::kScan: return op.reduction && op.infer ? "" : "its reduction and infer";
    case Family::kLibrary: return "";
    default: return op.infer ? "" : "infer";
  }
}

struct Table {
  std::vector<std::vector<OpDef>> groups;
  std::vector<const OpDef*> ops;
  absl::flat_hash_map<std::string_view, const OpDef*> by_name;

  Table() {
    for (GroupFn group : kGroups) groups.push_back(group());
    for (std::vector<OpDef>& group : groups)
      for (OpDef& op : group) add(op);
  }

  void add(OpDef& op) {
    if (op.core.kind == CoreKind::kUnset) op.core.kind = kind_of_family(op);
    if (op.effects == Effects::kUnset) op.effects = effects_of_family(op);
    std::string missing = missing_facet(op);
    if (missing.empty() && is_core(op)) missing = missing_core_facet(op);
    if (!missing.empty())
      throw InternalError(absl::StrCat("operator ", absl_view(op.name), " lacks ", missing));
    for (std::string_view text : op.schemas) {
      op.parsed.push_back(Schema::parse(text));
      Schema& schema = op.parsed.back();
      const bool numbers = op.numbers_as_tensors || schema.name.starts_with("np.");
      for (Param& param : schema.params) param.accepts_number = numbers && param.kind == ParamKind::kTensor;
    }
    if (!by_name.emplace(op.name, &op).second)
      throw InternalError(absl::StrCat("operator ", absl_view(op.name), " is in the table twice"));
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
  throw InternalError(absl::StrCat("no operator ", absl_view(name)));
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

// `x.name(...)` is `torch.name(x, ...)`: not where another tensor comes before `self`.
static bool is_method(const OpDef& op) {
  const std::vector<Param>& params = op.parsed.at(0).params;
  return params.empty() || params[0].name == "self" ||
         std::ranges::none_of(params, [](const Param& param) { return param.name == "self"; }) ||
         params[0].kind != ParamKind::kTensor;
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
  for (std::string_view scope :
       {"torch.", "torch.Tensor.", "torch._C._nn.", "torch._C._VariableFunctions."}) {
    if (scope == "torch.Tensor." && !is_method(op)) continue;
    names.push_back(absl::StrCat(absl_view(scope), base));
    if (op.in_place_variant) names.push_back(absl::StrCat(absl_view(scope), base, "_"));
  }
  return names;
}

}  // namespace cdynamo::graph
