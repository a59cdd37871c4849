#include <fmt/format.h>

#include <array>
#include <cmath>

#include "kernels/check/arguments/arguments.h"
#include "kernels/formats/cpu/kv_element_of.h"
#include "kernels/launch/cpu/isa.h"
#include "kernels/launch/parallel.h"
#include "kernels/rows/kernels.h"

namespace rocmforge {
namespace {

constexpr std::int64_t tokens_per_piece = 4;

/// The weights of a norm without weights.
constexpr auto ones = [] {
  std::array<float, max_rope_head_dim> values{};
  for (float& value : values) {
    value = 1.0f;
  }
  return values;
}();

float query_factor(const RopeAppend::Spec& spec, std::int32_t position) {
  if (spec.temperature_scale == 0.0f) {
    return 1.0f;
  }
  const std::int32_t steps = (position + spec.temperature_ahead) / spec.temperature_length;
  return 1.0f + spec.temperature_scale * std::log(static_cast<float>(1 + steps));
}

class CpuRopeAppend final : public CpuKernel<OpKernel<RopeAppend>> {
 public:
  using CpuKernel::CpuKernel;

  [[nodiscard]] Support supports(const RopeAppend::Spec& spec, const DeviceInfo& device) const override {
    if (Support support = check_device(device); !support.ok) {
      return support;
    }
    if (spec.head_dim > max_rope_head_dim) {
      return Support::no(fmt::format("head_dim {} is more than {}", spec.head_dim, max_rope_head_dim));
    }
    return check_spec(spec);
  }

  void run(const RopeAppend::Spec& spec, const RopeAppend::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    for_each_range(context, args.batch.num_tokens, tokens_per_piece, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        append_token(spec, args, t);
      }
    });
  }

 private:
  /// Cosine and sine of each pair.
  struct PairAngles {
    std::array<float, max_rope_head_dim / 2> cosine;
    std::array<float, max_rope_head_dim / 2> sine;
  };

  void compute_angles(const RopeAppend::Spec& spec, const RopeAppend::Args& args, std::int32_t position,
                      PairAngles& angles) const {
    const std::int32_t pairs = spec.kind == RopeKind::none ? 0 : spec.n_rot / 2;
    body().rope_angles(args.inverse_frequency, pairs, static_cast<float>(position), spec.magnitude, angles.cosine.data(),
                       angles.sine.data());
  }

  void append_token(const RopeAppend::Spec& spec, const RopeAppend::Args& args, std::int64_t t) const {
    const KvLayout& layout = spec.layout;
    const std::int32_t sequence = args.batch.sequence_of[t];
    const std::int32_t cell = args.batch.cell(sequence, static_cast<std::int32_t>(t));
    const std::int64_t entry = std::int64_t{sequence} * args.batch.max_blocks + cell / layout.block_tokens;
    auto* block = static_cast<std::uint8_t*>(args.cache.data) +
                  args.batch.block_tables[entry] * static_cast<std::int64_t>(layout.block_bytes());
    const auto target = [&](bool value) {
      return KvTarget{.store = kv_store_of(layout.dtype.of(value)),
                      .head = block + layout.head_at(value, 0),
                      .head_bytes = static_cast<std::int64_t>(value ? layout.value_head_bytes() : layout.head_bytes()),
                      .slot = cell % layout.block_tokens,
                      .block_tokens = layout.block_tokens,
                      .by_dim = (value ? layout.v_order : layout.k_order) == KvOrder::dim_major,
                      .rotated = value ? layout.dtype.v_rotated : layout.dtype.k_rotated};
    };

    const std::int32_t* positions = args.batch.positions + t * args.batch.position_axes;
    PairAngles angles;
    const std::int32_t pairs = spec.kind == RopeKind::none ? 0 : spec.n_rot / 2;
    compute_angles(spec, args, *positions, angles);
    for (std::int32_t axis = 1; axis < args.batch.position_axes; ++axis) {
      PairAngles of_axis;
      compute_angles(spec, args, positions[axis], of_axis);
      for (std::int32_t p = 0; p < pairs; ++p) {
        if (const auto pair = static_cast<std::size_t>(p); args.axes[p] == axis) {
          angles.cosine[pair] = of_axis.cosine[pair];
          angles.sine[pair] = of_axis.sine[pair];
        }
      }
    }
    body().rope_append({
        .q = args.q + t * args.stride,
        .k = spec.append ? args.k + t * args.stride : nullptr,
        .v = spec.append ? args.v + t * args.stride : nullptr,
        .q_heads = spec.q_heads,
        .kv_heads = spec.append ? layout.kv_heads : 0,
        .head_dim = spec.head_dim,
        .q_norm = spec.head_norm ? args.q_norm : nullptr,
        .k_norm = spec.head_norm ? args.k_norm : nullptr,
        .v_norm = spec.value_norm ? ones.data() : nullptr,
        .norm_eps = spec.norm_eps,
        .norm_after_turn = spec.norm_after_turn,
        .adjacent = spec.kind == RopeKind::adjacent,
        .pairs = pairs,
        .q_factor = query_factor(spec, *positions),
        .cosine = angles.cosine.data(),
        .sine = angles.sine.data(),
        .k_to = target(false),
        .v_to = target(true),
    });
  }
};

}  // namespace

std::unique_ptr<OpKernel<RopeAppend>> make_cpu_rope_append(const CpuBodies& bodies) {
  return std::make_unique<CpuRopeAppend>(bodies);
}

}  // namespace rocmforge
