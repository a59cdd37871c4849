#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "ops/sample.h"
#include "schedule/sampling_params.h"

namespace rocmforge {

/// How the tokens of one sequence are drawn: its parameters and its random numbers. The drawing itself is the operation
/// SampleTokens, on the device that holds the logits. Same parameters, seed and logits: same tokens, whatever else is in
/// the batch.
class Sampler {
 public:
  /// `params` are valid (SamplingParams::validate), and their biases name tokens of the vocabulary.
  explicit Sampler(const SamplingParams& params);
  ~Sampler();
  Sampler(Sampler&& other) noexcept;
  Sampler& operator=(Sampler&& other) noexcept;

  /// The next draw: takes one random number, unless the most likely token is taken, and appends the row's adjustments, with
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
  std::vector<std::int32_t> window_;  ///< tokens that the penalties look at, ascending
  std::unique_ptr<HostKernel> host_;  ///< once sample() was called
};

}  // namespace rocmforge
