#include "schedule/pages/token_span.h"

#include <algorithm>

namespace rocmforge {
namespace {

/// The first span that ends behind `position`.
auto first_behind(std::span<const TokenSpan> spans, std::int32_t position) {
  return std::ranges::upper_bound(spans, position, {}, &TokenSpan::end);
}

}  // namespace

std::int32_t cut_before(std::span<const TokenSpan> spans, std::int32_t position) {
  const auto span = first_behind(spans, position);
  return span != spans.end() ? std::min(position, span->first) : position;
}

std::int32_t cut_after(std::span<const TokenSpan> spans, std::int32_t position) {
  const auto span = first_behind(spans, position);
  return span != spans.end() && span->first <= position ? span->end() : position + 1;
}

std::span<const std::int32_t> content_of(std::span<const std::int32_t> tokens, std::span<const TokenSpan> spans,
                                         std::int32_t first, std::int32_t end, std::vector<std::int32_t>& memory) {
  const auto own = tokens.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(end - first));
  auto span = first_behind(spans, first);
  if (span == spans.end() || span->first >= end) {
    return own;
  }
  memory.assign(own.begin(), own.end());
  for (; span != spans.end() && span->first < end; ++span) {
    memory.push_back(span->first - first);
    memory.push_back(span->count);
    for (const std::uint32_t word : span->content) {
      memory.push_back(static_cast<std::int32_t>(word));
    }
  }
  return memory;
}

}  // namespace rocmforge
