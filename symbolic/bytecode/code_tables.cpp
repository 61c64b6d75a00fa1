#include "symbolic/bytecode/code_tables.h"

#include <algorithm>

namespace cdynamo::symbolic {
namespace {

// Kinds of entry of the line table. 0 to 9 are short forms whose number holds the column's upper bits.
constexpr int kOneLine0 = 10, kOneLine2 = 12, kNoColumns = 13, kLong = 14, kNone = 15;
constexpr int kMaxEntryUnits = 8;

class Reader {
 public:
  Reader(const uint8_t* data, int size) : next_(data), end_(data + size) {}
  bool at_end() const { return next_ >= end_; }
  int byte() { return at_end() ? 0 : *next_++; }

  // Line table: six bits a byte, the lowest first.
  int varint() {
    unsigned value = 0, shift = 0;
    int b;
    do {
      b = byte();
      value |= static_cast<unsigned>(b & 63) << shift;
      shift += 6;
    } while ((b & 64) && shift < 32);
    return static_cast<int>(value);
  }
  int signed_varint() {
    const unsigned value = static_cast<unsigned>(varint());
    const int magnitude = static_cast<int>(value >> 1);
    return value & 1 ? -magnitude : magnitude;
  }
  // Exception table: six bits a byte, the highest first.
  int big_endian_varint() {
    int b = byte();
    int value = b & 63;
    while ((b & 64) && !at_end()) {
      b = byte();
      value = value << 6 | (b & 63);
    }
    return value;
  }

 private:
  const uint8_t* next_;
  const uint8_t* end_;
};

void append_varint(std::string& out, unsigned value) {
  for (; value >= 64; value >>= 6) out.push_back(static_cast<char>(64 | (value & 63)));
  out.push_back(static_cast<char>(value));
}

void append_signed_varint(std::string& out, int value) {
  append_varint(out, value < 0 ? static_cast<unsigned>(-value) << 1 | 1 : static_cast<unsigned>(value) << 1);
}

Position read_position(Reader& in, int kind, int& line) {
  Position p;
  if (kind == kNone) return p;
  if (kind == kLong) {
    line += in.signed_varint();
    p.end_line = line + in.varint();
    p.column = in.varint() - 1;
    p.end_column = in.varint() - 1;
  } else if (kind == kNoColumns) {
    line += in.signed_varint();
    p.end_line = line;
  } else if (kind >= kOneLine0) {
    line += kind - kOneLine0;
    p.end_line = line;
    p.column = in.byte();
    p.end_column = in.byte();
  } else {
    const int b = in.byte();
    p.end_line = line;
    p.column = kind << 3 | (b >> 4 & 7);
    p.end_column = p.column + (b & 15);
  }
  p.line = line;
  return p;
}

}  // namespace

std::vector<Position> read_line_table(const uint8_t* data, int size, int first_line, int num_units) {
  std::vector<Position> positions;
  positions.reserve(num_units);
  Reader in(data, size);
  int line = first_line;
  while (!in.at_end()) {
    const int head = in.byte();
    const Position p = read_position(in, head >> 3 & 15, line);
    positions.insert(positions.end(), (head & 7) + 1, p);
  }
  positions.resize(num_units);
  return positions;
}

void LineTableWriter::add(const Position& position, int units) {
  for (; units > 0; units -= kMaxEntryUnits) add_entry(position, std::min(units, kMaxEntryUnits));
}

void LineTableWriter::add_entry(const Position& p, int units) {
  auto head = [&](int kind) { out_.push_back(static_cast<char>(128 | kind << 3 | (units - 1))); };
  if (p.line < 0) return head(kNone);
  const int delta = p.line - line_;
  const int end_line = p.end_line < 0 ? p.line : p.end_line;
  line_ = p.line;
  const bool has_columns = p.column >= 0 && p.end_column >= 0;
  if (!has_columns && end_line == p.line) {
    head(kNoColumns);
    return append_signed_varint(out_, delta);
  }
  if (has_columns && end_line == p.line) {
    const int width = p.end_column - p.column;
    if (delta == 0 && p.column < 80 && width >= 0 && width < 16) {
      head(p.column >> 3);
      out_.push_back(static_cast<char>((p.column & 7) << 4 | width));
      return;
    }
    if (delta >= 0 && delta <= kOneLine2 - kOneLine0 && p.column < 128 && p.end_column < 128) {
      head(kOneLine0 + delta);
      out_.push_back(static_cast<char>(p.column));
      out_.push_back(static_cast<char>(p.end_column));
      return;
    }
  }
  head(kLong);
  append_signed_varint(out_, delta);
  append_varint(out_, std::max(end_line - p.line, 0));
  append_varint(out_, p.column + 1);
  append_varint(out_, p.end_column + 1);
}

std::vector<ExceptionEntry> read_exception_table(const uint8_t* data, int size) {
  std::vector<ExceptionEntry> entries;
  Reader in(data, size);
  while (!in.at_end()) {
    ExceptionEntry entry;
    entry.start = in.big_endian_varint();
    entry.end = entry.start + in.big_endian_varint();
    entry.target = in.big_endian_varint();
    const int depth_and_lasti = in.big_endian_varint();
    entry.depth = depth_and_lasti >> 1;
    entry.push_lasti = depth_and_lasti & 1;
    entries.push_back(entry);
  }
  return entries;
}

void append_exception_entry(std::string& table, const ExceptionEntry& entry) {
  auto append = [&](int value, int marker) {
    int shift = 24;
    while (shift > 0 && !(value >> shift)) shift -= 6;
    for (; shift > 0; shift -= 6, marker = 0)
      table.push_back(static_cast<char>(marker | 64 | (value >> shift & 63)));
    table.push_back(static_cast<char>(marker | (value & 63)));
  };
  append(entry.start, 128);  // the marker lets CPython find the start of an entry
  append(entry.end - entry.start, 0);
  append(entry.target, 0);
  append(entry.depth << 1 | entry.push_lasti, 0);
}

}  // namespace cdynamo::symbolic
