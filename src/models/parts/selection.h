#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/dtype.h"

namespace rocmforge {

/// Neighbouring elements of an axis.
struct Range {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// The rows or columns of a tensor that a weight has, in their new order: a rank of several has its heads or features, and
/// an interleaved tensor is put in order.
struct Selection {
  std::int64_t of = 0;          ///< elements of the tensor's axis; 0: the weight has all of them in their order
  std::vector<Range> ranges{};  ///< one after another

  /// The elements `range` of `of`.
  static Selection run(Range range, std::int64_t of);
  /// Of groups of the same parts, one group after another: the first part of the groups `taken`, then their second part, and
  /// so on. Example: heads that each have a query and a gate are groups of {dim, dim}.
  static Selection grouped(std::int64_t groups, Range taken, std::span<const std::int64_t> parts);
  [[nodiscard]] bool whole() const { return of == 0; }
  [[nodiscard]] std::int64_t count() const;
  /// The selection of elements that each stand for `factor` ones: of heads for their rows.
  [[nodiscard]] Selection times(std::int64_t factor) const;
};

/// What is taken of one of several parts that are stacked along an axis of a tensor.
struct StackedPart {
  Selection taken;
  std::int64_t of = 0;  ///< elements of the part in the tensor
};
/// All that is taken, in the order of the parts.
Selection stacked(std::span<const StackedPart> parts);

/// Copies the selected rows and columns of a matrix [rows, columns] in the blocks of `type`, which the selection of columns
/// does not part, to `out`, densely.
void copy_selected(DType type, const void* matrix, std::int64_t rows, std::int64_t columns, const Selection& of_rows,
                   const Selection& of_columns, std::byte* out);

}  // namespace rocmforge
