// Every differentiable operator of the table: its first and second derivatives against differences of the
// interpreter's values, in float64. A new operator is tested by itself, with operands made from its schema;
// kSamples says what the schema does not, kExcluded what cannot be tested and why.
#include "graph/autograd/autograd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "graph/interpreter.h"

namespace cdynamo::graph {
namespace {

// ---- samples --------------------------------------------------------------------------------------------

// One sample of an operator's arguments, those that differ from what the schema's kinds give:
// "self=2x3 index=i3:2x2 dim=1". A tensor is its sizes; `@1.5` adds to its values, `i3:` makes indices below
// 3, `b:` a mask, `s:` numbers of both signs. Lists are in brackets, strings in quotes.
struct SampleRow {
  std::string_view op;
  int overload;  // -1: each
  std::string_view text;
};

#include "autograd_samples.inc"

class SampleMaker {
 public:
  SampleMaker(Graph& graph, const Schema& schema, std::string_view text) : graph_(graph), schema_(schema) {
    std::istringstream words{std::string(text)};
    for (std::string word; words >> word;)
      given_[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  }

  std::vector<Arg> make() {
    std::vector<Arg> args;
    for (const Param& param : schema_.params) {
      auto it = given_.find(param.name);
      args.push_back(it == given_.end() ? usual(param) : parse(param, it->second));
    }
    return args;
  }

  std::vector<DenseTensor> values;  // of the graph's inputs

 private:
  Arg usual(const Param& param) {
    if (param.has_default) return param.default_value;
    if (param.optional) return {};
    switch (param.kind) {
      case ParamKind::kTensor: return tensor("2x3");
      case ParamKind::kTensorList: return std::vector<Value*>{tensor("2x3"), tensor("2x3")};
      case ParamKind::kScalar:
      case ParamKind::kFloat: return 0.7;
      case ParamKind::kBool: return false;
      case ParamKind::kDevice: return runtime::Device{runtime::DeviceType::kCUDA, 0};
      case ParamKind::kIntList: return std::vector<Sym>{1};
      default: return Sym(1);
    }
  }

  static std::vector<std::string> split(const std::string& text, char at) {
    std::vector<std::string> parts;
    std::istringstream in(text);
    for (std::string part; std::getline(in, part, at);) parts.push_back(part);
    return parts;
  }

  Arg parse(const Param& param, const std::string& text) {
    if (text == "none") return {};
    if (text == "true" || text == "false") return text == "true";
    if (text[0] == '\'') return text.substr(1, text.size() - 2);
    if (text[0] == '[') return list(param, text.substr(1, text.size() - 2));
    if (param.kind == ParamKind::kTensor && text.find('n') != 0) return tensor(text);
    if (param.kind == ParamKind::kDType) return DType::kF64;
    const std::string digits = text[0] == 'n' ? text.substr(1) : text;
    if (digits.find('.') != digits.npos) return std::stod(digits);
    if (param.kind == ParamKind::kFloat) return std::stod(digits);
    return Sym(std::stoll(digits));
  }

  Arg list(const Param& param, const std::string& text) {
    const std::vector<std::string> parts = split(text, ',');
    if (param.kind == ParamKind::kTensorList) {
      std::vector<Value*> tensors;
      for (const std::string& part : parts) tensors.push_back(part == "none" ? nullptr : tensor(part));
      return tensors;
    }
    if (param.kind == ParamKind::kFloatList) {
      std::vector<double> numbers;
      for (const std::string& part : parts) numbers.push_back(std::stod(part));
      return numbers;
    }
    std::vector<Sym> numbers;
    for (const std::string& part : parts) numbers.emplace_back(std::stoll(part));
    return numbers;
  }

  // Values far enough from each other, from 0 and from 1 that no kink lies within a step.
  Value* tensor(std::string text) {
    DType dtype = DType::kF64;
    int64_t below = 2;
    double shift = 0;
    bool both_signs = false;
    if (text[0] == 'i') {
      dtype = DType::kI64;
      below = std::stoll(text.substr(1));
    } else if (text[0] == 'b') {
      dtype = DType::kBool;
    }
    both_signs = text[0] == 's';
    const bool zeros = text[0] == 'z';
    if (const size_t at = text.find('@'); at != text.npos) {
      shift = std::stod(text.substr(at + 1));
      text = text.substr(0, at);
    }
    if (const size_t colon = text.find(':'); colon != text.npos) text = text.substr(colon + 1);
    std::vector<int64_t> sizes;
    if (text != "1d0")
      for (const std::string& size : split(text, 'x')) sizes.push_back(std::stoll(size));
    DenseTensor value(dtype, sizes);
    for (size_t i = 0; i < value.elements.size(); ++i) {
      const double fraction = std::fmod(0.37 + 0.618033988749895 * static_cast<double>(++drawn_), 1.0);
      if (dtype == DType::kF64)
        value.set(i,
                  zeros && i % 3 == 1 ? 0 : (0.15 + 0.8 * fraction) * (both_signs && i % 2 ? -1 : 1) + shift);
      else
        value.elements[i].integer = static_cast<int64_t>(fraction * static_cast<double>(below));
    }
    TensorType type;
    type.dtype = dtype;
    type.sizes.assign(sizes.begin(), sizes.end());
    type.strides = contiguous_strides(type.sizes);
    values.push_back(std::move(value));
    return graph_.add_input(type, "x");
  }

  Graph& graph_;
  const Schema& schema_;
  std::map<std::string, std::string> given_;
  int drawn_ = 0;
};

// ---- checks ---------------------------------------------------------------------------------------------

constexpr double kStep = 1e-6;

double dot(const DenseTensor& a, const DenseTensor& b) {
  double total = 0;
  for (size_t i = 0; i < a.elements.size(); ++i) total += a.number(i) * b.number(i);
  return total;
}

// A graph whose outputs are functions of its inputs, and the gradients of <outputs, cotangents> appended:
// cotangents are inputs too, so that the gradient can be treated as such a function once more.
struct Function {
  Graph* graph;
  std::vector<Value*> outputs;
  std::vector<DenseTensor> values;  // of all inputs
};

bool is_real(const Value* value) { return value->type.dtype == DType::kF64; }

DenseTensor cotangent_of(const DenseTensor& output, int salt) {
  DenseTensor result(DType::kF64, output.sizes);
  for (size_t i = 0; i < result.elements.size(); ++i)
    result.set(i, 0.3 + std::fmod(0.271 * static_cast<double>(i + 1) + 0.17 * salt, 1.0));
  return result;
}

std::vector<DenseTensor> evaluate(const Function& f, const std::vector<DenseTensor>& values) {
  f.graph->outputs = f.outputs;
  return interpret(*f.graph, values);
}

// Appends the gradient of f; checks it against differences. Returns the gradient as a function.
Function check_gradient(Builder& b, Function f, const std::string& name) {
  std::vector<Value*> inputs;
  for (Value* input : f.graph->inputs)
    if (is_real(input)) inputs.push_back(input);
  std::vector<Value*> outputs;
  for (Value* output : f.outputs)
    if (is_real(output)) outputs.push_back(output);
  f.outputs = outputs;
  const std::vector<DenseTensor> at = evaluate(f, f.values);
  std::vector<Value*> cotangents;
  const size_t first_cotangent = f.values.size();
  std::vector<DenseTensor> values = f.values;
  for (size_t i = 0; i < outputs.size(); ++i) {
    values.push_back(cotangent_of(at[i], static_cast<int>(i)));
    cotangents.push_back(f.graph->add_input(outputs[i]->type, "g"));
  }
  Function gradient{f.graph, {}, values};
  std::vector<size_t> places;
  const std::vector<Value*> found = differentiate(b, outputs, cotangents, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!found[i]) continue;
    EXPECT_EQ(found[i]->type.sizes, inputs[i]->type.sizes) << name;
    gradient.outputs.push_back(found[i]);
  }
  std::vector<DenseTensor> computed =
      gradient.outputs.empty() ? std::vector<DenseTensor>() : evaluate(gradient, values);
  size_t next = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    size_t place = 0;
    while (f.graph->inputs[place] != inputs[i]) ++place;
    const DenseTensor* mine = found[i] ? &computed[next++] : nullptr;
    for (size_t k = 0; k < f.values[place].elements.size(); ++k) {
      std::vector<DenseTensor> up = values, down = values;
      const double x = values[place].number(k), step = kStep * std::max(1.0, std::fabs(x));
      up[place].set(k, x + step);
      down[place].set(k, x - step);
      const std::vector<DenseTensor> high = evaluate(f, up), low = evaluate(f, down);
      double slope = 0;
      for (size_t o = 0; o < outputs.size(); ++o)
        slope += (dot(high[o], values[first_cotangent + o]) - dot(low[o], values[first_cotangent + o]));
      slope /= 2 * step;
      const double gradient_here = mine ? mine->number(k) : 0;
      const double size = std::max({1.0, std::fabs(slope), std::fabs(gradient_here)});
      EXPECT_NEAR(gradient_here, slope, 2e-5 * size) << name << ", input " << i << " element " << k;
      if (::testing::Test::HasFailure() && !(std::fabs(gradient_here - slope) <= 2e-5 * size)) return {};
    }
  }
  return gradient;
}

void check_operator(const OpDef& def, int overload, std::string_view text) {
  const std::string name = std::string(def.parsed[overload].text) + " with " + std::string(text);
  Graph graph;
  graph.framework = def.name.starts_with("np.") ? Framework::kNumpy : Framework::kTorch;
  graph.torch_float = DType::kF64;
  Builder b(graph, Level::kCore);
  SampleMaker sample(graph, def.parsed[overload], text);
  try {
    std::vector<Value*> results = b.call(def, overload, sample.make());
    Function gradient = check_gradient(b, {&graph, results, sample.values}, name);
    if (gradient.outputs.empty()) return;
    bool differentiable = false;
    for (Value* value : results) differentiable |= is_real(value);
    if (!differentiable || kFirstOrderOnly.contains(def.name)) return;
    check_gradient(b, gradient, "the gradient of " + name);
  } catch (const std::exception& error) {
    ADD_FAILURE() << name << ": " << error.what();
  }
}

bool takes_and_gives_floats(const OpDef& def) {
  for (const Schema& schema : def.parsed)
    for (const Param& param : schema.params)
      if (param.kind == ParamKind::kTensor || param.kind == ParamKind::kTensorList) return true;
  return false;
}

TEST(Autograd, DerivativesOfEveryOperatorAreItsSlopes) {
  int checked = 0;
  for (const OpDef* def : all_ops()) {
    if (def->family == Family::kLibrary) continue;  // the framework's own derivatives
    if (!def->differentiable || !takes_and_gives_floats(*def) || kExcluded.contains(def->name)) continue;
    std::set<int> sampled;
    for (const SampleRow& row : kSamples) {
      if (row.op != def->name) continue;
      for (int overload = 0; overload < static_cast<int>(def->parsed.size()); ++overload) {
        if (row.overload >= 0 && row.overload != overload) continue;
        check_operator(*def, overload, row.text);
        sampled.insert(overload);
      }
    }
    for (int overload = 0; overload < static_cast<int>(def->parsed.size()); ++overload)
      if (!sampled.contains(overload)) check_operator(*def, overload, "");
    ++checked;
  }
  EXPECT_GT(checked, 250);
}

TEST(Autograd, SamplesNameOperatorsOfTheTable) {
  for (const SampleRow& row : kSamples) EXPECT_NE(find_op(row.op), nullptr) << row.op;
  for (const auto& [name, reason] : kExcluded) EXPECT_NE(find_op(name), nullptr) << name << ": " << reason;
}

}  // namespace
}  // namespace cdynamo::graph
