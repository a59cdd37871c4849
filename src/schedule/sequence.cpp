#include "schedule/sequence.h"

#include <algorithm>
#include <utility>

namespace rocmforge {

Sequence::Sequence(RequestId id_, Request request_, BlockAllocator& allocator, std::int32_t block_tokens,
                   BlockAllocator* slots, std::span<const WindowGroup> window_groups)
    : id(id_),
      request(std::move(request_)),
      tokens(request.prompt),
      prompt_tokens(static_cast<std::int32_t>(tokens.size())),
      pages(allocator, block_tokens),
      state(slots) {
  windows.reserve(window_groups.size());
  for (const WindowGroup& group : window_groups) {
    windows.push_back({group.window, PageTable(*group.allocator, block_tokens)});
  }
}

std::int32_t WindowPages::tokens_to_hold(std::int32_t position, std::int32_t length) const {
  const std::int32_t block_tokens = pages.block_tokens();
  const std::int64_t first = first_held(position) / block_tokens;
  const std::int64_t end = (first + most_blocks_seen(window, block_tokens)) * block_tokens;
  return static_cast<std::int32_t>(std::min<std::int64_t>(end, length));
}

void Sequence::clear_pages() {
  pages.clear();
  for (WindowPages& each : windows) {
    each.pages.clear();
  }
}

bool Sequence::wants_prompt_rows() const {
  return request.prompt_logprobs >= 0 || (request.embedding && *request.embedding != Pooling::last);
}

PositionRange ScheduledChunk::scored() const {
  if (sequence->request.prompt_logprobs < 0) {
    return {first, first};
  }
  return {std::max(first, sequence->seen_tokens), std::min(first + count, sequence->prompt_tokens - 1)};
}

PositionRange ScheduledChunk::pooled() const {
  const std::int32_t end = first + count;
  if (!sequence->request.embedding) {
    return {end, end};
  }
  switch (*sequence->request.embedding) {
    case Pooling::mean:
      return {std::max(first, sequence->seen_tokens), end};
    case Pooling::last:
      return {completes ? end - 1 : end, end};
    case Pooling::cls:
      break;
  }
  return {first, first == 0 && sequence->seen_tokens == 0 ? 1 : first};
}

}  // namespace rocmforge
