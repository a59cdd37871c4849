#include <fmt/format.h>

#include "kernels/check/arguments/argument_checks.h"
#include "kernels/check/arguments/arguments.h"

namespace rocmforge {

void check_arguments(const LatentAppend::Spec& spec, const LatentAppend::Args& args, DeviceKind device) {
  constexpr std::string_view operation = LatentAppend::name;
  require_pointer(args.q, operation, "q");
  require_pointer(args.kv, operation, "kv");
  require_pointer(args.norm, operation, "norm");
  if (spec.kind != RopeKind::none) {
    require_pointer(args.inverse_frequency, operation, "inverse_frequency");
  }
  require_least(args.q_stride, std::int64_t{spec.q_heads} * spec.q_dim, operation, "q_stride");
  require_least(args.kv_stride, spec.layout.head_dim, operation, "kv_stride");
  check_append(operation, spec.layout, args.cache, args.batch, device);
}

void check_arguments(const HeadMatmul::Spec& spec, const HeadMatmul::Args& args) {
  constexpr std::string_view operation = HeadMatmul::name;
  require_pointer(args.x, operation, "x");
  require_pointer(args.weight, operation, "weight");
  require_pointer(args.out, operation, "out");
  require_least(args.tokens, 0, operation, "tokens");
  require_least(args.head_bytes, 1, operation, "head_bytes");
  require_least(args.x_stride, spec.heads * (spec.k + spec.tail), operation, "x_stride");
}

void check_arguments(const LatentExpand::Spec& spec, const LatentExpand::Args& args, DeviceKind device) {
  constexpr std::string_view operation = LatentExpand::name;
  require_pointer(args.key_weight, operation, "key_weight");
  require_pointer(args.value_weight, operation, "value_weight");
  require_pointer(args.k, operation, "k");
  require_pointer(args.v, operation, "v");
  require_least(args.heads, 0, operation, "heads");
  require_least(args.key_head_bytes, 1, operation, "key_head_bytes");
  require_least(args.value_head_bytes, 1, operation, "value_head_bytes");
  require_pointer(args.cache.data, operation, "cache.data");
  require_pointer(args.batch.kv_lengths, operation, "batch.kv_lengths");
  require_pointer(args.batch.block_tables, operation, "batch.block_tables");
  require_least(args.batch.num_sequences, 1, operation, "batch.num_sequences");
  require_least(std::int64_t{args.batch.max_blocks} * spec.layout.block_tokens, args.batch.max_kv_len, operation,
                "batch.max_blocks * block_tokens");
  if (device != DeviceKind::cpu) {
    require_pointer(args.workspace, operation, "workspace");
  }
}

void check_arguments(const CopyHeads::Spec&, const CopyHeads::Args& args) {
  constexpr std::string_view operation = CopyHeads::name;
  require_pointer(args.x, operation, "x");
  require_pointer(args.out, operation, "out");
  require_least(args.first_token, 0, operation, "first_token");
  require_least(args.tokens, 0, operation, "tokens");
  require_least(args.heads, 1, operation, "heads");
  require_least(args.first_head, 0, operation, "first_head");
  require_least(args.out_heads, std::int64_t{args.first_head} + args.heads, operation, "out_heads");
}

Support check_spec(const LatentAppend::Spec& spec) {
  const KvLayout& layout = spec.layout;
  if (Support heads = check_heads(spec.q_heads, layout.kv_heads, spec.q_dim); !heads.ok) {
    return heads;
  }
  if (layout.kv_heads != 1 || !layout.is_latent() || layout.head_dim != layout.value_dim + spec.n_rot) {
    return Support::no(
        fmt::format("a cache of {} heads of {} with values of {} is not one latent plane of {} turned elements",
                    layout.kv_heads, layout.head_dim, layout.value_dim, spec.n_rot));
  }
  if (spec.n_rot < 0 || spec.n_rot % 2 != 0 || spec.n_rot > spec.q_dim) {
    return Support::no(fmt::format("n_rot {} is not an even number up to q_dim {}", spec.n_rot, spec.q_dim));
  }
  if (spec.temperature_scale != 0.0f && spec.temperature_length <= 0) {
    return Support::no(fmt::format("a temperature that rises every {} positions", spec.temperature_length));
  }
  return check_layout(layout);
}

Support check_spec(const LatentExpand::Spec& spec) {
  const KvLayout& layout = spec.layout;
  if (layout.kv_heads != 1 || !layout.is_latent() || layout.value_dim > layout.head_dim) {
    return Support::no(fmt::format("a cache of {} heads of {} with values of {} is not one latent plane", layout.kv_heads,
                                   layout.head_dim, layout.value_dim));
  }
  if (spec.value_dim > spec.head_dim()) {
    return Support::no(fmt::format("V of {} is longer than K of {}", spec.value_dim, spec.head_dim()));
  }
  if (spec.out != DType::f16 && spec.out != DType::bf16) {
    return Support::no(fmt::format("K and V of type {}, not F16 or BF16", name(spec.out)));
  }
  if (Support keys = check_weight(spec.key_weight, spec.rank(), spec.plain_dim); !keys.ok) {
    return keys;
  }
  if (Support values = check_weight(spec.value_weight, spec.value_dim, spec.rank()); !values.ok) {
    return values;
  }
  return check_layout(layout);
}

Support check_spec(const CopyHeads::Spec& spec) {
  if (spec.out_dim <= 0 || spec.out_dim > spec.dim) {
    return Support::no(fmt::format("{} elements of a head of {}", spec.out_dim, spec.dim));
  }
  return Support::yes();
}

Support check_spec(const HeadMatmul::Spec& spec) {
  if (spec.heads <= 0 || spec.tail < 0) {
    return Support::no(fmt::format("{} heads with a tail of {}", spec.heads, spec.tail));
  }
  return check_weight(spec.weight, spec.n, spec.k);
}

}  // namespace rocmforge
