#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "engine/dry.h"
#include "ops/sample.h"
#include "schedule/sampling_params.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

/// The sampling parameters and random numbers of one sequence. The operation SampleTokens draws,
/// on the device that holds the logits. Same parameters, seed and logits give the same tokens, whatever else is in
/// the batch.
class Sampler {
 public:
  /// What the sampler has to know of the sequence.
  struct Context {
    std::vector<std::int32_t> end_tokens{};        ///< those that end the answer, forbidden before min_tokens
    std::shared_ptr<const Tokenizer> tokenizer{};  ///< for texts that break repetitions
  };

  /// `params` must be valid (SamplingParams::validate). Its tokens and those of `context` must be of the vocabulary.
  explicit Sampler(const SamplingParams& params, Context context);
  explicit Sampler(const SamplingParams& params) : Sampler(params, Context{}) {}
  ~Sampler();
  Sampler(Sampler&& other) noexcept;
  Sampler& operator=(Sampler&& other) noexcept;

  /// The draw that comes `ahead` draws after the next one. Appends the row's adjustments, with ascending ids. `history` is
  /// the sequence up to there, prompt included, of tokens of the vocabulary. Each draw has its own random number, and the
  /// same call gives the same row until advance().
  SampleTokens::Row next(std::span<const std::int32_t> history, std::vector<SampleTokens::Adjustment>& adjustments,
                         std::size_t ahead = 0);
  /// The tokens of the next `count` draws are part of the sequence. `probability` is that of the token among those that its
  /// stages left, where tells_probability() of the row; such draws are made one by one. Allocates nothing.
  void advance(std::size_t count, float probability = 0.0f);

  /// The next draw from `logits` [vocab] in host memory: a token id, or -1 when every token is forbidden.
  std::int32_t sample(std::span<const float> logits, std::span<const std::int32_t> history);

  [[nodiscard]] std::uint64_t seed() const { return seed_; }

 private:
  struct HostKernel;

  /// What one draw leaves to chance.
  struct Chance {
    bool excludes = false;  ///< XTC acts
    double uniform = 0.0;
  };

  double uniform();
  const Chance& chance(std::size_t ahead);
  void set_stages(SampleTokens::Row& row) const;
  void learn(double probability);
  void count(std::span<const std::int32_t> history);
  void gather(std::span<const std::int32_t> history, std::int64_t draw);

  SamplingParams params_;
  std::uint64_t seed_;
  std::mt19937_64 random_;
  Context context_;
  std::optional<Dry> dry_;
  std::int64_t draws_ = 0;                       ///< whose tokens are part of the sequence
  std::deque<Chance> chances_;                   ///< of the draws from draws_ on
  double most_surprise_;                         ///< Mirostat's cut, bits
  double adaptive_sum_;                          ///< of probabilities, each weighted by adaptive_decay^its age
  double adaptive_weight_;                       ///< of these weights
  std::vector<std::int32_t> window_;             ///< tokens in the window of the penalties, ascending
  std::vector<SampleTokens::Adjustment> named_;  ///< by bias, by DRY, or forbidden; ascending, each token once
  std::unique_ptr<HostKernel> host_;             ///< set by the first call of sample()
};

}  // namespace rocmforge
