#include "models/parts/block.h"

#include "models/parts/attention_mixer.h"
#include "models/parts/delta_net_mixer.h"
#include "models/parts/dense_feed_forward.h"
#include "models/parts/experts_feed_forward.h"
#include "models/parts/kimi_delta_mixer.h"
#include "models/parts/latent_mixer.h"
#include "models/parts/mamba_mixer.h"
#include "models/parts/short_conv_mixer.h"
#include "models/parts/ssm_mixer.h"
#include "models/parts/two_feed_forwards.h"
#include "models/parts/two_mixers.h"

namespace rocmforge {

std::string_view feed_forward_scale(const ModelConfig& config, int index) {
  return config.per_layer_width > 0 ? std::string_view() : config.layer(index).graph.output_scale;
}

std::optional<NormName> block_norm(const ModelConfig& config, int index, std::string_view part) {
  if (part.empty()) {
    return std::nullopt;
  }
  NormName name{block_tensor(index, part), config.norm_kind, config.norm_eps, config.norm_needs_bias};
  const BlockGraph& graph = config.layer(index).graph;
  if (part == graph.ffn_norm) {
    name.suffix = graph.ffn_norm_suffix;
  }
  if (graph.post_norm_eps > 0.0f && (part == graph.mixer_post_norm || part == graph.ffn_post_norm)) {
    name.eps = graph.post_norm_eps;
  }
  return name;
}

namespace {

std::unique_ptr<Mixer> make_mixer(Planner& planner, const ModelConfig& config, int index,
                                  const std::optional<KvPlace>& shared) {
  switch (config.layer(index).mixer) {
    case MixerKind::attention:
      if (config.layer(index).attention.latent.rank > 0) {
        return std::make_unique<LatentMixer>(planner, config, index);
      }
      return std::make_unique<AttentionMixer>(planner, config, index, shared);
    case MixerKind::short_conv:
      return std::make_unique<ShortConvMixer>(planner, config, index);
    case MixerKind::ssm:
      return std::make_unique<SsmMixer>(planner, config, index);
    case MixerKind::mamba:
      return std::make_unique<MambaMixer>(planner, config, index);
    case MixerKind::delta_net:
      return std::make_unique<DeltaNetMixer>(planner, config, index);
    case MixerKind::kimi_delta:
      return std::make_unique<KimiDeltaMixer>(planner, config, index);
    case MixerKind::attention_and_ssm:
      return std::make_unique<TwoMixers>(planner, config, index);
  }
  fail_check("unknown mixer");
}

void append(Operations& operations, const Operations& more) {
  operations.insert(operations.end(), more.begin(), more.end());
}

}  // namespace

Block::Block(Planner& planner, const ModelConfig& config, int index, std::span<const std::unique_ptr<Block>> earlier)
    : side_(planner.side()) {
  const LayerConfig& layer = config.layer(index);
  if (layer.has_mixer()) {
    std::optional<KvPlace> shared;
    if (layer.mixer == MixerKind::attention && !layer.attention.has_keys()) {
      shared = earlier[static_cast<std::size_t>(layer.attention.keys_of)]->kv_place();
    } else if (config.encoder.one_plane && index > 0) {
      shared = earlier[0]->kv_place();
    }
    mixer_ = make_mixer(planner, config, index, shared);
    keeps_ = !shared;
  }
  if (config.residual_streams > 1) {
    streams_.emplace(planner, config, index);
    streams_->append_predict(mix_);
  }
  if (mixer_ != nullptr) {
    append(mix_, mixer_->mix());
  }
  if (layer.graph.laurel_rank > 0) {
    learned_.emplace(planner, config, index);
    learned_->append(finish_);
  }
  if (layer.has_feed_forward()) {
    add_feed_forward(planner, config, index);
  }
  if (mixer_ != nullptr) {
    append(finish_, mixer_->project());
  }
  if (feed_forward_ != nullptr) {
    append(finish_, feed_forward_->operations());
  }
  add_end(planner, config, index);
  join_sums(planner);
  if (planner.given_rows() && index < config.deepstack_layers) {
    check(last_sum_ == nullptr, "a sum that is part of the next layer's product has no place behind it");
    deepstack_.emplace(planner, config.hidden, index + 1);
    deepstack_->append(finish_);
  }
  if (const ControlVectors* control = planner.control(); control != nullptr && !control->behind(index).empty()) {
    last_sum_ = nullptr;  // it is not joined to the next layer's product, whose input is another one
    control_.emplace(planner, *control, index);
    control_->append(finish_);
  }
  if (const auto place = planner.feature_behind(index)) {
    last_sum_ = nullptr;  // the stream itself is read
    planner.buffers().need(BufferName::features, std::int64_t{config.hidden} * place->of);
    feature_.emplace(planner, config.hidden, place->index, place->of);
    feature_->append(finish_, &Buffers::hidden, &Buffers::features);
  }
}

void Block::add_end(Planner& planner, const ModelConfig& config, int index) {
  if (streams_) {
    streams_->append_correct(finish_);
  }
  if (config.per_layer_width > 0) {
    per_layer_.emplace(planner, config, index);
    per_layer_->append(finish_);
  }
  if (streams_) {
    streams_->append_add(finish_);
  }
  if (streams_ && index + 1 == config.layers) {
    merge_.emplace(planner, config);
    merge_->append(finish_);
  }
}

void Block::join_sums(Planner& planner) {
  ResidualSum* mixed = mixer_ != nullptr ? mixer_->sum() : nullptr;
  ResidualSum* fed = feed_forward_ != nullptr ? feed_forward_->sum() : nullptr;
  FusedLinear* feeding = feed_forward_ != nullptr ? feed_forward_->first_product() : nullptr;
  if (mixed == nullptr || fed == nullptr || feeding == nullptr) {
    return;
  }
  planner.join(*mixed, *feeding);
  fed->first = mixed;
  if (streams_) {
    return;  // what is behind the block's parts reads the sum as it is
  }
  if (per_layer_) {
    planner.join(*fed, per_layer_->first_product());
  } else {
    last_sum_ = fed;
  }
}

void Block::join(Planner& planner, Block& before) {
  FusedLinear* mixing = mixer_ != nullptr ? mixer_->first_product() : nullptr;
  if (before.last_sum_ != nullptr && mixing != nullptr) {
    planner.join(*before.last_sum_, *mixing);
  }
}

void Block::add_feed_forward(Planner& planner, const ModelConfig& config, int index) {
  const BlockGraph& graph = config.layer(index).graph;
  FeedForwardInput input{block_norm(config, index, graph.ffn_norm), &Buffers::hidden};
  if (graph.parallel) {
    // Computed again from the residual stream without the mixer's output, because rows may have been dropped between the
    // halves.
    parallel_norm_ = planner.norm(*block_norm(config, index, graph.ffn_norm), config.hidden);
    parallel_norm_->append(finish_, &Buffers::hidden, &Buffers::normed);
    input = {std::nullopt, &Buffers::normed};
  }
  if (const FeedForwardConfig& ffn = config.layer(index).feed_forward; ffn.experts.count > 0 && ffn.experts.apart) {
    feed_forward_ = std::make_unique<TwoFeedForwards>(planner, config, index);
  } else if (ffn.experts.count > 0) {
    feed_forward_ = std::make_unique<ExpertsFeedForward>(planner, config, index, input);
  } else {
    feed_forward_ = std::make_unique<DenseFeedForward>(planner, config, index, input, DenseFeedForward::Part{ffn.width});
  }
}

}  // namespace rocmforge
