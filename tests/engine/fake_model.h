#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine_parts.h"

namespace rocmforge {

/// A model whose logits are a function of all tokens it can see through the KV cache: each step writes its tokens and their
/// positions into the cache and reads the whole sequence back by the block table. A page that is missing, stale or of
/// another sequence changes the next tokens.
class FakeModel : public Model {
 public:
  using Tokens = std::vector<std::int32_t>;
  /// When set, the only token that can follow `visible`; -1 for NaN logits, or `any_token` where it is as without a script.
  using Script = std::function<std::int32_t(const Tokens& visible)>;
  static constexpr std::int32_t any_token = -2;

  static constexpr std::int32_t layers = 2;
  static constexpr std::int32_t block_tokens = 4;
  static constexpr std::int32_t hidden_size = 3;

  /// A recurrent model also has all tokens in its state and checks that state and pages agree; state_alone has no pages. A
  /// model with windows has twice as many layers, half of which see at most `window` positions.
  enum class Kind { attention, recurrent, state_alone, windows };
  static constexpr std::int32_t window = 6;

  /// An encoder gives a text as many values as its classifier has labels, if it has one. With an MTP block the model keeps,
  /// in a plane of its own, the token behind each position.
  FakeModel(std::int32_t vocab, std::int32_t context_length, Kind kind = Kind::attention, const EncoderConfig& encoder = {},
            bool with_mtp = false);

  void follow(Script script) { script_ = std::move(script); }
  /// Sets what the model's file says.
  void set_pooling(std::optional<PoolingType> pooling) { config_.pooling = pooling; }
  [[nodiscard]] std::vector<float> logits_after(const Tokens& visible) const;
  /// The hidden state [hidden_size] of the last of these tokens; in an encoder of any token of this text.
  [[nodiscard]] static std::vector<float> hidden_after(const Tokens& visible);
  /// The value that a classifier with one label gives this text, between -2 and 2.
  [[nodiscard]] static float score_of(const Tokens& text);
  [[nodiscard]] std::int32_t steps() const { return steps_; }
  [[nodiscard]] std::int32_t largest_step() const { return largest_step_; }
  [[nodiscard]] std::int64_t computed_tokens() const { return computed_tokens_; }

  [[nodiscard]] const ModelConfig& config() const override { return config_; }
  [[nodiscard]] const KvGroups& kv_groups() const override { return kv_groups_; }
  [[nodiscard]] std::size_t state_bytes() const override;
  [[nodiscard]] const std::vector<PlannedOperation>& plan() const override { return plan_; }
  [[nodiscard]] std::size_t packed_bytes() const override { return packed_bytes_; }
  /// Sets packed_bytes().
  void pack(std::size_t bytes) { packed_bytes_ = bytes; }
  [[nodiscard]] std::size_t workspace_bytes() const override { return 0; }
  [[nodiscard]] std::size_t bytes_per_token() const override { return 0; }
  void load(const Devices&, ThreadPool&) override {}
  void forward(const BatchPlan& batch, SequenceMemory& memory) override;
  [[nodiscard]] std::int32_t mtp_blocks() const override { return with_mtp_ ? 1 : 0; }
  /// Its logits are those of the model behind the row's state and token, but those of every fifth position rotated.
  void forward_mtp(std::int32_t block, const BatchPlan& batch, SequenceMemory& memory) override;
  /// Positions before those that the MTP block predicted from, where its plane had another token than the sequence's; those
  /// at the ends of blocks, which other sequences may have written, apart.
  [[nodiscard]] std::int32_t mtp_gaps() const { return mtp_gaps_; }
  [[nodiscard]] std::int32_t mtp_passes() const { return mtp_passes_; }
  /// Makes `count` passes of the MTP block run out of memory, from pass `first` on, counted from now: each behind its
  /// computation.
  void lack_mtp_memory(std::int32_t first, std::int32_t count) {
    mtp_lacking_ = {mtp_passes_ + first, mtp_passes_ + first + count};
  }
  [[nodiscard]] std::span<const std::int32_t> sampled() override { return sampled_; }
  [[nodiscard]] std::span<const std::int32_t> previous_sampled() override { return previous_sampled_; }
  [[nodiscard]] std::span<const float> draw_probabilities() override { return probabilities_; }
  [[nodiscard]] bool runs_ahead() const override { return runs_ahead_; }
  /// Sets stage_ends(), as for a model whose layers lie on several devices.
  void divide_layers(std::vector<std::int32_t> ends) { stage_ends_ = std::move(ends); }
  [[nodiscard]] std::vector<std::int32_t> stage_ends() const override { return stage_ends_; }
  /// Sets the time that each token of a step takes.
  void take_time(std::chrono::microseconds each) { token_time_ = each; }
  void forget_largest_step() { largest_step_ = 0; }
  /// Sets runs_ahead(), as for a model on a GPU.
  void run_ahead(bool ahead) { runs_ahead_ = ahead; }
  /// Makes `count` steps run out of memory, from step `first` on, counted from now. Each fails after its computation and
  /// before its draws.
  void lack_memory(std::int32_t first, std::int32_t count = 1) { lacking_ = {steps_ + first, steps_ + first + count}; }
  [[nodiscard]] std::span<const float> logits() override { return logits_; }
  [[nodiscard]] std::span<const float> raw_logits() override { return raw_logits_; }
  [[nodiscard]] std::span<const float> hidden() override { return hidden_; }
  void wait() override {}
  [[nodiscard]] std::vector<OperationTime> time_operations(const BatchPlan&, SequenceMemory&) override { return {}; }

 private:
  /// Appends the step's tokens to the pages.
  void append(const BatchPlan& batch, const Tokens& ids, const SequenceMemory& memory) const;
  /// Advances the states and returns all tokens of each sequence.
  std::vector<Tokens> carry_on(const BatchPlan& batch, const Tokens& ids, const StateView& states) const;
  [[nodiscard]] Tokens visible_to(const BatchPlan& batch, std::int32_t row, const SequenceMemory& memory) const;
  /// Compares the MTP block's plane with the tokens before a row.
  void count_gaps(const BatchPlan& batch, std::int32_t row, const Tokens& state, const SequenceMemory& memory);
  /// The ids of a step's tokens, those of the last draws included.
  [[nodiscard]] Tokens ids_of(const BatchPlan& batch) const;
  [[nodiscard]] KvPlace mtp_place() const;
  void draw(const BatchPlan& batch);

  Kind kind_;
  bool with_mtp_;
  ModelConfig config_;
  KvGroups kv_groups_;
  KvGroups own_places_;  ///< those without the MTP block's
  std::vector<PlannedOperation> plan_;
  Script script_;
  KernelRegistry registry_;
  std::vector<float> logits_;
  std::vector<float> raw_logits_;
  std::vector<float> hidden_;
  std::vector<std::int32_t> sampled_;
  std::vector<std::int32_t> previous_sampled_;
  std::vector<float> probabilities_;
  bool runs_ahead_ = false;
  std::vector<std::int32_t> stage_ends_;
  std::size_t packed_bytes_ = 0;
  std::chrono::microseconds token_time_{};
  std::pair<std::int32_t, std::int32_t> lacking_{0, 0};  ///< steps [first, end)
  std::int32_t steps_ = 0;
  std::int32_t largest_step_ = 0;
  std::int64_t computed_tokens_ = 0;
  std::vector<Tokens> states_;  ///< of the last pass's hidden rows: all tokens up to the row's
  std::pair<std::int32_t, std::int32_t> mtp_lacking_{0, 0};
  std::int32_t mtp_passes_ = 0;
  std::int32_t mtp_gaps_ = 0;
};

/// Ids: 0 unknown, 1 BOS, 2 end of sequence, then one token for each byte, then the word " hi".
std::shared_ptr<const Tokenizer> byte_tokenizer();
constexpr std::int32_t bos_token = 1;
constexpr std::int32_t end_token = 2;
constexpr std::int32_t word_token = 259;
constexpr std::int32_t byte_vocab = 260;
std::vector<std::int32_t> byte_ids(std::string_view text);

Request make_request(std::vector<std::int32_t> prompt, std::int32_t max_tokens = -1, std::vector<std::string> stop = {});

/// An engine on a FakeModel and the byte tokenizer, and the model for scripts and counts.
struct FakeEngine {
  std::unique_ptr<Engine> engine;
  FakeModel* model = nullptr;
};
/// `options.kv_tokens` must be set. Where `options` say that MTP blocks draft, the model has one.
FakeEngine make_fake_engine(const EngineOptions& options, bool with_tokenizer = true,
                            FakeModel::Kind kind = FakeModel::Kind::attention);
/// The same with another tokenizer, null for none. The model has the vocabulary size of the tokenizer.
FakeEngine make_fake_engine(const EngineOptions& options, std::shared_ptr<const Tokenizer> tokenizer, FakeModel::Kind kind,
                            std::int32_t context_length = 256, const EncoderConfig& encoder = {},
                            std::unique_ptr<Engine> draft_model = nullptr);

}  // namespace rocmforge
