#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/draft_order.h"
#include "engine/engine.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

/// Throws Error that names the first difference, unless both count the same tokens alike. The ends of the vocabularies may
/// differ, by at most 128 tokens. null: a file without a tokenizer.
void check_draft_vocabulary(const Tokenizer* model, std::int32_t vocab, const Tokenizer* draft, std::int32_t draft_vocab);

/// A second, smaller model that continues sequences greedily. It computes them in an engine of its own, whose prefix cache
/// keeps what it has computed of each sequence in whole blocks.
class DraftModel {
 public:
  /// `vocab`: of the model that verifies the drafts.
  DraftModel(std::unique_ptr<Engine> engine, std::int32_t vocab);

  /// Drafts for all sequences in common steps; where no tokens are wanted, it only computes what the sequence has computed.
  /// Where more tokens of sequences are new than one step computes, the later sequences get no drafts, and their
  /// computation goes on in the next call.
  void propose(std::span<DraftOrder> orders);

  void watch_steps(std::function<void(const std::string& line)> on_timeout) { engine_->watch_steps(std::move(on_timeout)); }

 private:
  /// Submits what one order asks for within `tokens_left` new tokens. Returns 0 where nothing is left to do.
  RequestId submit(const DraftOrder& order, std::int32_t& tokens_left);
  void collect(std::span<DraftOrder> orders);

  std::unique_ptr<Engine> engine_;
  std::int32_t vocab_;
  std::int32_t step_tokens_;
  std::vector<RequestId> ids_;  ///< of each order
};

}  // namespace rocmforge
