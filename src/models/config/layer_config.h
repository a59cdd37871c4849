#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "models/config/rope_frequencies.h"
#include "ops/elementwise.h"
#include "ops/experts.h"
#include "ops/output_gate.h"
#include "ops/rope.h"

namespace rocmforge {

/// Which vectors of Q and K are normalised.
enum class QkNorm {
  none,
  heads,        ///< each head by itself, with one weight [head_dim] for the heads of Q and one for those of K (qwen3)
  vectors,      ///< all heads of a token together, with weights [q_dim] and [kv_dim] (olmo2)
  layer_heads,  ///< each head by itself, by a LayerNorm: weights [q_heads, head_dim], [kv_heads, head_dim] (Command R+)
  plain_heads,  ///< as heads, without weights (Llama 4)
};

/// The norm of a model's residual stream: RMSNorm, or LayerNorm with a bias where the file has one.
enum class NormKind { rms, layer };

/// The rotation of heads of Q and K by their position.
struct RopeConfig {
  RopeKind kind = RopeKind::adjacent;                    ///< none: no rotation, the other members are ignored
  std::int32_t n_rot = 0;                                ///< the first elements of a head are rotated; even
  std::shared_ptr<const RopeFrequencies> frequencies{};  ///< one object for all layers with the same rotation
  /// [n_rot / 2], the axis of each pair in multimodal RoPE, one object for all layers; null: tokens have one position.
  std::shared_ptr<const std::vector<std::int32_t>> axes{};
};

/// Multi-head latent attention: the cache holds one row for each position, a latent of `rank` elements and RopeConfig::n_rot
/// rotated ones. K and V of a head are products with the latent; K's last elements are the rotated ones.
struct LatentConfig {
  std::int32_t rank = 0;       ///< 0: attention is not latent
  std::int32_t q_rank = 0;     ///< of the latent that the queries come from; 0: from the hidden state
  std::int32_t plain_dim = 0;  ///< elements of a head's query and key that are not rotated
  std::int32_t value_dim = 0;  ///< of a head's output
  /// The file has an indexer, which chooses the keys that a query sees. It is not computed: ModelConfig::most_positions is
  /// the number it chooses, up to which a query sees all.
  bool indexed = false;
};

struct AttentionConfig {
  std::int32_t q_heads = 0;
  std::int32_t kv_heads = 0;       ///< 1 with latent attention
  std::int32_t head_dim = 0;       ///< with latent attention the row's: rank + n_rot
  std::int32_t window = 0;         ///< positions that a query sees, its own included; 0: all before it
  bool chunked = false;            ///< positions are in chunks of `window`: Attention::Spec
  float scale = 0.0f;              ///< of the scores; 0: 1 / sqrt(head_dim)
  float soft_cap = 0.0f;           ///< of the scores; 0: none
  float temperature_scale = 0.0f;  ///< of Q, by its position: RopeAppend::Spec
  std::int32_t temperature_length = 0;
  std::int32_t temperature_ahead = 0;
  bool sinks = false;       ///< a logit of each query head joins the softmax's denominator: tensor attn_sinks
  bool needs_bias = false;  ///< Q, K and V must have a bias; one in the file is always used
  bool output_needs_bias = false;
  bool output_gate = false;  ///< each head of attn_q has a gate behind its query, whose sigmoid multiplies the output
  /// Tensor attn_gate gives gates of the output, from what Q, K and V come from: one for each element, or for each head.
  std::optional<OutputGate::Gate> own_gate{};
  bool gates_of_heads = false;
  QkNorm qk_norm = QkNorm::none;
  bool joined_input = false;     ///< Q, K and V come from rows [2 * hidden] of Buffers::features (EagleBlock)
  bool value_norm = false;       ///< each head of V is normalised, without weights
  bool values_are_keys = false;  ///< V is K before its norm and its rotation: there is no attn_v
  std::int32_t keys_of = -1;     ///< the earlier layer whose K and V are read; -1: the layer has its own
  bool norm_after_turn = false;  ///< QkNorm::heads and plain_heads only
  bool spans = true;             ///< the tokens of a span see each other in both directions
  /// Each half of a head turns by itself, as RopeKind::half turns a head: the middle quarters of Q and K change places when
  /// they are loaded, so that pairs lie as in RopeKind::half.
  bool halves_turn = false;
  RopeConfig rope{};
  LatentConfig latent{};

  [[nodiscard]] std::int64_t q_dim() const { return std::int64_t{q_heads} * head_dim; }
  [[nodiscard]] std::int64_t kv_dim() const { return std::int64_t{kv_heads} * head_dim; }
  /// Elements of a row of attn_gate's product.
  [[nodiscard]] std::int64_t own_gates() const { return !own_gate ? 0 : gates_of_heads ? q_heads : q_dim(); }
  /// The offset of the keys in a row of [queries | gates, if any | keys | values].
  [[nodiscard]] std::int64_t keys_at() const { return (output_gate ? 2 : 1) * q_dim(); }
  [[nodiscard]] bool has_keys() const { return keys_of < 0; }
  /// Elements of K and V in that row.
  [[nodiscard]] std::int64_t own_kv_dim() const { return has_keys() ? (values_are_keys ? 1 : 2) * kv_dim() : 0; }
};

/// A Mamba-2 mixer: see SsmScan and SsmMixer, and TwoMixers for one beside attention.
struct SsmConfig {
  std::int32_t heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t state_size = 0;
  std::int32_t groups = 1;  ///< of heads that share B and C
  std::int32_t taps = 0;    ///< of the convolution before the scan
  bool norm = true;         ///< of the gated output of the scan

  [[nodiscard]] std::int64_t inner() const { return std::int64_t{heads} * head_dim; }
  /// Channels of the convolution: x, B and C.
  [[nodiscard]] std::int64_t channels() const { return inner() + 2 * std::int64_t{groups} * state_size; }
  /// Elements of a row [z | x, B, C | dt].
  [[nodiscard]] std::int64_t projected_width() const { return inner() + channels() + heads; }
};

/// What normalises the time steps, B and C of a Mamba mixer: nothing, RMSNorms without weights, or with them.
enum class MambaNorms { none, plain, weighted };

/// A Mamba mixer: see SelectiveScan and MambaMixer.
struct MambaConfig {
  /// Of norms without weights, for which files have no key: transformers' default, which Falcon Mamba keeps.
  static constexpr float plain_norm_eps = 1e-6f;

  std::int32_t channels = 0;
  std::int32_t state_size = 0;
  std::int32_t time_rank = 0;  ///< of the product that gives each channel its time step
  std::int32_t taps = 0;       ///< of the convolution before the scan
  MambaNorms norms = MambaNorms::none;

  /// Elements of a row [time steps | B | C].
  [[nodiscard]] std::int64_t selected() const { return time_rank + 2 * std::int64_t{state_size}; }
};

/// A gated delta net: see GatedDeltaNet, DeltaNetMixer and KimiDeltaMixer.
struct DeltaNetConfig {
  std::int32_t key_heads = 0;
  std::int32_t value_heads = 0;
  std::int32_t key_dim = 0;
  std::int32_t value_dim = 0;
  std::int32_t taps = 0;  ///< of the convolution of queries, keys and values
  bool tiled = false;     ///< value head h has key head h % key_heads
  /// Of a KimiDeltaMixer: decays and gates are products of the hidden state itself, not of a few elements between.
  bool full_gates = false;
  float decay_floor = 0.0f;  ///< GatedDeltaNet::Spec

  [[nodiscard]] std::int64_t values() const { return std::int64_t{value_heads} * value_dim; }
  [[nodiscard]] std::int64_t channels() const { return 2 * std::int64_t{key_heads} * key_dim + values(); }
};

/// The experts of a feed-forward part; each token takes a few.
struct ExpertConfig {
  std::int32_t count = 0;  ///< 0: the part is dense
  std::int32_t used = 0;   ///< by each token
  std::int32_t width = 0;  ///< of one
  RouteScore score = RouteScore::softmax;
  bool normalise = false;  ///< weights of the chosen experts are divided by their sum
  float scale = 1.0f;      ///< of the weights
  std::int32_t groups = 1;
  std::int32_t groups_used = 1;
  std::int32_t group_best = 2;    ///< experts by which a group is chosen
  std::int32_t shared_width = 0;  ///< of all shared experts together; 0: none
  bool shared_gate = false;       ///< the shared expert is multiplied by the sigmoid of a logit of its own
  bool needs_bias = false;        ///< the router and every product must have a bias; one in the file is always used
  std::int32_t latent_size = 0;   ///< of the latents that the routed experts work on; 0: on hidden states
  bool apart = false;             ///< the shared expert is a dense part with norms of its own: TwoFeedForwards
  bool weights_inputs = false;    ///< an expert reads rows times its weight; its output is added as it is. `used` is 1
  float swiglu_limit = 0.0f;      ///< of the routed experts: SwigluLimits; 0: none

  /// Whether the shared expert may be one of the stacked experts: same width, same input.
  [[nodiscard]] bool may_stack_shared() const { return shared_width == width && latent_size == 0 && !weights_inputs; }
  /// The largest number of experts of a token, the shared one included.
  [[nodiscard]] std::int32_t taken() const { return used + (may_stack_shared() ? 1 : 0); }
  /// Elements per token between up and down of its experts.
  [[nodiscard]] std::int64_t inner() const { return std::int64_t{taken()} * width; }
};

struct FeedForwardConfig {
  std::int32_t width = 0;  ///< without experts
  Activation activation = Activation::silu;
  bool gated = true;
  bool needs_bias = false;    ///< a dense part's layers must have a bias; one in the file is always used
  float swiglu_limit = 0.0f;  ///< of a dense part and of the shared experts: SwigluLimits; 0: none
  /// Of a dense part: gates count as far as they are more than so many standard deviations above their mean (CutRows).
  std::optional<float> cut{};
  ExpertConfig experts{};
};

/// The parts of a block.
enum class BlockParts { both, mixer, feed_forward };

/// The graph of a block: its parts, and its norms by the names of their tensors, "" for none. With m the mixer and f the
/// feed-forward part:
///   h += residual_scale * mixer_post_norm(mixer_factors * m(mixer_norm(h))), h = mixer_sum_norm(h * mixer_sum_scale)
///   h += residual_scale * ffn_post_norm(ffn_factors * f(ffn_norm(h))), h = ffn_sum_norm(h)
/// h *= output_scale, at the end of the block
/// or, when parallel, f reads ffn_norm(h) of the same h, and the norms before both may be one tensor. A block of one part
/// has only one of these formulas.
struct BlockGraph {
  BlockParts parts = BlockParts::both;
  std::string_view mixer_norm = "attn_norm";
  std::string_view mixer_factors{};  ///< a tensor of a factor for each element, "" for none; not beside a norm
  std::string_view mixer_post_norm{};
  std::string_view mixer_sum_norm{};
  std::string_view ffn_norm = "ffn_norm";
  std::string_view ffn_norm_suffix = ".weight";  ///< of its tensor
  std::string_view ffn_factors{};
  std::string_view ffn_post_norm{};
  std::string_view ffn_sum_norm{};
  float post_norm_eps = 0.0f;  ///< of mixer_post_norm and ffn_post_norm; 0: that of the model's norms
  bool parallel = false;
  float residual_scale = 1.0f;
  std::string_view output_scale{};  ///< a tensor of one number
  float mixer_sum_scale = 1.0f;     ///< of the residual stream behind the mixer's sum
  std::int32_t laurel_rank = 0;     ///< of what is added beside the mixer: LearnedResidual; 0: nothing
};

/// The mixer of a layer.
enum class MixerKind { attention, short_conv, ssm, mamba, delta_net, kimi_delta, attention_and_ssm };

/// The numbers of one layer.
struct LayerConfig {
  MixerKind mixer = MixerKind::attention;
  AttentionConfig attention{};
  std::int32_t short_conv_taps = 0;
  SsmConfig ssm{};
  MambaConfig mamba{};
  DeltaNetConfig delta_net{};
  FeedForwardConfig feed_forward{};
  BlockGraph graph{};

  [[nodiscard]] bool has_mixer() const { return graph.parts != BlockParts::feed_forward; }
  /// Whether it has keys and values.
  [[nodiscard]] bool attends() const {
    return has_mixer() && (mixer == MixerKind::attention || mixer == MixerKind::attention_and_ssm);
  }
  [[nodiscard]] bool has_feed_forward() const { return graph.parts != BlockParts::mixer; }
};

}  // namespace rocmforge
