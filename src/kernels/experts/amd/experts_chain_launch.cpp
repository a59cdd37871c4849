#include "kernels/experts/amd/experts_chain_launch.h"

#include <memory>

#include "kernels/matmul/amd/matvec_chain_launch.h"

namespace rocmforge::amd {
namespace {

static_assert(sizeof(ExpertChainArgs) <= 4096, "no launch takes more bytes of arguments");

constexpr Kernel<ExpertVectorArgs> gate_up{"experts_packed", "expert_packed_gate_up", LaunchOrder::by_kernel};
constexpr Kernel<ExpertVectorArgs> down{"experts_packed", "expert_packed_down", LaunchOrder::by_kernel};
constexpr Kernel<ExpertChainArgs> chain{"experts_packed", "expert_chain", LaunchOrder::by_kernel};
constexpr Kernel<ExpertChainArgs> chain_halves{"experts_packed", "expert_chain_halves", LaunchOrder::by_kernel};

/// Gate and up, down, and what follows them.
class ExpertChain final : public HeldChain {
 public:
  ExpertChain(const ExpertVectorArgs& first, const LaunchShape& shape) {
    args_.gate_up = first;
    shape_.add(shape);
  }

  bool join_down(const ExpertVectorArgs& call, const LaunchShape& shape) {
    if (shape_.order.count != 1) {
      return false;
    }
    args_.down = call;
    shape_.add(shape);
    return true;
  }

  bool join(MatvecWay way, const MatvecArgs& call, const LaunchShape& shape) override {
    if (shape_.order.count != 2) {
      return false;
    }
    args_.dense = call;
    way_ = way;
    shape_.add(shape);
    return true;
  }

  void put_on(Stream& stream) override {
    if (shape_.order.count == 1) {
      gate_up.launch(stream, shape_.launch, args_.gate_up);
      return;
    }
    args_.order = shape_.order;
    args_.order.counters = stream.counters();
    (way_ == MatvecWay::one_token_halves ? chain_halves : chain).launch(stream, shape_.launch, args_);
  }

 private:
  MatvecWay way_ = MatvecWay::one_token;  ///< of the dense call
  ExpertChainArgs args_{};
  ChainShape shape_;
};

}  // namespace

const Kernel<ExpertVectorArgs>& packed_expert_kernel(bool is_down) { return is_down ? down : gate_up; }

bool join_expert_chain(bool is_down, const ExpertVectorArgs& call, const LaunchShape& shape, Stream& stream) {
  if (!may_chain(stream)) {
    return false;
  }
  if (is_down) {
    auto* const held = dynamic_cast<ExpertChain*>(stream.held());
    return held != nullptr && held->join_down(call, shape);
  }
  stream.hold(std::make_unique<ExpertChain>(call, shape));
  return true;
}

}  // namespace rocmforge::amd
