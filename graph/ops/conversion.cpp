// Copies and conversions: contiguous, clone, to, copy_, fill_.
#include "graph/ops/view_rules.h"

namespace cdynamo::graph {
namespace {

std::string_view memory_format(const Args& args, std::string_view otherwise) {
  return args.has("memory_format") ? args.string("memory_format") : otherwise;
}

std::vector<Sym> strides_for(const Graph& graph, const TensorType& type, std::string_view format) {
  if (format == "preserve_format") return preserved_strides(graph, type);
  if (format == "contiguous_format") return contiguous_strides(type.sizes);
  size_t rank = format == "channels_last" ? 4 : 5;
  if (type.sizes.size() != rank)
    runtime_error("required rank " + std::to_string(rank) + " tensor to use " + std::string(format) +
                  " format");
  return channels_last_strides(type.sizes);
}

bool has_format(SymContext& sym, const TensorType& type, std::string_view format) {
  if (format == "preserve_format") return true;
  return format == "contiguous_format" ? is_contiguous(sym, type) : is_channels_last(sym, type);
}

// What to() and its kin look at: the one format that counts where both fit.
bool suggests_format(SymContext& sym, const TensorType& type, std::string_view format) {
  if (format == "preserve_format") return true;
  const bool last = suggests_channels_last(sym, type);
  return format == "contiguous_format" ? !last : last && (format == "channels_last") == (type.rank() == 4);
}

std::vector<TensorType> infer_contiguous(Graph& graph, const Args& args) {
  TensorType type = args.value("self")->type;
  std::string_view format = memory_format(args, "contiguous_format");
  if (format == "preserve_format")
    runtime_error("preserve memory format is unsupported by the contiguous operator");
  if (!has_format(*graph.sym, type, format)) type.strides = strides_for(graph, type, format);
  return {type};
}
Alias contiguous_alias(const Node& node) {
  const TensorType& self = self_type(node);
  std::string_view format =
      memory_format(Args(node.op->parsed[node.overload], node.args), "contiguous_format");
  return has_format(context_of(self), self, format) ? Alias::kSelf : Alias::kNone;
}

std::vector<TensorType> infer_clone(Graph& graph, const Args& args) {
  TensorType type = args.value(args.schema().params[0].name)->type;
  type.strides = strides_for(graph, type, memory_format(args, "preserve_format"));
  type.weak = false;
  return {type};
}

DType target_dtype(const Args& args) {
  DType own = args.value("self")->type.dtype;
  if (args.schema().find("other") >= 0) return args.value("other")->type.dtype;
  return args.schema().find("dtype") >= 0 ? dtype_or(args, own) : own;
}

Device target_device(const Args& args) {
  if (args.schema().name == "cpu") return {};
  if (args.schema().find("other") >= 0) return args.value("other")->type.device;
  return args.has("device") ? std::get<Device>(args["device"]) : args.value("self")->type.device;
}

// Is the operand returned as it is?
bool to_is_self(SymContext& sym, const Args& args) {
  const TensorType& self = args.value("self")->type;
  bool copy = args.has("copy") && args.boolean("copy");
  return !copy && target_dtype(args) == self.dtype && target_device(args) == self.device &&
         suggests_format(sym, self, memory_format(args, "preserve_format"));
}
std::vector<TensorType> infer_to(Graph& graph, const Args& args) {
  TensorType type = args.value("self")->type;
  if (to_is_self(*graph.sym, args)) return {type};
  type.dtype = target_dtype(args);
  type.device = target_device(args);
  type.strides = strides_for(graph, type, memory_format(args, "preserve_format"));
  type.weak = false;
  return {type};
}
std::vector<Value*> to_body(Builder& b, const Args& args) {
  return one(to_device(cast(operand(b, args, "self"), target_dtype(args)), target_device(args)));
}
Alias to_alias(const Node& node) {
  return to_is_self(context_of(self_type(node)), Args(node.op->parsed[node.overload], node.args))
             ? Alias::kSelf
             : Alias::kNone;
}

// x.float(), x.long() ...
template <DType dtype>
struct Conversion {
  static bool is_self(SymContext& sym, const Args& args) {
    const TensorType& self = args.value("self")->type;
    return self.dtype == dtype && suggests_format(sym, self, memory_format(args, "preserve_format"));
  }
  static std::vector<TensorType> infer(Graph& graph, const Args& args) {
    TensorType type = args.value("self")->type;
    if (is_self(*graph.sym, args)) return {type};
    type.dtype = dtype;
    type.strides = strides_for(graph, type, memory_format(args, "preserve_format"));
    type.weak = false;
    return {type};
  }
  static Alias alias(const Node& node) {
    return is_self(context_of(self_type(node)), Args(node.op->parsed[node.overload], node.args))
               ? Alias::kSelf
               : Alias::kNone;
  }
  static OpDef entry(std::string_view name, std::string_view schema,
                     std::vector<std::string_view> torch_names) {
    return {.name = name,
            .family = Family::kComposite,
            .schemas = {schema},
            .torch_names = std::move(torch_names),
            .body = CDYNAMO_BODY(return one(cast(operand(b, args, "self"), dtype))),
            .infer = infer,
            .in_place_variant = false,
            .alias = alias};
  }
};

std::vector<TensorType> infer_like_self(Graph& graph, const Args& args) {
  TensorType type = args.value("self")->type;
  type.strides = preserved_strides(graph, type);
  return {type};
}
// What is overwritten as a whole has a gradient of zeros; a part that is overwritten has it by its base, unless
// it is all of it.
bool is_part(Builder& b, const Tensor& written) {
  const Node* view = written.value->node;
  if (!view || view->op->family != Family::kView) return false;
  const auto all =
      b.sym().known(Relation::kEq, written.type().numel(), std::get<Value*>(view->args[0])->type.numel());
  return !all || !*all;
}
// What is written has to fit in what is written to.
void check_copy(Graph& graph, const Args& args) {
  const std::vector<Sym>& target = args.value("self")->type.sizes;
  const std::vector<Sym> sizes = broadcast_sizes(graph, target, args.value("src")->type.sizes);
  bool fits = sizes.size() == target.size();
  for (size_t d = 0; fits && d < target.size(); ++d) fits = graph.sym->guard_eq(sizes[d], target[d], "copy");
  if (!fits)
    runtime_error("output with shape " + sizes_text(target) + " doesn't match the broadcast shape " +
                  sizes_text(sizes));
}

std::vector<Value*> copy_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self"), src = operand(b, args, "src");
  Tensor copied = expand(to_device(cast(src, self.dtype()), self.type().device),
                         expanded(b.sym(), src.type(), self.sizes()).sizes);
  return one(is_part(b, self) ? copied : follow(copied, self));
}
void check_fill(Graph&, const Args& args) {
  const auto* value = std::get_if<Value*>(&args["value"]);
  if (value && (*value)->type.rank() != 0)
    runtime_error("fill_ only supports 0-dimension value tensor but got tensor with dimensions");
}

std::vector<Value*> fill_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self");
  const Arg& value = args["value"];
  if (const auto* tensor = std::get_if<Value*>(&value))
    return one(follow(
        expand(to_device(cast(wrap(b, *tensor), self.dtype()), self.type().device), self.sizes()), self));
  return one(follow(full_like(self, value), self));
}

Tensor itself(Builder& b, const Args& args) { return operand(b, args, args.schema().params[0].name); }

}  // namespace

std::vector<OpDef> conversion_ops() {
  return {
      {.name = "contiguous",
       .family = Family::kComposite,
       .schemas = {"contiguous(Tensor self, *, MemoryFormat memory_format=contiguous_format) -> Tensor"},
       .body = CDYNAMO_BODY(return one(itself(b, args))),
       .infer = infer_contiguous,
       .in_place_variant = false,
       .alias = contiguous_alias},
      {.name = "clone",
       .family = Family::kComposite,
       .schemas = {"clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"},
       .body = CDYNAMO_BODY(return one(itself(b, args))),
       .infer = infer_clone,
       .in_place_variant = false},
      {.name = "to",
       .family = Family::kComposite,
       .schemas = {"to.dtype(Tensor self, ScalarType dtype, bool non_blocking=False, bool copy=False, *, "
                   "MemoryFormat? memory_format=None) -> Tensor",
                   "to.device(Tensor self, Device? device=None, ScalarType? dtype=None, bool "
                   "non_blocking=False, bool copy=False, *, "
                   "MemoryFormat? memory_format=None) -> Tensor",
                   "to.other(Tensor self, Tensor other, bool non_blocking=False, bool copy=False, *, "
                   "MemoryFormat? memory_format=None) -> Tensor"},
       .body = to_body,
       .infer = infer_to,
       .in_place_variant = false,
       .alias = to_alias,
       .places_results = true},
      {.name = "type_as",
       .family = Family::kComposite,
       .schemas = {"type_as(Tensor self, Tensor other) -> Tensor"},
       .body = to_body,
       .infer = infer_to,
       .in_place_variant = false,
       .alias = to_alias,
       .places_results = true},
      {.name = "cpu",
       .family = Family::kComposite,
       .schemas = {"cpu(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"},
       .body = to_body,
       .infer = infer_to,
       .in_place_variant = false,
       .alias = to_alias,
       .places_results = true},
      Conversion<DType::kF32>::entry(
          "core.to_float32", "core.to_float32(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
          {"torch.Tensor.float"}),
      Conversion<DType::kF64>::entry(
          "core.to_float64", "core.to_float64(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
          {"torch.Tensor.double"}),
      Conversion<DType::kF16>::entry(
          "core.to_float16", "core.to_float16(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
          {"torch.Tensor.half"}),
      Conversion<DType::kBF16>::entry(
          "core.to_bfloat16", "core.to_bfloat16(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
          {"torch.Tensor.bfloat16"}),
      Conversion<DType::kI64>::entry(
          "core.to_int64", "core.to_int64(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
          {"torch.Tensor.long"}),
      Conversion<DType::kI32>::entry(
          "core.to_int32", "core.to_int32(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
          {"torch.Tensor.int"}),
      Conversion<DType::kI16>::entry(
          "core.to_int16", "core.to_int16(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
          {"torch.Tensor.short"}),
      Conversion<DType::kI8>::entry(
          "core.to_int8", "core.to_int8(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
          {"torch.Tensor.char"}),
      Conversion<DType::kU8>::entry(
          "core.to_uint8", "core.to_uint8(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
          {"torch.Tensor.byte"}),
      Conversion<DType::kBool>::entry(
          "core.to_bool", "core.to_bool(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
          {"torch.Tensor.bool"}),
      {.name = "copy",
       .family = Family::kComposite,
       .schemas = {"copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor"},
       .body = copy_body,
       .infer = infer_like_self,
       .check = check_copy,
       .places_results = true},
      {.name = "fill",
       .family = Family::kComposite,
       .schemas = {"fill.Scalar(Tensor self, Scalar value) -> Tensor",
                   "fill.Tensor(Tensor self, Tensor value) -> Tensor"},
       .body = fill_body,
       .infer = infer_like_self,
       .check = check_fill,
       .places_results = true},
      {.name = "zero",
       .family = Family::kComposite,
       .schemas = {"zero(Tensor self) -> Tensor"},
       .body = CDYNAMO_BODY(Tensor self = itself(b, args); return one(follow(full_like(self, Sym(0)), self))),
       .infer = infer_like_self},
  };
}

}  // namespace cdynamo::graph
