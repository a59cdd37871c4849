#include "engine/mask_work.h"

#include <algorithm>
#include <exception>

#include "engine/answer.h"

namespace rocmforge {
namespace {

/// The most work that pause() waits for: a quarter of a millisecond.
constexpr std::uint64_t piece_units = 20'000;

}  // namespace

MaskWork::~MaskWork() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      wanted_ = false;
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
}

void MaskWork::prepare(std::span<Answer* const> answers, std::int32_t vocab) {
  late_.clear();
  vocab_ = vocab;
  std::uint64_t left = step_units;
  for (Answer* answer : answers) {  // the work of accepting the last step's tokens
    left -= std::min(left, answer->take_work());
  }
  ++turn_;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    Answer& answer = *answers[(turn_ + i) % answers.size()];
    const std::uint64_t share = left / (answers.size() - i);
    if (!answer.prepare_mask(share, vocab)) {
      late_.push_back(&answer);
    }
    left -= std::min(left, answer.take_work());
  }
}

void MaskWork::resume() {
  if (late_.empty()) {
    return;
  }
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::exception&) {  // no thread can be started: masks are computed only within the steps' units
      return;
    }
  }
  {
    const std::lock_guard lock(mutex_);
    wanted_ = true;
  }
  changed_.notify_all();
}

void MaskWork::pause() {
  if (thread_.joinable()) {
    std::unique_lock lock(mutex_);
    wanted_ = false;
    changed_.wait(lock, [this] { return !busy_; });
  }
  for (Answer* answer : late_) {
    static_cast<void>(answer->take_work());  // that work was not the engine thread's
  }
  late_.clear();
}

void MaskWork::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return wanted_ || stopping_; });
    if (stopping_) {
      return;
    }
    busy_ = true;
    lock.unlock();
    bool is_left = false;
    for (Answer* answer : late_) {
      is_left = !answer->prepare_mask(piece_units, vocab_) || is_left;
      lock.lock();
      const bool goes_on = wanted_;
      lock.unlock();
      if (!goes_on) {
        break;
      }
    }
    lock.lock();
    busy_ = false;
    wanted_ = wanted_ && is_left;
    changed_.notify_all();
  }
}

}  // namespace rocmforge
