#include "schedule/sequence.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/error.h"

namespace rocmforge {
// Their number comes first, and each takes as many bytes.
std::string prefix_salt_of(std::string_view salt, std::span<const AdapterScale> adapters) {
  if (adapters.empty() && salt.empty()) {
    return {};
  }
  std::string text = std::to_string(adapters.size()) + ' ';
  for (const AdapterScale& adapter : adapters) {
    text.append(reinterpret_cast<const char*>(&adapter.id), sizeof adapter.id);
    text.append(reinterpret_cast<const char*>(&adapter.scale), sizeof adapter.scale);
  }
  return text.append(salt);
}

Sequence::Sequence(RequestId id_, Request request_, SequenceCache& sequence_cache)
    : id(id_),
      request(std::move(request_)),
      prefix_salt(prefix_salt_of(request.cache_salt, request.adapters.value_or(std::vector<AdapterScale>()))),
      tokens(request.prompt),
      prompt_tokens(static_cast<std::int32_t>(tokens.size())),
      cache(sequence_cache.make_sequence()) {
  cache.spans = request.spans;
}

std::string_view name(SequencePhase phase) {
  switch (phase) {
    case SequencePhase::waiting:
      return "waiting";
    case SequencePhase::prefill:
      return "prefill";
    case SequencePhase::decode:
      return "decode";
  }
  fail_check("unknown phase");
}

void Sequence::set_drafts(std::span<const std::int32_t> drafted) {
  tokens.resize(static_cast<std::size_t>(length()));
  drafts = 0;
  tokens.insert(tokens.end(), drafted.begin(), drafted.end());
  drafts = static_cast<std::int32_t>(drafted.size());
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
