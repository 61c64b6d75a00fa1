// The parser of ATen's schema notation.
#include <algorithm>
#include <cctype>
#include <limits>
#include <stdexcept>

#include "graph/op.h"

namespace cdynamo::graph {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Schema parse() {
    Schema schema;
    schema.text = std::string(text_);
    // NumPy's entries are "np.sum(...)", ours "core.sum(...)": the prefix belongs to the name.
    schema.name = identifier();
    static constexpr std::string_view kPrefixes[] = {"np", "core", "autograd", "func"};
    const bool prefixed = std::ranges::find(kPrefixes, schema.name) != std::end(kPrefixes);
    if (accept('.')) (prefixed ? (schema.name += ".") : schema.overload) += identifier();
    if (prefixed && accept('.')) schema.overload = identifier();
    expect('(');
    bool keyword_only = false;
    while (!accept(')')) {
      if (accept('*'))
        keyword_only = true;
      else
        schema.params.push_back(param(keyword_only));
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    results(schema);
    skip();
    if (at_ != text_.size()) fail("the end");
    return schema;
  }

 private:
  [[noreturn]] void fail(const std::string& expected) const {
    throw std::invalid_argument("schema \"" + std::string(text_) + "\": expected " + expected +
                                " at position " + std::to_string(at_));
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool accept(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("'") + c + "'");
  }
  std::string identifier() {
    skip();
    size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
      ++at_;
    if (begin == at_) fail("a name");
    return std::string(text_.substr(begin, at_ - begin));
  }

  Param param(bool keyword_only) {
    Param p = type();
    p.keyword_only = keyword_only;
    p.name = identifier();
    if (accept('=')) {
      p.has_default = true;
      p.default_value = default_value(p);
    }
    return p;
  }

  Param type() {
    Param p;
    std::string base = identifier();
    p.kind = scalar_kind(base);
    if (accept('(')) {  // alias annotation: (a), (a!), (a -> *)
      while (!accept(')')) {
        if (text_[at_] == '!') p.mutated = true;
        if (++at_ >= text_.size()) fail("')'");
      }
    }
    bool optional = accept('?');
    if (accept('[')) {
      if (!accept(']')) {
        p.list_size = std::stoi(identifier());
        expect(']');
      }
      p.list_elements_optional = optional;
      p.kind = list_kind(p.kind);
      optional = accept('?');
    }
    p.optional = optional;
    return p;
  }

  ParamKind scalar_kind(const std::string& name) const {
    static const std::pair<const char*, ParamKind> kKinds[] = {{"Tensor", ParamKind::kTensor},
                                                               {"Scalar", ParamKind::kScalar},
                                                               {"int", ParamKind::kInt},
                                                               {"SymInt", ParamKind::kInt},
                                                               {"float", ParamKind::kFloat},
                                                               {"bool", ParamKind::kBool},
                                                               {"str", ParamKind::kString},
                                                               {"ScalarType", ParamKind::kDType},
                                                               {"Device", ParamKind::kDevice},
                                                               {"Layout", ParamKind::kLayout},
                                                               {"MemoryFormat", ParamKind::kMemoryFormat},
                                                               {"Generator", ParamKind::kGenerator},
                                                               {"Dimname", ParamKind::kDimname},
                                                               {"Graph", ParamKind::kGraph}};
    for (const auto& [text, kind] : kKinds)
      if (name == text) return kind;
    fail("a type, not " + name);
  }
  ParamKind list_kind(ParamKind element) const {
    switch (element) {
      case ParamKind::kTensor: return ParamKind::kTensorList;
      case ParamKind::kInt: return ParamKind::kIntList;
      case ParamKind::kFloat: return ParamKind::kFloatList;
      case ParamKind::kBool: return ParamKind::kBoolList;
      case ParamKind::kScalar: return ParamKind::kScalarList;
      default: fail("a type that can be in a list");
    }
  }

  Arg default_value(const Param& p) {
    skip();
    if (accept('[')) return list_default(p);
    if (at_ < text_.size() && (text_[at_] == '\'' || text_[at_] == '"')) return quoted();
    std::string word = literal();
    if (word == "None") return std::monostate();
    if (word == "True" || word == "False") return word == "True";
    if (p.kind == ParamKind::kString || std::isalpha(static_cast<unsigned char>(word[0])))
      return named(p, word);
    if (p.kind == ParamKind::kIntList)
      return std::vector<Sym>(std::max(p.list_size, 1), Sym(std::stoll(word)));
    bool integral = word.find_first_of(".e") == std::string::npos;
    if (p.kind == ParamKind::kFloat || !integral) return std::stod(word);
    return Sym(std::stoll(word));
  }
  // inf, Mean, contiguous_format, long: the few words that schemas use as defaults.
  Arg named(const Param& p, const std::string& word) {
    if (word == "inf") return std::numeric_limits<double>::infinity();
    if (word == "Mean") return Sym(1);
    if (word == "long") return DType::kI64;
    if (word == "float") return DType::kF32;
    return word;
  }
  std::string literal() {
    size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != ')' && text_[at_] != ']' &&
           text_[at_] != ' ')
      ++at_;
    if (begin == at_) fail("a default value");
    return std::string(text_.substr(begin, at_ - begin));
  }
  Arg quoted() {
    char quote = text_[at_++];
    size_t end = text_.find(quote, at_);
    if (end == text_.npos) fail("the end of a string");
    std::string value(text_.substr(at_, end - at_));
    at_ = end + 1;
    return value;
  }
  Arg list_default(const Param& p) {
    std::vector<Sym> ints;
    std::vector<double> floats;
    std::vector<bool> bools;
    while (!accept(']')) {
      skip();
      std::string word = literal();
      if (p.kind == ParamKind::kBoolList)
        bools.push_back(word == "True");
      else if (p.kind == ParamKind::kFloatList)
        floats.push_back(std::stod(word));
      else
        ints.emplace_back(std::stoll(word));
      accept(',');
    }
    if (p.kind == ParamKind::kBoolList) return bools;
    if (p.kind == ParamKind::kFloatList) return floats;
    if (p.kind == ParamKind::kTensorList) return std::vector<Value*>();
    return ints;
  }

  void results(Schema& schema) {
    expect('-');
    expect('>');
    if (!accept('(')) {
      schema.result_is_list = type().kind == ParamKind::kTensorList;
      return;
    }
    schema.num_results = 0;
    while (!accept(')')) {
      type();
      skip();
      if (at_ < text_.size() && text_[at_] != ',' && text_[at_] != ')') identifier();
      ++schema.num_results;
      accept(',');
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Schema Schema::parse(std::string_view text) { return Parser(text).parse(); }

int Schema::find(std::string_view param) const {
  for (size_t i = 0; i < params.size(); ++i)
    if (params[i].name == param) return static_cast<int>(i);
  return -1;
}

}  // namespace cdynamo::graph
