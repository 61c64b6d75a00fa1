// Appending the nodes of one call, as array_value.h offers it.
#include "graph/op.h"
#include "symbolic/array_value.h"
#include "symbolic/user_call.h"
#include "symbolic/values/common.h"

namespace cdynamo::symbolic {

using graph::Alias;
using graph::Arg;
using graph::OpDef;

namespace {

// Operators whose results are cut from the autograd graph in eager too.
constexpr std::string_view kWithoutGradient[] = {
    "detach",     "detach_copy", "data",     "zeros_like", "ones_like",   "full_like",
    "empty_like", "new_zeros",   "new_ones", "new_full",   "new_empty",   "argmax",
    "argmin",     "eq",          "ne",       "lt",         "le",          "gt",
    "ge",         "isnan",       "isinf",    "isfinite",   "logical_not", "sign_bit"};

bool has_gradient(Executor& ex, const graph::Value* value) {
  TensorCapture& capture = tensor_capture(ex);
  auto found = capture.objects.find(value);
  if (found == capture.objects.end()) return false;
  const auto* array = dynamic_cast<const ArrayValue*>(found->second.get());
  return array && array->requires_grad;
}

// A result must never be cut from the autograd graph that eager would give it.
void require_no_gradient(Executor& ex, const OpDef& op, std::vector<Arg>& args) {
  TensorCapture& capture = tensor_capture(ex);
  if (!capture.has_state || !capture.grad_mode) return;
  for (std::string_view name : kWithoutGradient)
    if (op.name == name) return;
  auto check = [&](const graph::Value* value) {
    if (value && has_gradient(ex, value))
      throw SkipFrame{.reason = "a gradient is asked for (CD0400): an input of " + std::string(op.name) +
                                " requires grad and grad mode is on; compile inference under torch.no_grad()",
                      .nested_too = true};
  };
  for (Arg& arg : args) {
    if (auto* value = std::get_if<graph::Value*>(&arg))
      check(*value);
    else if (auto* list = std::get_if<std::vector<graph::Value*>>(&arg))
      for (graph::Value* item : *list) check(item);
  }
}

const graph::Value* first_operand(const graph::Node& node) {
  for (const Arg& arg : node.args) {
    if (auto* value = std::get_if<graph::Value*>(&arg)) return *value;
    if (auto* list = std::get_if<std::vector<graph::Value*>>(&arg))
      return list->empty() ? nullptr : list->front();
  }
  return nullptr;
}

void note_results(Executor& ex, const graph::Node& node) {
  const Alias alias = graph::result_alias(node);
  if (alias == Alias::kNone) return;
  TensorCapture& capture = tensor_capture(ex);
  const graph::Value* base = first_operand(node);
  auto storage = capture.storage_of.find(base);
  const int input = storage == capture.storage_of.end() ? -1 : storage->second;
  auto object = capture.objects.find(base);
  ValuePtr self = object == capture.objects.end() ? nullptr : object->second;
  for (const graph::Value* result : node.results) {
    if (input >= 0) capture.storage_of[result] = input;
    if (alias == Alias::kSelf && self && node.results.size() == 1) capture.objects[result] = self;
  }
}

}  // namespace

std::vector<graph::Value*> append_call(Executor& ex, const OpDef& op, BoundCall call, bool in_place) {
  require_no_gradient(ex, op, call.args);
  if (in_place) note_write(ex, std::get<graph::Value*>(call.args.at(0)));
  const size_t before = ex.graph().nodes.size();
  std::vector<graph::Value*> results;
  try {
    results = ex.builder().call(op, call.overload, std::move(call.args), in_place);
  } catch (const graph::UserError& error) {
    break_graph("CD0403", std::string(op.name) + ": " + error.message);
  } catch (const graph::Unsupported& error) {
    break_graph("CD0404", std::string(op.name) + ": " + error.message);
  }
  if (ex.graph().nodes.size() > before && !results.empty() && results[0]->node)
    note_results(ex, *results[0]->node);
  return results;
}

graph::Value* append_call1(Executor& ex, const char* name, std::vector<Arg> args, bool in_place) {
  const OpDef* op = graph::find_op(name);
  if (!op) break_graph("CD0405", name);
  const graph::Schema& schema = op->parsed[0];
  for (size_t i = args.size(); i < schema.params.size(); ++i) args.push_back(schema.params[i].default_value);
  return append_call(ex, *op, {.overload = 0, .args = std::move(args)}, in_place).at(0);
}

int begin_user_call(Executor& ex, const char* kind, PyRef target, const CallArgs& args) {
  return ex.record_user_call(kind, std::move(target), args);
}

void end_user_call(Executor& ex, int index, size_t first_node, const ValuePtr& result) {
  if (index < 0) return;
  auto& nodes = ex.graph().nodes;
  size_t count = nodes.size() - first_node;
  for (auto node = nodes.rbegin(); count > 0 && node != nodes.rend(); ++node, --count)
    (*node)->user_call = index;
  PyObject* records = ex.user_calls();
  if (!records || !PyList_Check(records) || index >= PyList_GET_SIZE(records)) return;
  PyRef record = with_result(ex, PyList_GET_ITEM(records, index), result);
  PyList_SetItem(records, index, record.release());
}

}  // namespace cdynamo::symbolic
