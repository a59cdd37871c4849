#include "kernels/attention/portable/attention_launch.h"

#include <fmt/format.h>

#include <bit>

#include "base/math.h"
#include "ops/kv_codes.h"

namespace rocmforge::gpu {

Support check_latent_plane(const Attention::Spec& spec) {
  if (Support support = check_spec(spec); !support.ok) {
    return support;
  }
  if (Support support = check_no_spans(spec); !support.ok) {
    return support;
  }
  if (Support support = check_no_chunks(spec); !support.ok) {
    return support;
  }
  if (spec.value_dim == 0) {
    return Support::no("for V that is part of K (a latent plane)");
  }
  if (spec.head_dim % 8 != 0 || spec.head_dim > latent_dims || spec.value_dim > latent_values) {
    return Support::no(fmt::format("head_dim {} with values of {}: not a multiple of 8 up to {}, or values of more than {}",
                                   spec.head_dim, spec.value_dim, latent_dims, latent_values));
  }
  return Support::yes();
}

KvAddress kv_address(const KvLayout& layout, const KvCacheView& cache, const DenseKv& dense,
                     const std::int32_t* block_tables, std::int32_t max_blocks) {
  KvAddress kv{};
  if (dense.k != nullptr) {
    kv.k = dense.k;
    kv.v = dense.v;
    kv.sequence_stride = dense.sequence_stride;
    kv.token_stride = dense.token_stride;
    kv.head_stride = dense.head_stride;
    return kv;
  }
  const auto* data = static_cast<const std::byte*>(cache.data);
  kv.k = data;
  kv.v = data + layout.head_at(true, 0);
  kv.block_tables = block_tables;
  const bool in_bytes = layout.dtype.is_quantised();
  kv.block_stride = in_bytes ? static_cast<std::int64_t>(layout.block_bytes()) : layout.block_elems();
  kv.token_stride = layout.head_dim;
  kv.head_stride = in_bytes ? static_cast<std::int64_t>(layout.head_bytes()) : layout.head_elems();
  kv.quant_bytes = static_cast<std::int32_t>(layout.head_elems());
  kv.max_blocks = max_blocks;
  kv.block_shift = std::countr_zero(static_cast<std::uint32_t>(layout.block_tokens));
  return kv;
}

KvLayout GpuAttention::layout(const Attention::Spec& spec) const {
  return {.dtype = spec.kv_dtype,
          .block_tokens = 64,
          .kv_heads = spec.kv_heads,
          .head_dim = spec.head_dim,
          .value_dim = spec.value_dim};
}

void GpuAttention::check_call(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& args) const {
  check_arguments(spec, layout, args, device(), args.append != nullptr && takes(spec, args.append->spec));
  check(args.dense.k != nullptr || (layout.k_order == KvOrder::token_major && layout.v_order == KvOrder::token_major),
        "attention: this backend reads K and V by token");
}

AttentionArgs GpuAttention::attention_args(const Attention::Spec& spec, const KvLayout& layout,
                                           const Attention::Args& args) const {
  check_call(spec, layout, args);
  const float scale = attention_scale(spec);
  AttentionArgs out{};
  out.q = args.q;
  out.out = args.out;
  out.kv = kv_address(layout, args.cache, args.dense, args.batch.block_tables, args.batch.max_blocks);
  out.query_offsets = args.batch.query_offsets;
  out.kv_lengths = args.batch.kv_lengths;
  out.sequence_of = args.batch.sequence_of;
  out.sinks = spec.sinks ? args.sinks : nullptr;
  out.mask = spec.mask ? args.mask : nullptr;
  out.q_stride = args.q_stride;
  out.mask_stride = args.mask_stride;
  out.io_dtype = spec.io_dtype;
  out.rows = static_cast<std::int32_t>(args.rows);
  out.num_sequences = args.batch.num_sequences;
  out.q_heads = spec.q_heads;
  out.kv_heads = spec.kv_heads;
  out.head_dim = spec.head_dim;
  out.value_dim = spec.out_dim();
  out.causal = spec.causal ? 1 : 0;
  out.window = spec.chunked ? -spec.window : spec.window;
  out.scale_log2 = scale * log2_e;
  out.soft_cap_scale = spec.soft_cap > 0.0f ? scale / spec.soft_cap : 0.0f;
  out.soft_cap_log2 = spec.soft_cap * log2_e;
  return out;
}

Support check_coded_types(const KvTypes& types) {
  if (!types.is_one() && (types.k == DType::f32 || types.v == DType::f32)) {
    return Support::no(fmt::format("K and V of {}: F32 stands for both or for none", rocmforge::name(types)));
  }
  return Support::yes();
}

void turn_output_back(const Attention::Spec& spec, const Attention::Args& args, Stream& stream) {
  if (!spec.kv_dtype.v_rotated || args.batch.num_tokens == 0) {
    return;
  }
  constexpr std::int64_t heads_per_group = 8;  // a wave of 32 lanes for each
  const std::int32_t block = hadamard_dims(spec.head_dim);
  const std::int32_t rows = args.rows == Attention::Rows::single ? 1 : args.batch.max_q_len;
  check(args.batch.num_sequences <= 65535, "attention: more than 65,535 sequences");
  LaunchShape shape;
  shape.grid = {static_cast<std::uint32_t>(rows),
                static_cast<std::uint32_t>(divide_up(std::int64_t{spec.q_heads}, heads_per_group)),
                static_cast<std::uint32_t>(args.batch.num_sequences)};
  shape.block[0] = 256;
  shape.shared_bytes = static_cast<std::uint32_t>(heads_per_group * spec.head_dim * std::int64_t{sizeof(float)});
  Kernel<TurnHeadsArgs>("attention_turn", "attention_turn")
      .launch(stream, shape,
              {.x = args.out,
               .stride = std::int64_t{spec.q_heads} * spec.head_dim,
               .query_offsets = args.batch.query_offsets,
               .io_dtype = spec.io_dtype,
               .rows = static_cast<std::int32_t>(args.rows),
               .heads = spec.q_heads,
               .head_dim = spec.head_dim,
               .block = block,
               .factor = hadamard_factor(block)});
}

void check_vector_loads(const KvAddress& kv, DType dtype) {
  const auto aligned = [](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; };
  check(aligned(kv.k) && aligned(kv.v), "attention: K and V are not 16-byte aligned");
  const std::int64_t elems = dtype == DType::f32 ? 4 : 8;  // of q8_0 eight are loaded at once
  check(kv.token_stride % elems == 0 && kv.head_stride % elems == 0 && kv.sequence_stride % elems == 0,
        "attention: strides of K and V are not multiples of 16 bytes");
}

}  // namespace rocmforge::gpu
