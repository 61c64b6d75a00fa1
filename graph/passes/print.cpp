// Graphs as text and as Graphviz.
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "graph/op.h"
#include "graph/passes.h"
#include "runtime/abseil.h"

namespace cdynamo::graph {
namespace {

template <typename List, typename Print>
std::string join(const List& list, Print&& print) {
  return absl::StrJoin(list, ", ", [&](std::string* out, const auto& element) { *out += print(element); });
}

std::string print_number(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  char text[40];
  for (int digits : {6, 9, 17}) {
    std::snprintf(text, sizeof text, "%.*g", digits, number);
    if (std::strtod(text, nullptr) == number) break;
  }
  std::string result = text;
  if (result.find_first_of(".en") == std::string::npos) result += ".0";
  return result;
}

std::string print_device(Device device) {
  return device.type == runtime::DeviceType::kCPU ? "cpu" : absl::StrCat("cuda:", device.index);
}

std::string print_value(const Value* value) { return value ? absl::StrCat("%", value->name) : "None"; }
std::string print_sym(const Sym& size) { return size.str(); }
std::string print_flag(bool flag) { return flag ? "True" : "False"; }

std::string print_arg(const Arg& arg) {
  if (auto* value = std::get_if<Value*>(&arg)) return print_value(*value);
  if (auto* size = std::get_if<Sym>(&arg)) return size->str();
  if (auto* number = std::get_if<double>(&arg)) return print_number(*number);
  if (auto* flag = std::get_if<bool>(&arg)) return print_flag(*flag);
  if (auto* text = std::get_if<std::string>(&arg)) return absl::StrCat("'", *text, "'");
  if (auto* dtype = std::get_if<DType>(&arg)) return runtime::info(*dtype).short_name;
  if (auto* device = std::get_if<Device>(&arg)) return print_device(*device);
  if (auto* values = std::get_if<std::vector<Value*>>(&arg))
    return absl::StrCat("[", join(*values, print_value), "]");
  if (auto* sizes = std::get_if<std::vector<Sym>>(&arg))
    return absl::StrCat("[", join(*sizes, print_sym), "]");
  if (auto* numbers = std::get_if<std::vector<double>>(&arg))
    return absl::StrCat("[", join(*numbers, print_number), "]");
  if (auto* flags = std::get_if<std::vector<bool>>(&arg))
    return absl::StrCat("[", join(*flags, print_flag), "]");
  if (auto* graph = std::get_if<std::shared_ptr<const Graph>>(&arg))
    return absl::StrCat("graph of ", (*graph)->nodes.size(), " nodes");
  return "None";
}

std::string print_type(const TensorType& type) {
  std::string text =
      absl::StrCat(runtime::info(type.dtype).short_name, "[", join(type.sizes, print_sym), "]");
  if (type.device.type != runtime::DeviceType::kCPU) absl::StrAppend(&text, "@", print_device(type.device));
  return text;
}

// Strides are said where they are not those of a contiguous tensor.
std::string print_layout(const TensorType& type) {
  std::string text = print_type(type);
  if (type.strides != contiguous_strides(type.sizes))
    absl::StrAppend(&text, " strides [", join(type.strides, print_sym), "]");
  return text;
}

std::string print_op(const Node& node) {
  if (node.op->family == Family::kLibrary)
    return std::string(Args(node.op->parsed[node.overload], node.args).string("name"));
  const std::string name(node.op->name);
  return absl::StrCat(name.starts_with("core.") ? "" : "aten::", name, node.in_place ? "_" : "");
}

// Leading tensors by position, everything else by name; what is None is left out.
std::string print_call(const Node& node) {
  std::string text;
  const Schema& schema = node.op->parsed[node.overload];
  if (node.op->family == Family::kLibrary) {
    std::vector<const Value*> operands;
    for_each_operand(const_cast<Node&>(node), [&](Value*& operand) { operands.push_back(operand); });
    text = join(operands, print_value);
    if (schema.find("attributes") >= 0) {
      const std::string_view attributes = Args(schema, node.args).string("attributes");
      absl::StrAppend(&text, text.empty() || attributes.empty() ? "" : ", ", absl_view(attributes));
    }
    return absl::StrCat(print_op(node), "(", text, ")");
  }
  bool by_position = true;
  for (size_t i = 0; i < node.args.size(); ++i) {
    const Arg& arg = node.args[i];
    if (std::holds_alternative<std::monostate>(arg)) continue;
    const bool tensor =
        std::holds_alternative<Value*>(arg) || std::holds_alternative<std::vector<Value*>>(arg);
    if (auto* value = std::get_if<Value*>(&arg); value && !*value) continue;
    by_position &= tensor;
    if (!text.empty()) text += ", ";
    if (!by_position && i < schema.params.size()) absl::StrAppend(&text, schema.params[i].name, "=");
    text += print_arg(arg);
  }
  return absl::StrCat(print_op(node), "(", text, ")");
}

std::string print_location(const Graph& graph, int location) {
  if (location < 0 || location >= static_cast<int>(graph.locations.size())) return "";
  const SourceLocation& at = graph.locations[location];
  const size_t slash = at.file.find_last_of('/');
  std::string text =
      absl::StrCat(slash == std::string::npos ? at.file : at.file.substr(slash + 1), ":", at.line);
  if (!at.function.empty()) absl::StrAppend(&text, " in ", at.function);
  if (!at.text.empty()) absl::StrAppend(&text, ": ", at.text);
  return text;
}

std::string print_node(const Node& node) {
  const std::string results = join(
      node.results, [](const Value* v) { return absl::StrCat(print_value(v), ": ", print_type(v->type)); });
  return absl::StrCat(results, results.empty() ? "" : " = ", print_call(node));
}

std::string escape(const std::string& text) {
  return absl::StrReplaceAll(text, {{"\"", "\\\""}, {"\\", "\\\\"}});
}

std::string print_placed(const Value* value) {
  return absl::StrCat(print_value(value), ": ", print_layout(value->type));
}

}  // namespace

std::string print_readable(const Graph& graph) {
  std::string text = absl::StrCat("graph(", join(graph.inputs, print_placed), "):\n");
  int last_location = -1;
  for (const auto& node : graph.nodes) {
    std::string line = absl::StrCat("  ", print_node(*node));
    // The line of the program is said once for the nodes that come from it.
    if (node->location != last_location) {
      const std::string location = print_location(graph, node->location);
      if (!location.empty())
        absl::StrAppend(&line, std::string(line.size() < 60 ? 60 - line.size() : 1, ' '), "  # ", location);
    }
    last_location = node->location;
    absl::StrAppend(&text, line, "\n");
  }
  for (const Graph::Mutation& mutation : graph.mutations)
    absl::StrAppend(&text, "  write ", print_value(mutation.value), " to ",
                    print_value(graph.inputs[mutation.input]), "\n");
  absl::StrAppend(&text, "  return ", join(graph.outputs, print_placed), "\n");
  return text;
}

std::string to_dot(const Graph& graph) {
  std::string text =
      "digraph graph {\n  rankdir=TB;\n  node [shape=box, fontname=\"monospace\", fontsize=10];\n";
  const auto vertex = [](const Value* v) {
    return v->node ? absl::StrCat("n", v->node->id) : absl::StrCat("i", v->id);
  };
  const auto edge = [&](const Value* from, const std::string& to, const std::string& label) {
    absl::StrAppend(&text, "  ", vertex(from), " -> ", to, " [label=\"", escape(label), "\"];\n");
  };
  for (const Value* input : graph.inputs)
    absl::StrAppend(&text, "  ", vertex(input), " [shape=ellipse, label=\"", escape(input->name), "\\n",
                    print_type(input->type), "\"];\n");
  for (const auto& node : graph.nodes) {
    const std::string name = absl::StrCat("n", node->id);
    const std::string location = print_location(graph, node->location);
    absl::StrAppend(&text, "  ", name, " [label=\"", escape(print_op(*node)), "\"");
    if (!location.empty()) absl::StrAppend(&text, ", tooltip=\"", escape(location), "\"");
    absl::StrAppend(&text, "];\n");
    for_each_operand(*node, [&](Value* operand) { edge(operand, name, print_type(operand->type)); });
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const std::string name = absl::StrCat("o", i);
    absl::StrAppend(&text, "  ", name, " [shape=ellipse, label=\"output ", i, "\"];\n");
    edge(graph.outputs[i], name, print_type(graph.outputs[i]->type));
  }
  for (size_t i = 0; i < graph.mutations.size(); ++i) {
    const std::string name = absl::StrCat("m", i);
    absl::StrAppend(&text, "  ", name, " [shape=ellipse, label=\"write to ",
                    escape(graph.inputs[graph.mutations[i].input]->name), "\"];\n");
    edge(graph.mutations[i].value, name, print_type(graph.mutations[i].value->type));
  }
  return absl::StrCat(text, "}\n");
}

}  // namespace cdynamo::graph
