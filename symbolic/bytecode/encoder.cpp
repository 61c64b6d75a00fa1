#include "symbolic/bytecode/encoder.h"

namespace cdynamo::symbolic {
namespace {

// The mask that 3.12+ keep in the low bits of COMPARE_OP's argument: which outcomes of a comparison
// (unordered, less, greater, equal) make it true. By Py_LT … Py_GE; `compare_masks` of Python/compile.c.
constexpr int kCompareMasks[] = {2, 2 | 8, 8, 1 | 2 | 4, 4, 4 | 8};

Op inverted(Op op) {
  switch (op) {
    case Op::POP_JUMP_IF_TRUE: return Op::POP_JUMP_IF_FALSE;
    case Op::POP_JUMP_IF_FALSE: return Op::POP_JUMP_IF_TRUE;
    case Op::POP_JUMP_IF_NONE: return Op::POP_JUMP_IF_NOT_NONE;
    default: return Op::POP_JUMP_IF_NONE;
  }
}

class Encoder {
 public:
  Encoder(PyCodeObject* original, const std::vector<Instruction>& code, const std::vector<Handler>& handlers)
      : original_(original), code_(code), is_target_(code.size() + 1), raw_(read_raw(original)) {
    raw_at_.assign(raw_.empty() ? 0 : raw_.back().end / 2, nullptr);
    for (const RawInstruction& raw : raw_) raw_at_[raw.offset / 2] = &raw;
    for (const Instruction& instruction : code) {
      if (is_jump(instruction.op)) is_target_.at(instruction.arg) = true;
    }
    for (const Handler& handler : handlers) is_target_.at(handler.target) = true;
  }

  Encoding run() {
    const int size = static_cast<int>(code_.size());
    out_.unit_of.assign(size + 1, -1);
    for (at_ = 0; at_ < size;) {
      check_landing(code_[at_]);
      const int first_unit = static_cast<int>(out_.units.size());
      int consumed = encode_as_it_was();
      if (!consumed) consumed = encode_one(code_[at_]);
      for (int i = 0; i < consumed; ++i) out_.unit_of[at_ + i] = first_unit;
      at_ += consumed;
    }
    out_.unit_of[size] = static_cast<int>(out_.units.size());
    return std::move(out_);
  }

 private:
  void emit(const RawOpcode* row, int arg = 0, int target = -1) {
    out_.units.push_back({row, arg, target, at_});
  }

  [[noreturn]] void refuse(Op op, const char* why) {
    PyErr_Format(PyExc_SystemError, "cdynamo: %s cannot be written in Python %d.%d%s", op_name(op),
                 PY_MAJOR_VERSION, PY_MINOR_VERSION, why);
    throw PythonError{};
  }

  // FOR_ITER goes to what comes after its END_FOR without looking at what it skips.
  void check_landing(const Instruction& jump) {
    if (jump.op != Op::FOR_ITER && jump.op != Op::SEND) return;
    const Op landing = jump.op == Op::FOR_ITER ? Op::END_FOR : Op::END_SEND;
    const bool has_landings = plain(landing) || find_shape(Shape::kEndFor, landing);
    if (has_landings && (jump.arg >= static_cast<int>(code_.size()) || code_[jump.arg].op != landing))
      refuse(jump.op,
             jump.op == Op::FOR_ITER ? " without END_FOR as its target" : " without END_SEND as its target");
  }

  const RawOpcode* plain(Op op) { return find_shape(Shape::kPlain, op); }

  // True if the instruction at at_ + i may be written together with the one before it.
  bool joins(int i) {
    const size_t index = at_ + i;
    return index < code_.size() && !is_target_[index] && code_[index].handler == code_[at_].handler;
  }

  // Where the next instructions are just what an instruction of the original stands for, that one is written
  // again.
  int encode_as_it_was() {
    const int offset = code_[at_].offset;
    if (offset < 0 || offset / 2 >= static_cast<int>(raw_at_.size()) || !raw_at_[offset / 2]) return 0;
    const RawInstruction& raw = *raw_at_[offset / 2];
    const Shape shape = raw.row->shape;
    if (shape == Shape::kCall || shape == Shape::kCallKw || shape == Shape::kEndFor)
      return 0;  // not one to one
    const Expansion expansion = expand(original_, raw);
    int target = -1;
    for (int i = 0; i < expansion.size; ++i) {
      if (i > 0 && !joins(i)) return 0;
      const Piece& piece = expansion.pieces[i];
      const Instruction& instruction = code_[at_ + i];
      if (instruction.op != piece.op || instruction.arg2 != piece.arg2) return 0;
      if (is_jump(piece.op)) {
        target = instruction.arg;
        const bool backward = target <= at_;
        if (backward != (shape == Shape::kBackward)) return 0;
      } else if (instruction.arg != piece.arg) {
        return 0;
      }
    }
    if (expansion.size) emit(raw.row, raw.arg, target);
    return expansion.size;
  }

  // Returns how many canonical instructions were written: one, but for what the version cannot say apart.
  int encode_one(const Instruction& instruction) {
    const Op op = instruction.op;
    switch (op) {
      case Op::JUMP:
      case Op::POP_JUMP_IF_TRUE:
      case Op::POP_JUMP_IF_FALSE:
      case Op::POP_JUMP_IF_NONE:
      case Op::POP_JUMP_IF_NOT_NONE:
      case Op::FOR_ITER:
      case Op::SEND: encode_jump(instruction); return 1;
      case Op::CALL:
      case Op::CALL_KW: encode_call(instruction); return 1;
      case Op::MAKE_FUNCTION: return encode_make_function();
      case Op::END_FOR:
      case Op::END_SEND: encode_landing(op); return 1;
      default: break;
    }
    if (plain(op)) {
      emit(plain(op), instruction.arg);
      return 1;
    }
    if (encode_with_flags(instruction) || encode_substitute(instruction)) return 1;
    if (encode_with_next(op)) return 2;
    refuse(op, "");
  }

  // What the version has only as one opcode with what comes after it.
  bool encode_with_next(Op op) {
    if (!joins(1)) return false;
    const Instruction& next = code_[at_ + 1];
    const RawOpcode* row = next.op == Op::POP_TOP  ? find_shape(Shape::kWithPop, op)
                           : op == Op::LOAD_LOCALS ? find_shape(Shape::kClassDeref, next.op)
                                                   : nullptr;
    if (row) emit(row, next.op == Op::POP_TOP ? 0 : next.arg);
    return row != nullptr;
  }

  void encode_jump(const Instruction& jump) {
    const bool backward = jump.arg <= at_;
    for (const RawOpcode& row : kOpcodeTable.rows) {
      const bool fits = row.op == jump.op && row.shape == (backward ? Shape::kBackward : Shape::kForward) &&
                        (!backward || row.extra == jump.arg2);
      if (fits) return emit(&row, 0, jump.arg);
    }
    if (jump.op == Op::FOR_ITER || jump.op == Op::SEND) refuse(jump.op, " as a jump backwards");
    emit(find_shape(Shape::kForward, inverted(jump.op)), 0, at_ + 1);
    emit(find_shape(Shape::kBackward, Op::JUMP), 0, jump.arg);
  }

  void encode_call(const Instruction& call) {
    if (call.op == Op::CALL_KW) {
      if (const RawOpcode* row = find_shape(Shape::kCallKw, Op::CALL_KW)) {
        emit(plain(Op::LOAD_CONST), call.arg2);
        return emit(row, call.arg);
      }
      emit(find_shape(Shape::kKwNames, Op::NOP), call.arg2);
    }
    if (const RawOpcode* precall = find_shape(Shape::kPrecall, Op::NOP)) {
      emit(precall, call.arg);
      return emit(find_shape(Shape::kCall, Op::CALL), call.arg);
    }
    emit(plain(Op::CALL), call.arg);
  }

  int encode_make_function() {
    const RawOpcode* row = find_shape(Shape::kMakeFunction, Op::MAKE_FUNCTION);
    if (!row) {
      emit(plain(Op::MAKE_FUNCTION));
      return 1;
    }
    int flags = 0, consumed = 1;
    // Each attribute is below the last one on the stack, so they come from the highest bit to the lowest.
    for (int highest = 16; joins(consumed) && code_[at_ + consumed].op == Op::SET_FUNCTION_ATTRIBUTE;
         ++consumed) {
      const int flag = code_[at_ + consumed].arg;
      if (flag >= highest) break;
      flags |= flag;
      highest = flag;
    }
    emit(row, flags);
    return consumed;
  }

  void encode_landing(Op op) {
    if (const RawOpcode* row = find_shape(Shape::kEndFor, op)) {
      emit(row);
      emit(plain(Op::POP_TOP));
    } else if (plain(op)) {
      emit(plain(op));
    }
  }

  // Opcodes whose argument holds more than the canonical one.
  bool encode_with_flags(const Instruction& instruction) {
    const int arg = instruction.arg;
    const bool method = instruction.op == Op::LOAD_METHOD || instruction.op == Op::LOAD_SUPER_METHOD;
    switch (instruction.op) {
      case Op::COMPARE_OP: {
        const RawOpcode* row = find_shape(Shape::kCompare, Op::COMPARE_OP);
        emit(row, arg << row->extra | kCompareMasks[arg]);
        return true;
      }
      case Op::LOAD_GLOBAL: emit(find_shape(Shape::kLoadGlobal, Op::LOAD_GLOBAL), arg << 1); return true;
      case Op::LOAD_ATTR:
      case Op::LOAD_METHOD: emit(find_shape(Shape::kLoadAttr, Op::LOAD_ATTR), arg << 1 | method); return true;
      case Op::LOAD_SUPER_ATTR:
      case Op::LOAD_SUPER_METHOD: {
        const RawOpcode* row = find_shape(Shape::kLoadSuperAttr, Op::LOAD_SUPER_ATTR);
        if (row) emit(row, arg << 2 | instruction.arg2 << 1 | method);
        return row != nullptr;
      }
      default: break;
    }
    const RawOpcode* intrinsic = find_shape(Shape::kIntrinsic, instruction.op);
    if (intrinsic) emit(intrinsic, intrinsic->extra);
    return intrinsic != nullptr;
  }

  // Opcodes that another one of the version says as well.
  bool encode_substitute(const Instruction& instruction) {
    const RawOpcode* format = find_shape(Shape::kFormatValue, Op::NOP);
    const RawOpcode* load_fast = find_shape(Shape::kLoadFast, Op::LOAD_FAST);
    if (!load_fast) load_fast = plain(Op::LOAD_FAST);
    switch (instruction.op) {
      case Op::LOAD_FAST:
      case Op::LOAD_CLOSURE:
      case Op::LOAD_FAST_CHECK: emit(load_fast, instruction.arg); return true;
      case Op::CONVERT_VALUE: emit(format, instruction.arg); return true;  // a str formats as itself
      case Op::FORMAT_SIMPLE: emit(format, 0); return true;
      case Op::FORMAT_WITH_SPEC: emit(format, 4); return true;
      case Op::TO_BOOL:
        emit(plain(Op::UNARY_NOT));
        emit(plain(Op::UNARY_NOT));
        return true;
      default: return false;
    }
  }

  PyCodeObject* original_;
  const std::vector<Instruction>& code_;
  std::vector<bool> is_target_;
  std::vector<RawInstruction> raw_;            // of the original
  std::vector<const RawInstruction*> raw_at_;  // by code unit of the opcode
  int at_ = 0;
  Encoding out_;
};

}  // namespace

Encoding encode(PyCodeObject* original, const std::vector<Instruction>& code,
                const std::vector<Handler>& handlers) {
  return Encoder(original, code, handlers).run();
}

}  // namespace cdynamo::symbolic
