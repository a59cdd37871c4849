#include "kernels/matmul/amd/matvec_chain_launch.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <utility>

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

/// Whether the chain's norm reads the row as it lies, four elements at once.
bool fits(const gpu::RmsNormArgs& norm) {
  const auto aligned = [](const float* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; };
  return norm.dim % 4 == 0 && norm.dim <= std::numeric_limits<std::int32_t>::max() && aligned(norm.x) && aligned(norm.weight) &&
         aligned(norm.out) && aligned(norm.residual);
}

/// Products of dense weights, and norms behind them.
class MatvecChain final : public HeldChain {
 public:
  explicit MatvecChain(MatvecWay way) : way_(way) {}

  bool join(MatvecWay way, const MatvecArgs& call, const LaunchShape& shape) override {
    if (way != way_ || shape_.order.count == most_chained) {
      return false;
    }
    args_.calls[shape_.order.count] = call;
    shape_.add(shape);
    return true;
  }

  bool join(const gpu::RmsNormArgs& norm, std::uint32_t threads) override {
    if (shape_.order.count == 0 || shape_.order.count == most_chained || norms_ == most_chained_norms || !fits(norm)) {
      return false;
    }
    args_.norms[norms_++] = {.norm = norm, .threads = static_cast<std::int32_t>(threads), .unused = 0};
    args_.norm_calls |= 1u << static_cast<std::uint32_t>(shape_.order.count);
    LaunchShape shape;
    shape.block[0] = matvec_threads;
    shape.shared_bytes = chained_norm_bytes;
    shape_.add(shape);
    return true;
  }

  std::optional<HeldProduct> take_only() override {
    if (shape_.order.count != 1) {
      return std::nullopt;
    }
    return HeldProduct{way_, args_.calls[0], std::exchange(shape_, ChainShape()).launch};
  }

  void put_on(Stream& stream) override {
    if (shape_.order.count == 0) {
      return;
    }
    if (shape_.order.count == 1) {
      packed_matvec_kernel(way_).launch(stream, shape_.launch, args_.calls[0]);
      return;
    }
    args_.order = shape_.order;
    args_.order.counters = stream.counters();
    (way_ == MatvecWay::one_token_halves ? chain_halves : chain).launch(stream, shape_.launch, args_);
  }

 private:
  MatvecWay way_;
  MatvecChainArgs args_{};
  int norms_ = 0;
  ChainShape shape_;
};

}  // namespace

const Kernel<MatvecArgs>& packed_matvec_kernel(MatvecWay way) { return kernels[static_cast<std::size_t>(way)]; }

ChainShape::ChainShape() { std::ranges::fill(order.ends, std::numeric_limits<std::int32_t>::max()); }

void ChainShape::add(const LaunchShape& call) {
  const std::uint32_t before = order.count == 0 ? 0 : launch.grid[0];
  launch.grid[0] = before + call.grid[0];
  launch.block = call.block;
  launch.shared_bytes = std::max(launch.shared_bytes, call.shared_bytes);
  order.ends[order.count++] = static_cast<std::int32_t>(launch.grid[0]);
}

bool may_chain(const Stream& stream) {
  return stream.counters() != nullptr && stream.may_hold() && merges_launches(stream.device().info());
}

bool join_chain(MatvecWay way, const MatvecArgs& call, const LaunchShape& shape, Stream& stream) {
  if (!may_chain(stream)) {
    return false;
  }
  auto* const held = dynamic_cast<HeldChain*>(stream.held());
  if (held == nullptr || !held->join(way, call, shape)) {
    auto fresh = std::make_unique<MatvecChain>(way);
    fresh->join(way, call, shape);
    stream.hold(std::move(fresh));
  }
  return true;
}

}  // namespace rocmforge::amd
