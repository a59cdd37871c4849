#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "ops/registry.h"
#include "tensor/dtype.h"

namespace rocmforge {

/// What kernels of all products with weights have in common. `Op::Spec` says one matrix: `weight`, the type of the file's
/// rows, and `n` rows of `k` elements. An operation multiplies with one (Matmul), with those of chosen experts
/// (ExpertMatmul), or with one for each head (HeadMatmul).
template <class Op>
class PackedProduct : public RegisteredKernel<Op> {
 public:
  using Spec = typename Op::Spec;

  /// Bytes of a repacked matrix, a multiple of 64; 0 where the kernel reads the file's rows: then no copy is made for it.
  [[nodiscard]] virtual std::size_t packed_bytes(const Spec& /*spec*/) const { return 0; }
  /// Repacks the `rows` [n, k] of one matrix, as the file stores them, into `packed` (64-byte aligned, packed_bytes long).
  /// Runs once for each, at load; writes nothing where packed_bytes is 0.
  virtual void pack(const Spec& /*spec*/, const void* /*rows*/, void* /*packed*/, ExecutionContext& /*context*/) const {}

  /// Bytes of one matrix as run() reads it: repacked, or the file's rows.
  [[nodiscard]] std::size_t stored_bytes(const Spec& spec) const {
    const std::size_t packed = packed_bytes(spec);
    return packed > 0 ? packed : static_cast<std::size_t>(spec.n) * row_bytes(spec.weight, spec.k);
  }
  /// Writes one matrix as run() reads it: repacked, or a copy of the rows. `to` is as of pack, stored_bytes long.
  void store(const Spec& spec, const void* rows, void* to, ExecutionContext& context) const {
    if (packed_bytes(spec) > 0) {
      pack(spec, rows, to, context);
    } else {
      std::memcpy(to, rows, stored_bytes(spec));
    }
  }

  /// A token's result has the same bits in all calls with up to this many tokens: sums then depend on k alone. More may be
  /// summed in another order, and with activations of 16 bits.
  [[nodiscard]] virtual std::int64_t few_tokens() const { return std::numeric_limits<std::int64_t>::max(); }
};

}  // namespace rocmforge
