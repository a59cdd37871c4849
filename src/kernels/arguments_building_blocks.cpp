#include "kernels/argument_checks.h"
#include "kernels/arguments.h"

namespace rocmforge {

void check_arguments(const ResidualAdd::Spec&, const ResidualAdd::Args& args) {
  constexpr std::string_view operation = ResidualAdd::name;
  require_pointer(args.a, operation, "a");
  require_pointer(args.b, operation, "b");
  require_pointer(args.out, operation, "out");
  require_least(args.count, 0, operation, "count");
}

void check_arguments(const Scale::Spec&, const Scale::Args& args) {
  require_pointer(args.x, Scale::name, "x");
  require_least(args.count, 0, Scale::name, "count");
}

void check_arguments(const CausalMask::Spec&, const CausalMask::Args& args) {
  constexpr std::string_view operation = CausalMask::name;
  require_pointer(args.scores, operation, "scores");
  require_least(args.matrices, 0, operation, "matrices");
  require_least(args.q_len, 0, operation, "q_len");
  require_least(args.kv_len, 0, operation, "kv_len");
  require_least(args.window, 0, operation, "window");
}

void check_arguments(const RowSoftmax::Spec&, const RowSoftmax::Args& args) {
  constexpr std::string_view operation = RowSoftmax::name;
  require_pointer(args.x, operation, "x");
  require_least(args.rows, 0, operation, "rows");
  require_least(args.cols, 1, operation, "cols");
}

void check_arguments(const QueryKey::Spec&, const QueryKey::Args& args) {
  constexpr std::string_view operation = QueryKey::name;
  require_pointer(args.q, operation, "q");
  require_pointer(args.k, operation, "k");
  require_pointer(args.scores, operation, "scores");
  require_least(args.batch, 0, operation, "batch");
  require_least(args.q_len, 0, operation, "q_len");
  require_least(args.kv_len, 0, operation, "kv_len");
}

void check_arguments(const WeightsValue::Spec&, const WeightsValue::Args& args) {
  constexpr std::string_view operation = WeightsValue::name;
  require_pointer(args.weights, operation, "weights");
  require_pointer(args.v, operation, "v");
  require_pointer(args.out, operation, "out");
  require_least(args.batch, 0, operation, "batch");
  require_least(args.q_len, 0, operation, "q_len");
  require_least(args.kv_len, 0, operation, "kv_len");
}

void check_arguments(const ReplicateKv::Spec&, const ReplicateKv::Args& args) {
  constexpr std::string_view operation = ReplicateKv::name;
  require_pointer(args.k, operation, "k");
  require_pointer(args.v, operation, "v");
  require_pointer(args.k_out, operation, "k_out");
  require_pointer(args.v_out, operation, "v_out");
  require_least(args.tokens, 0, operation, "tokens");
}

void check_arguments(const Dequantize::Spec& spec, const Dequantize::Args& args) {
  constexpr std::string_view operation = Dequantize::name;
  require_pointer(args.rows, operation, "rows");
  require_pointer(args.out, operation, "out");
  require_least(args.count, 0, operation, "count");
  const DTypeInfo& format = info(spec.dtype);
  require(args.count % format.block_elems == 0, "{}: count {} is not a multiple of the {} of a {} block", operation,
          args.count, format.block_elems, format.name);
}

void check_arguments(const DequantizeRmsNorm::Spec&, const DequantizeRmsNorm::Args& args) {
  constexpr std::string_view operation = DequantizeRmsNorm::name;
  require_pointer(args.rows, operation, "rows");
  require_pointer(args.weight, operation, "weight");
  require_pointer(args.out, operation, "out");
  require_least(args.num_rows, 0, operation, "num_rows");
}

void check_arguments(const GatherRows::Spec&, const GatherRows::Args& args, DeviceKind device) {
  constexpr std::string_view operation = GatherRows::name;
  require_pointer(args.x, operation, "x");
  require_pointer(args.ids, operation, "ids");
  require_pointer(args.out, operation, "out");
  require_least(args.count, 0, operation, "count");
  require(args.out != args.x, "{}: out is x", operation);
  if (device == DeviceKind::cpu) {
    for (std::int64_t i = 0; i < args.count; ++i) {
      require(args.ids[i] >= 0, "{}: id {} is {}", operation, i, args.ids[i]);
    }
  }
}

Support check_spec(const ResidualAdd::Spec&) { return Support::yes(); }
Support check_spec(const Scale::Spec&) { return Support::yes(); }
Support check_spec(const CausalMask::Spec&) { return Support::yes(); }
Support check_spec(const RowSoftmax::Spec&) { return Support::yes(); }
Support check_spec(const QueryKey::Spec& spec) { return check_heads(spec.heads, spec.heads, spec.head_dim); }
Support check_spec(const WeightsValue::Spec& spec) { return check_heads(spec.heads, spec.heads, spec.head_dim); }
Support check_spec(const ReplicateKv::Spec& spec) { return check_heads(spec.q_heads, spec.kv_heads, spec.head_dim); }

Support check_spec(const Dequantize::Spec& spec) {
  const DTypeInfo& format = info(spec.dtype);
  return check_weight(spec.dtype, 1, format.block_elems);
}

Support check_spec(const DequantizeRmsNorm::Spec& spec) { return check_weight(spec.dtype, 1, spec.dim); }

Support check_spec(const GatherRows::Spec& spec) {
  return spec.dim > 0 ? Support::yes() : Support::no(fmt::format("dim is {}", spec.dim));
}

}  // namespace rocmforge
