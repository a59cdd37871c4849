#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ops/attention.h"
#include "ops/experts.h"

namespace rocmforge {

/// A sequence of `kv_len` positions, the last `q_len` of which are this step's queries.
struct SequenceShape {
  std::int32_t kv_len;
  std::int32_t q_len;
};

/// The attention of a layer of a model that people run (tools/quant/synth_gguf.py).
struct ModelAttention {
  std::string model;
  Attention::Spec spec;
};
std::vector<ModelAttention> attention_of_models();

/// The router of such a model, its norm included.
struct ModelRouter {
  std::string model;
  RouteRows::Spec spec;
};
std::vector<ModelRouter> routers_of_models();
/// 256 experts in eight groups: sigmoid scores with biases for the choice.
RouteRows::Spec router_of_deepseek_v3();

/// Sequences that are computed together.
struct StepShape {
  std::string name;
  std::vector<SequenceShape> sequences;

  /// Whether each sequence has one row: kernels for decodes get such steps, those for prompts all others.
  [[nodiscard]] bool has_single_rows() const {
    return std::ranges::all_of(sequences, [](const SequenceShape& shape) { return shape.q_len == 1; });
  }
};
/// The steps of servers: decodes of one to 256 sequences behind short and long contexts, many prompts of lengths around the
/// sizes of tiles, long prompts, chunks behind a context, and mixes of all.
std::vector<StepShape> steps_of_servers();

/// Its parts: decodes behind contexts of up to 2,100; prompts of one length; prompts of up to 140, partly behind a context,
/// each with a decode.
StepShape ragged_decodes(std::int32_t count);
StepShape prompts_of(std::int32_t count, std::int32_t length);
StepShape mixed_step(std::int32_t prompts);
/// Takes out the steps of more tokens or longer sequences; those of up to 17 tokens stay.
void drop_longer(std::vector<StepShape>& steps, std::int64_t max_tokens, std::int64_t max_kv_len);
/// Lengths of prompts around the sizes of tiles.
std::span<const std::int32_t> lengths_around_tiles();

/// The rows and columns of a weight.
struct WeightShape {
  std::int64_t n;
  std::int64_t k;
};
/// Weights of Llama 3 8B, Qwen2.5 0.5B, Gemma 3 12B and gpt-oss; and a vocabulary.
std::span<const WeightShape> weights_of_models();

/// Every type that computes, plain and quantised.
std::vector<DType> computing_types();

}  // namespace rocmforge
