#include "models/parts/latent_prefill.h"

#include <algorithm>
#include <utility>

namespace rocmforge {
namespace {

constexpr std::size_t scratch_alignment = 256;

std::size_t scratch_bytes_of(std::int64_t size_bytes) {
  return (static_cast<std::size_t>(size_bytes) + scratch_alignment - 1) / scratch_alignment * scratch_alignment;
}

std::size_t key_bytes(const LatentPrefill::Pass& pass, std::int64_t head_dim) {
  return scratch_bytes_of(pass.sequences * pass.heads * pass.keys * head_dim * std::int64_t{sizeof(std::uint16_t)});
}

}  // namespace

/// The arrays of a pass.
struct LatentPrefill::Places {
  std::byte* weights = nullptr;
  std::byte* k = nullptr;
  std::byte* v = nullptr;
  float* out = nullptr;  ///< [tokens, heads of the pass, head_dim]
};

std::size_t LatentPrefill::bytes_of(const Pass& pass) const {
  const std::int64_t head_dim = expand.spec.head_dim();
  return scratch_bytes_of(static_cast<std::int64_t>(expand.spec.workspace_bytes(1)) * pass.heads) +
         2 * key_bytes(pass, head_dim) + scratch_bytes_of(pass.tokens * pass.heads * head_dim * std::int64_t{sizeof(float)});
}

std::size_t LatentPrefill::lay_out(const AttentionLimits& limits, std::size_t expanded_bytes, std::size_t absorbed_bytes) {
  const std::int64_t heads = attention.spec.q_heads;
  const Pass one{1, 1, limits.max_kv_len, limits.max_tokens};
  const Pass all{1, limits.max_sequences, limits.max_kv_len, limits.max_tokens};
  const std::size_t wanted = std::min(expanded_bytes, static_cast<std::size_t>(heads) * bytes_of(all));
  pass_bytes = scratch_bytes_of(static_cast<std::int64_t>(std::max(bytes_of(one), wanted)));
  general_bytes = scratch_bytes_of(
      static_cast<std::int64_t>(std::max(attention.kernel->workspace_bytes(attention.spec, limits), absorbed_bytes)));
  const std::int64_t kept_floats = limits.max_tokens * heads * expand.spec.value_dim;
  return general_bytes + pass_bytes + scratch_bytes_of(kept_floats * std::int64_t{sizeof(float)});
}

template <class Body>
void LatentPrefill::for_each_range(const Step& step, Body&& body) const {
  const auto& prompts = step.arrays->prompts;
  for (std::size_t i = 0; i < prompts.size();) {
    Range range{prompts[i].sequence, 0, prompts[i].first_token, 0, 0, 0};
    while (i < prompts.size() && prompts[i].sequence == range.first_sequence + range.sequences) {
      Range longer = range;
      ++longer.sequences;
      longer.tokens += prompts[i].q_len;
      longer.max_q_len = std::max(range.max_q_len, prompts[i].q_len);
      longer.max_kv_len = std::max(range.max_kv_len, prompts[i].kv_len);
      if (range.sequences > 0 && bytes_of(pass_of(step, longer, attention.spec.q_heads)) > pass_bytes) {
        break;
      }
      range = longer;
      ++i;
    }
    body(range);
  }
}

LatentPrefill::Pass LatentPrefill::pass_of(const Step& step, const Range& range, std::int64_t heads) const {
  return {heads, range.sequences, range.max_kv_len, step.tokens};
}

float* LatentPrefill::kept(const Step& step) const {
  return reinterpret_cast<float*>(static_cast<std::byte*>(step.buffers.scratch) + general_bytes + pass_bytes);
}

void LatentPrefill::run(const Step& step, const float* q, std::int64_t q_stride, float* out) const {
  for_each_range(step, [&](const Range& range) { attend(step, range, q, q_stride, step.any_single ? kept(step) : out); });
}

void LatentPrefill::finish(const Step& step, float* out) const {
  if (!step.any_single) {
    return;
  }
  const std::int32_t heads = attention.spec.q_heads;
  for_each_range(step, [&](const Range& range) {
    copy_kept.run({.x = kept(step),
                   .heads = heads,
                   .first_token = range.first_token,
                   .tokens = range.tokens,
                   .out = out,
                   .out_heads = heads},
                  step);
  });
}

void LatentPrefill::attend(const Step& step, const Range& range, const float* q, std::int64_t q_stride, float* out) const {
  const std::int64_t heads = attention.spec.q_heads;
  const std::int64_t head_dim = expand.spec.head_dim();
  const auto fitting = static_cast<std::int64_t>(pass_bytes / bytes_of(pass_of(step, range, 1)));
  const std::int64_t passes =
      (heads + std::clamp<std::int64_t>(fitting, 1, heads) - 1) / std::clamp<std::int64_t>(fitting, 1, heads);
  const std::int64_t at_once = (heads + passes - 1) / passes;
  const Pass pass = pass_of(step, range, at_once);
  Places places;
  places.weights = static_cast<std::byte*>(step.buffers.scratch) + general_bytes;
  places.k = places.weights + scratch_bytes_of(static_cast<std::int64_t>(expand.spec.workspace_bytes(1)) * at_once);
  places.v = places.k + key_bytes(pass, head_dim);
  const bool in_place = passes == 1 && head_dim == expand.spec.value_dim;
  places.out = in_place ? out : reinterpret_cast<float*>(places.v + key_bytes(pass, head_dim));
  for (std::int64_t first = 0; first < heads; first += at_once) {
    const auto count = static_cast<std::int32_t>(std::min(at_once, heads - first));
    run_pass(step, range, places, {.q = q + first * head_dim, .q_stride = q_stride}, static_cast<std::int32_t>(first),
             count);
    if (!in_place) {
      copy_pass.run({.x = places.out,
                     .heads = count,
                     .first_token = range.first_token,
                     .tokens = range.tokens,
                     .out = out,
                     .out_heads = static_cast<std::int32_t>(heads),
                     .first_head = static_cast<std::int32_t>(first)},
                    step);
    }
  }
}

void LatentPrefill::run_pass(const Step& step, const Range& range, const Places& places, const Attention::Args& queries,
                             std::int32_t first_head, std::int32_t heads) const {
  RaggedBatch batch = step.batch;
  batch.num_sequences = range.sequences;
  batch.query_offsets += range.first_sequence;
  batch.kv_lengths += range.first_sequence;
  batch.block_tables += std::int64_t{range.first_sequence} * batch.max_blocks;
  batch.max_q_len = range.max_q_len;
  batch.max_kv_len = range.max_kv_len;
  const auto matrix = [first_head](const HeadMatrix& matrices) {
    return static_cast<const std::byte*>(matrices.data) + first_head * matrices.head_bytes();
  };
  Resolved<LatentExpand> expand_pages = expand;
  expand_pages.spec.layout = step.layout;
  expand_pages.run({.key_weight = matrix(*keys),
                    .key_head_bytes = keys->head_bytes(),
                    .value_weight = matrix(*values),
                    .value_head_bytes = values->head_bytes(),
                    .heads = heads,
                    .cache = step.cache,
                    .batch = batch,
                    .k = places.k,
                    .v = places.v,
                    .workspace = places.weights},
                   step);

  Resolved<Attention> attention_of_heads = attention;
  attention_of_heads.spec.q_heads = heads;
  attention_of_heads.spec.kv_heads = heads;
  const std::int64_t head_dim = expand.spec.head_dim();
  Attention::Args args = queries;
  args.dense = {.k = places.k,
                .v = places.v,
                .sequence_stride = heads * range.max_kv_len * head_dim,
                .token_stride = head_dim,
                .head_stride = range.max_kv_len * head_dim};
  args.batch = batch;
  args.out = places.out;
  args.workspace = step.buffers.scratch;
  args.state = step.buffers.attention_states[0];
  const Attention::Spec& spec = attention_of_heads.spec;
  attention.kernel->run(spec, attention.kernel->layout(spec), args, *step.context);
}

}  // namespace rocmforge
