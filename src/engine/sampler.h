#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "ops/sample.h"
#include "schedule/sampling_params.h"

namespace rocmforge {

/// The sampling parameters and random numbers of one sequence. The operation SampleTokens draws,
/// on the device that holds the logits. Same parameters, seed and logits give the same tokens, whatever else is in
/// the batch.
class Sampler {
 public:
  /// `params` must be valid (SamplingParams::validate), and its biases must name tokens of the vocabulary.
  explicit Sampler(const SamplingParams& params);
  ~Sampler();
  Sampler(Sampler&& other) noexcept;
  Sampler& operator=(Sampler&& other) noexcept;

  /// The next draw. Takes one random number, unless the draw is greedy, and appends the row's adjustments, with
  /// ascending ids. `history` is the sequence so far, prompt included, of tokens of the vocabulary.
  SampleTokens::Row next(std::span<const std::int32_t> history, std::vector<SampleTokens::Adjustment>& adjustments);

  /// The next draw from `logits` [vocab] in host memory: a token id, or -1 when every token is forbidden.
  std::int32_t sample(std::span<const float> logits, std::span<const std::int32_t> history);

  [[nodiscard]] std::uint64_t seed() const { return seed_; }

 private:
  struct HostKernel;

  void count(std::span<const std::int32_t> history);

  SamplingParams params_;
  std::uint64_t seed_;
  std::mt19937_64 random_;
  std::vector<std::int32_t> window_;  ///< tokens in the window of the penalties, ascending
  std::unique_ptr<HostKernel> host_;  ///< set by the first call of sample()
};

}  // namespace rocmforge
