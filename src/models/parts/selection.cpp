#include "models/parts/selection.h"

#include <algorithm>
#include <numeric>

namespace rocmforge {
namespace {

std::vector<Range> ranges_of(const Selection& selection, std::int64_t all) {
  return selection.whole() ? std::vector<Range>{{0, all}} : selection.ranges;
}

}  // namespace

Selection Selection::run(Range range, std::int64_t of) { return range.count == of ? Selection{} : Selection{of, {range}}; }

Selection Selection::grouped(std::int64_t groups, Range taken, std::span<const std::int64_t> parts) {
  const std::int64_t each = std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
  Selection selection{groups * each, {}};
  std::int64_t before = 0;
  for (const std::int64_t part : parts) {
    for (std::int64_t group = taken.first; group < taken.first + taken.count; ++group) {
      selection.ranges.push_back({group * each + before, part});
    }
    before += part;
  }
  return selection;
}

Selection stacked(std::span<const StackedPart> parts) {
  if (std::ranges::all_of(parts, [](const StackedPart& part) { return part.taken.whole(); })) {
    return {};
  }
  Selection selection;
  for (const StackedPart& part : parts) {
    for (const Range& range : ranges_of(part.taken, part.of)) {
      selection.ranges.push_back({selection.of + range.first, range.count});
    }
    selection.of += part.of;
  }
  return selection;
}

std::int64_t Selection::count() const {
  return std::accumulate(ranges.begin(), ranges.end(), std::int64_t{0},
                         [](std::int64_t sum, const Range& range) { return sum + range.count; });
}

Selection Selection::times(std::int64_t factor) const {
  Selection scaled{of * factor, ranges};
  for (Range& range : scaled.ranges) {
    range.first *= factor;
    range.count *= factor;
  }
  return scaled;
}

void copy_selected(DType type, const void* matrix, std::int64_t rows, std::int64_t columns, const Selection& of_rows,
                   const Selection& of_columns, std::byte* out) {
  const auto* const begin = static_cast<const std::byte*>(matrix);
  const std::size_t row = row_bytes(type, columns);
  const std::vector<Range> parts = ranges_of(of_columns, columns);
  for (const Range& range : ranges_of(of_rows, rows)) {
    const std::byte* from = begin + static_cast<std::size_t>(range.first) * row;
    if (of_columns.whole()) {
      out = std::copy_n(from, static_cast<std::size_t>(range.count) * row, out);
      continue;
    }
    for (std::int64_t index = 0; index < range.count; ++index, from += row) {
      for (const Range& part : parts) {
        out = std::copy_n(from + row_bytes(type, part.first), row_bytes(type, part.count), out);
      }
    }
  }
}

}  // namespace rocmforge
