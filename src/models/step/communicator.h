#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
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

  /// The beginning of a step's work, unless it is replayed, once the memory that it needs is allocated.
  virtual void begin_work() {}

  struct Sum {
    const float* part = nullptr;  ///< [count], of this rank
    std::int64_t count = 0;
    float* out = nullptr;  ///< [count], not a part
    bool add = false;
  };
  /// The sum of all parts, computed by `kernel`, an implementation that reads them where they lie.
  virtual void all_reduce(const AllReduce::Spec& spec, const OpKernel<AllReduce>& kernel, const Sum& sum,
                          ExecutionContext& context) = 0;

  /// The rows from which on it pays to compute a prompt's step in two halves, so that sums of rows of `width` cross the
  /// links beside products; 0: it never does.
  [[nodiscard]] virtual std::int64_t halves_from(std::int64_t /*width*/) const { return 0; }
  /// A sum of one half of a step, which may be computed beside what the rank does until it calls finish_sum(). The part must
  /// stay as it is until then, and `out` is not touched before.
  struct HalfSum {
    AllReduce::Spec spec{};
    const OpKernel<AllReduce>* kernel = nullptr;
    Sum sum{};
  };
  virtual void begin_sum(std::size_t half, const HalfSum& sum) { begun_.at(half) = sum; }
  virtual void finish_sum(std::size_t half, ExecutionContext& context) {
    const HalfSum& begun = begun_.at(half);
    all_reduce(begun.spec, *begun.kernel, begun.sum, context);
  }

  enum class Receivers { first, all };
  /// Rows whose columns the ranks have in their order: `part` [rows, widths[rank]] of each becomes `out` [rows, sum of
  /// widths] on the receivers; on rank 0 alone, the others have no `out`.
  virtual void gather(const float* part, std::int64_t rows, std::span<const std::int64_t> widths, Receivers receivers,
                      float* out) = 0;
  /// Copies `data` of rank 0 to all others.
  virtual void broadcast(void* data, std::size_t size_bytes) = 0;

 protected:
  [[nodiscard]] const HalfSum& begun(std::size_t half) const { return begun_.at(half); }
  [[nodiscard]] bool receives(Receivers receivers) const { return receivers == Receivers::all || rank() == 0; }
  /// Copies the columns of `rank` to their place in the rows of all.
  static void place_columns(const float* part, std::int64_t rows, std::span<const std::int64_t> widths, std::size_t rank,
                            float* out) {
    const std::int64_t width = std::accumulate(widths.begin(), widths.end(), std::int64_t{0});
    const auto own = static_cast<std::ptrdiff_t>(rank);
    float* const column = out + std::accumulate(widths.begin(), widths.begin() + own, std::int64_t{0});
    for (std::int64_t row = 0; row < rows; ++row) {
      std::copy_n(part + row * widths[rank], widths[rank], column + row * width);
    }
  }

 private:
  std::array<HalfSum, 2> begun_{};
};

/// Whether a rank does what only one does: it has all logits, draws from them, and notes and warns for all. A model without
/// a communicator is its only rank.
inline bool is_first_rank(const Communicator* communicator) { return communicator == nullptr || communicator->rank() == 0; }

}  // namespace rocmforge
