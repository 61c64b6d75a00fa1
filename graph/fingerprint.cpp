#include "graph/fingerprint.h"

#include <cstdio>
#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "graph/passes/node_key.h"

namespace cdynamo::graph {
namespace {

// The finaliser of MurmurHash3: every input bit reaches every output bit.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

}  // namespace

std::string Fingerprint::hex() const {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(words[0]),
                static_cast<unsigned long long>(words[1]));
  return text;
}

Fingerprint fingerprint_bytes(const void* data, size_t size) {
  uint64_t low = 0x9e3779b97f4a7c15ULL ^ size, high = 0xc2b2ae3d27d4eb4fULL + size;
  const char* bytes = static_cast<const char*>(data);
  for (size_t at = 0; at < size; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + at, std::min<size_t>(8, size - at));
    low = mix(low ^ word) + high;
    high = mix(high + word * 0x9fb21c651e98df25ULL) ^ low;
  }
  return {{mix(low + high), mix(high ^ (low * 0xd6e8feb86659fd93ULL))}};
}

Fingerprint fingerprint(const Graph& core) {
  // Values and symbols are named by the order in which they are met.
  absl::flat_hash_map<const Value*, int64_t> values;
  absl::flat_hash_map<const SymNode*, int64_t> sizes;
  const std::vector<SymbolInfo>& symbols = core.sym->symbols();
  const NodeKey::NameSym name_sym = [&](NodeKey& key, const Sym& size) {
    const auto write = [&](const auto& self, const Sym& expression) -> void {
      if (expression.is_constant()) {
        key.add_number(-1);
        return key.add_number(expression.constant());
      }
      const SymNode* node = expression.node();
      const auto [found, is_new] = sizes.emplace(node, static_cast<int64_t>(sizes.size()));
      key.add_number(found->second);
      if (!is_new) return;
      key.add_number(static_cast<int64_t>(node->kind));
      if (node->kind == SymKind::kSymbol) {
        // Kernels take the values of symbols by index.
        key.add_number(node->symbol);
        key.add_number(symbols[node->symbol].min);
        key.add_number(symbols[node->symbol].max);
      }
      key.add_number(static_cast<int64_t>(node->operands.size()));
      for (const Sym& operand : node->operands) self(self, operand);
    };
    write(write, size);
  };
  NodeKey key([&](const Value* value) { return values.at(value); }, name_sym);
  const auto define = [&](const Value* value) { values.emplace(value, static_cast<int64_t>(values.size())); };

  key.add_number(static_cast<int64_t>(core.framework));
  key.add_number(static_cast<int64_t>(symbols.size()));
  for (const Value* input : core.inputs) {
    key.add(input->type, /*with_strides=*/true);
    define(input);
  }
  for (const auto& node : core.nodes) {
    key.add(*node);
    for (const Value* result : node->results) define(result);
  }
  for (const Value* output : core.outputs) {
    key.add_value(output);
    key.add(output->type, /*with_strides=*/true);
  }
  for (const Graph::Mutation& mutation : core.mutations) {
    key.add_number(mutation.input);
    key.add_value(mutation.value);
  }
  return fingerprint_bytes(key.bytes().data(), key.bytes().size());
}

}  // namespace cdynamo::graph
