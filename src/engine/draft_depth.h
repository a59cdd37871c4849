#pragma once

#include <cstdint>

namespace rocmforge {

/// The time that a step takes, as a line over its rows: fitted to the last steps by least squares, in which each step counts
/// less than the next one.
class StepCost {
 public:
  /// A step that computed `rows` tokens of decoding sequences and no prompt.
  void add(std::int32_t rows, double seconds);
  /// The time of one more row, as a share of a step's time for each of its `rows` rows: 1 where the time grows with the rows
  /// alone, 0 where it does not depend on them. assumed_cost until steps of different size were seen.
  [[nodiscard]] double cost_of_row(std::int32_t rows) const;

  static constexpr double assumed_cost = 0.1;

 private:
  double weight_ = 0.0;
  double mean_rows_ = 0.0;
  double mean_seconds_ = 0.0;
  double rows_rows_ = 0.0;     ///< weighted sum of squared differences from the mean
  double rows_seconds_ = 0.0;  ///< of products of the differences
};

/// The share of drafted tokens that are accepted, among those whose predecessors were: the last ones count most.
class AcceptedRate {
 public:
  static constexpr double assumed = 0.6;  ///< before anything was seen

  /// `weight`: of each token, against all before it.
  explicit AcceptedRate(double weight) : weight_(weight) {}

  /// Of `drafted` tokens the first `accepted` were drawn.
  void take(std::int32_t drafted, std::int32_t accepted);
  void begin_with(double rate) { rate_ = rate; }
  [[nodiscard]] double rate() const { return rate_; }

 private:
  double weight_;
  double rate_ = assumed;
};

/// How many tokens to draft for one sequence: those that are likely enough to be accepted, as the last ones were. Where even
/// the first is not, none for a number of steps, which doubles up to longest_pause while trials of one token fail.
class DraftDepth {
 public:
  static constexpr std::int32_t first_pause = 4;
  static constexpr std::int32_t longest_pause = 64;
  static constexpr double rate_weight = 0.125;

  [[nodiscard]] bool pauses() const { return pause_left_ > 0; }
  /// For the next step: at most `most`, each with a probability of being accepted of at least `least`. `usual`: the rate of
  /// other sequences, which counts until this one has had drafts.
  [[nodiscard]] std::int32_t next(std::int32_t most, double least, double usual = AcceptedRate::assumed);
  /// Call after each step that drew tokens: of `drafted` tokens the first `accepted` were drawn.
  void take(std::int32_t drafted, std::int32_t accepted);

 private:
  AcceptedRate accepted_{rate_weight};
  bool had_drafts_ = false;
  double least_ = 0.0;  ///< of the last step
  std::int32_t pause_ = 0;
  std::int32_t pause_left_ = 0;
};

}  // namespace rocmforge
