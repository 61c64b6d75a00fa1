#include "graph/passes/rewrite.h"

#include <cmath>
#include <cstdlib>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "graph/passes/view_step.h"

namespace cdynamo::graph {
struct RewritePattern {
  enum Kind : uint8_t { kLetter, kNumber, kOp } kind = kLetter;
  char letter = 0;
  double number = 0;
  const OpDef* op = nullptr;
  std::vector<RewritePattern> operands;
};

namespace {

constexpr std::string_view kCommutative[] = {"add",         "mul",         "maximum",     "minimum",
                                             "bitwise_and", "bitwise_or",  "bitwise_xor", "logical_and",
                                             "logical_or",  "logical_xor", "eq",          "ne"};

bool commutes(const OpDef& op) {
  for (std::string_view name : kCommutative)
    if (op.name == name) return true;
  return false;
}

// Returns false where the pattern names an operator that the table lacks.
class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : text_(text) {}
  bool parse(RewritePattern& pattern) {
    skip_spaces();
    const size_t start = position_;
    if (std::isdigit(peek()) || peek() == '-') {
      pattern.kind = RewritePattern::kNumber;
      char* end = nullptr;
      pattern.number = std::strtod(text_.data() + position_, &end);
      position_ = end - text_.data();
      return true;
    }
    while (std::isalnum(peek()) || peek() == '_' || peek() == '.') ++position_;
    const std::string_view name = text_.substr(start, position_ - start);
    if (peek() != '(') {
      if (name.size() != 1) throw InternalError("rewrite pattern: " + std::string(text_));
      pattern.letter = name[0];
      return true;
    }
    pattern.kind = RewritePattern::kOp;
    pattern.op = find_op(name);
    bool known = pattern.op != nullptr;
    ++position_;  // "("
    while (peek() != ')') {
      if (peek() == ',') ++position_;
      known &= parse(pattern.operands.emplace_back());
      skip_spaces();
      if (peek() != ',' && peek() != ')') throw InternalError("rewrite pattern: " + std::string(text_));
    }
    ++position_;
    return known;
  }

 private:
  char peek() const { return position_ < text_.size() ? text_[position_] : '\0'; }
  void skip_spaces() {
    while (peek() == ' ') ++position_;
  }
  std::string_view text_;
  size_t position_ = 0;
};

std::vector<Value*> tensor_operands(const Node& node) {
  std::vector<Value*> operands;
  for (const Arg& arg : node.args) {
    if (auto* value = std::get_if<Value*>(&arg)) operands.push_back(*value);
  }
  return operands;
}

bool same_number(double a, double b) { return a == b && std::signbit(a) == std::signbit(b); }

bool match_value(const RewritePattern& pattern, Value* value, Match& match);

bool match_operands(const RewritePattern& pattern, const std::vector<Value*>& operands, Match& match) {
  for (size_t i = 0; i < operands.size(); ++i)
    if (!match_value(pattern.operands[i], operands[i], match)) return false;
  return true;
}

bool match_node(const RewritePattern& pattern, Node& node, Match& match) {
  if (node.op != pattern.op) return false;
  std::vector<Value*> operands = tensor_operands(node);
  if (operands.size() != pattern.operands.size()) return false;
  const Match before = match;
  match.nodes.push_back(&node);
  if (match_operands(pattern, operands, match)) return true;
  match = before;
  if (operands.size() != 2 || !commutes(*node.op)) return false;
  match.nodes.push_back(&node);
  std::swap(operands[0], operands[1]);
  if (match_operands(pattern, operands, match)) return true;
  match = before;
  return false;
}

bool match_value(const RewritePattern& pattern, Value* value, Match& match) {
  switch (pattern.kind) {
    case RewritePattern::kLetter: {
      Value*& bound = match.values[pattern.letter - 'a'];
      if (bound && bound != value) return false;
      bound = value;
      return value != nullptr;
    }
    case RewritePattern::kNumber: {
      const std::optional<double> number = value ? constant_of(value) : std::nullopt;
      return number && same_number(*number, pattern.number);
    }
    case RewritePattern::kOp: return value && value->node && match_node(pattern, *value->node, match);
  }
  return false;
}

Value* build_result(const RewritePattern& pattern, Builder& builder, const Match& match) {
  switch (pattern.kind) {
    case RewritePattern::kLetter: return match[pattern.letter];
    case RewritePattern::kNumber:
      return builder.call1("core.full", {match.type().sizes, pattern.number, match.type().dtype});
    case RewritePattern::kOp: break;
  }
  std::vector<Arg> args;
  for (const RewritePattern& operand : pattern.operands)
    args.push_back(build_result(operand, builder, match));
  return builder.call1(pattern.op->name, std::move(args));
}

}  // namespace

std::optional<double> constant_of(const Value* value) {
  if (!value->node) return std::nullopt;
  static const OpDef* const full = &op("core.full");
  if (value->node->op != full) return std::nullopt;
  const Arg& number = Args(full->parsed[value->node->overload], value->node->args)["value"];
  if (auto* real = std::get_if<double>(&number)) return *real;
  if (auto* flag = std::get_if<bool>(&number)) return *flag ? 1.0 : 0.0;
  if (auto* integer = std::get_if<Sym>(&number)) {
    // Integers that a double cannot hold are left alone.
    constexpr int64_t kExact = int64_t{1} << 53;
    if (!integer->is_constant() || integer->constant() < -kExact || integer->constant() > kExact)
      return std::nullopt;
    return static_cast<double>(integer->constant());
  }
  return std::nullopt;
}

struct RewriteSet::Impl {
  struct Row {
    const Rewrite* rewrite;
    RewritePattern pattern, result;
  };
  absl::flat_hash_map<const OpDef*, std::vector<Row>> rows;
};

RewriteSet::RewriteSet(std::initializer_list<std::span<const Rewrite>> tables)
    : impl_(std::make_unique<Impl>()) {
  for (std::span<const Rewrite> table : tables) {
    for (const Rewrite& rewrite : table) {
      Impl::Row row{.rewrite = &rewrite};
      if (!PatternParser(rewrite.pattern).parse(row.pattern)) continue;
      if (rewrite.result && !PatternParser(rewrite.result).parse(row.result)) continue;
      impl_->rows[row.pattern.op].push_back(std::move(row));
    }
  }
}

RewriteSet::~RewriteSet() = default;

Value* RewriteSet::apply(Builder& builder, Node& node) const {
  const auto found = impl_->rows.find(node.op);
  if (found == impl_->rows.end()) return nullptr;
  for (const Impl::Row& row : found->second) {
    Match match;
    if (!match_node(row.pattern, node, match)) continue;
    if (row.rewrite->condition && !row.rewrite->condition(match)) continue;
    Value* result =
        row.rewrite->build ? row.rewrite->build(builder, match) : build_result(row.result, builder, match);
    if (!result || result == node.results[0]) continue;
    // A number beside half types is a float32: built anew, the operator may promote to another dtype.
    if (result->type.dtype == match.type().dtype && result->type.rank() == match.type().rank()) return result;
  }
  return nullptr;
}

namespace {

// What is written to an input is computed before any input is written: never an input, nor a view that may be
// one's.
bool is_computed(const Value* value) { return value->node && value->node->op->family != Family::kView; }

// Outputs move to the replacement only where they stay results of nodes and pairwise different.
bool forward_outputs(Graph& graph, const absl::flat_hash_map<Value*, Value*>& forward, bool outputs_stay) {
  bool changed = false;
  absl::flat_hash_set<Value*> taken(graph.outputs.begin(), graph.outputs.end());
  for (Value*& output : graph.outputs) {
    const auto found = forward.find(output);
    if (found == forward.end() || !found->second->node || taken.count(found->second)) continue;
    Value* target = found->second;
    if (target->type.sizes != output->type.sizes) continue;
    if (outputs_stay && target->node->user_call != output->node->user_call) continue;
    target->type.strides = output->type.strides;
    taken.erase(output);
    taken.insert(target);
    output = target;
    changed = true;
  }
  for (Graph::Mutation& mutation : graph.mutations) {
    const auto found = forward.find(mutation.value);
    if (found == forward.end() || !is_computed(found->second)) continue;
    mutation.value = found->second;
    changed = true;
  }
  return changed;
}

// What the program can write to once the graph has run: inputs, outputs, and what those look at.
class Writable {
 public:
  explicit Writable(const Graph& graph) {
    bases_.insert(graph.inputs.begin(), graph.inputs.end());
    for (const Value* output : graph.outputs) bases_.insert(base_of(output));
    for (const auto& node : graph.nodes)
      for_each_operand(*node, [&](Value*& operand) {
        if (operand->node && operand->node->user_call != node->user_call) leave_call(operand);
      });
    for (const Value* output : graph.outputs) leave_call(output);
  }

  // Is the node's result a tensor of its own in the program, and the replacement memory that it may write to by another name?
  bool shows(const Node& node, const Value* replacement) const {
    if (node.op->family == Family::kView || !leaves_call_.contains(node.results[0])) return false;
    const Value* base = base_of(replacement);
    return bases_.contains(base) && !(base->node && base->node->user_call == node.user_call);
  }

 private:
  // A view of what the same call has made is that.
  void leave_call(const Value* value) {
    leaves_call_.insert(value);
    for (const Value* next = viewed(value); next && next->node; next = viewed(next)) {
      if (next->node->user_call != value->node->user_call) return;
      leaves_call_.insert(next);
    }
  }

  absl::flat_hash_set<const Value*> bases_, leaves_call_;
};

}  // namespace

bool rewrite_nodes(Graph& graph, const std::function<Value*(Builder&, Node&)>& replacement,
                   bool outputs_stay) {
  const std::optional<Writable> writable = outputs_stay ? std::optional<Writable>(graph) : std::nullopt;
  absl::flat_hash_map<Value*, Value*> forward;  // never chained: targets are looked up when they are entered
  const auto resolve = [&](Value* value) {
    const auto found = forward.find(value);
    return found == forward.end() ? value : found->second;
  };
  Builder builder(graph, Level::kCore);
  bool changed = false;
  for (auto it = graph.nodes.begin(); it != graph.nodes.end(); ++it) {
    Node& node = **it;
    for_each_operand(node, [&](Value*& operand) {
      Value* resolved = resolve(operand);
      changed |= resolved != operand;
      operand = resolved;
    });
    if (node.results.empty()) continue;
    builder.set_location(node.location, node.user_call, node.region);
    builder.set_device(node.results[0]->type.device);
    const auto last = std::prev(graph.nodes.end());
    Value* result = replacement(builder, node);
    if (result) result = resolve(result);
    if (result && writable && writable->shows(node, result)) {
      graph.nodes.erase(std::next(last), graph.nodes.end());
      continue;
    }
    graph.nodes.splice(it, graph.nodes, std::next(last), graph.nodes.end());
    if (result) forward[node.results[0]] = result;
  }
  return forward_outputs(graph, forward, outputs_stay) || changed;
}

}  // namespace cdynamo::graph
