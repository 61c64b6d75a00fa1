// Opcodes that build containers and strings, and that take sequences apart.
#include <string>

#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/frame.h"
#include "symbolic/values/dict.h"
#include "symbolic/values/iterator.h"
#include "symbolic/values/length_hint.h"
#include "symbolic/values/operand_checks.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

void build_tuple(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  frame.push(make_tuple(ex, frame.pop_many(in.arg)));
}
void build_list(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  frame.push(make_list(ex, frame.pop_many(in.arg)));
}
void build_set(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  frame.push(make_set(ex, frame.pop_many(in.arg)));
}

void build_map(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  std::vector<ValuePtr> flat = frame.pop_many(static_cast<size_t>(in.arg) * 2);
  std::vector<std::pair<ValuePtr, ValuePtr>> items;
  for (size_t i = 0; i < flat.size(); i += 2) items.emplace_back(flat[i], flat[i + 1]);
  frame.push(make_dict(ex, items));
}

void build_const_key_map(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  std::vector<ValuePtr> keys = items_of(ex, frame.pop());
  std::vector<ValuePtr> values = frame.pop_many(in.arg);
  std::vector<std::pair<ValuePtr, ValuePtr>> items;
  for (size_t i = 0; i < values.size(); ++i) items.emplace_back(keys[i], values[i]);
  frame.push(make_dict(ex, items));
}

void build_string(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  frame.push(join_strings(ex, frame.pop_many(in.arg)));
}

void build_slice(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  std::vector<ValuePtr> parts = frame.pop_many(in.arg);
  frame.push(make_slice(ex, parts[0], parts[1], in.arg == 3 ? parts[2] : ex.none()));
}

// LIST_APPEND, LIST_EXTEND, SET_ADD, SET_UPDATE: a method of the container `arg` below.
template <int index>
void call_container(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  constexpr const char* kMethods[] = {"append", "extend", "add", "update"};
  ValuePtr item = frame.pop();
  if (index == 1 && !is_iterable(item))
    raise_error(ex, PyExc_TypeError, "Value after * must be an iterable, not " + type_name(item));
  call_method(ex, frame.peek(in.arg), kMethods[index], {item});
}

// {**mapping}
void dict_update(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  if (const ValuePtr& given = frame.peek(1); !attribute_if_any(ex, given, "keys"))
    raise_error(ex, PyExc_TypeError, "'" + type_name(given) + "' object is not a mapping");
  call_container<3>(ex, frame, in);
}

void list_to_tuple(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  frame.push(make_tuple(ex, items_of(ex, frame.pop())));
}

void map_add(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  ValuePtr value = frame.pop();
  ValuePtr key = frame.pop();
  frame.peek(in.arg)->set_item(ex, key, value);
}

// f(**a, **b): a name that comes twice is an error, which Python raises.
void dict_merge(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  ValuePtr mapping = frame.pop();
  ValuePtr target = frame.peek(in.arg);
  require_mapping_argument(ex, frame.callable(in.arg + 2), mapping);
  const auto put = [&](const ValuePtr& key, const auto& value_of) {
    if (target->contains(ex, key)) break_graph("CD0100", "a function that gets a keyword twice");
    target->set_item(ex, key, value_of());
  };
  if (dict_in(mapping)) {
    const auto given = new_dict();
    update_dict(ex, *given, positional({mapping}));
    for (const DictValue::Entry& entry : given->entries(ex)) put(entry.key, [&] { return entry.value; });
    return;
  }
  for (const ValuePtr& key : items_of(ex, call_method(ex, mapping, "keys")))
    put(key, [&] { return mapping->get_item(ex, key); });
}

// ---- unpacking

void require_unpackable(Executor& ex, const ValuePtr& value) {
  if (!is_iterable(value))
    raise_error(ex, PyExc_TypeError, "cannot unpack non-iterable " + type_name(value) + " object");
}

std::vector<ValuePtr> unpacked(Executor& ex, const ValuePtr& sequence, size_t at_most) {
  require_unpackable(ex, sequence);
  // An iterator is not asked for more than one item too many.
  if (!is_iterator_type(sequence->type()))
    if (auto items = sequence->unpack(ex)) return std::move(*items);
  ValuePtr iterator = sequence->iterate(ex);
  std::vector<ValuePtr> items;
  while (items.size() <= at_most) {
    ex.advancing();
    ValuePtr item = iterator->next(ex);
    if (!item) break;
    items.push_back(std::move(item));
  }
  return items;
}

[[noreturn]] void raise_too_few(Executor& ex, const char* at_least, size_t expected, size_t got) {
  raise_error(ex, PyExc_ValueError,
              std::string("not enough values to unpack (expected ") + at_least + std::to_string(expected) +
                  ", got " + std::to_string(got) + ")");
}

void unpack_sequence(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  size_t expected = static_cast<size_t>(in.arg);
  std::vector<ValuePtr> items = unpacked(ex, frame.pop(), expected);
  if (items.size() < expected) raise_too_few(ex, "", expected, items.size());
  if (items.size() > expected)
    raise_error(ex, PyExc_ValueError,
                "too many values to unpack (expected " + std::to_string(expected) + ")");
  for (size_t i = expected; i-- > 0;) frame.push(items[i]);
}

// UNPACK_EX: the targets before the starred one are taken one by one, and of what is left a list is made.
std::vector<ValuePtr> items_of_starred(Executor& ex, const ValuePtr& sequence, size_t before) {
  if (sequence->type() == &PyList_Type || sequence->type() == &PyTuple_Type) return items_of(ex, sequence);
  const ValuePtr iterator = iterate_value(ex, sequence);
  std::vector<ValuePtr> items;
  while (items.size() < before)
    if (ValuePtr item = next_value(ex, iterator))
      items.push_back(std::move(item));
    else
      return items;
  for (ValuePtr& item : listed_items(ex, iterator)) items.push_back(std::move(item));
  return items;
}

void unpack_ex(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  size_t before = static_cast<size_t>(in.arg & 0xff), after = static_cast<size_t>(in.arg >> 8);
  const ValuePtr sequence = frame.pop();
  require_unpackable(ex, sequence);
  std::vector<ValuePtr> items = items_of_starred(ex, sequence, before);
  if (items.size() < before + after) raise_too_few(ex, "at least ", before + after, items.size());
  size_t rest_end = items.size() - after;
  for (size_t i = items.size(); i-- > rest_end;) frame.push(items[i]);
  frame.push(make_list(ex, {items.begin() + static_cast<ptrdiff_t>(before),
                            items.begin() + static_cast<ptrdiff_t>(rest_end)}));
  for (size_t i = before; i-- > 0;) frame.push(items[i]);
}

// ---- strings

void convert_value(Executor& ex, SymbolicFrame& frame, const Instruction& in) {
  constexpr char kConversions[] = {0, 's', 'r', 'a'};
  frame.push(format_value(ex, frame.pop(), kConversions[in.arg & 3], nullptr));
}
void format_simple(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  frame.push(format_value(ex, frame.pop(), 0, nullptr));
}
void format_with_spec(Executor& ex, SymbolicFrame& frame, const Instruction&) {
  ValuePtr spec = frame.pop();
  frame.push(format_value(ex, frame.pop(), 0, spec));
}

constexpr OpRow kBuildRows[] = {
    {Op::BUILD_TUPLE, build_tuple},
    {Op::BUILD_LIST, build_list},
    {Op::BUILD_SET, build_set},
    {Op::BUILD_MAP, build_map},
    {Op::BUILD_CONST_KEY_MAP, build_const_key_map},
    {Op::BUILD_STRING, build_string},
    {Op::BUILD_SLICE, build_slice},
    {Op::LIST_APPEND, call_container<0>},
    {Op::LIST_EXTEND, call_container<1>},
    {Op::LIST_TO_TUPLE, list_to_tuple},
    {Op::SET_ADD, call_container<2>},
    {Op::SET_UPDATE, call_container<3>},
    {Op::MAP_ADD, map_add},
    {Op::DICT_UPDATE, dict_update},
    {Op::DICT_MERGE, dict_merge},
    {Op::UNPACK_SEQUENCE, unpack_sequence},
    {Op::UNPACK_EX, unpack_ex},
    {Op::CONVERT_VALUE, convert_value},
    {Op::FORMAT_SIMPLE, format_simple},
    {Op::FORMAT_WITH_SPEC, format_with_spec},
};

}  // namespace

std::span<const OpRow> build_ops() { return kBuildRows; }

}  // namespace cdynamo::symbolic
