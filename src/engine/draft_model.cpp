#include "engine/draft_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "base/error.h"

namespace rocmforge {

namespace {

constexpr std::int32_t most_different_sizes = 128;

}  // namespace

void check_draft_vocabulary(const Tokenizer* model, std::int32_t vocab, const Tokenizer* draft, std::int32_t draft_vocab) {
  if (std::abs(vocab - draft_vocab) > most_different_sizes) {
    throw Error(fmt::format("it can't draft: its vocabulary has {} tokens, the model's {}", draft_vocab, vocab));
  }
  if ((model == nullptr) != (draft == nullptr)) {
    throw Error(fmt::format("it can't draft: {} has no tokenizer", model == nullptr ? "the model" : "it"));
  }
  if (model == nullptr) {
    return;
  }
  const std::vector<std::string>& tokens = model->vocabulary().tokens;
  const std::vector<std::string>& own = draft->vocabulary().tokens;
  const auto [token, other] = std::mismatch(
      tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(std::min(tokens.size(), own.size())), own.begin());
  if (token != tokens.end() && other != own.end()) {
    throw Error(
        fmt::format("it can't draft: its token {} is \"{}\", the model's is \"{}\"", other - own.begin(), *other, *token));
  }
}

DraftModel::DraftModel(std::unique_ptr<Engine> engine, std::int32_t vocab)
    : engine_(std::move(engine)), vocab_(vocab), step_tokens_(engine_->max_batch_tokens()) {}

void DraftModel::propose(std::span<DraftOrder> orders) {
  ids_.assign(orders.size(), 0);
  std::int32_t tokens_left = step_tokens_;
  try {
    for (std::size_t i = 0; i < orders.size(); ++i) {
      ids_[i] = submit(orders[i], tokens_left);
    }
    collect(orders);
  } catch (const std::bad_alloc&) {  // these sequences have no drafts in this step
    std::ranges::for_each(ids_, [this](RequestId id) { engine_->cancel(id); });
    for (DraftOrder& order : orders) {
      order.tokens.clear();
    }
  }
}

RequestId DraftModel::submit(const DraftOrder& order, std::int32_t& tokens_left) {
  const Running& running = *order.running;
  std::int32_t& known = order.running->drafting.computed_by_model;
  known = std::min(known, running.length());  // a shift drops tokens
  const std::int32_t end = order.most > 0 ? running.length() : running.cache.computed_tokens;
  const std::int32_t count = std::min(end - known, tokens_left);
  const bool is_whole = known + count == end;
  if (count <= 0 && !(is_whole && order.most > 0)) {
    return 0;
  }
  tokens_left -= count;
  known += count;
  Request request;
  request.prompt.assign(running.tokens.begin(), running.tokens.begin() + known);
  request.cache_salt = running.request.cache_salt;
  request.sampling.temperature = 0.0f;
  request.max_tokens = is_whole ? order.most : 0;
  return engine_->submit(std::move(request));
}

void DraftModel::collect(std::span<DraftOrder> orders) {
  while (engine_->has_work()) {
    for (const StepOutput& output : engine_->step()) {
      const auto found = std::ranges::find(ids_, output.id);
      if (found == ids_.end()) {
        continue;  // of an earlier call that ran out of memory
      }
      std::vector<std::int32_t>& tokens = orders[static_cast<std::size_t>(found - ids_.begin())].tokens;
      const std::size_t shown = output.tokens.size() - (output.by_token ? 1 : 0);
      for (std::size_t i = 0; i < shown && output.tokens[i] < vocab_; ++i) {
        tokens.push_back(output.tokens[i]);
      }
    }
  }
}

}  // namespace rocmforge
