#include "kernels/matmul/amd/matvec_chain_launch.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>

#include "kernels/launch/amd/architectures.h"

namespace rocmforge::amd {
namespace {

static_assert(most_chained <= static_cast<int>(Stream::most_counters));
static_assert(sizeof(MatvecChainArgs) <= 4096, "no launch takes more bytes of arguments");

/// By MatvecWay.
constexpr std::array<Kernel<MatvecArgs>, 4> kernels{{{"matvec_packed", "matvec_packed_8", LaunchOrder::by_kernel},
                                                     {"matvec_packed", "matvec_packed_1", LaunchOrder::by_kernel},
                                                     {"matvec_packed", "matvec_packed_1_halves", LaunchOrder::by_kernel},
                                                     {"matvec_packed", "matvec_packed_8_matrix", LaunchOrder::by_kernel}}};
constexpr Kernel<MatvecChainArgs> chain{"matvec_packed", "matvec_chain", LaunchOrder::by_kernel};
constexpr Kernel<MatvecChainArgs> chain_halves{"matvec_packed", "matvec_chain_halves", LaunchOrder::by_kernel};

/// Calls for one launch.
class MatvecChain final : public HeldLaunch {
 public:
  MatvecChain(MatvecWay way, std::uint32_t* counters) : way_(way) {
    args_.counters = counters;
    std::ranges::fill(args_.ends, std::numeric_limits<std::int32_t>::max());
  }

  /// Whether there is room for another call of this kind.
  [[nodiscard]] bool takes(MatvecWay way) const { return way == way_ && args_.count < most_chained; }

  void add(const MatvecArgs& call, const LaunchShape& shape) {
    const std::uint32_t before = shape_.grid[0];
    shape_.grid[0] = (args_.count == 0 ? 0 : before) + shape.grid[0];
    shape_.block = shape.block;
    shape_.shared_bytes = std::max(shape_.shared_bytes, shape.shared_bytes);
    args_.ends[args_.count] = static_cast<std::int32_t>(shape_.grid[0]);
    args_.calls[args_.count++] = call;
  }

  void put_on(Stream& stream) override {
    if (args_.count == 1) {
      packed_matvec_kernel(way_).launch(stream, shape_, args_.calls[0]);
    } else {
      (way_ == MatvecWay::one_token_halves ? chain_halves : chain).launch(stream, shape_, args_);
    }
  }

 private:
  MatvecWay way_;
  MatvecChainArgs args_{};
  LaunchShape shape_;
};

}  // namespace

const Kernel<MatvecArgs>& packed_matvec_kernel(MatvecWay way) { return kernels[static_cast<std::size_t>(way)]; }

bool join_chain(MatvecWay way, const MatvecArgs& call, const LaunchShape& shape, Stream& stream) {
  std::uint32_t* const counters = stream.counters();
  if (counters == nullptr || !stream.may_hold() || !merges_launches(stream.device().info())) {
    return false;
  }
  auto* held = dynamic_cast<MatvecChain*>(stream.held());
  if (held == nullptr || !held->takes(way)) {
    auto fresh = std::make_unique<MatvecChain>(way, counters);
    held = fresh.get();
    held->add(call, shape);
    stream.hold(std::move(fresh));
  } else {
    held->add(call, shape);
  }
  return true;
}

}  // namespace rocmforge::amd
