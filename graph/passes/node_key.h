// A node's operator, arguments and result types as bytes: equal keys, equal results. How operands are named
// is the caller's: by identity within a graph, by position across graphs.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "graph/op.h"

namespace cdynamo::graph {

class NodeKey {
 public:
  using NameValue = std::function<int64_t(const Value*)>;  // null operands are -1
  using NameSym = std::function<void(NodeKey&, const Sym&)>;
  NodeKey(NameValue name_value, NameSym name_sym)
      : name_value_(std::move(name_value)), name_sym_(std::move(name_sym)) {}

  void add(const Node& node);
  void add(const TensorType& type, bool with_strides);
  void add(const Arg& arg);
  void add(const Sym& size) { name_sym_(*this, size); }
  void add_value(const Value* value) { add_number(value ? name_value_(value) : -1); }
  void add_number(int64_t number) { bytes_.append(reinterpret_cast<const char*>(&number), sizeof number); }
  void add_text(std::string_view text) {
    add_number(static_cast<int64_t>(text.size()));
    bytes_.append(text);
  }

  const std::string& bytes() const { return bytes_; }
  std::string take() { return std::exchange(bytes_, {}); }

 private:
  NameValue name_value_;
  NameSym name_sym_;
  std::string bytes_;
};

}  // namespace cdynamo::graph
