#include "models/step/peer_sums.h"

#include <algorithm>

#include "base/error.h"
#include "base/math.h"

namespace rocmforge {
namespace {

/// Slices begin where copies and kernels take whole cache lines.
constexpr std::int64_t slice_step = 64;

std::int64_t largest_slice(std::int32_t ranks, std::int64_t elements) {
  return round_up(divide_up(elements, std::int64_t{ranks}), slice_step);
}

std::size_t parts_bytes(std::int32_t ranks, std::int64_t most_elements) {
  return static_cast<std::size_t>(ranks * largest_slice(ranks, most_elements)) * sizeof(float);
}

std::size_t sums_bytes(std::int64_t most_elements) { return static_cast<std::size_t>(most_elements) * sizeof(float); }

void copy(Stream& stream, float* to, const float* from, std::int64_t count) {
  if (count > 0) {
    stream.copy_on_device(to, from, static_cast<std::size_t>(count) * sizeof(float));
  }
}

}  // namespace

PeerSums::Pending::Pending(Device& device, std::int32_t ranks, std::int64_t most_elements)
    : parts(device.allocate(parts_bytes(ranks, most_elements), "sums of ranks")),
      sums(device.allocate(sums_bytes(most_elements), "sums of ranks")),
      sent(device),
      told(device) {}

PeerSums::OfRank::OfRank(Device& of_rank, std::int32_t ranks, std::int64_t most_elements)
    : device(&of_rank),
      copies(of_rank),
      made(of_rank),
      pending{Pending(of_rank, ranks, most_elements), Pending(of_rank, ranks, most_elements)} {
  copies.allow_overlap(false);  // its kernels follow copies and other streams' events
}

PeerSums::PeerSums(std::span<Device* const> devices, std::int64_t most_elements)
    : most_elements_(most_elements), slice_(largest_slice(static_cast<std::int32_t>(devices.size()), most_elements)) {
  for (Device* const device : devices) {
    ranks_.push_back(std::make_unique<OfRank>(*device, static_cast<std::int32_t>(devices.size()), most_elements));
  }
}

PeerSums::~PeerSums() {
  for (const auto& rank : ranks_) {
    try {
      rank->copies.synchronize();
    } catch (const Error&) {  // the device has failed
    }
  }
}

std::size_t PeerSums::device_bytes(std::int32_t ranks, std::int64_t most_elements) {
  return at_once * (parts_bytes(ranks, most_elements) + sums_bytes(most_elements));
}

PeerSums::Slice PeerSums::slice_of(std::size_t rank, std::int64_t count) const {
  const std::int64_t slice = largest_slice(static_cast<std::int32_t>(ranks_.size()), count);
  const std::int64_t first = std::min(count, static_cast<std::int64_t>(rank) * slice);
  return {first, std::min(slice, count - first)};
}

void PeerSums::begin(std::int32_t rank, std::size_t place, const float* part, std::int64_t count,
                     const OpKernel<AllReduce>& kernel, const Meet& meet) {
  check(count <= most_elements_, "a sum has its place");
  const auto self = static_cast<std::size_t>(rank);
  const std::size_t ranks = ranks_.size();
  OfRank& own = *ranks_[self];
  Pending& pending = own.pending.at(place);
  own.device->stream().record(own.made);
  own.copies.wait(own.made);
  // Each begins with the rank behind it, so that none gets all copies at once.
  const auto to_others = [&](const auto& copy_to) {
    for (std::size_t turn = 1; turn < ranks; ++turn) {
      const std::size_t other = (self + turn) % ranks;
      copy_to(other, ranks_[other]->pending.at(place));
    }
  };
  to_others([&](std::size_t other, Pending& to) {
    const Slice slice = slice_of(other, count);
    copy(own.copies, to.parts.as<float>() + rank * slice_, part + slice.first, slice.count);
  });
  own.copies.record(pending.sent);
  meet();  // an event that is waited for must have been recorded
  const Slice slice = slice_of(self, count);
  float* const sums = pending.sums.as<float>() + slice.first;
  AllReduce::Args args{.count = slice.count, .out = sums};
  for (std::size_t other = 0; other < ranks; ++other) {
    const bool is_own = other == self;
    args.parts[other] = is_own ? part + slice.first : pending.parts.as<float>() + static_cast<std::int64_t>(other) * slice_;
    if (!is_own) {
      own.copies.wait(ranks_[other]->pending.at(place).sent);
    }
  }
  ExecutionContext context{.stream = &own.copies};
  kernel.run({static_cast<std::int32_t>(ranks)}, args, context);
  to_others([&](std::size_t, Pending& to) { copy(own.copies, to.sums.as<float>() + slice.first, sums, slice.count); });
  own.copies.record(pending.told);
}

const float* PeerSums::finish(std::int32_t rank, std::size_t place, const Meet& meet) {
  OfRank& own = *ranks_[static_cast<std::size_t>(rank)];
  meet();
  for (const auto& other : ranks_) {
    own.device->stream().wait(other->pending.at(place).told);
  }
  return own.pending.at(place).sums.as<float>();
}

}  // namespace rocmforge
