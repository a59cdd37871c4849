#include "models/parts/output_head.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace rocmforge {

OutputHead::OutputHead(Planner& planner, const ModelConfig& config, const Names& names, std::int64_t mixed_width)
    : gather_hidden_(planner.resolve_for_prompts<GatherRows>({config.hidden})) {
  BufferPlan& buffers = planner.buffers();
  buffers.need(BufferName::hidden, config.hidden);
  buffers.need_rows(BufferName::normed, std::max(buffers.tokens(), buffers.logit_rows()), config.hidden);
  buffers.need(BufferName::projected, config.hidden);
  const Share& share = planner.share();
  has_all_ = share.rank == 0;
  buffers.need_rows(BufferName::logits, has_all_ ? buffers.logit_rows() : 0, config.vocab);
  if (mixed_width > 0) {
    gather_mixed_ = planner.resolve_for_prompts<GatherRows>({mixed_width});
  }
  const auto rows_of = [&](std::int32_t rank) {
    return Share{rank, share.ranks}.units(config.vocab, 1, "rows of the vocabulary");
  };
  const Range own = rows_of(share.rank);
  if (!share.whole()) {
    buffers.need_rows(BufferName::own_logits, buffers.logit_rows(), own.count);
    for (std::int32_t rank = 0; rank < share.ranks; ++rank) {
      widths_.push_back(rows_of(rank).count);
    }
  }
  if (names.shared == nullptr) {
    layers_ = planner.fused_linear(names.operation, names.norm,
                                   {{.name = names.head, .n = own.count, .rows = Selection::run(own, config.vocab)}},
                                   config.hidden);
  } else {
    layers_ = *names.shared;
    layers_.norm->weight = planner.vector(names.norm.name + ".weight", config.hidden);
  }
  if (config.logit_scale != 1.0f || config.logit_soft_cap > 0.0f) {
    scale_ = planner.resolve_for_width<Scale>({}, 2 * own.count);
  }
  add_rows();
  add_logits(config);
}

void OutputHead::add_rows() {
  const std::string gather(GatherRows::name);
  pick_hidden_.push_back(
      {gather, [this](const Step& step) {
         gather_hidden_.run({step.buffers.normed, step.arrays->logit_rows, step.tokens, step.buffers.hidden}, step);
       }});
  if (gather_mixed_) {
    pick_mixed_.push_back(
        {gather, [this](const Step& step) {
           gather_mixed_->run({step.buffers.projected, step.arrays->logit_rows, step.tokens, step.buffers.gathered}, step);
         }});
  }
  hidden_states_.push_back(
      {gather, [this](const Step& step) {
         gather_hidden_.run({step.buffers.hidden, step.arrays->hidden_rows, step.tokens, step.buffers.projected}, step);
       }});
  hidden_states_.push_back({std::string(layers_.norm->kind()), [this](const Step& step) {
                              layers_.norm->run(step.tokens, step.buffers.projected, step.buffers.projected, step);
                            }});
}

void OutputHead::add_logits(const ModelConfig& config) {
  float* Buffers::*const own = widths_.empty() ? &Buffers::logits : &Buffers::own_logits;
  layers_.append(logits_, &Buffers::hidden, own);
  if (scale_) {
    logits_.push_back(
        {std::string(Scale::name), [this, own, &config](const Step& step) {
           scale_->run({step.buffers.*own, step.tokens * layers_.linear.width(), config.logit_scale, config.logit_soft_cap},
                       step);
         }});
  }
  if (!widths_.empty()) {
    append_gather();
  }
}

void OutputHead::append_gather() {
  logits_.push_back({"gather", [this](const Step& step) {
                       step.communicator->gather(step.buffers.own_logits, step.tokens, widths_,
                                                 Communicator::Receivers::first, has_all_ ? step.buffers.logits : nullptr);
                     }});
}

}  // namespace rocmforge
