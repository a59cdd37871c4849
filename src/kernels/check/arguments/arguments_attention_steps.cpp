#include "kernels/check/arguments/argument_checks.h"
#include "kernels/check/arguments/arguments.h"

namespace rocmforge {
namespace {

void check_shape(std::string_view operation, const ScoreShape& shape, DeviceKind device) {
  require_least(shape.batch, 0, operation, "shape.batch");
  require_least(shape.heads, 1, operation, "shape.heads");
  require_least(shape.q_len, 0, operation, "shape.q_len");
  require_least(shape.kv_len, 0, operation, "shape.kv_len");
  require_least(shape.first_row, 0, operation, "shape.first_row");
  if (shape.query_offsets == nullptr) {
    require(shape.kv_lengths == nullptr && shape.first_row == 0 && shape.computed == SequenceRows::all,
            "{}: shape.query_offsets is null, but the shape is ragged", operation);
    return;
  }
  require_pointer(shape.kv_lengths, operation, "shape.kv_lengths");
  for (std::int32_t s = 0; device == DeviceKind::cpu && s < shape.batch; ++s) {
    require(shape.query_offsets[s] <= shape.query_offsets[s + 1], "{}: query_offsets fall at sequence {}", operation, s);
    require(shape.kv_lengths[s] >= 0 && shape.kv_lengths[s] <= shape.kv_len, "{}: sequence {} has {} keys, kv_len is {}",
            operation, s, shape.kv_lengths[s], shape.kv_len);
  }
}

/// A row stride is 0 or at least the length of a row.
void check_row_stride(std::string_view operation, std::int64_t stride, std::int32_t heads, std::int32_t head_dim) {
  const std::int64_t width = std::int64_t{heads} * head_dim;
  require(stride == 0 || stride >= width, "{}: rows of {} elements lie {} apart", operation, width, stride);
}

Support check_product(std::int32_t head_dim, DType dtype, std::string_view what) {
  if (head_dim <= 0) {
    return Support::no(fmt::format("head_dim is {}", head_dim));
  }
  return is_float_dtype(dtype) ? Support::yes()
                               : Support::no(fmt::format("{} {} is not one of F32, F16, BF16", what, name(dtype)));
}

void check_pages(const ReplicateKv::Spec& spec, const ReplicateKv::Args& args, DeviceKind device) {
  constexpr std::string_view operation = ReplicateKv::name;
  require_pointer(args.cache.data, operation, "cache.data");
  require_pointer(args.block_tables, operation, "block_tables");
  const std::int32_t block_tokens = spec.layout.block_tokens;
  for (std::int32_t s = 0; device == DeviceKind::cpu && s < args.shape.batch; ++s) {
    const std::int32_t blocks = (args.shape.sequence(s).keys + block_tokens - 1) / block_tokens;
    require(blocks <= args.max_blocks, "{}: sequence {} needs {} blocks, max_blocks is {}", operation, s, blocks,
            args.max_blocks);
    for (std::int32_t b = 0; b < blocks; ++b) {
      const std::int32_t block = args.block_tables[std::int64_t{s} * args.max_blocks + b];
      require(block >= 0 && block < args.cache.num_blocks, "{}: entry {} of sequence {} names block {}, the cache has {}",
              operation, b, s, block, args.cache.num_blocks);
    }
  }
}

}  // namespace

void check_arguments(const ReplicateKv::Spec& spec, const ReplicateKv::Args& args, DeviceKind device) {
  constexpr std::string_view operation = ReplicateKv::name;
  check_shape(operation, args.shape, device);
  require_pointer(args.k_out, operation, "k_out");
  require_pointer(args.v_out, operation, "v_out");
  require(args.first_head >= 0 && args.first_head + args.shape.heads <= spec.q_heads, "{}: heads {} to {} of {} query heads",
          operation, args.first_head, args.first_head + args.shape.heads - 1, spec.q_heads);
  if (args.dense.k == nullptr) {
    check_pages(spec, args, device);
    return;
  }
  require_pointer(args.dense.v, operation, "dense.v");
  require(!spec.layout.dtype.is_quantised() && spec.layout.dtype.is_one(), "{}: K and V of {} lie in pages", operation,
          name(spec.layout.dtype));
}

void check_arguments(const QueryKey::Spec& spec, const QueryKey::Args& args, DeviceKind device) {
  constexpr std::string_view operation = QueryKey::name;
  check_shape(operation, args.shape, device);
  require_pointer(args.q, operation, "q");
  require_pointer(args.k, operation, "k");
  require_pointer(args.scores, operation, "scores");
  check_row_stride(operation, args.q_stride, args.shape.heads, spec.head_dim);
}

void check_arguments(const Scale::Spec&, const Scale::Args& args) {
  require_pointer(args.x, Scale::name, "x");
  require_least(args.count, 0, Scale::name, "count");
  require(args.soft_cap >= 0.0f, "{}: soft_cap is {}", Scale::name, args.soft_cap);
  require((args.least != nullptr) == (args.most != nullptr), "{}: least or most is missing", Scale::name);
  const bool vectors = args.weights != nullptr || args.least != nullptr;
  require(vectors == (args.width > 0), "{}: width is {}", Scale::name, args.width);
  require(!vectors || (args.count % args.width == 0 && args.soft_cap == 0.0f),
          "{}: {} elements are no rows of {}, or have a soft_cap", Scale::name, args.count, args.width);
}

void check_arguments(const CausalMask::Spec&, const CausalMask::Args& args, DeviceKind device) {
  constexpr std::string_view operation = CausalMask::name;
  check_shape(operation, args.shape, device);
  require_pointer(args.scores, operation, "scores");
  require_least(args.window, 0, operation, "window");
}

void check_arguments(const RowSoftmax::Spec&, const RowSoftmax::Args& args, DeviceKind device) {
  check_shape(RowSoftmax::name, args.shape, device);
  require_pointer(args.scores, RowSoftmax::name, "scores");
}

void check_arguments(const WeightsValue::Spec& spec, const WeightsValue::Args& args, DeviceKind device) {
  constexpr std::string_view operation = WeightsValue::name;
  check_shape(operation, args.shape, device);
  require_pointer(args.weights, operation, "weights");
  require_pointer(args.v, operation, "v");
  require_pointer(args.out, operation, "out");
  check_row_stride(operation, args.out_stride, args.shape.heads, spec.head_dim);
}

Support check_spec(const ReplicateKv::Spec& spec) {
  const KvLayout& layout = spec.layout;
  const Support heads = check_heads(spec.q_heads, layout.kv_heads, layout.head_dim);
  if (layout.is_latent()) {
    return Support::no("a latent plane has no V to replicate");
  }
  return heads.ok ? check_layout(layout) : heads;
}
Support check_spec(const QueryKey::Spec& spec) { return check_product(spec.head_dim, spec.q_dtype, "q_dtype"); }
Support check_spec(const Scale::Spec&) { return Support::yes(); }
Support check_spec(const CausalMask::Spec&) { return Support::yes(); }
Support check_spec(const RowSoftmax::Spec&) { return Support::yes(); }
Support check_spec(const WeightsValue::Spec& spec) { return check_product(spec.head_dim, spec.out_dtype, "out_dtype"); }

}  // namespace rocmforge
