#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "schedule/sampling_params.h"

namespace rocmforge {

/// Draws tokens for one sequence. Same parameters, seed and logits: same tokens on every machine.
class Sampler {
 public:
  explicit Sampler(const SamplingParams& params);

  /// `logits` [vocab]; `history` is the sequence so far, prompt included. Returns a token id.
  std::int32_t sample(std::span<const float> logits, std::span<const std::int32_t> history);

  [[nodiscard]] std::uint64_t seed() const { return seed_; }

 private:
  struct Candidate {
    std::int32_t id;
    float logit;
    float probability;
  };

  SamplingParams params_;
  std::uint64_t seed_;
  std::mt19937_64 random_;
  std::vector<Candidate> candidates_;
};

}  // namespace rocmforge
