#include <algorithm>

#include "kernels/launch/gpu_kernel.h"
#include "kernels/rows/kernels.h"
#include "kernels/rows/portable/ranks_args.h"

namespace rocmforge {
namespace {

constexpr Kernel<gpu::AllReduceArgs> all_reduce_kernel{"ranks", "all_reduce", LaunchOrder::by_kernel};
constexpr Kernel<gpu::RankExchangeArgs> rank_exchange_kernel{"ranks", "rank_exchange", LaunchOrder::by_kernel};

static_assert(gpu::most_exchanging_ranks == AllReduce::most_ranks);
static_assert(RankExchange::box_bytes(1) ==
              2 * RankExchange::groups * RankExchange::elements_of_group * sizeof(gpu::BoxElement));

/// Whether each rank adds a slice of the elements for all. Then each element passes each link twice, in place of ranks - 1
/// times; its way takes some 2 us more, in which a link moves so many bytes.
bool is_in_slices(std::int64_t ranks, std::int64_t count) {
  constexpr std::int64_t bytes_of_second_way = 512 << 10;
  const std::int64_t spared = (ranks - 1) * (ranks - 2) * count / ranks * static_cast<std::int64_t>(sizeof(gpu::BoxElement));
  return spared >= bytes_of_second_way;
}

class GpuAllReduce final : public PortableGpuKernel<AllReduce> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const AllReduce::Spec& spec, const AllReduce::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    if (args.count == 0) {
      return;
    }
    gpu::AllReduceArgs call{.parts = {}, .out = args.out, .count = args.count, .ranks = spec.ranks, .add = args.add ? 1 : 0};
    std::copy_n(args.parts.begin(), spec.ranks, call.parts);
    constexpr std::uint32_t threads = 256;
    all_reduce_kernel.launch(*context.stream, launch_of(divide_up(args.count, std::int64_t{threads}), threads), call);
  }
};

class GpuRankExchange final : public PortableGpuKernel<RankExchange> {
 public:
  using PortableGpuKernel::PortableGpuKernel;

  void run(const RankExchange::Spec& spec, const RankExchange::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    gpu::RankExchangeArgs call = arguments(spec, args);
    const std::int64_t most = args.rows * *std::max_element(args.widths.begin(), args.widths.begin() + spec.ranks);
    const bool in_slices = args.kind == RankExchange::Kind::sum && is_in_slices(spec.ranks, most);
    // A slice and its sum lie behind each other in a place.
    const std::int64_t at_most = in_slices ? RankExchange::elements_of_launch / 2 * spec.ranks : RankExchange::elements_of_launch;
    std::int64_t first = 0;
    do {  // also without elements: the others wait for this rank
      const std::int64_t count = std::min(most - first, at_most);
      call.first = static_cast<std::uint32_t>(first);
      launch(call, count, in_slices, *context.stream);
      first += count;
    } while (first < most);
  }

 private:
  static gpu::RankExchangeArgs arguments(const RankExchange::Spec& spec, const RankExchange::Args& args) {
    gpu::RankExchangeArgs call{};
    call.part = reinterpret_cast<const std::uint32_t*>(args.part);
    call.out = reinterpret_cast<std::uint32_t*>(args.out);
    call.rounds = args.mail.rounds;
    call.given_up = args.mail.given_up;
    call.elements_of_group = RankExchange::elements_of_group;
    call.rank = args.rank;
    call.ranks = spec.ranks;
    call.gathers = args.kind == RankExchange::Kind::gather ? 1 : 0;
    call.to_first = args.receivers == RankExchange::Receivers::first ? 1 : 0;
    call.add = args.add ? 1 : 0;
    for (std::int32_t rank = 0; rank < spec.ranks; ++rank) {
      const auto index = static_cast<std::size_t>(rank);
      call.boxes[rank] = static_cast<gpu::BoxElement*>(args.mail.boxes[index]);
      call.widths[rank] = static_cast<std::uint32_t>(args.widths[index]);
      call.counts[rank] = static_cast<std::uint32_t>(args.rows * args.widths[index]);
    }
    return call;
  }

  /// Few elements are spread over work-groups of one store a thread to each rank, as a store's way takes the longest.
  static void launch(gpu::RankExchangeArgs& call, std::int64_t count, bool in_slices, Stream& stream) {
    constexpr std::int64_t threads = 512;
    const std::int64_t at_once = 2 * threads * (in_slices ? call.ranks : 1);
    const std::int64_t groups = std::clamp<std::int64_t>(divide_up(count, at_once), 1, RankExchange::groups);
    const std::int64_t multiple = in_slices ? 2 * call.ranks : 2;
    const std::int64_t chunk = round_up(divide_up(std::max<std::int64_t>(count, 1), groups), multiple);
    call.chunk = static_cast<std::uint32_t>(chunk);
    call.slice = in_slices ? static_cast<std::uint32_t>(chunk / call.ranks) : 0;
    rank_exchange_kernel.launch(stream, launch_of(groups, static_cast<std::uint32_t>(threads)), call);
  }
};

}  // namespace

std::unique_ptr<OpKernel<AllReduce>> make_gpu_all_reduce(DeviceKind kind) { return std::make_unique<GpuAllReduce>(kind); }

std::unique_ptr<OpKernel<RankExchange>> make_gpu_rank_exchange(DeviceKind kind) {
  return std::make_unique<GpuRankExchange>(kind);
}

}  // namespace rocmforge
