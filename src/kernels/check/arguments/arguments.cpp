#include "kernels/check/arguments/arguments.h"

#include <cmath>
#include <limits>

#include "kernels/check/arguments/argument_checks.h"

namespace rocmforge {
namespace {

/// The types that a cache may have.
Support check_kv_types(const KvTypes& types, std::int32_t head_dim, bool is_latent) {
  for (const DType type : {types.k, types.v}) {
    if (!is_kv_type(type)) {
      return Support::no(
          fmt::format("K or V of {}, not of F32, F16, BF16, Q8_0, Q5_1, Q5_0, Q4_1, Q4_0 or IQ4_NL", name(type)));
    }
    if (is_kv_quant(type) && head_dim % kv_quant_dims != 0) {
      return Support::no(
          fmt::format("head_dim {} is not a multiple of {}, as {} pages need", head_dim, kv_quant_dims, name(type)));
    }
  }
  if (is_latent && (!types.is_one() || (is_kv_quant(types.k) && types.k != DType::q8_0))) {
    return Support::no(fmt::format("a latent plane of {}, not of F32, F16, BF16 or Q8_0", name(types)));
  }
  return Support::yes();
}

/// Pointers and sizes of a batch, as far as they can be judged without reading its arrays.
void check_batch(std::string_view operation, const RaggedBatch& batch) {
  require(batch.num_sequences > 0, "{}: batch.num_sequences is {}", operation, batch.num_sequences);
  require(batch.num_tokens >= 0, "{}: batch.num_tokens is {}", operation, batch.num_tokens);
  require_pointer(batch.query_offsets, operation, "batch.query_offsets");
  require_pointer(batch.kv_lengths, operation, "batch.kv_lengths");
}

/// Pointers and sizes of a paged cache and its block tables.
void check_cache(std::string_view operation, const KvLayout& layout, const KvCacheView& cache, const RaggedBatch& batch) {
  require_pointer(cache.data, operation, "cache.data");
  require(cache.num_blocks > 0, "{}: cache.num_blocks is {}", operation, cache.num_blocks);
  require_pointer(batch.block_tables, operation, "batch.block_tables");
  const std::int64_t blocks = (std::int64_t{batch.max_kv_len} + layout.block_tokens - 1) / layout.block_tokens;
  require(blocks <= batch.max_blocks, "{}: max_kv_len {} needs {} blocks of {} tokens, max_blocks is {}", operation,
          batch.max_kv_len, blocks, layout.block_tokens, batch.max_blocks);
}

/// Checks the contents of a batch's arrays, in host memory.
void check_lengths(std::string_view operation, const RaggedBatch& batch) {
  require(batch.query_offsets[0] == 0, "{}: query_offsets start with {}, not 0", operation, batch.query_offsets[0]);
  require(batch.query_offsets[batch.num_sequences] == batch.num_tokens,
          "{}: query_offsets end with {}, but there are {} tokens", operation, batch.query_offsets[batch.num_sequences],
          batch.num_tokens);
  for (std::int32_t s = 0; s < batch.num_sequences; ++s) {
    const std::int32_t q_len = batch.query_offsets[s + 1] - batch.query_offsets[s];
    const std::int32_t kv_len = batch.kv_lengths[s];
    require(q_len >= 0, "{}: query_offsets fall at sequence {}", operation, s);
    require(q_len <= batch.max_q_len, "{}: sequence {} has {} queries, max_q_len is {}", operation, s, q_len,
            batch.max_q_len);
    require(kv_len <= batch.max_kv_len, "{}: sequence {} has kv_length {}, max_kv_len is {}", operation, s, kv_len,
            batch.max_kv_len);
  }
}

/// Checks that the block tables, in host memory, name blocks of the cache.
void check_block_tables(std::string_view operation, const KvLayout& layout, const KvCacheView& cache,
                        const RaggedBatch& batch) {
  for (std::int32_t s = 0; s < batch.num_sequences; ++s) {
    const std::int32_t kv_len = batch.kv_lengths[s];
    const std::int32_t blocks = (kv_len + layout.block_tokens - 1) / layout.block_tokens;
    require(blocks <= batch.max_blocks, "{}: sequence {} of length {} needs {} blocks of {} tokens, max_blocks is {}",
            operation, s, kv_len, blocks, layout.block_tokens, batch.max_blocks);
    for (std::int32_t b = 0; b < blocks; ++b) {
      const std::int32_t block = batch.block_tables[std::int64_t{s} * batch.max_blocks + b];
      require(block >= 0 && block < cache.num_blocks,
              "{}: block table of sequence {}, entry {} names block {}, the cache has {}", operation, s, b, block,
              cache.num_blocks);
    }
  }
}

/// A causal row lies at the end of its sequence, so a sequence has no more rows than positions. `padding`: sequences of KV
/// length 0 are exempt.
void check_rows_fit(std::string_view operation, const RaggedBatch& batch, bool padding = false) {
  for (std::int32_t s = 0; s < batch.num_sequences; ++s) {
    const std::int32_t q_len = batch.query_offsets[s + 1] - batch.query_offsets[s];
    require(batch.kv_lengths[s] >= q_len || (padding && batch.kv_lengths[s] == 0),
            "{}: sequence {} has {} queries but kv_length {}", operation, s, q_len, batch.kv_lengths[s]);
  }
}

}  // namespace

Support check_layout(const KvLayout& layout) {
  if (Support dtype = check_kv_types(layout.dtype, layout.head_dim, layout.is_latent()); !dtype.ok) {
    return dtype;
  }
  if (!is_power_of_two(layout.block_tokens)) {
    return Support::no(fmt::format("block_tokens {} is not a power of two", layout.block_tokens));
  }
  if (layout.value_dim < 0 || layout.value_dim > layout.head_dim) {
    return Support::no(fmt::format("value_dim {} is not within head_dim {}", layout.value_dim, layout.head_dim));
  }
  return Support::yes();
}

Support check_weight(DType type, std::int64_t rows, std::int64_t cols) {
  const DTypeInfo& format = info(type);
  if (!format.computes) {
    return Support::no(fmt::format("format {} does not compute", format.name));
  }
  if (rows <= 0 || cols <= 0) {
    return Support::no(fmt::format("the weight is empty: [{}, {}]", rows, cols));
  }
  if (cols % format.block_elems != 0) {
    return Support::no(fmt::format("rows of {} elements are not a multiple of the {} of a {} block", cols,
                                   format.block_elems, format.name));
  }
  return Support::yes();
}

Support check_heads(std::int32_t q_heads, std::int32_t kv_heads, std::int32_t head_dim) {
  if (q_heads <= 0 || kv_heads <= 0 || head_dim <= 0) {
    return Support::no(fmt::format("empty: q_heads {}, kv_heads {}, head_dim {}", q_heads, kv_heads, head_dim));
  }
  if (q_heads % kv_heads != 0) {
    return Support::no(fmt::format("q_heads {} is not a multiple of kv_heads {}", q_heads, kv_heads));
  }
  return Support::yes();
}

void check_arguments(const EmbeddingRows::Spec& spec, const EmbeddingRows::Args& args, DeviceKind device) {
  constexpr std::string_view operation = EmbeddingRows::name;
  require_pointer(args.ids, operation, "ids");
  require_pointer(args.table, operation, "table");
  require_pointer(args.out, operation, "out");
  require(args.tokens >= 0, "{}: tokens is {}", operation, args.tokens);
  for (std::int64_t t = 0; device == DeviceKind::cpu && t < args.tokens; ++t) {
    const std::int32_t id = args.ids[t];
    const bool is_drawn = id < 0 && args.drawn != nullptr;
    require(is_drawn || (id >= 0 && id < spec.vocab), "{}: id {} of token {} is outside the vocabulary of {}", operation, id,
            t, spec.vocab);
  }
}

void check_arguments(const RmsNorm::Spec& spec, const RmsNorm::Args& args) {
  constexpr std::string_view operation = RmsNorm::name;
  require(spec.dim > 0, "{}: dim is {}", operation, spec.dim);
  require_least(spec.groups, 1, operation, "groups");
  require_pointer(args.x, operation, "x");
  require_pointer(args.weight, operation, "weight");
  require_pointer(args.out, operation, "out");
  require(args.rows >= 0, "{}: rows is {}", operation, args.rows);
  require(args.stride == 0 || args.stride >= spec.dim, "{}: stride {} is less than dim {}", operation, args.stride,
          spec.dim);
}

void check_arguments(const GatedActivation::Spec& spec, const GatedActivation::Args& args) {
  constexpr std::string_view operation = GatedActivation::name;
  if (spec.gated) {
    require_pointer(args.gate, operation, "gate");
  }
  require_pointer(args.up, operation, "up");
  require_pointer(args.out, operation, "out");
  require(args.tokens >= 0, "{}: tokens is {}", operation, args.tokens);
  require(args.stride >= spec.width, "{}: stride {} is less than the width {}", operation, args.stride, spec.width);
  require(args.up_stride == 0 || args.up_stride >= spec.width, "{}: up_stride {} is less than the width {}", operation,
          args.up_stride, spec.width);
  require(spec.activation != Activation::clamped_swiglu, "{}: clamped_swiglu is for experts", operation);
  require(spec.activation != Activation::none, "{}: an activation of none is for experts", operation);
  require(spec.activation != Activation::relu_squared || !spec.gated, "{}: relu_squared has no gate", operation);
}

namespace {

void check_fusions(const Matmul::Args& args, const MatmulFusions& fusions) {
  constexpr std::string_view operation = Matmul::name;
  if (args.norm_weight != nullptr) {
    require(args.tokens <= fusions.norm_tokens, "{}: {} tokens with a norm, the kernel takes one with up to {}", operation,
            args.tokens, fusions.norm_tokens);
  }
  if (args.post_norm != nullptr) {
    const MatmulPostNorm& post = *args.post_norm;
    require(args.tokens <= fusions.post_norm_tokens, "{}: {} tokens with a post-norm, the kernel takes one with up to {}",
            operation, args.tokens, fusions.post_norm_tokens);
    require_pointer(post.y, operation, "post_norm.y");
    require_pointer(post.weight, operation, "post_norm.weight");
    require_pointer(post.out, operation, "post_norm.out");
    require(post.y_stride >= args.k && post.out_stride >= args.k, "{}: post_norm strides {} and {} are less than k {}",
            operation, post.y_stride, post.out_stride, args.k);
    require(post.out != args.x && post.out != post.y, "{}: post_norm.out is an input", operation);
  }
  if (!args.gated) {
    return;
  }
  require(args.tokens <= fusions.gate_tokens, "{}: {} tokens with an activation, the kernel takes one with up to {}",
          operation, args.tokens, fusions.gate_tokens);
  require(args.outputs.size() == 2, "{}: {} outputs are gated, not two", operation, args.outputs.size());
  require(args.outputs[0].n == args.outputs[1].n, "{}: a gate of n {} for n {}", operation, args.outputs[0].n,
          args.outputs[1].n);
  require(!args.outputs[0].accumulate && !args.outputs[1].accumulate, "{}: a gated output accumulates", operation);
  require(args.activation != Activation::clamped_swiglu, "{}: clamped_swiglu is for experts", operation);
  require(args.activation != Activation::relu_squared, "{}: relu_squared has no gate", operation);
  require(args.activation != Activation::gelu, "{}: gelu is not for products", operation);
  require(args.activation != Activation::gelu_quick, "{}: gelu_quick is not for products", operation);
  require(args.activation != Activation::none, "{}: an activation of none is for experts", operation);
}

}  // namespace

void check_arguments(const Matmul::Args& args, const MatmulFusions& fusions) {
  constexpr std::string_view operation = Matmul::name;
  require_pointer(args.x, operation, "x");
  require(args.tokens >= 0, "{}: tokens is {}", operation, args.tokens);
  require(args.k > 0, "{}: k is {}", operation, args.k);
  require(args.x_stride >= args.k, "{}: x_stride {} is less than k {}", operation, args.x_stride, args.k);
  for (std::size_t i = 0; i < args.outputs.size(); ++i) {
    const MatmulOutput& output = args.outputs[i];
    require(output.weight != nullptr, "{}: weight of output {} is null", operation, i);
    const bool written = !args.gated || i == 0;
    require(!written || output.out != nullptr, "{}: out of output {} is null", operation, i);
    require(output.n > 0, "{}: n of output {} is {}", operation, i, output.n);
    require(!written || output.stride >= output.n, "{}: stride {} of output {} is less than its n {}", operation,
            output.stride, i, output.n);
    require(args.k % info(output.dtype).block_elems == 0, "{}: k {} is not a multiple of the {} block of output {}",
            operation, args.k, info(output.dtype).name, i);
    require(output.scale == 1.0f || output.dtype == DType::nvfp4, "{}: output {} has a scale with weights of {}", operation,
            i, info(output.dtype).name);
  }
  check_fusions(args, fusions);
}

void check_append(std::string_view operation, const KvLayout& layout, const KvCacheView& cache, const RaggedBatch& batch,
                  DeviceKind device) {
  check_batch(operation, batch);
  check_cache(operation, layout, cache, batch);
  require_pointer(batch.positions, operation, "batch.positions");
  require_pointer(batch.sequence_of, operation, "batch.sequence_of");
  require(batch.position_axes >= 1 && batch.position_axes <= max_position_axes, "{}: {} positions of a token", operation,
          batch.position_axes);
  if (device != DeviceKind::cpu) {
    return;
  }
  check_lengths(operation, batch);
  check_rows_fit(operation, batch);
  check_block_tables(operation, layout, cache, batch);
  for (std::int32_t t = 0; t < batch.num_tokens; ++t) {
    const std::int32_t s = batch.sequence_of[t];
    require(s >= 0 && s < batch.num_sequences, "{}: sequence_of token {} is {}, there are {} sequences", operation, t, s,
            batch.num_sequences);
    require(t >= batch.query_offsets[s] && t < batch.query_offsets[s + 1],
            "{}: token {} is none of sequence {}, whose tokens are {} to {}", operation, t, s, batch.query_offsets[s],
            batch.query_offsets[s + 1] - 1);
  }
  for (std::int64_t i = 0; i < std::int64_t{batch.num_tokens} * batch.position_axes; ++i) {
    require(batch.positions[i] >= 0, "{}: token {} is at position {}", operation, i / batch.position_axes,
            batch.positions[i]);
  }
}

void check_arguments(const RopeAppend::Spec& spec, const RopeAppend::Args& args, DeviceKind device) {
  constexpr std::string_view operation = RopeAppend::name;
  require_pointer(args.q, operation, "q");
  if (spec.append) {
    require_pointer(args.k, operation, "k");
    require_pointer(args.v, operation, "v");
  }
  const std::int64_t q_width = std::int64_t{spec.q_heads} * spec.head_dim;
  require(args.stride >= q_width, "{}: stride {} is less than q_heads * head_dim = {}", operation, args.stride, q_width);
  if (spec.head_norm) {
    require_pointer(args.q_norm, operation, "q_norm");
  }
  if (spec.head_norm && spec.append) {
    require_pointer(args.k_norm, operation, "k_norm");
  }
  if (spec.kind != RopeKind::none) {
    require_pointer(args.inverse_frequency, operation, "inverse_frequency");
  }
  check_append(operation, spec.layout, args.cache, args.batch, device);
  if (spec.kind == RopeKind::none || args.batch.position_axes == 1) {
    return;
  }
  require_pointer(args.axes, operation, "axes");
  for (std::int32_t p = 0; device == DeviceKind::cpu && p < spec.n_rot / 2; ++p) {
    require(args.axes[p] >= 0 && args.axes[p] < args.batch.position_axes, "{}: pair {} turns by axis {} of {}", operation, p,
            args.axes[p], args.batch.position_axes);
  }
}

namespace {

void check_dense(const Attention::Spec& spec, const DenseKv& dense, const RaggedBatch& batch) {
  constexpr std::string_view operation = Attention::name;
  require_pointer(dense.v, operation, "dense.v");
  const auto require_stride = [&](std::int64_t stride, std::int64_t count, std::string_view argument) {
    require(count <= 1 || stride >= spec.head_dim, "{}: {} {} is less than head_dim {}", operation, argument, stride,
            spec.head_dim);
  };
  require_stride(dense.head_stride, spec.kv_heads, "dense.head_stride");
  require_stride(dense.token_stride, batch.max_kv_len, "dense.token_stride");
  require_stride(dense.sequence_stride, batch.num_sequences, "dense.sequence_stride");
}

void check_layout_of(const Attention::Spec& spec, const KvLayout& layout) {
  constexpr std::string_view operation = Attention::name;
  require(layout.kv_heads == spec.kv_heads, "{}: the layout has {} KV heads, the spec {}", operation, layout.kv_heads,
          spec.kv_heads);
  require(layout.head_dim == spec.head_dim, "{}: the layout has head_dim {}, the spec {}", operation, layout.head_dim,
          spec.head_dim);
  require(layout.dtype == spec.kv_dtype, "{}: the layout stores {}, the spec says {}", operation, name(layout.dtype),
          name(spec.kv_dtype));
  require(layout.value_dim == spec.value_dim, "{}: the layout has value_dim {}, the spec {}", operation, layout.value_dim,
          spec.value_dim);
  require(is_power_of_two(layout.block_tokens), "{}: block_tokens {} is not a power of two", operation, layout.block_tokens);
}

/// Checks that no sequence that a call computes has more than Spec::most_rows rows.
void check_most_rows(std::int32_t most, const Attention::Args& args, DeviceKind device) {
  constexpr std::string_view operation = Attention::name;
  const RaggedBatch& batch = args.batch;
  require(most > 1 || args.rows != Attention::Rows::several, "{}: sequences of several queries, but the spec is for one",
          operation);
  if (args.rows == Attention::Rows::single) {
    return;
  }
  require(batch.max_q_len <= most, "{}: max_q_len is {}, but the spec is for at most {}", operation, batch.max_q_len, most);
  for (std::int32_t s = 0; device == DeviceKind::cpu && s < batch.num_sequences; ++s) {
    const std::int32_t q_len = batch.query_offsets[s + 1] - batch.query_offsets[s];
    require(q_len <= most, "{}: sequence {} has {} queries, but the spec is for at most {}", operation, s, q_len, most);
  }
}

/// Checks what rows that see further than themselves see. A sequence's only row sees all of it, with or without spans.
void check_visible_ends(const Attention::Spec& spec, const Attention::Args& args, DeviceKind device) {
  constexpr std::string_view operation = Attention::name;
  const RaggedBatch& batch = args.batch;
  if (!spec.spans) {
    const bool single = spec.has_single_rows() || args.rows == Attention::Rows::single;
    require(single || batch.visible_end == nullptr, "{}: batch.visible_end, but the spec is without spans", operation);
    return;
  }
  require_pointer(batch.visible_end, operation, "batch.visible_end");
  for (std::int32_t s = 0; device == DeviceKind::cpu && s < batch.num_sequences; ++s) {
    for (std::int32_t t = batch.query_offsets[s]; batch.kv_lengths[s] > 0 && t < batch.query_offsets[s + 1]; ++t) {
      const std::int32_t least = std::max(batch.cell(s, t) + 1, t > batch.query_offsets[s] ? batch.visible_end[t - 1] : 0);
      require(batch.visible_end[t] >= least && batch.visible_end[t] <= batch.kv_lengths[s],
              "{}: token {} sees {} keys, not {} to {}", operation, t, batch.visible_end[t], least, batch.kv_lengths[s]);
    }
  }
}

/// Checks that the RopeAppend of a call has the call's own queries, pages and sequences.
void check_fused_append(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& args,
                        DeviceKind device) {
  constexpr std::string_view operation = Attention::name;
  const Attention::Append& append = *args.append;
  require(spec.has_single_rows() && args.rows == Attention::Rows::all, "{}: an append is part of calls of single rows alone",
          operation);
  require(args.dense.k == nullptr, "{}: an append goes to pages, K and V are plain tensors", operation);
  require(append.args.batch.position_axes == 1, "{}: an append in the same call, but {} positions of a token", operation,
          append.args.batch.position_axes);
  require(append.args.q == args.q && append.args.stride == args.q_stride, "{}: q of the append is another", operation);
  require(append.spec.q_heads == spec.q_heads && append.spec.layout == layout,
          "{}: the append is for {} heads and another layout", operation, append.spec.q_heads);
  require(append.args.cache.data == args.cache.data && append.args.batch.kv_lengths == args.batch.kv_lengths,
          "{}: the append is of another batch or cache", operation);
  check_arguments(append.spec, append.args, device);
}

}  // namespace

void check_arguments(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& args, DeviceKind device,
                     bool takes_append) {
  constexpr std::string_view operation = Attention::name;
  const RaggedBatch& batch = args.batch;
  require_pointer(args.q, operation, "q");
  require_pointer(args.out, operation, "out");
  const std::int64_t q_width = std::int64_t{spec.q_heads} * spec.head_dim;
  require(args.q_stride >= q_width, "{}: q_stride {} is less than q_heads * head_dim = {}", operation, args.q_stride,
          q_width);
  if (spec.sinks) {
    require_pointer(args.sinks, operation, "sinks");
  }
  if (spec.mask) {
    require_pointer(args.mask, operation, "mask");
    require(args.mask_stride >= batch.max_kv_len, "{}: mask_stride {} is less than max_kv_len {}", operation,
            args.mask_stride, batch.max_kv_len);
  }
  check_layout_of(spec, layout);
  check_batch(operation, batch);
  const bool dense = args.dense.k != nullptr;
  if (dense) {
    require(spec.value_dim == 0, "{}: a latent plane lies in pages", operation);
    require(!spec.kv_dtype.is_quantised() && spec.kv_dtype.is_one(), "{}: K and V of {} lie in pages", operation,
            name(spec.kv_dtype));
    check_dense(spec, args.dense, batch);
  } else {
    check_cache(operation, layout, args.cache, batch);
  }
  if (device == DeviceKind::cpu) {
    check_lengths(operation, batch);
    if (spec.causal && !dense) {
      check_rows_fit(operation, batch, true);
    }
    if (!dense) {
      check_block_tables(operation, layout, args.cache, batch);
    }
  }
  check_visible_ends(spec, args, device);
  if (spec.most_rows > 0) {
    check_most_rows(spec.most_rows, args, device);
  }
  if (args.append != nullptr) {
    require(takes_append, "{}: the kernel takes no append", operation);
    check_fused_append(spec, layout, args, device);
  }
}

void check_arguments(const SampleTokens::Spec& spec, const SampleTokens::Args& args, DeviceKind device) {
  constexpr std::string_view operation = SampleTokens::name;
  require_pointer(args.logits, operation, "logits");
  require_pointer(args.rows, operation, "rows");
  require_pointer(args.out, operation, "out");
  require_least(args.num_rows, 0, operation, "num_rows");
  if (device != DeviceKind::cpu) {
    return;
  }
  for (std::int64_t r = 0; r < args.num_rows; ++r) {
    const SampleTokens::Row& row = args.rows[r];
    require(row.uniform >= 0.0 && row.uniform < 1.0, "{}: uniform of row {} is {}, not in [0, 1)", operation, r,
            row.uniform);
    require(!args.all_greedy || !(row.temperature > 0.0f), "{}: all_greedy, but the temperature of row {} is {}", operation,
            r, row.temperature);
    require(row.num_adjustments == 0 || args.adjustments != nullptr, "{}: adjustments is null, row {} has {}", operation, r,
            row.num_adjustments);
    require(row.mask < 0 || args.masks != nullptr, "{}: masks is null, row {} has mask {}", operation, r, row.mask);
    for (std::int32_t i = 0; i < row.num_adjustments; ++i) {
      const std::int32_t id = args.adjustments[row.first_adjustment + i].id;
      require(id >= 0 && id < spec.vocab, "{}: adjustment {} of row {} names id {}, outside the vocabulary of {}", operation,
              i, r, id, spec.vocab);
    }
  }
}

Support check_spec(const EmbeddingRows::Spec& spec) { return check_weight(spec.table, spec.vocab, spec.hidden); }

Support check_spec(const RmsNorm::Spec& spec) {
  if (spec.groups < 1) {
    return Support::no(fmt::format("{} groups", spec.groups));
  }
  return spec.dim > 0 ? Support::yes() : Support::no(fmt::format("dim is {}", spec.dim));
}

Support check_spec(const GatedActivation::Spec& spec) {
  if (spec.activation == Activation::clamped_swiglu) {
    return Support::no("clamped_swiglu is for experts");
  }
  if (spec.activation == Activation::none) {
    return Support::no("an activation of none is for experts");
  }
  if (spec.activation == Activation::relu_squared && spec.gated) {
    return Support::no("relu_squared has no gate");
  }
  return spec.width > 0 ? Support::yes() : Support::no(fmt::format("width is {}", spec.width));
}

Support check_spec(const Matmul::Spec& spec) { return check_weight(spec.weight, spec.n, spec.k); }

Support check_spec(const RopeAppend::Spec& spec) {
  if (Support heads = check_heads(spec.q_heads, spec.layout.kv_heads, spec.head_dim); !heads.ok) {
    return heads;
  }
  if (spec.layout.head_dim != spec.head_dim) {
    return Support::no(
        fmt::format("the cache's head_dim {} is not the {} of the queries", spec.layout.head_dim, spec.head_dim));
  }
  if (spec.kind != RopeKind::none && (spec.n_rot <= 0 || spec.n_rot % 2 != 0 || spec.n_rot > spec.head_dim)) {
    return Support::no(fmt::format("n_rot {} is not an even number up to head_dim {}", spec.n_rot, spec.head_dim));
  }
  if (spec.temperature_scale != 0.0f &&
      (spec.temperature_length <= 0 || spec.temperature_ahead < 0 || spec.temperature_ahead > 1)) {
    return Support::no(fmt::format("a temperature that rises every {} positions, {} ahead", spec.temperature_length,
                                   spec.temperature_ahead));
  }
  if (spec.layout.is_latent()) {
    return Support::no("a latent plane is appended to by latent_append");
  }
  return check_layout(spec.layout);
}

Support check_spec(const Attention::Spec& spec) {
  if (Support heads = check_heads(spec.q_heads, spec.kv_heads, spec.head_dim); !heads.ok) {
    return heads;
  }
  if (Support dtype = check_kv_types(spec.kv_dtype, spec.head_dim, spec.value_dim > 0); !dtype.ok) {
    return dtype;
  }
  if (spec.value_dim < 0 || spec.value_dim > spec.head_dim) {
    return Support::no(fmt::format("value_dim {} is not within head_dim {}", spec.value_dim, spec.head_dim));
  }
  if (!is_float_dtype(spec.io_dtype)) {
    return Support::no(fmt::format("io_dtype {} is not one of F32, F16, BF16", name(spec.io_dtype)));
  }
  if (spec.most_rows < 0 || spec.most_rows > 8 || (spec.most_rows > 0 && !is_power_of_two(spec.most_rows))) {
    return Support::no(fmt::format("at most {} rows a sequence: 1, 2, 4, 8 or 0 for any number", spec.most_rows));
  }
  if (spec.spans && !spec.causal) {
    return Support::no("spans are of causal attention; without it rows see all keys");
  }
  if (spec.chunked && (!spec.causal || spec.window <= 0 || !is_power_of_two(spec.window))) {
    return Support::no(fmt::format("chunks of {} positions: they are of causal attention and a power of two", spec.window));
  }
  if (spec.window < 0 || !(spec.soft_cap >= 0.0f) || !(spec.scale >= 0.0f)) {
    return Support::no(
        fmt::format("window {}, soft_cap {} and scale {} must not be negative", spec.window, spec.soft_cap, spec.scale));
  }
  return Support::yes();
}

Support check_no_spans(const Attention::Spec& spec) {
  return spec.spans ? Support::no("rows that see further than themselves (spans)") : Support::yes();
}

Support check_no_chunks(const Attention::Spec& spec) {
  return spec.chunked ? Support::no(fmt::format("chunks of {} positions", spec.window)) : Support::yes();
}

Support check_separate_values(const Attention::Spec& spec) {
  return spec.value_dim == 0 ? check_spec(spec) : Support::no("V that is part of K (a latent plane)");
}

Support check_spec(const SampleTokens::Spec& spec) {
  if (spec.vocab <= 0 || spec.vocab > std::numeric_limits<std::int32_t>::max()) {
    return Support::no(fmt::format("a vocabulary of {} tokens", spec.vocab));
  }
  return Support::yes();
}

float attention_scale(const Attention::Spec& spec) {
  return spec.scale != 0.0f ? spec.scale : 1.0f / std::sqrt(static_cast<float>(spec.head_dim));
}

}  // namespace rocmforge
