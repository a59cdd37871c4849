#include "models/step/process_communicator.h"

#include <algorithm>

namespace rocmforge {
namespace {

std::span<const std::byte> bytes_of(const float* data, std::int64_t count) {
  return std::as_bytes(std::span(data, static_cast<std::size_t>(count)));
}

}  // namespace

void ProcessCommunicator::all_reduce(const AllReduce::Spec& spec, const OpKernel<AllReduce>& kernel, const Sum& sum,
                                     ExecutionContext& context) {
  parts_.resize(std::max(parts_.size(), static_cast<std::size_t>(ranks() * sum.count)));
  const std::span<float> parts = std::span(parts_).first(static_cast<std::size_t>(ranks() * sum.count));
  processes_->gather_on_all(bytes_of(sum.part, sum.count), std::as_writable_bytes(parts));
  AllReduce::Args args{.count = sum.count, .out = sum.out, .add = sum.add};
  for (std::int32_t rank = 0; rank < ranks(); ++rank) {
    args.parts[static_cast<std::size_t>(rank)] = parts_.data() + rank * sum.count;
  }
  kernel.run(spec, args, context);
}

void ProcessCommunicator::gather(const float* part, std::int64_t rows, std::span<const std::int64_t> widths,
                                 Receivers receivers, float* out) {
  const std::int32_t last = receivers == Receivers::all ? ranks() : 1;
  for (std::int32_t to = 0; to < last; ++to) {
    if (to != rank()) {
      processes_->send(to, bytes_of(part, rows * widths[static_cast<std::size_t>(rank())]));
      continue;
    }
    place_columns(part, rows, widths, static_cast<std::size_t>(rank()), out);
    for (std::int32_t from = 0; from < ranks(); ++from) {
      if (from != rank()) {
        parts_.resize(std::max(parts_.size(), static_cast<std::size_t>(rows * widths[static_cast<std::size_t>(from)])));
        const auto count = static_cast<std::size_t>(rows * widths[static_cast<std::size_t>(from)]);
        processes_->receive(from, std::as_writable_bytes(std::span(parts_).first(count)));
        place_columns(parts_.data(), rows, widths, static_cast<std::size_t>(from), out);
      }
    }
  }
}

void ProcessCommunicator::broadcast(void* data, std::size_t size_bytes) {
  processes_->broadcast({static_cast<std::byte*>(data), size_bytes});
}

}  // namespace rocmforge
