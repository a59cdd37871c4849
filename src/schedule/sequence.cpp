#include "schedule/sequence.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "base/error.h"

namespace rocmforge {
namespace {

/// In their order: images and marks do not overlap.
std::vector<TokenSpan> spans_of(const Request& request) {
  std::vector<TokenSpan> spans;
  std::ranges::merge(request.spans, request.adapter_marks, std::back_inserter(spans), {}, &TokenSpan::first,
                     &TokenSpan::first);
  return spans;
}

}  // namespace

// Their number comes first, and each takes as many bytes.
std::string prefix_salt_of(std::string_view salt, std::span<const AdapterScale> adapters) {
  const auto acts_at_once = [](const AdapterScale& adapter) { return adapter.from == 0; };
  const auto count = std::ranges::count_if(adapters, acts_at_once);
  if (count == 0 && salt.empty()) {
    return {};
  }
  std::string text = std::to_string(count) + ' ';
  for (const AdapterScale& adapter : adapters) {
    if (acts_at_once(adapter)) {
      text.append(reinterpret_cast<const char*>(&adapter.id), sizeof adapter.id);
      text.append(reinterpret_cast<const char*>(&adapter.scale), sizeof adapter.scale);
    }
  }
  return text.append(salt);
}

Sequence::Sequence(RequestId id_, Request request_, SequenceCache& sequence_cache)
    : id(id_),
      request(std::move(request_)),
      prefix_salt(prefix_salt_of(request.cache_salt, request.adapters.value_or(std::vector<AdapterScale>()))),
      spans(spans_of(request)),
      tokens(request.prompt),
      prompt_tokens(static_cast<std::int32_t>(tokens.size())),
      cache(sequence_cache.make_sequence()) {
  cache.spans = spans;
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

void Sequence::drop(std::int32_t first, std::int32_t count) {
  const auto begin = tokens.begin() + first;
  tokens.erase(begin, begin + count);
  dropped_tokens += count;
  const auto moved = [=](std::int32_t place) { return place <= first ? place : std::max(first, place - count); };
  if (request.adapters) {
    std::ranges::for_each(*request.adapters, [&](AdapterScale& adapter) { adapter.from = moved(adapter.from); });
  }
  std::vector<TokenSpan> left;
  for (TokenSpan mark : spans) {
    mark.first = moved(mark.first);
    if (!left.empty() && left.back().first == mark.first) {
      left.pop_back();  // the later mark tells of all that act from there on
    }
    left.push_back(mark);
  }
  spans = std::move(left);
  cache.spans = spans;
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
