#include "models/step/thread_communicator.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/error.h"

namespace rocmforge {
namespace {

// The parts of a layer take about as long on all ranks, so that most waits are short. Behind these rounds a rank sleeps.
constexpr int rounds_before_sleep = 200;

}  // namespace

ThreadRanks::ThreadRanks(std::int32_t ranks) : ranks_(ranks), arrays_(static_cast<std::size_t>(ranks)) {
  check(ranks >= 2 && ranks <= AllReduce::most_ranks, "a model is shared by 2 to 16 ranks");
}

std::unique_ptr<Communicator> ThreadRanks::communicator(std::int32_t rank) {
  return std::make_unique<ThreadCommunicator>(*this, rank);
}

void ThreadRanks::begin_step() {
  const std::scoped_lock lock(mutex_);
  failure_ = nullptr;
  failed_.store(false, std::memory_order_release);
  arrived_.store(0, std::memory_order_release);
}

void ThreadRanks::fail(std::exception_ptr failure) {
  {
    const std::scoped_lock lock(mutex_);
    if (failure_ == nullptr) {
      failure_ = std::move(failure);
    }
  }
  failed_.store(true, std::memory_order_release);
  phase_.fetch_add(1, std::memory_order_release);
  phase_.notify_all();
}

void ThreadRanks::rethrow() {
  if (failed_.load(std::memory_order_acquire)) [[unlikely]] {
    const std::scoped_lock lock(mutex_);
    std::rethrow_exception(failure_);
  }
}

// The phase is read before the failure: a failure behind that changes the phase.
void ThreadRanks::meet() {
  const std::uint32_t phase = phase_.load(std::memory_order_acquire);
  rethrow();
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == ranks_) {
    arrived_.store(0, std::memory_order_release);
    phase_.fetch_add(1, std::memory_order_release);
    phase_.notify_all();
  } else {
    for (int round = 0; round < rounds_before_sleep && phase_.load(std::memory_order_acquire) == phase; ++round) {
      std::this_thread::yield();
    }
    while (phase_.load(std::memory_order_acquire) == phase) {
      phase_.wait(phase, std::memory_order_acquire);
    }
  }
  rethrow();
}

const std::vector<const void*>& ThreadRanks::enter(std::int32_t rank, const void* array) {
  arrays_[static_cast<std::size_t>(rank)] = array;
  meet();
  return arrays_;
}

void ThreadCommunicator::all_reduce(const AllReduce::Spec& spec, const OpKernel<AllReduce>& kernel, const Sum& sum,
                                    ExecutionContext& context) {
  AllReduce::Args args{.count = sum.count, .out = sum.out, .add = sum.add};
  std::ranges::transform(ranks_->enter(rank_, sum.part), args.parts.begin(),
                         [](const void* part) { return static_cast<const float*>(part); });
  kernel.run(spec, args, context);
  ranks_->leave();
}

void ThreadCommunicator::gather(const float* part, std::int64_t rows, std::span<const std::int64_t> widths,
                                Receivers receivers, float* out) {
  const std::vector<const void*>& parts = ranks_->enter(rank_, part);
  if (receives(receivers)) {
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      place_columns(static_cast<const float*>(parts[rank]), rows, widths, rank, out);
    }
  }
  ranks_->leave();
}

void ThreadCommunicator::broadcast(void* data, std::size_t size_bytes) {
  const std::vector<const void*>& arrays = ranks_->enter(rank_, data);
  if (rank_ != 0) {
    std::memcpy(data, arrays[0], size_bytes);
  }
  ranks_->leave();
}

}  // namespace rocmforge
