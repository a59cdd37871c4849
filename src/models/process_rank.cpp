#include "models/process_rank.h"

#include <fmt/format.h>

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "base/error.h"

namespace rocmforge {
namespace {

ModelOptions with(const ModelOptions& options, Communicator& communicator) {
  ModelOptions own = options;
  own.communicator = &communicator;
  return own;
}

RankProcesses& checked(RankProcesses& processes, const DeviceInfo& device, const ModelOptions& options) {
  check(!options.placement.split(), "a model that ranks share is on one device");
  if (processes.count() > AllReduce::most_ranks) {
    throw Error(fmt::format("{} ranks are more than {}", processes.count(), AllReduce::most_ranks));
  }
  if (device.is_gpu()) {
    throw Error("ranks are processes on CPUs: several of them on GPUs are not supported");
  }
  return processes;
}

/// Calls work(). What it throws is told as the end of the rank.
template <class Work>
void or_fail(RankProcesses& processes, const Work& work) {
  const auto fail = [&](const std::string& reason) { processes.fail(fmt::format("rank {}: {}", processes.rank(), reason)); };
  try {
    work();
  } catch (const std::bad_alloc&) {
    fail("not enough memory");
    throw;
  } catch (const std::exception& error) {
    fail(error.what());
    throw;
  }
}

}  // namespace

ProcessRank::ProcessRank(ModelConfig config, const GgufFile& file, const KernelRegistry& registry, const DeviceInfo& device,
                         int num_threads, const ModelOptions& options)
    : processes_(&checked(*options.processes, device, options)),
      communicator_(*processes_),
      model_(std::move(config), file, registry, device, num_threads, with(options, communicator_)) {}

ProcessRank::~ProcessRank() {
  if (leads_) {
    try {
      send(StepMessage::Kind::end, 0, {});
    } catch (const std::exception&) {  // the job has ended
    }
  }
}

void ProcessRank::send(StepMessage::Kind kind, std::int32_t mtp_block, const BatchPlan& batch) {
  StepMessage::write(kind, mtp_block, copies_, batch, bytes_);
  copies_.clear();
  std::uint64_t size = bytes_.size();
  processes_->broadcast(std::as_writable_bytes(std::span(&size, 1)));
  processes_->broadcast(bytes_);
}

void ProcessRank::receive(StepMessage& message) {
  std::uint64_t size = 0;
  processes_->broadcast(std::as_writable_bytes(std::span(&size, 1)));
  bytes_.resize(size);
  processes_->broadcast(bytes_);
  message.read(bytes_);
}

template <class Compute>
void ProcessRank::with_all(StepMessage::Kind kind, std::int32_t mtp_block, const BatchPlan& batch, const Compute& compute) {
  or_fail(*processes_, [&] {
    send(kind, mtp_block, batch);
    compute();
  });
}

void ProcessRank::copy_block(SequenceMemory& memory, std::int32_t group, std::int32_t from, std::int32_t to) {
  copies_.push_back({group, from, to});
  memory.copy_block(group, from, to);
}

void ProcessRank::forward(const BatchPlan& batch, SequenceMemory& memory) {
  with_all(StepMessage::Kind::forward, 0, batch, [&] { model_.forward(batch, memory); });
}

void ProcessRank::forward_mtp(std::int32_t block, const BatchPlan& batch, SequenceMemory& memory) {
  with_all(StepMessage::Kind::mtp, block, batch, [&] { model_.forward_mtp(block, batch, memory); });
}

std::vector<OperationTime> ProcessRank::time_operations(const BatchPlan& batch, SequenceMemory& memory) {
  std::vector<OperationTime> times;
  with_all(StepMessage::Kind::time, 0, batch, [&] { times = model_.time_operations(batch, memory); });
  return times;
}

void ProcessRank::follow(SequenceMemory& memory) {
  or_fail(*processes_, [&] {
    StepMessage message;
    for (receive(message); message.kind != StepMessage::Kind::end; receive(message)) {
      compute(message, memory);
    }
  });
}

void ProcessRank::compute(const StepMessage& message, SequenceMemory& memory) {
  for (const StepMessage::Copy& copy : message.copies) {
    memory.copy_block(copy.group, copy.from, copy.to);
  }
  switch (message.kind) {
    case StepMessage::Kind::forward:
      model_.forward(message.batch, memory);
      break;
    case StepMessage::Kind::mtp:
      model_.forward_mtp(message.mtp_block, message.batch, memory);
      break;
    case StepMessage::Kind::time:
      static_cast<void>(model_.time_operations(message.batch, memory));
      break;
    case StepMessage::Kind::end:
      break;
  }
}

}  // namespace rocmforge
