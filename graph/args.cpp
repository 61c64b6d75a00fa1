#include "graph/op.h"

namespace cdynamo::graph {

[[noreturn]] static void wrong_kind(const Schema& schema, std::string_view name, const char* wanted) {
  throw InternalError(schema.text + ": argument " + std::string(name) + " is not " + wanted);
}

const Arg& Args::operator[](std::string_view name) const {
  int index = schema_.find(name);
  if (index < 0) throw InternalError(schema_.text + ": no parameter " + std::string(name));
  if (index >= static_cast<int>(args_.size()))
    throw InternalError(schema_.text + ": argument " + std::string(name) + " was not given");
  return args_[index];
}

bool Args::has(std::string_view name) const {
  int index = schema_.find(name);
  if (index < 0 || index >= static_cast<int>(args_.size())) return false;
  if (const auto* value = std::get_if<Value*>(&args_[index])) return *value != nullptr;
  return !std::holds_alternative<std::monostate>(args_[index]);
}

Value* Args::value(std::string_view name) const {
  const Arg& arg = (*this)[name];
  if (std::holds_alternative<std::monostate>(arg)) return nullptr;
  if (const auto* value = std::get_if<Value*>(&arg)) return *value;
  wrong_kind(schema_, name, "a tensor");
}

Sym Args::integer(std::string_view name) const {
  const Arg& arg = (*this)[name];
  if (const auto* sym = std::get_if<Sym>(&arg)) return *sym;
  if (const auto* flag = std::get_if<bool>(&arg)) return *flag ? 1 : 0;
  wrong_kind(schema_, name, "an integer");
}

static int64_t constant_of(const Schema& schema, std::string_view name, const Sym& sym) {
  if (sym.is_constant()) return sym.constant();
  Sym simplified = sym.node()->context->simplify(sym);
  if (simplified.is_constant()) return simplified.constant();
  // A dim, a count or an exponent has to be a number: the symbol is pinned to its value.
  return sym.node()->context->specialize(sym, "used as a constant");
}

int64_t Args::constant(std::string_view name) const { return constant_of(schema_, name, integer(name)); }

double Args::number(std::string_view name) const {
  const Arg& arg = (*this)[name];
  if (const auto* value = std::get_if<double>(&arg)) return *value;
  if (const auto* flag = std::get_if<bool>(&arg)) return *flag;
  if (const auto* sym = std::get_if<Sym>(&arg)) return static_cast<double>(constant_of(schema_, name, *sym));
  wrong_kind(schema_, name, "a number");
}

bool Args::boolean(std::string_view name) const {
  const Arg& arg = (*this)[name];
  if (const auto* flag = std::get_if<bool>(&arg)) return *flag;
  if (const auto* sym = std::get_if<Sym>(&arg)) return constant_of(schema_, name, *sym) != 0;
  wrong_kind(schema_, name, "a bool");
}

std::string_view Args::string(std::string_view name) const {
  const Arg& arg = (*this)[name];
  if (const auto* text = std::get_if<std::string>(&arg)) return *text;
  wrong_kind(schema_, name, "a string");
}

std::vector<Sym> Args::sizes(std::string_view name) const {
  const Arg& arg = (*this)[name];
  if (const auto* list = std::get_if<std::vector<Sym>>(&arg)) {
    const Param& param = schema_.params[schema_.find(name)];
    if (list->size() == 1 && param.list_size > 1) return std::vector<Sym>(param.list_size, list->front());
    return *list;
  }
  if (const auto* sym = std::get_if<Sym>(&arg)) {
    const Param& param = schema_.params[schema_.find(name)];
    return std::vector<Sym>(std::max(param.list_size, 1), *sym);
  }
  if (std::holds_alternative<std::monostate>(arg)) return {};
  wrong_kind(schema_, name, "a list of integers");
}

std::vector<int64_t> Args::constants(std::string_view name) const {
  std::vector<int64_t> result;
  for (const Sym& sym : sizes(name)) result.push_back(constant_of(schema_, name, sym));
  return result;
}

std::vector<Value*> Args::values(std::string_view name) const {
  const Arg& arg = (*this)[name];
  if (const auto* list = std::get_if<std::vector<Value*>>(&arg)) return *list;
  if (const auto* value = std::get_if<Value*>(&arg)) return {*value};
  if (std::holds_alternative<std::monostate>(arg)) return {};
  wrong_kind(schema_, name, "a list of tensors");
}

std::optional<DType> Args::dtype(std::string_view name) const {
  const Arg& arg = (*this)[name];
  if (const auto* dtype = std::get_if<DType>(&arg)) return *dtype;
  if (std::holds_alternative<std::monostate>(arg)) return std::nullopt;
  wrong_kind(schema_, name, "a dtype");
}

const Graph& Args::graph(std::string_view name) const {
  const Arg& arg = (*this)[name];
  if (const auto* graph = std::get_if<std::shared_ptr<const Graph>>(&arg)) return **graph;
  wrong_kind(schema_, name, "a graph");
}

}  // namespace cdynamo::graph
