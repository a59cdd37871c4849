#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/all_reduce.h"

namespace rocmforge {

/// What joins the ranks that share a model, as one of them sees it. All ranks make the same calls in the same order, on
/// arrays of the same sizes; a call returns when the arrays may be used again. It throws what another rank has thrown in the
/// meantime, so that none waits for ever.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual std::int32_t rank() const = 0;
  [[nodiscard]] virtual std::int32_t ranks() const = 0;

  struct Sum {
    const float* part = nullptr;  ///< [count], of this rank
    std::int64_t count = 0;
    float* out = nullptr;  ///< [count], not a part
    bool add = false;
  };
  /// The sum of all parts, computed by `kernel`, an implementation that reads them where they lie.
  virtual void all_reduce(const AllReduce::Spec& spec, const OpKernel<AllReduce>& kernel, const Sum& sum,
                          ExecutionContext& context) = 0;
  /// Rows whose columns the ranks have in their order: `part` [rows, widths[rank]] of each becomes `out` [rows, sum of
  /// widths]. Ranks that do not want it have no `out`.
  virtual void gather(const float* part, std::int64_t rows, std::span<const std::int64_t> widths, float* out) = 0;
  /// Copies `data` of rank 0 to all others.
  virtual void broadcast(void* data, std::size_t size_bytes) = 0;
};

/// Whether a rank does what only one does: it has all logits, draws from them, and notes and warns for all. A model without
/// a communicator is its only rank.
inline bool is_first_rank(const Communicator* communicator) { return communicator == nullptr || communicator->rank() == 0; }

}  // namespace rocmforge
