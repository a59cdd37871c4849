#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "schedule/sampling_params.h"

namespace rocmforge {

/// Draws tokens for one sequence. Same parameters, seed and logits: same tokens on every machine.
/// NaN counts as forbidden. Of equal logits the lower id comes first.
class Sampler {
 public:
  /// `params` are valid (SamplingParams::validate).
  explicit Sampler(const SamplingParams& params);

  /// `logits` [vocab]; `history` is the sequence so far, prompt included. Returns a token id, or -1 when every token is
  /// forbidden.
  std::int32_t sample(std::span<const float> logits, std::span<const std::int32_t> history);

  [[nodiscard]] std::uint64_t seed() const { return seed_; }

 private:
  struct Candidate {
    std::int32_t id;
    float logit;
    double probability;  ///< among the candidates left, at temperature 1
  };

  void adjust(std::span<const float> logits, std::span<const std::int32_t> history);
  void add_penalties(std::span<const std::int32_t> history);
  [[nodiscard]] std::int32_t greedy() const;
  void collect();
  double normalise();
  template <class Before>
  void keep_mass(double mass, Before before);
  void keep_typical();
  void keep_top();
  void keep_min();
  std::int32_t draw();

  SamplingParams params_;
  std::uint64_t seed_;
  std::mt19937_64 random_;
  std::vector<float> logits_;  ///< with bias and penalties; -inf is forbidden, all others are finite
  std::vector<Candidate> candidates_;
};

}  // namespace rocmforge
