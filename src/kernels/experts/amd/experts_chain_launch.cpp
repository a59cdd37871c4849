#include "kernels/experts/amd/experts_chain_launch.h"

#include <memory>
#include <optional>

#include "kernels/experts/portable/route_rows.h"
#include "kernels/matmul/amd/matvec_chain_launch.h"

namespace rocmforge::amd {
namespace {

static_assert(sizeof(ExpertChainArgs) <= 4096, "no launch takes more bytes of arguments");

constexpr Kernel<ExpertVectorArgs> gate_up{"experts_packed", "expert_packed_gate_up", LaunchOrder::by_kernel};
constexpr Kernel<ExpertVectorArgs> down{"experts_packed", "expert_packed_down", LaunchOrder::by_kernel};
constexpr Kernel<ExpertChainArgs> chain{"experts_packed", "expert_chain", LaunchOrder::by_kernel};
constexpr Kernel<ExpertChainArgs> chain_halves{"experts_packed", "expert_chain_halves", LaunchOrder::by_kernel};

/// A token's experts with the calls before and behind them: each call joins the one that stands before it in ExpertCall.
class ExpertChain final : public HeldChain {
 public:
  /// Attention's output begins the launch.
  void begin(const HeldProduct& product) {
    args_.products[0] = product.args;
    way_ = product.way;
    add(ExpertCall::output, product.shape);
  }
  /// The router begins it, or joins the output.
  void add(const RouteLaunch& route) {
    args_.route = route.chained;
    alone_ = route;
    add(ExpertCall::route, route.chained_shape);
  }
  /// Gate and up begin it.
  void begin(const ExpertVectorArgs& gate_up, const LaunchShape& shape) {
    args_.gate_up = gate_up;
    add(ExpertCall::gate_up, shape);
  }

  bool join_experts(bool down, const ExpertVectorArgs& call, const LaunchShape& shape) {
    if (last_ != (down ? ExpertCall::gate_up : ExpertCall::route)) {
      return false;
    }
    (down ? args_.down : args_.gate_up) = call;
    add(down ? ExpertCall::down : ExpertCall::gate_up, shape);
    return true;
  }

  bool join(MatvecWay way, const MatvecArgs& call, const LaunchShape& shape) override {
    if (last_ != ExpertCall::down || way_.value_or(way) != way) {
      return false;
    }
    args_.products[1] = call;
    way_ = way;
    add(ExpertCall::dense, shape);
    return true;
  }

  /// A norm is no call of such a launch.
  bool join(const gpu::RmsNormArgs&, std::uint32_t) override { return false; }

  std::optional<HeldProduct> take_only() override { return std::nullopt; }

  void put_on(Stream& stream) override {
    if (shape_.order.count > 1) {
      args_.order = shape_.order;
      args_.order.counters = stream.counters();
      (way_ == MatvecWay::one_token_halves ? chain_halves : chain).launch(stream, shape_.launch, args_);
    } else if (args_.first == ExpertCall::route) {
      gpu::route_rows_kernel().launch(stream, alone_.alone_shape, alone_.alone);
    } else {
      gate_up.launch(stream, shape_.launch, args_.gate_up);
    }
  }

 private:
  void add(ExpertCall call, const LaunchShape& shape) {
    if (shape_.order.count == 0) {
      args_.first = call;
    }
    last_ = call;
    shape_.add(shape);
  }

  std::optional<MatvecWay> way_;  ///< of the dense calls
  ExpertCall last_{};
  RouteLaunch alone_{};
  ExpertChainArgs args_{};
  ChainShape shape_;
};

}  // namespace

const Kernel<ExpertVectorArgs>& packed_expert_kernel(bool is_down) { return is_down ? down : gate_up; }

bool join_expert_chain(bool is_down, const ExpertVectorArgs& call, const LaunchShape& shape, Stream& stream) {
  if (!may_chain(stream)) {
    return false;
  }
  auto* const held = dynamic_cast<ExpertChain*>(stream.held());
  if (held != nullptr && held->join_experts(is_down, call, shape)) {
    return true;
  }
  if (is_down) {
    return false;
  }
  auto fresh = std::make_unique<ExpertChain>();
  fresh->begin(call, shape);
  stream.hold(std::move(fresh));
  return true;
}

bool join_expert_chain(const RouteLaunch& route, Stream& stream) {
  if (!may_chain(stream)) {
    return false;
  }
  auto fresh = std::make_unique<ExpertChain>();
  if (auto* const held = dynamic_cast<HeldChain*>(stream.held()); held != nullptr) {
    if (const std::optional<HeldProduct> product = held->take_only()) {
      fresh->begin(*product);
    }
  }
  fresh->add(route);
  stream.hold(std::move(fresh));
  return true;
}

}  // namespace rocmforge::amd
