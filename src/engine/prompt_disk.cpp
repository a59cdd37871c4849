#include "engine/prompt_disk.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

namespace rocmforge {
namespace {

/// Not those of adapters, whose ids are not the same in the next run.
bool may_be_in_files(const Sequence& sequence) { return !sequence.request.adapters || sequence.request.adapters->empty(); }

KnownPrompt prompt_of(const Sequence& sequence) {
  return {.tokens = sequence.tokens, .salt = sequence.prefix_salt, .spans = sequence.cache.spans};
}

/// Of the checkpoint at the end of blocks with this key. The contents of a block begin with their number.
PieceKey checkpoint_key(const PieceKey& key) {
  static constexpr std::int32_t mark = -1;
  return piece_key(key, {&mark, 1});
}

}  // namespace

PromptDisk::PromptDisk(std::unique_ptr<PromptFiles> files, const PieceKey& identity, SequenceMemory& memory,
                       SequenceCache& cache)
    : files_(std::move(files)),
      identity_(identity),
      cache_(&cache),
      pieces_(memory, cache),
      piece_blocks_(pieces_.blocks_of_least(piece_bytes)),
      reader_(
          [this](const PieceKey& key, const std::vector<std::int32_t>& contents) { return files_->read(key, contents); }) {}

void PromptDisk::take_contents(const Sequence& sequence, std::size_t first, std::size_t end) {
  contents_.clear();
  append_contents(contents_, prompt_of(sequence), cache_->block_tokens(), first, end);
}

std::vector<PieceKey> PromptDisk::keys_of(const Sequence& sequence, std::size_t blocks) {
  std::vector<PieceKey> keys;
  PieceKey key = first_piece_key(identity_, sequence.prefix_salt);
  for (std::size_t block = 0; block < blocks; ++block) {
    take_contents(sequence, block, block + 1);
    key = piece_key(key, contents_);
    keys.push_back(key);
  }
  return keys;
}

bool PromptDisk::write(const Sequence& sequence, const PieceKey& key, const PrefixCache::Held& run, std::size_t first,
                       std::size_t end, bool checkpoint) {
  if (files_->has(key)) {
    return true;
  }
  take_contents(sequence, first, end);
  return files_->add({.key = key, .contents = contents_, .bytes = pieces_.save(run, first, end, checkpoint)});
}

void PromptDisk::keep(Sequence& sequence) {
  if (!cache_->copies().empty() || !may_be_in_files(sequence)) {
    return;
  }
  try {
    cache_->insert_computed(sequence.cache, sequence.prefix_key());
    const PrefixCache::Held run = cache_->prefixes()->hold(sequence.tokens, sequence.prefix_salt, sequence.cache.spans);
    const std::size_t blocks = run.num_blocks();
    const std::vector<PieceKey> keys = keys_of(sequence, blocks);
    for (std::size_t end = piece_blocks_; end <= blocks; end += piece_blocks_) {
      if (!write(sequence, keys[end - 1], run, end - piece_blocks_, end, false)) {
        return;
      }
    }
    const auto tokens = static_cast<std::int32_t>(blocks) * cache_->block_tokens();
    if (pieces_.has_checkpoints() && tokens >= least_checkpoint_tokens) {
      write(sequence, checkpoint_key(keys.back()), run, blocks / piece_blocks_ * piece_blocks_, blocks, true);
    }
  } catch (const std::bad_alloc&) {  // they are not kept
  }
}

std::deque<PromptDisk::Piece> PromptDisk::pieces_behind(std::size_t known, std::size_t usable,
                                                        std::span<const PieceKey> keys) const {
  std::size_t end = piece_blocks_;
  while (end <= keys.size() && (end <= known || files_->has(keys[end - 1]))) {
    end += piece_blocks_;
  }
  std::size_t count = std::min(keys.size(), pieces_.has_checkpoints() ? end - 1 : end - piece_blocks_);
  while (pieces_.has_checkpoints() && count > usable && !files_->has(checkpoint_key(keys[count - 1]))) {
    --count;
  }
  std::deque<Piece> pieces;
  if (count <= usable) {
    return pieces;
  }
  for (end = piece_blocks_; end <= count; end += piece_blocks_) {
    if (end > known) {
      pieces.push_back({.first = end - piece_blocks_, .end = end, .checkpoint = false});
    }
  }
  if (pieces_.has_checkpoints()) {
    pieces.push_back({.first = count / piece_blocks_ * piece_blocks_, .end = count, .checkpoint = true});
  }
  return pieces;
}

bool PromptDisk::load(const Sequence& sequence) {
  if (!may_be_in_files(sequence)) {
    return false;
  }
  const std::size_t blocks = (sequence.tokens.size() - 1) / static_cast<std::size_t>(cache_->block_tokens());
  const std::vector<PieceKey> keys = keys_of(sequence, blocks);
  const std::size_t known = cache_->prefixes()->num_known(sequence.tokens, sequence.prefix_salt, sequence.cache.spans);
  Loading loading{.sequence = &sequence, .usable_before = pieces_.usable(prompt_of(sequence)), .pieces = {}};
  loading.pieces = pieces_behind(known, loading.usable_before, keys);
  if (loading.pieces.empty()) {
    return false;
  }
  std::vector<PromptReader::Read> reads;
  for (const Piece& piece : loading.pieces) {
    take_contents(sequence, piece.first, piece.end);
    const PieceKey& key = keys[piece.end - 1];
    reads.push_back({sequence.id, piece.checkpoint ? checkpoint_key(key) : key, contents_});
  }
  loading_.emplace(sequence.id, std::move(loading));
  try {
    reader_.add(std::move(reads));
  } catch (...) {
    loading_.erase(sequence.id);
    throw;
  }
  return true;
}

std::optional<PromptDisk::Loaded> PromptDisk::take_read(bool may_wait) {
  constexpr std::chrono::milliseconds longest_wait{5};
  if (loading_.empty() || !cache_->copies().empty()) {
    return std::nullopt;
  }
  if (may_wait) {
    reader_.wait(longest_wait);
  }
  while (const std::optional<PromptReader::Result> result = reader_.take()) {
    const auto found = loading_.find(result->prompt);
    if (found == loading_.end()) {
      continue;  // it has ended
    }
    Loading& loading = found->second;
    const Sequence& sequence = *loading.sequence;
    const Piece piece = loading.pieces.front();
    loading.pieces.pop_front();
    if (result->bytes && pieces_.bring(prompt_of(sequence), piece.first, piece.end, piece.checkpoint, *result->bytes) &&
        !loading.pieces.empty()) {
      continue;
    }
    const std::size_t blocks = std::max(pieces_.usable(prompt_of(sequence)), loading.usable_before) - loading.usable_before;
    const auto tokens = static_cast<std::int32_t>(blocks) * cache_->block_tokens();
    loaded_tokens_ += tokens;
    forget(sequence.id);
    return Loaded{.id = result->prompt, .tokens = tokens};
  }
  return std::nullopt;
}

void PromptDisk::forget(RequestId id) {
  if (loading_.erase(id) > 0) {
    reader_.cancel(id);
  }
}

}  // namespace rocmforge
