// The verifier: the invariants of graph.h and core.h, checked at each stage boundary in tests and once at the
// end of `prepare`. Types are inferred anew and compared with what the nodes say.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "graph/builder.h"
#include "graph/core.h"
#include "graph/passes.h"

namespace cdynamo::graph {
namespace {

// Captured calls may give a Python number where the schema has a tensor.
bool fits(const Param& param, const Arg& arg, bool core) {
  const auto is = [&](auto type) { return std::holds_alternative<decltype(type)>(arg); };
  if (std::holds_alternative<std::monostate>(arg)) return true;  // optional, or a framework's default
  switch (param.kind) {
    case ParamKind::kTensor: {
      auto* value = std::get_if<Value*>(&arg);
      if (!value) return !core && (is(Sym()) || is(double()) || is(bool()));
      return *value || param.optional;
    }
    case ParamKind::kTensorList: return std::holds_alternative<std::vector<Value*>>(arg);
    case ParamKind::kScalar: return is(Sym()) || is(double()) || is(bool());
    case ParamKind::kInt: return is(Sym()) || is(bool());
    case ParamKind::kFloat: return is(double()) || is(Sym());
    case ParamKind::kBool: return is(bool());
    case ParamKind::kString: return is(std::string());
    case ParamKind::kDType: return is(DType());
    case ParamKind::kDevice: return is(Device());
    case ParamKind::kIntList: return is(std::vector<Sym>()) || is(Sym());
    case ParamKind::kFloatList: return is(std::vector<double>()) || is(double());
    case ParamKind::kBoolList: return is(std::vector<bool>()) || is(bool());
    case ParamKind::kGraph: return is(std::shared_ptr<const Graph>());
    default: return true;
  }
}

class Verifier {
 public:
  Verifier(const Graph& graph, bool core) : graph_(graph), core_(core), scratch_(graph.sym) {
    scratch_.framework = graph.framework;
    scratch_.torch_float = graph.torch_float;
  }

  std::vector<std::string> run() {
    for (const Value* input : graph_.inputs) {
      if (input->node) complain("the input " + input->name + " is made by a node");
      define(input);
    }
    for (const auto& node : graph_.nodes) check_node(*node);
    check_ends();
    return std::move(broken_);
  }

 private:
  void complain(std::string what) { broken_.push_back(std::move(what)); }
  static std::string name_of(const Node& node) {
    const std::string result = node.results.empty() ? "" : "%" + node.results[0]->name + " = ";
    return result + (node.op ? std::string(node.op->name) : "(no operator)");
  }

  void define(const Value* value) {
    if (value->id < 0 || value->id >= graph_.next_value_id() || graph_.value(value->id) != value)
      complain("the value " + value->name + " is not one of its graph's");
    if (!defined_.insert(value).second) complain("the value " + value->name + " is defined twice");
    if (!names_.insert(value->name).second) complain("the name " + value->name + " is used twice");
    if (value->type.strides.size() != value->type.sizes.size())
      complain("the value " + value->name + " has " + std::to_string(value->type.sizes.size()) +
               " sizes and " + std::to_string(value->type.strides.size()) + " strides");
    for (const Sym& size : value->type.sizes)
      if (size.is_constant() && size.constant() < 0)
        complain("the value " + value->name + " has a negative size");
  }

  void check_node(Node& node) {
    scratch_.framework = node.framework;
    if (!node.op || node.overload < 0 || node.overload >= static_cast<int>(node.op->parsed.size())) {
      complain(name_of(node) + ": no such operator or overload");
      for (const Value* result : node.results) define(result);
      return;
    }
    check_arguments(node);
    bool sound = true;
    for_each_operand(node, [&](Value* operand) {
      if (defined_.count(operand)) return;
      sound = false;
      complain(name_of(node) + ": the operand " + operand->name + " is not defined before it is used");
    });
    for (size_t i = 0; i < node.results.size(); ++i) {
      const Value* result = node.results[i];
      if (result->node != &node || result->index != static_cast<int>(i))
        complain(name_of(node) + ": result " + std::to_string(i) + " belongs to another node");
      define(result);
    }
    if (!sound || node.op->family == Family::kLibrary) return;
    if (core_)
      check_core_node(node);
    else
      check_types(node);
  }

  void check_arguments(const Node& node) {
    const Schema& schema = node.op->parsed[node.overload];
    if (node.args.size() != schema.params.size() && node.op->family != Family::kLibrary) {
      complain(name_of(node) + ": " + std::to_string(node.args.size()) + " arguments, the schema has " +
               std::to_string(schema.params.size()));
      return;
    }
    for (size_t i = 0; i < std::min(node.args.size(), schema.params.size()); ++i)
      if (!fits(schema.params[i], node.args[i], core_))
        complain(name_of(node) + ": the argument " + schema.params[i].name +
                 " is of another kind than the schema's");
  }

  void check_core_node(Node& node) {
    if (!is_core(*node.op)) complain(name_of(node) + ": not a core operator");
    if (node.in_place) complain(name_of(node) + ": an in-place node in a core graph");
    if (node.op->family == Family::kPointwise) return check_pointwise(node);
    if (!node.op->infer) return;
    try {
      compare(node, node.op->infer(scratch_, Args(node.op->parsed[node.overload], node.args)),
              /*strides=*/false);
    } catch (const std::exception& error) {
      complain(name_of(node) + ": inference refuses it: " + error.what());
    }
  }

  void check_pointwise(Node& node) {
    if (node.results.size() != 1) return complain(name_of(node) + ": a pointwise node has one result");
    const TensorType& type = node.results[0]->type;
    if (node.op->name == "core.follow") return;  // of its leader nothing is read
    for_each_operand(node, [&](Value* operand) {
      if (!equal(operand->type.sizes, type.sizes))
        complain(name_of(node) + ": the operand " + operand->name + " is not of the result's sizes");
    });
    const Promotion promotion = node.op->promotion;
    const bool makes_bool = promotion == Promotion::kCompare || promotion == Promotion::kLogical ||
                            promotion == Promotion::kPredicate;
    if (makes_bool && type.dtype != DType::kBool) complain(name_of(node) + ": the result should be bool");
  }

  // Captured nodes are built again in a scratch graph.
  void check_types(Node& node) {
    std::vector<Arg> args = node.args;
    const auto stand_in = [&](Value*& value) {
      if (!value) return;
      Value*& copy = stand_ins_[value];
      if (!copy) copy = scratch_.add_input(value->type, value->name);
      value = copy;
    };
    for (Arg& arg : args) {
      if (auto* value = std::get_if<Value*>(&arg))
        stand_in(*value);
      else if (auto* list = std::get_if<std::vector<Value*>>(&arg))
        std::for_each(list->begin(), list->end(), stand_in);
    }
    try {
      std::vector<TensorType> types;
      for (const Value* result :
           Builder(scratch_).call(*node.op, node.overload, std::move(args), node.in_place))
        types.push_back(result->type);
      compare(node, types, /*strides=*/true);
    } catch (const std::exception& error) {
      complain(name_of(node) + ": inference refuses it: " + error.what());
    }
  }

  bool equal(const std::vector<Sym>& a, const std::vector<Sym>& b) const {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const Sym& x, const Sym& y) {
      return x == y ||
             graph_.sym->known(Relation::kEq, x, y).value_or(graph_.sym->hint(x) == graph_.sym->hint(y));
    });
  }

  void compare(const Node& node, const std::vector<TensorType>& inferred, bool strides) {
    if (inferred.size() != node.results.size())
      return complain(name_of(node) + ": " + std::to_string(node.results.size()) + " results, inferred are " +
                      std::to_string(inferred.size()));
    for (size_t i = 0; i < inferred.size(); ++i) {
      const TensorType& type = node.results[i]->type;
      const std::string& name = node.results[i]->name;
      if (type.dtype != inferred[i].dtype)
        complain(name_of(node) + ": " + name + " is " + runtime::info(type.dtype).name + ", inferred is " +
                 runtime::info(inferred[i].dtype).name);
      if (!equal(type.sizes, inferred[i].sizes))
        complain(name_of(node) + ": " + name + " has other sizes than inferred");
      if (strides && !equal(type.strides, inferred[i].strides))
        complain(name_of(node) + ": " + name + " has other strides than inferred");
    }
  }

  void check_ends() {
    for (const Value* output : graph_.outputs)
      if (!defined_.count(output)) complain("the output " + output->name + " is not defined");
    if (!core_) {
      if (!graph_.mutations.empty()) complain("mutations in a captured graph");
      return;
    }
    absl::flat_hash_set<const Value*> outputs;
    for (const Value* output : graph_.outputs) {
      if (!output->node) complain("the output " + output->name + " is an input");
      if (!outputs.insert(output).second) complain("the output " + output->name + " comes twice");
    }
    absl::flat_hash_set<int> written;
    for (const Graph::Mutation& mutation : graph_.mutations) check_mutation(mutation, written);
  }

  void check_mutation(const Graph::Mutation& mutation, absl::flat_hash_set<int>& written) {
    if (mutation.input < 0 || mutation.input >= static_cast<int>(graph_.inputs.size()))
      return complain("a mutation of an input that is not there");
    const Value* input = graph_.inputs[mutation.input];
    if (!written.insert(mutation.input).second) complain("the input " + input->name + " is written twice");
    if (!defined_.count(mutation.value))
      return complain("what is written to " + input->name + " is not defined");
    if (!mutation.value->node || mutation.value->node->op->family == Family::kView)
      complain("what is written to " + input->name + " is not computed before");
    if (mutation.value->type.dtype != input->type.dtype ||
        !equal(mutation.value->type.sizes, input->type.sizes))
      complain("what is written to " + input->name + " is of another type");
  }

  const Graph& graph_;
  const bool core_;
  Graph scratch_;
  std::vector<std::string> broken_;
  absl::flat_hash_set<const Value*> defined_;
  absl::flat_hash_set<std::string> names_;
  absl::flat_hash_map<Value*, Value*> stand_ins_;
};

}  // namespace

std::vector<std::string> verify(const Graph& graph, bool core) { return Verifier(graph, core).run(); }

}  // namespace cdynamo::graph
