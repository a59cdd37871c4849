#include "engine/slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/error.h"

namespace rocmforge {
namespace {

std::size_t common_start(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

EngineSlots::EngineSlots(std::int32_t count, const PieceKey& identity, const EngineAdapters& adapters,
                         SequenceMemory& memory, SequenceCache& cache, std::size_t piece_bytes)
    : slots_(static_cast<std::size_t>(count)),
      identity_(identity),
      adapters_(&adapters),
      cache_(&cache),
      pieces_(memory, cache),
      piece_bytes_(piece_bytes) {}

// It goes on with a conversation where it begins with at least half of it: one that only has the same start, as that of an
// assistant's instructions, is another one.
std::int32_t EngineSlots::choose(const Sequence& sequence) const {
  const std::span<const std::int32_t> tokens = std::span(sequence.tokens).first(static_cast<std::size_t>(sequence.length()));
  std::size_t best = 0, longest = 0;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    const std::size_t common = slot.prefix_salt == sequence.prefix_salt ? common_start(slot.tokens, tokens) : 0;
    const bool goes_on = common > 0 && 2 * common >= slot.tokens.size();
    if (goes_on ? common > longest : longest == 0 && slot.last_use < slots_[best].last_use) {
      best = i;
      longest = goes_on ? common : 0;
    }
  }
  return static_cast<std::int32_t>(best);
}

void EngineSlots::keep(const Sequence& sequence) noexcept {
  if (sequence.request.embedding || sequence.length() <= cache_->block_tokens()) {
    return;
  }
  try {
    const bool asks = sequence.request.slot >= 0 && sequence.request.slot < count();
    Slot slot{.tokens = sequence.tokens,
              .spans = {sequence.cache.spans.begin(), sequence.cache.spans.end()},
              .adapters = sequence.request.adapters.value_or(std::vector<AdapterScale>()),
              .salt = sequence.request.cache_salt,
              .prefix_salt = sequence.prefix_salt,
              .last_use = ++clock_};
    slot.tokens.resize(static_cast<std::size_t>(sequence.length()));
    std::erase_if(slot.adapters, [](const AdapterScale& adapter) { return adapter.from > 0; });  // the spans tell of them
    slots_[static_cast<std::size_t>(asks ? sequence.request.slot : choose(sequence))] = std::move(slot);
  } catch (const std::bad_alloc&) {  // the slot names what it named before
  }
}

std::int32_t EngineSlots::num_tokens(std::int32_t id) const {
  return static_cast<std::int32_t>(slots_.at(static_cast<std::size_t>(id)).tokens.size());
}

const EngineSlots::Slot& EngineSlots::used(std::int32_t id, std::string_view salt) const {
  const Slot& slot = slots_.at(static_cast<std::size_t>(id));
  if (slot.tokens.empty() || slot.salt != salt) {
    throw Error(fmt::format("slot {} has no conversation of this key and cache_salt", id));
  }
  return slot;
}

SlotHead EngineSlots::save(std::int32_t id, std::string_view salt, const PieceKey& owner) const {
  const Slot& slot = used(id, salt);
  const auto blocks = static_cast<std::int32_t>(pieces_.usable(slot.prompt()));
  if (blocks == 0) {
    throw Error(fmt::format("nothing is kept any more of the conversation of slot {}", id));
  }
  const auto piece_blocks = static_cast<std::int32_t>(std::min(pieces_.blocks_of_most(piece_bytes_), std::size_t{1} << 20));
  SlotHead head{.identity = identity_,
                .owner = owner,
                .block_tokens = cache_->block_tokens(),
                .blocks = blocks,
                .piece_blocks = std::min(piece_blocks, blocks),
                .tokens = slot.tokens,
                .spans = slot.spans,
                .adapters = {}};
  head.tokens.resize(static_cast<std::size_t>(head.saved_tokens()) + 1);
  std::erase_if(head.spans, [&](const TokenSpan& span) { return span.first >= head.saved_tokens(); });
  for (const AdapterScale& adapter : slot.adapters) {
    const auto loaded = std::ranges::find(adapters_->list(), adapter.id, &LoadedAdapter::id);
    if (loaded == adapters_->list().end()) {
      throw Error(fmt::format("an adapter of the conversation of slot {} is not loaded any more", id));
    }
    head.adapters.push_back({loaded->fingerprint, adapter.scale});
  }
  return head;
}

std::vector<std::byte> EngineSlots::piece(std::int32_t id, const SlotHead& head, std::int32_t index) const {
  const Slot& slot = slots_.at(static_cast<std::size_t>(id));
  KnownPrompt prompt = slot.prompt();
  prompt.tokens = prompt.tokens.first(std::min(prompt.tokens.size(), head.tokens.size()));
  if (std::ranges::equal(prompt.tokens, head.tokens)) {
    const PrefixCache::Held run = cache_->prefixes()->hold(prompt.tokens, prompt.salt, prompt.spans);
    if (std::cmp_equal(run.num_blocks(), head.blocks)) {
      const bool is_last = index + 1 == head.pieces();
      return pieces_.save(run, head.first(index), head.end(index), is_last && pieces_.has_checkpoints());
    }
  }
  throw Error(fmt::format("the conversation of slot {} left the cache while it was saved", id));
}

std::vector<AdapterScale> EngineSlots::loaded(const SlotHead& head) const {
  std::vector<AdapterScale> adapters;
  for (const SavedAdapter& saved : head.adapters) {
    const auto found = std::ranges::find(adapters_->list(), saved.fingerprint, &LoadedAdapter::fingerprint);
    if (found == adapters_->list().end()) {
      throw Error("was saved with an adapter that is not loaded");
    }
    adapters.push_back({found->id, saved.scale});
  }
  std::ranges::sort(adapters);
  return adapters;
}

void EngineSlots::restore_piece(const SlotHead& head, std::string_view salt, std::int32_t index,
                                std::span<const std::byte> bytes) {
  if (head.identity != identity_ || head.block_tokens != cache_->block_tokens()) {
    throw Error("was saved with another model, image encoder or type of cache");
  }
  const std::string prefix_salt = prefix_salt_of(salt, loaded(head));
  const bool is_last = index + 1 == head.pieces();
  if (!pieces_.bring({.tokens = head.tokens, .salt = prefix_salt, .spans = head.spans}, head.first(index), head.end(index),
                     is_last && pieces_.has_checkpoints(), bytes)) {
    throw Error("does not fit into the host memory for prompts");
  }
}

void EngineSlots::restored(std::int32_t id, const SlotHead& head, std::string_view salt) {
  Slot slot{.tokens = head.tokens,
            .spans = head.spans,
            .adapters = loaded(head),
            .salt = std::string(salt),
            .prefix_salt = {},
            .last_use = ++clock_};
  slot.prefix_salt = prefix_salt_of(salt, slot.adapters);
  if (std::cmp_not_equal(pieces_.usable(slot.prompt()), head.blocks)) {
    throw Error("does not fit into the host memory for prompts");
  }
  slots_.at(static_cast<std::size_t>(id)) = std::move(slot);
}

std::int32_t EngineSlots::erase(std::int32_t id, std::string_view salt) {
  const Slot& slot = used(id, salt);
  const auto tokens = static_cast<std::int32_t>(slot.tokens.size());
  cache_->prefixes()->erase(slot.tokens, slot.prefix_salt, slot.spans);
  slots_[static_cast<std::size_t>(id)] = {};
  return tokens;
}

}  // namespace rocmforge
