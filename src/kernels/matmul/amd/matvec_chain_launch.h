#pragma once

#include <optional>

#include "device/device.h"
#include "kernels/matmul/amd/matvec_args.h"
#include "kernels/rows/portable/held_norm.h"

namespace rocmforge::amd {

/// The kernel of matvec_packed.hip for a call that is a launch of its own.
[[nodiscard]] const Kernel<MatvecArgs>& packed_matvec_kernel(MatvecWay way);

/// The work-groups of several calls in one launch.
struct ChainShape {
  ChainShape();
  /// Puts a call of this shape behind the others.
  void add(const LaunchShape& call);

  ChainOrder order{};
  LaunchShape launch;
};

/// A call of one token, and the launch that it would be alone.
struct HeldProduct {
  MatvecWay way;
  MatvecArgs args;
  LaunchShape shape;
};

/// Calls that a stream holds back for one launch.
class HeldChain : public HeldLaunch, public gpu::TakesNorm {
 public:
  /// The product, where it is the only call. Nothing is held here any more then, and the caller launches it.
  virtual std::optional<HeldProduct> take_only() = 0;
  /// Takes in a call of one token that follows; false when it can't.
  virtual bool join(MatvecWay way, const MatvecArgs& call, const LaunchShape& shape) = 0;
  using gpu::TakesNorm::join;
};

/// Whether the stream may hold launches back, and the device has kernels for several in one.
[[nodiscard]] bool may_chain(const Stream& stream);

/// Puts a call of one token into the launch with the calls before it that the stream still holds back, or begins such a
/// launch (matvec_chain.h). False unless may_chain().
bool join_chain(MatvecWay way, const MatvecArgs& call, const LaunchShape& shape, Stream& stream);

}  // namespace rocmforge::amd
