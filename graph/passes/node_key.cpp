#include "graph/passes/node_key.h"

#include <bit>

namespace cdynamo::graph {

void NodeKey::add(const TensorType& type, bool with_strides) {
  add_number(static_cast<int64_t>(type.dtype));
  add_number(static_cast<int64_t>(type.device.type) << 8 | type.device.index);
  add_number(type.rank());
  for (const Sym& size : type.sizes) add(size);
  if (!with_strides) return;
  for (const Sym& stride : type.strides) add(stride);
}

void NodeKey::add(const Arg& arg) {
  add_number(static_cast<int64_t>(arg.index()));
  const auto add_list = [this](const auto& list, auto&& add_element) {
    add_number(static_cast<int64_t>(list.size()));
    for (const auto& element : list) add_element(element);
  };
  const auto add_double = [this](double number) { add_number(std::bit_cast<int64_t>(number)); };
  if (auto* value = std::get_if<Value*>(&arg)) return add_value(*value);
  if (auto* size = std::get_if<Sym>(&arg)) return add(*size);
  if (auto* number = std::get_if<double>(&arg)) return add_double(*number);
  if (auto* flag = std::get_if<bool>(&arg)) return add_number(*flag);
  if (auto* text = std::get_if<std::string>(&arg)) return add_text(*text);
  if (auto* dtype = std::get_if<DType>(&arg)) return add_number(static_cast<int64_t>(*dtype));
  if (auto* device = std::get_if<Device>(&arg))
    return add_number(static_cast<int64_t>(device->type) << 8 | device->index);
  if (auto* values = std::get_if<std::vector<Value*>>(&arg))
    return add_list(*values, [this](const Value* value) { add_value(value); });
  if (auto* sizes = std::get_if<std::vector<Sym>>(&arg))
    return add_list(*sizes, [this](const Sym& size) { add(size); });
  if (auto* numbers = std::get_if<std::vector<double>>(&arg)) return add_list(*numbers, add_double);
  if (auto* graph = std::get_if<std::shared_ptr<const Graph>>(&arg))
    return add_number(reinterpret_cast<intptr_t>(graph->get()));
  if (auto* flags = std::get_if<std::vector<bool>>(&arg))
    return add_list(*flags, [this](bool flag) { add_number(flag); });
}

void NodeKey::add(const Node& node) {
  add_text(node.op->name);
  add_number(node.overload << 1 | node.in_place);
  add_number(node.region);
  for (const Arg& arg : node.args) add(arg);
  add_number(static_cast<int64_t>(node.results.size()));
  for (const Value* result : node.results) add(result->type, /*with_strides=*/false);
}

}  // namespace cdynamo::graph
