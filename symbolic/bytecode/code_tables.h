// The two packed tables of a code object: co_linetable (Objects/locations.md of CPython 3.11) and
// co_exceptiontable (Objects/exception_handling_notes.txt). Both have one format in 3.11 to 3.13. Offsets are
// in code units of two bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cdynamo::symbolic {

struct Position {
  int line = -1, end_line = -1, column = -1, end_column = -1;
  bool operator==(const Position&) const = default;
};

// One position for each of `num_units` code units.
std::vector<Position> read_line_table(const uint8_t* data, int size, int first_line, int num_units);

class LineTableWriter {
 public:
  explicit LineTableWriter(int first_line) : line_(first_line) {}
  void add(const Position& position, int units);
  std::string take() { return std::move(out_); }

 private:
  void add_entry(const Position& position, int units);
  int line_;
  std::string out_;
};

struct ExceptionEntry {
  int start = 0, end = 0;  // code units, end exclusive
  int target = 0;
  int depth = 0;
  bool push_lasti = false;
};

std::vector<ExceptionEntry> read_exception_table(const uint8_t* data, int size);
void append_exception_entry(std::string& table, const ExceptionEntry& entry);

}  // namespace cdynamo::symbolic
