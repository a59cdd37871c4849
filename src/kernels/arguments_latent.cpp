#include <fmt/format.h>

#include "kernels/argument_checks.h"
#include "kernels/arguments.h"

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

Support check_spec(const HeadMatmul::Spec& spec) {
  if (spec.heads <= 0 || spec.tail < 0) {
    return Support::no(fmt::format("{} heads with a tail of {}", spec.heads, spec.tail));
  }
  return check_weight(spec.weight, spec.n, spec.k);
}

}  // namespace rocmforge
