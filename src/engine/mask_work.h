#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace rocmforge {

class Answer;

/// Masks of constrained sequences: how much of a step they may take. A step gives them step_units of work on the engine's
/// thread, shared fairly: who needs more sits out the step. While the device computes the step a thread goes on with those.
/// A constraint that needs more for one mask than its own limit ends its request, and no other.
class MaskWork {
 public:
  /// Of some ten nanoseconds each: about two milliseconds.
  static constexpr std::uint64_t step_units = 200'000;

  MaskWork() = default;
  MaskWork(const MaskWork&) = delete;
  MaskWork& operator=(const MaskWork&) = delete;
  ~MaskWork();

  /// Prepares the masks of a step's answers as far as its units go: afterwards each is ready or among the late ones. Late
  /// answers of earlier steps are forgotten.
  void prepare(std::span<Answer* const> answers, std::int32_t vocab);

  /// Runs the thread on the late answers until pause(), which waits for its last piece of work. Between the two nobody else
  /// touches the answers.
  void resume();
  void pause();

 private:
  void run();

  std::vector<Answer*> late_;
  std::int32_t vocab_ = 0;
  std::size_t turn_ = 0;  ///< who is served first, so that nobody always comes last
  std::mutex mutex_;      ///< guards what follows
  std::condition_variable changed_;
  bool wanted_ = false, busy_ = false, stopping_ = false;
  std::thread thread_;
};

}  // namespace rocmforge
