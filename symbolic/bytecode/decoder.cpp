// decode(): code units -> raw instructions -> canonical instructions -> jump targets, exception handlers,
// positions.
#include "symbolic/bytecode/decoder.h"

#include <array>

#include "symbolic/bytecode/code_tables.h"

namespace cdynamo::symbolic {
namespace {

constexpr int kUnit = 2;                            // bytes
constexpr unsigned char kCellOrFree = 0x40 | 0x80;  // CO_FAST_CELL | CO_FAST_FREE (pycore_code.h)

// Rows by opcode number, the first of an opcode's intrinsics.
const std::array<const RawOpcode*, 256>& rows_by_number() {
  static const auto rows = [] {
    std::array<const RawOpcode*, 256> result{};
    for (const RawOpcode& row : kOpcodeTable.rows) {
      if (!result[row.number]) result[row.number] = &row;
    }
    return result;
  }();
  return rows;
}

bool slot_is_cell(PyCodeObject* code, int slot) {
  if (slot >= PyBytes_GET_SIZE(code->co_localspluskinds)) return false;
  return (static_cast<unsigned char>(PyBytes_AS_STRING(code->co_localspluskinds)[slot]) & kCellOrFree) != 0;
}

void expand_format_value(Expansion& out, int arg) {
  const int conversion = arg & 3;
  const bool has_spec = arg & 4;
  // The conversion is applied to the value, which is below the spec.
  if (has_spec && conversion) out.add(Op::SWAP, 2);
  if (conversion) out.add(Op::CONVERT_VALUE, conversion);
  if (has_spec && conversion) out.add(Op::SWAP, 2);
  out.add(has_spec ? Op::FORMAT_WITH_SPEC : Op::FORMAT_SIMPLE);
}

void expand_load_global(Expansion& out, int arg) {
  const bool with_null = arg & 1;
  if (with_null && kNullIsLower) out.add(Op::PUSH_NULL);
  out.add(Op::LOAD_GLOBAL, arg >> 1);
  if (with_null && !kNullIsLower) out.add(Op::PUSH_NULL);
}

}  // namespace

const RawOpcode* find_raw(int number, int arg) {
  const RawOpcode* row = rows_by_number()[number];
  if (!row || row->shape != Shape::kIntrinsic) return row;
  const RawOpcode* end = kOpcodeTable.rows.data() + kOpcodeTable.rows.size();
  for (; row < end && row->number == number; ++row) {
    if (row->extra == arg) return row;
  }
  return nullptr;
}

const RawOpcode* find_shape(Shape shape, Op op) {
  static const auto rows = [] {
    std::array<std::array<const RawOpcode*, kNumOps>, static_cast<int>(Shape::kExtendedArg) + 1> result{};
    for (const RawOpcode& row : kOpcodeTable.rows) {
      const RawOpcode*& entry = result[static_cast<int>(row.shape)][static_cast<int>(row.op)];
      if (!entry) entry = &row;
    }
    return result;
  }();
  return rows[static_cast<int>(shape)][static_cast<int>(op)];
}

std::vector<RawInstruction> read_raw(PyCodeObject* code) {
  PyRef bytes = checked(PyCode_GetCode(code));
  const auto* data = reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(bytes.get()));
  const int size = static_cast<int>(PyBytes_GET_SIZE(bytes.get()));
  std::vector<RawInstruction> result;
  result.reserve(size / (2 * kUnit));
  int start = 0, extended = 0;
  for (int offset = 0; offset < size;) {
    const int arg = extended << 8 | data[offset + 1];
    const RawOpcode* row = find_raw(data[offset], arg);
    if (!row) {
      PyErr_Format(PyExc_SystemError, "cdynamo: unknown opcode %d at offset %d of %R", data[offset], offset,
                   code);
      throw PythonError{};
    }
    const int end = offset + kUnit * (1 + row->caches);
    if (row->shape == Shape::kExtendedArg) {
      extended = arg;
    } else {
      result.push_back({row, arg, start, offset, end});
      start = end;
      extended = 0;
    }
    offset = end;
  }
  return result;
}

Expansion expand(PyCodeObject* code, const RawInstruction& raw) {
  const RawOpcode& row = *raw.row;
  const int a = raw.arg;
  const bool has_arg = op_arg_kind(row.op) != ArgKind::kNone;
  Expansion out;
  switch (row.shape) {
    case Shape::kPlain: out.add(row.op, has_arg ? a : 0); break;
    case Shape::kForward: out.add(row.op, raw.end + kUnit * a, row.extra); break;
    case Shape::kBackward: out.add(row.op, raw.end - kUnit * a, row.extra); break;
    case Shape::kPair:
      out.add(row.op, a >> 4);
      out.add(row.op2, a & 15);
      break;
    case Shape::kReturnConst:
      out.add(Op::LOAD_CONST, a);
      out.add(Op::RETURN_VALUE);
      break;
    case Shape::kSlice:
      out.add(Op::BUILD_SLICE, 2);
      out.add(row.op);
      break;
    case Shape::kJumpOrPop:
      out.add(Op::COPY, 1);
      out.add(row.op, raw.end + kUnit * a);
      out.add(Op::POP_TOP);
      break;
    case Shape::kMakeFunction:
      out.add(Op::MAKE_FUNCTION);
      for (int flag = 8; flag; flag >>= 1) {
        if (a & flag) out.add(Op::SET_FUNCTION_ATTRIBUTE, flag);
      }
      break;
    case Shape::kFormatValue: expand_format_value(out, a); break;
    case Shape::kCompare:
      out.add(Op::COMPARE_OP, a >> row.extra);
      if (a & kOpcodeTable.compare_bool_flag) out.add(Op::TO_BOOL);
      break;
    case Shape::kLoadGlobal: expand_load_global(out, a); break;
    case Shape::kLoadAttr: out.add(a & 1 ? Op::LOAD_METHOD : Op::LOAD_ATTR, a >> 1); break;
    case Shape::kLoadSuperAttr:
      out.add(a & 1 ? Op::LOAD_SUPER_METHOD : Op::LOAD_SUPER_ATTR, a >> 2, a >> 1 & 1);
      break;
    case Shape::kIntrinsic: out.add(row.op); break;
    case Shape::kWithPop:
      out.add(row.op);
      out.add(Op::POP_TOP);
      break;
    case Shape::kClassDeref:
      out.add(Op::LOAD_LOCALS);
      out.add(row.op, a);
      break;
    case Shape::kLoadFast: out.add(Op::LOAD_FAST, a); break;
    case Shape::kCallKw:
    case Shape::kCall: out.add(row.op, a); break;
    case Shape::kEndFor: out.add(Op::END_FOR); break;
    case Shape::kKwNames:
    case Shape::kPrecall:
    case Shape::kExtendedArg: break;
  }
  if (!find_shape(Shape::kPlain, Op::LOAD_CLOSURE)) {
    for (Piece& piece : out.pieces) {
      if (piece.op == Op::LOAD_FAST && slot_is_cell(code, piece.arg)) piece.op = Op::LOAD_CLOSURE;
    }
  }
  return out;
}

namespace {

class Decoder {
 public:
  explicit Decoder(PyCodeObject* code) : code_(code), raw_(read_raw(code)) {}

  Program run() {
    const int num_units = raw_.empty() ? 0 : raw_.back().end / kUnit;
    index_at_.assign(num_units + 1, -1);
    positions_ = read_line_table(bytes_of(code_->co_linetable), size_of(code_->co_linetable),
                                 code_->co_firstlineno, num_units);
    program_.code.reserve(raw_.size() + raw_.size() / 4);
    for (size_t i = 0; i < raw_.size(); ++i) {
      for (int at = raw_[i].start; at <= raw_[i].offset; at += kUnit) {
        index_at_[at / kUnit] = static_cast<int>(program_.code.size());
      }
      if (swallowed_by_end_for(i)) continue;
      append(raw_[i]);
    }
    index_at_[num_units] = static_cast<int>(program_.code.size());
    for (Instruction& instruction : program_.code) {
      if (is_jump(instruction.op)) instruction.arg = index_of(instruction.arg / kUnit);
    }
    add_handlers();
    return std::move(program_);
  }

 private:
  static const uint8_t* bytes_of(PyObject* bytes) {
    return reinterpret_cast<uint8_t*>(PyBytes_AS_STRING(bytes));
  }
  static int size_of(PyObject* bytes) { return static_cast<int>(PyBytes_GET_SIZE(bytes)); }

  int index_of(int unit) const {
    if (unit >= 0 && unit < static_cast<int>(index_at_.size()) && index_at_[unit] >= 0)
      return index_at_[unit];
    PyErr_Format(PyExc_SystemError, "cdynamo: a jump to the middle of an instruction in %R", code_);
    throw PythonError{};
  }

  bool swallowed_by_end_for(size_t i) const {
    return i > 0 && raw_[i - 1].row->shape == Shape::kEndFor && raw_[i].row->op == Op::POP_TOP;
  }

  void append(const RawInstruction& raw) {
    if (raw.row->shape == Shape::kKwNames) kw_names_ = raw.arg;
    const Expansion expansion = expand(code_, raw);
    for (int i = 0; i < expansion.size; ++i) {
      Instruction instruction{expansion.pieces[i].op};
      instruction.arg = expansion.pieces[i].arg;
      instruction.arg2 = expansion.pieces[i].arg2;
      instruction.offset = raw.offset;
      const Position& p = positions_[raw.offset / kUnit];
      instruction.line = p.line;
      instruction.end_line = p.end_line;
      instruction.column = p.column;
      instruction.end_column = p.end_column;
      take_names(instruction);
      program_.code.push_back(std::move(instruction));
    }
  }

  // The names of a call: 3.11 and 3.12 say KW_NAMES before it, 3.13 has them on the stack, where LOAD_CONST
  // put them.
  void take_names(Instruction& call) {
    if (call.op == Op::CALL && kw_names_ >= 0) {
      call.op = Op::CALL_KW;
      call.arg2 = std::exchange(kw_names_, -1);
    } else if (call.op == Op::CALL_KW) {
      if (program_.code.empty() || program_.code.back().op != Op::LOAD_CONST) {
        PyErr_Format(PyExc_SystemError, "cdynamo: CALL_KW without constant names in %R", code_);
        throw PythonError{};
      }
      call.arg2 = program_.code.back().arg;
      program_.code.pop_back();
      // What pointed behind LOAD_CONST points to the call, which has its place.
      index_at_[call.offset / kUnit] = static_cast<int>(program_.code.size());
    }
  }

  void add_handlers() {
    size_t i = 0;
    for (const ExceptionEntry& entry :
         read_exception_table(bytes_of(code_->co_exceptiontable), size_of(code_->co_exceptiontable))) {
      const int handler = handler_index({index_of(entry.target), entry.depth, entry.push_lasti});
      while (i < program_.code.size() && program_.code[i].offset < entry.start * kUnit) ++i;
      for (; i < program_.code.size() && program_.code[i].offset < entry.end * kUnit; ++i) {
        program_.code[i].handler = handler;
      }
    }
  }

  int handler_index(const Handler& handler) {
    auto& handlers = program_.handlers;
    for (size_t i = 0; i < handlers.size(); ++i) {
      if (handlers[i].target == handler.target && handlers[i].depth == handler.depth &&
          handlers[i].push_lasti == handler.push_lasti) {
        return static_cast<int>(i);
      }
    }
    handlers.push_back(handler);
    return static_cast<int>(handlers.size()) - 1;
  }

  PyCodeObject* code_;
  std::vector<RawInstruction> raw_;
  std::vector<Position> positions_;
  std::vector<int> index_at_;  // by code unit: the instruction that starts there, -1 within one
  int kw_names_ = -1;          // of the call that comes next
  Program program_;
};

}  // namespace

Program decode(PyCodeObject* code) { return Decoder(code).run(); }

}  // namespace cdynamo::symbolic
