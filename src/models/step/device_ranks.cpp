#include "models/step/device_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/math.h"

namespace rocmforge {

DeviceRanks::DeviceRanks(std::int32_t ranks, const KernelRegistry& registry, const DeviceInfo& device)
    : hosts_(ranks), spec_{ranks}, kernel_(registry.choose<RankExchange>(spec_, device).kernel) {}

void DeviceRanks::open(std::vector<Device*> devices, std::span<const char* const> library_names,
                       std::int64_t half_elements) {
  check(std::ssize(devices) == spec_.ranks && boxes_.empty(), "each rank gets a GPU, once");
  devices_ = std::move(devices);
  const std::string no_peers = enable_peer_access(devices_);
  const DeviceInfo& info = devices_[0]->info();
  if (!library_names.empty() || info.vendor_runtime) {
    try {
      library_.emplace(devices_, library_names.empty() ? CollectiveLibrary::names_of(info.kind) : library_names);
    } catch (const Error& error) {
      if (!no_peers.empty()) {
        throw Error(fmt::format("ranks can't exchange: {}, and {}", no_peers, error.what()));
      }
      log_warning("large sums over GPUs take longer: {}", error.what());
    }
  }
  if (!no_peers.empty()) {
    log_warning("sums over GPUs go through the host's memory and take longer: {}", no_peers);
    large_from_ = large_sum_bytes_by_host;
  } else if (half_elements > 0) {
    half_sums_.emplace(devices_, half_elements);
  }
  const PeerBuffer::Place place = no_peers.empty() ? PeerBuffer::Place::device : PeerBuffer::Place::host;
  for (Device* const device : devices_) {
    boxes_.push_back(std::make_unique<PeerBuffer>(*device, place, RankExchange::box_bytes(spec_.ranks)));
    rounds_.push_back(device->allocate(RankExchange::groups * sizeof(std::uint32_t), "the exchange of ranks"));
    given_up_.push_back(std::make_unique<PeerFlag>(*device));
  }
}

std::int64_t DeviceRanks::halves_from(std::int64_t width) const {
  if (!devices_.empty() && !half_sums_) {
    return 0;
  }
  const std::int64_t row_bytes = width * static_cast<std::int64_t>(sizeof(float));
  return std::max(halved_rows, divide_up(static_cast<std::int64_t>(halved_sum_bytes), row_bytes));
}

void DeviceRanks::begin_step() {
  hosts_.begin_step();
  if (!failed_.exchange(false)) {
    return;
  }
  const auto on_all = [this](const auto& act) {
    for (std::size_t rank = 0; rank < devices_.size(); ++rank) {
      act(rank);
    }
  };
  // The ranks may have stopped at different calls: all begin anew, once no kernel uses the memory.
  on_all([this](std::size_t rank) { devices_[rank]->stream().synchronize(); });
  on_all([this](std::size_t rank) {
    boxes_[rank]->clear();
    devices_[rank]->stream().fill(rounds_[rank].data(), 0, rounds_[rank].size_bytes());
    devices_[rank]->stream().synchronize();
    given_up_[rank]->set(0);
  });
}

void DeviceRanks::fail(std::exception_ptr failure) {
  failed_ = true;
  hosts_.fail(std::move(failure));
  for (const auto& flag : given_up_) {
    flag->set(1);
  }
}

std::unique_ptr<Communicator> DeviceRanks::communicator(std::int32_t rank) {
  return std::make_unique<DeviceCommunicator>(*this, rank);
}

void DeviceRanks::exchange(std::int32_t rank, RankExchange::Args args) {
  args.rank = rank;
  for (std::size_t other = 0; other < boxes_.size(); ++other) {
    args.mail.boxes[other] = boxes_[other]->data();
  }
  args.mail.rounds = rounds_[static_cast<std::size_t>(rank)].as<std::uint32_t>();
  args.mail.given_up = given_up_[static_cast<std::size_t>(rank)]->address();
  ExecutionContext context{.stream = &device(rank).stream()};
  kernel_->run(spec_, args, context);
}

void DeviceCommunicator::all_reduce(const AllReduce::Spec& spec, const OpKernel<AllReduce>& kernel, const Sum& sum,
                                    ExecutionContext& context) {
  if (!ranks_->is_large(sum.count)) {
    RankExchange::Args args{.part = sum.part, .out = sum.out, .add = sum.add};
    std::fill_n(args.widths.begin(), spec.ranks, sum.count);
    ranks_->exchange(rank_, args);
    return;
  }
  float* const part = const_cast<float*>(sum.part);  // no longer needed as it is
  ranks_->library().sum(rank_, sum.part, sum.add ? part : sum.out, sum.count, *context.stream);
  if (sum.add) {
    kernel.run({.ranks = 1}, {.parts = {part}, .count = sum.count, .out = sum.out, .add = true}, context);
  }
}

void DeviceCommunicator::begin_sum(std::size_t half, const HalfSum& half_sum) {
  Communicator::begin_sum(half, half_sum);
  if (PeerSums* const sums = ranks_->half_sums()) {
    sums->begin(rank_, half, half_sum.sum.part, half_sum.sum.count, *half_sum.kernel, [this] { ranks_->meet(rank_); });
  }
}

void DeviceCommunicator::finish_sum(std::size_t half, ExecutionContext& context) {
  PeerSums* const sums = ranks_->half_sums();
  if (sums == nullptr) {
    Communicator::finish_sum(half, context);
    return;
  }
  const float* const all = sums->finish(rank_, half, [this] { ranks_->meet(rank_); });
  const HalfSum& done = begun(half);
  done.kernel->run({.ranks = 1}, {.parts = {all}, .count = done.sum.count, .out = done.sum.out, .add = done.sum.add},
                   context);
}

void DeviceCommunicator::gather(const float* part, std::int64_t rows, std::span<const std::int64_t> widths,
                                Receivers receivers, float* out) {
  RankExchange::Args args{.kind = RankExchange::Kind::gather, .part = part, .rows = rows, .out = out};
  std::ranges::copy(widths, args.widths.begin());
  args.receivers = receivers == Receivers::all ? RankExchange::Receivers::all : RankExchange::Receivers::first;
  ranks_->exchange(rank_, args);
}

/// Rows whose columns are all of rank 0.
void DeviceCommunicator::broadcast(void* data, std::size_t size_bytes) {
  check(size_bytes % sizeof(float) == 0, "ranks exchange 32-bit elements");
  auto* const elements = static_cast<float*>(data);
  RankExchange::Args args{
      .kind = RankExchange::Kind::gather, .part = rank_ == 0 ? elements : nullptr, .out = rank_ == 0 ? nullptr : elements};
  args.widths[0] = static_cast<std::int64_t>(size_bytes / sizeof(float));
  ranks_->exchange(rank_, args);
}

}  // namespace rocmforge
