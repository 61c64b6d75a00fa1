// The oracle of eager_oracle.h, and tests of the oracle itself.
#include "tests/graph/passes/eager_oracle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <unordered_map>

#include "graph/interpreter.h"

namespace cdynamo::graph::testing {

int64_t EagerTensor::numel() const {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  return n;
}

int64_t EagerTensor::position(int64_t n) const {
  int64_t at = offset;
  for (size_t d = sizes.size(); d-- > 0;) {
    at += n % sizes[d] * strides[d];
    n /= sizes[d];
  }
  return at;
}

std::vector<double> EagerTensor::values() const {
  std::vector<double> result(numel());
  for (int64_t n = 0; n < numel(); ++n) result[n] = (*storage)[position(n)];
  return result;
}

void EagerTensor::assign(const std::vector<double>& values) {
  for (int64_t n = 0; n < numel(); ++n) (*storage)[position(n)] = values.at(n);
}

EagerTensor make_strided(std::vector<int64_t> sizes, std::vector<int64_t> strides,
                         const std::vector<double>& values) {
  int64_t extent = 1;
  for (size_t d = 0; d < sizes.size(); ++d) extent += (std::max<int64_t>(sizes[d], 1) - 1) * strides[d];
  EagerTensor tensor{.storage = std::make_shared<std::vector<double>>(extent),
                     .sizes = std::move(sizes),
                     .strides = std::move(strides),
                     .object = std::make_shared<int>()};
  tensor.assign(values);
  return tensor;
}

EagerTensor make_tensor(std::vector<int64_t> sizes, const std::vector<double>& values) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * std::max<int64_t>(sizes[d], 1);
  return make_strided(std::move(sizes), std::move(strides), values);
}

namespace {

using Sizes = std::vector<int64_t>;

Sizes numbers(const std::vector<Sym>& sizes) {
  Sizes result;
  for (const Sym& size : sizes)
    result.push_back(size.is_constant() ? size.constant() : size.node()->context->hint(size));
  return result;
}

class Eager {
 public:
  std::vector<EagerTensor> run(const Graph& graph, const std::vector<EagerTensor>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) tensors_[graph.inputs[i]] = inputs[i];
    for (const auto& node : graph.nodes) execute(*node);
    std::vector<EagerTensor> outputs;
    for (const Value* output : graph.outputs) outputs.push_back(tensors_.at(output));
    return outputs;
  }

 private:
  using ViewFn = bool (*)(const Args&, EagerTensor&);

  static int64_t wrap(int64_t dim, size_t rank) { return dim < 0 ? dim + static_cast<int64_t>(rank) : dim; }

  // Views by name: what eager's stride arithmetic says. False: a copy is due.
  static const std::map<std::string_view, ViewFn>& views() {
    static const std::map<std::string_view, ViewFn> table = {
        {"select",
         [](const Args& args, EagerTensor& t) {
           const int64_t dim = wrap(args.constant("dim"), t.sizes.size()), index = args.constant("index");
           t.offset += (index < 0 ? index + t.sizes[dim] : index) * t.strides[dim];
           t.sizes.erase(t.sizes.begin() + dim);
           t.strides.erase(t.strides.begin() + dim);
           return true;
         }},
        {"slice",
         [](const Args& args, EagerTensor& t) {
           const int64_t dim = wrap(args.constant("dim"), t.sizes.size()), size = t.sizes[dim],
                         step = args.constant("step");
           const auto clamp = [&](const char* name, int64_t missing) {
             int64_t at = args.has(name) ? args.constant(name) : missing;
             if (at < 0) at += size;
             return std::min(std::max<int64_t>(at, 0), size);
           };
           const int64_t start = clamp("start", 0), end = std::max(clamp("end", size), start);
           t.offset += start * t.strides[dim];
           t.sizes[dim] = (end - start + step - 1) / step;
           t.strides[dim] *= step;
           return true;
         }},
        {"transpose",
         [](const Args& args, EagerTensor& t) {
           const int64_t a = wrap(args.constant("dim0"), t.sizes.size()),
                         b = wrap(args.constant("dim1"), t.sizes.size());
           std::swap(t.sizes[a], t.sizes[b]);
           std::swap(t.strides[a], t.strides[b]);
           return true;
         }},
        {"unsqueeze",
         [](const Args& args, EagerTensor& t) {
           int64_t dim = args.constant("dim");
           if (dim < 0) dim += static_cast<int64_t>(t.sizes.size()) + 1;
           const int64_t stride =
               dim < static_cast<int64_t>(t.sizes.size()) ? t.sizes[dim] * t.strides[dim] : 1;
           t.sizes.insert(t.sizes.begin() + dim, 1);
           t.strides.insert(t.strides.begin() + dim, stride);
           return true;
         }},
        {"expand",
         [](const Args& args, EagerTensor& t) {
           Sizes sizes = numbers(args.sizes("size")), strides(sizes.size(), 0);
           const size_t lead = sizes.size() - t.sizes.size();
           for (size_t d = 0; d < sizes.size(); ++d) {
             if (d < lead) continue;
             if (sizes[d] == -1 || sizes[d] == t.sizes[d - lead]) {
               sizes[d] = t.sizes[d - lead];
               strides[d] = t.strides[d - lead];
             }
           }
           t.sizes = sizes;
           t.strides = strides;
           return true;
         }},
        {"diagonal",
         [](const Args& args, EagerTensor& t) {
           const int64_t k = args.constant("offset"), a = wrap(args.constant("dim1"), t.sizes.size()),
                         b = wrap(args.constant("dim2"), t.sizes.size());
           const int64_t size = std::max<int64_t>(
               0, k >= 0 ? std::min(t.sizes[a], t.sizes[b] - k) : std::min(t.sizes[a] + k, t.sizes[b]));
           t.offset += k >= 0 ? k * t.strides[b] : -k * t.strides[a];
           t.sizes.push_back(size);
           t.strides.push_back(t.strides[a] + t.strides[b]);
           for (int64_t dim : {std::max(a, b), std::min(a, b)}) {
             t.sizes.erase(t.sizes.begin() + dim);
             t.strides.erase(t.strides.begin() + dim);
           }
           return true;
         }},
        {"view", reshape_rule},
        {"reshape", reshape_rule},
        {"detach", [](const Args&, EagerTensor&) { return true; }},
    };
    return table;
  }

  // A plain search instead of eager's chunks: the strides are right if every element lies where row-major
  // order says.
  static bool reshape_rule(const Args& args, EagerTensor& t) {
    Sizes sizes = numbers(args.sizes(args.schema().find("shape") >= 0 ? "shape" : "size"));
    int64_t known = 1;
    for (int64_t size : sizes) known *= size == -1 ? 1 : size;
    for (int64_t& size : sizes)
      if (size == -1) size = t.numel() / known;
    EagerTensor view = t;
    view.sizes = sizes;
    view.strides.assign(sizes.size(), 1);
    int64_t block = 1;
    for (size_t d = sizes.size(); d-- > 0;) {
      view.strides[d] = sizes[d] > 1 ? t.position(block) - t.position(0) : 1;
      block *= sizes[d];
    }
    for (int64_t n = 0; n < t.numel(); ++n)
      if (t.position(n) != view.position(n)) return false;
    t = view;
    return true;
  }

  EagerTensor compute(const Node& node, const Args& args, const std::vector<EagerTensor>& operands) {
    const Value* result = node.results[0];
    const Sizes sizes = numbers(result->type.sizes);
    EagerTensor fresh = make_strided(sizes, numbers(result->type.strides), std::vector<double>(count(sizes)));
    fresh.assign(elements(node, args, operands, sizes));
    return fresh;
  }

  static int64_t count(const Sizes& sizes) {
    int64_t n = 1;
    for (int64_t size : sizes) n *= size;
    return n;
  }

  static EagerTensor broadcast(EagerTensor t, const Sizes& sizes) {
    const size_t lead = sizes.size() - t.sizes.size();
    t.strides.insert(t.strides.begin(), lead, 0);
    t.sizes.insert(t.sizes.begin(), lead, 1);
    for (size_t d = 0; d < sizes.size(); ++d)
      if (t.sizes[d] != sizes[d]) t.strides[d] = 0;
    t.sizes = sizes;
    return t;
  }

  std::vector<double> elements(const Node& node, const Args& args, const std::vector<EagerTensor>& operands,
                               const Sizes& sizes) {
    using Binary = double (*)(double, double);
    static const std::map<std::string_view, Binary> kBinary = {
        {"add", [](double a, double b) { return a + b; }},
        {"sub", [](double a, double b) { return a - b; }},
        {"mul", [](double a, double b) { return a * b; }},
        {"copy", [](double, double b) { return b; }},
        {"maximum", [](double a, double b) { return std::max(a, b); }}};
    using Unary = double (*)(double);
    static const std::map<std::string_view, Unary> kUnary = {
        {"neg", [](double a) { return -a; }},
        {"abs", [](double a) { return std::abs(a); }},
        {"relu", [](double a) { return std::max(a, 0.0); }},
        {"clone", [](double a) { return a; }},
        {"contiguous", [](double a) { return a; }},
        {"view", [](double a) { return a; }},
        {"reshape", [](double a) { return a; }},
        {"zero", [](double) { return 0.0; }}};
    const std::string_view name = node.op->name;
    if (name == "fill") return std::vector<double>(count(sizes), args.number("value"));
    if (const auto unary = kUnary.find(name); unary != kUnary.end()) {
      std::vector<double> result = operands[0].values();
      for (double& x : result) x = unary->second(x);
      return result;
    }
    const auto binary = kBinary.find(name);
    if (binary == kBinary.end()) throw std::runtime_error("the oracle does not know " + std::string(name));
    const std::vector<double> a = broadcast(operands[0], sizes).values();
    const std::vector<double> b = operands.size() > 1 ? broadcast(operands[1], sizes).values()
                                                      : std::vector<double>(a.size(), args.number("other"));
    std::vector<double> result(a.size());
    for (size_t i = 0; i < a.size(); ++i) result[i] = binary->second(a[i], b[i]);
    return result;
  }

  static bool is_contiguous(const EagerTensor& t) {
    int64_t expected = 1;
    for (size_t d = t.sizes.size(); d-- > 0;) {
      if (t.sizes[d] != 1 && t.strides[d] != expected) return false;
      expected *= t.sizes[d];
    }
    return true;
  }

  void execute(const Node& node) {
    std::vector<EagerTensor> operands;
    for_each_operand(const_cast<Node&>(node), [&](Value* value) { operands.push_back(tensors_.at(value)); });
    const Args args(node.op->parsed[node.overload], node.args);
    EagerTensor& result = tensors_[node.results[0]];
    if (const auto view = views().find(node.op->name); view != views().end()) {
      result = operands[0];
      result.object = std::make_shared<int>();
      if (view->second(args, result)) return;
    }
    if (node.op->name == "contiguous" && is_contiguous(operands[0])) {
      result = operands[0];
      return;
    }
    if (!node.in_place) {
      result = compute(node, args, operands);
      return;
    }
    const std::vector<double> content = elements(node, args, operands, operands[0].sizes);
    operands[0].assign(content);
    result = operands[0];
  }

  std::unordered_map<const Value*, EagerTensor> tensors_;
};

}  // namespace

std::vector<EagerTensor> run_eagerly(const Graph& captured, const std::vector<EagerTensor>& inputs) {
  return Eager().run(captured, inputs);
}

std::vector<EagerTensor> run_prepared(const Prepared& prepared, const std::vector<EagerTensor>& inputs) {
  const Graph& core = *prepared.core;
  std::vector<DenseTensor> dense;
  for (size_t i = 0; i < inputs.size(); ++i)
    dense.push_back(DenseTensor::of(inputs[i].sizes, inputs[i].values(), core.inputs[i]->type.dtype));
  const InterpretResult result = interpret_all(core, dense);

  std::vector<EagerTensor> fresh;
  for (size_t i = 0; i < core.outputs.size(); ++i) {
    const TensorType& type = core.outputs[i]->type;
    fresh.push_back(make_strided(numbers(type.sizes), numbers(type.strides), result.outputs[i].numbers()));
  }
  for (const Graph::Mutation& mutation : core.mutations) {
    EagerTensor input = inputs[mutation.input];
    input.assign(result.inputs[mutation.input].numbers());
  }
  std::vector<EagerTensor> outputs;
  for (const OutputAlias& alias : prepared.outputs) {
    const bool of_input = alias.kind == OutputAlias::kInput || alias.kind == OutputAlias::kViewOfInput;
    EagerTensor tensor = of_input ? inputs[alias.index] : fresh[alias.index];
    if (alias.kind == OutputAlias::kViewOfInput || alias.kind == OutputAlias::kViewOfOutput) {
      tensor.sizes = numbers(alias.sizes);
      tensor.strides = numbers(alias.strides);
      tensor.offset += numbers({alias.offset})[0];
      tensor.object = std::make_shared<int>();
    }
    outputs.push_back(std::move(tensor));
  }
  return outputs;
}

namespace {

std::vector<double> made_up_numbers(int64_t count, DType dtype, int salt) {
  std::vector<double> values(count);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t number = (i * 7 + salt * 5) % 11 - 5;
    values[i] = dtype == DType::kBool ? static_cast<double>((i * 5 + salt) % 3 == 0)
                                      : static_cast<double>(number) / 4;
    if (runtime::is_integer(dtype))
      values[i] = static_cast<double>(dtype == DType::kU8 ? number + 5 : number);
  }
  return values;
}

std::vector<EagerTensor> made_up_inputs(const Graph& graph) {
  std::vector<EagerTensor> inputs;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const TensorType& type = graph.inputs[i]->type;
    const Sizes sizes = numbers(type.sizes);
    int64_t n = 1;
    for (int64_t size : sizes) n *= size;
    inputs.push_back(
        make_strided(sizes, numbers(type.strides), made_up_numbers(n, type.dtype, static_cast<int>(i))));
  }
  return inputs;
}

bool same_number(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b));
}

std::string compare_values(const std::string& what, const EagerTensor& expected, const EagerTensor& found) {
  const std::vector<double> a = expected.values(), b = found.values();
  if (a.size() != b.size()) return what + " has another number of elements\n";
  for (size_t i = 0; i < a.size(); ++i)
    if (!same_number(a[i], b[i]))
      return what + "[" + std::to_string(i) + "] is " + std::to_string(b[i]) + ", eager has " +
             std::to_string(a[i]) + "\n";
  return "";
}

// Strides of dimensions of one element cannot be seen by any access.
bool same_layout(const EagerTensor& a, const EagerTensor& b) {
  if (a.sizes != b.sizes || a.offset != b.offset) return a.sizes == b.sizes && a.numel() == 0;
  for (size_t d = 0; d < a.sizes.size(); ++d)
    if (a.sizes[d] > 1 && a.strides[d] != b.strides[d]) return false;
  return true;
}

}  // namespace

std::vector<std::vector<double>> run_core(const Graph& core) {
  std::vector<DenseTensor> dense;
  for (const EagerTensor& input : made_up_inputs(core))
    dense.push_back(DenseTensor::of(input.sizes, input.values(), core.inputs[dense.size()]->type.dtype));
  std::vector<std::vector<double>> outputs;
  for (const DenseTensor& output : interpret(core, dense)) outputs.push_back(output.numbers());
  return outputs;
}

static std::string compare(const Graph& captured, const Prepared& prepared) {
  const std::vector<std::string> broken = verify(*prepared.core, true);
  if (!broken.empty()) return "not sound: " + broken[0] + "\n" + print_readable(*prepared.core);
  const std::vector<EagerTensor> eager_inputs = made_up_inputs(captured), inputs = made_up_inputs(captured);
  const std::vector<EagerTensor> expected = run_eagerly(captured, eager_inputs),
                                 found = run_prepared(prepared, inputs);
  std::string report;
  for (size_t i = 0; i < inputs.size(); ++i)
    report += compare_values("input " + std::to_string(i), eager_inputs[i], inputs[i]);
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::string name = "output " + std::to_string(i);
    if (!same_layout(expected[i], found[i])) report += name + " has another layout\n";
    report += compare_values(name, expected[i], found[i]);
    for (size_t j = 0; j < expected.size(); ++j) {
      if ((expected[i].storage == expected[j].storage) != (found[i].storage == found[j].storage))
        report += name + " and output " + std::to_string(j) + " differ in sharing storage\n";
    }
    for (size_t j = 0; j < inputs.size(); ++j) {
      if ((expected[i].storage == eager_inputs[j].storage) != (found[i].storage == inputs[j].storage))
        report += name + " and input " + std::to_string(j) + " differ in sharing storage\n";
      if ((expected[i].object == eager_inputs[j].object) != (found[i].object == inputs[j].object))
        report += name + " and input " + std::to_string(j) + " differ in being one object\n";
    }
  }
  return report.empty() ? "" : report + print_readable(*prepared.core);
}

std::string compare_with_eager(const Graph& captured) {
  std::string report = compare(captured, functionalize(captured));
  if (report.empty()) report = compare(captured, prepare(captured));
  return report;
}

}  // namespace cdynamo::graph::testing
