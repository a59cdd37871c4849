#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace rocmforge {

/// Tokens of a prompt that stand for one thing that is no text, such as an image. A step computes all of them or none, and
/// a known prefix does not end among them. Or one token of text where something else than tokens changes what is computed
/// from there on: the place where an adapter begins.
struct TokenSpan {
  std::int32_t first = 0;
  std::int32_t count = 0;
  /// A cryptographic hash of all that the rows and positions of its tokens come from. Prefixes with equal tokens are the
  /// same only if the hashes of their spans are equal too.
  std::array<std::uint32_t, 8> content{};

  [[nodiscard]] std::int32_t end() const { return first + count; }
};

// Spans ascend and do not overlap.

/// The last position up to `position` before which a sequence may be cut: not inside of a span.
std::int32_t cut_before(std::span<const TokenSpan> spans, std::int32_t position);
/// The first such position after `position`.
std::int32_t cut_after(std::span<const TokenSpan> spans, std::int32_t position);

/// What stands at [first, end) in a sequence: its tokens, then where each span among them begins and what it holds.
/// `memory` is used where there is one. Different contents are different texts.
std::span<const std::int32_t> content_of(std::span<const std::int32_t> tokens, std::span<const TokenSpan> spans,
                                         std::int32_t first, std::int32_t end, std::vector<std::int32_t>& memory);

}  // namespace rocmforge
