#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace rocmforge {

class Answer;

/// Masks of constrained sequences, with a limit of work for each step: step_units on the engine's thread, shared fairly.
/// An answer that needs more misses the step, and another thread continues its mask while the device computes the step.
/// A constraint that exceeds its own limit for one mask ends its request, and no other.
class MaskWork {
 public:
  /// Units of about ten nanoseconds: about two milliseconds.
  static constexpr std::uint64_t step_units = 200'000;

  MaskWork() = default;
  MaskWork(const MaskWork&) = delete;
  MaskWork& operator=(const MaskWork&) = delete;
  ~MaskWork();

  /// Prepares the masks of a step's answers within the limit: afterwards each is ready or among the late ones. Late
  /// answers of earlier steps are forgotten.
  void prepare(std::span<Answer* const> answers, std::int32_t vocab);

  /// Lets the thread work on the late answers until pause(), which waits for its current piece of work. Between resume() and
  /// pause() no other thread may use the answers.
  void resume();
  void pause();

 private:
  void run();

  std::vector<Answer*> late_;
  std::int32_t vocab_ = 0;
  std::size_t turn_ = 0;  ///< the answer that is served first; changes with each step, so that no answer is always last
  std::mutex mutex_;      ///< guards the members below
  std::condition_variable changed_;
  bool wanted_ = false, busy_ = false, stopping_ = false;
  std::thread thread_;
};

}  // namespace rocmforge
