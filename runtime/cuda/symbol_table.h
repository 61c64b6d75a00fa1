// Tables of functions that are found by name when the program runs: a struct of function pointers, and a row for each.
#pragma once

#include <cstddef>
#include <cstring>

namespace cdynamo::runtime::cuda {

struct Symbol {
  const char* name;
  size_t offset;  // in the table
};

// Fills `table` with what `find(name)` gives. The first name without an address, or null.
template <typename Table, size_t kCount, typename Find>
const char* fill_table(Table& table, const Symbol (&symbols)[kCount], Find find) {
  static_assert(kCount * sizeof(void*) == sizeof(Table), "a function without a row");
  for (const Symbol& symbol : symbols) {
    void* address = find(symbol.name);
    if (!address) return symbol.name;
    std::memcpy(reinterpret_cast<char*>(&table) + symbol.offset, &address, sizeof address);
  }
  return nullptr;
}

}  // namespace cdynamo::runtime::cuda
