#include "engine/prompt_disk.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "base/sha256.h"
#include "weights/fingerprint.h"

namespace rocmforge {
namespace {

/// Not those of adapters, whose ids are not the same in the next run.
bool may_be_in_files(const Sequence& sequence) { return !sequence.request.adapters || sequence.request.adapters->empty(); }

/// Of the checkpoint at the end of blocks with this key. The contents of a block begin with their number.
PieceKey checkpoint_key(const PieceKey& key) {
  static constexpr std::int32_t mark = -1;
  return piece_key(key, {&mark, 1});
}

}  // namespace

PieceKey identity_of(std::span<const GgufFile* const> files, std::string_view options, const SequenceMemory& memory) {
  std::string text(options);
  for (const GgufFile* file : files) {
    text += "\n" + fingerprint(*file);
  }
  for (std::size_t kind = 0; kind < memory.num_kinds(); ++kind) {
    text += fmt::format("\n{} bytes", memory.copy_bytes(kind));
  }
  for (const KvGroup& group : memory.groups()) {
    text += fmt::format("\nwindow {}", group.window);
    for (std::size_t plane = 0; plane < group.planes.size(); ++plane) {
      const KvLayout& layout = group.planes[plane];
      text += fmt::format("\n{} {} {} {} {} {} {} {}", name(layout.dtype), layout.block_tokens, layout.kv_heads,
                          layout.head_dim, static_cast<int>(layout.k_order), static_cast<int>(layout.v_order),
                          layout.value_dim, name(group.side_of(plane)));
    }
  }
  return sha256({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

PromptDisk::PromptDisk(std::unique_ptr<PromptFiles> files, const PieceKey& identity, SequenceMemory& memory,
                       SequenceCache& cache)
    : files_(std::move(files)),
      identity_(identity),
      memory_(&memory),
      cache_(&cache),
      reader_(
          [this](const PieceKey& key, const std::vector<std::int32_t>& contents) { return files_->read(key, contents); }) {
  const std::size_t block_bytes = std::max<std::size_t>(memory.copy_bytes(0), 1);
  piece_blocks_ = (piece_bytes + block_bytes - 1) / block_bytes;
}

// Each block begins with the number of values that follow: an image in one block is not taken for tokens of the next.
void PromptDisk::take_contents(const Sequence& sequence, std::size_t first, std::size_t end) {
  contents_.clear();
  const std::int32_t block_tokens = cache_->block_tokens();
  for (std::size_t block = first; block < end; ++block) {
    const auto position = static_cast<std::int32_t>(block) * block_tokens;
    const auto content = content_of(sequence.tokens, sequence.cache.spans, position, position + block_tokens, scratch_);
    contents_.push_back(static_cast<std::int32_t>(content.size()));
    contents_.insert(contents_.end(), content.begin(), content.end());
  }
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

std::vector<PromptDisk::Part> PromptDisk::parts_of(std::size_t first, std::size_t end, bool checkpoint) const {
  std::vector<Part> parts{{.kind = 0, .first = first, .start = 0}};
  std::size_t bytes = (end - first) * memory_->copy_bytes(0);
  for (std::size_t kind = 1; checkpoint && kind < memory_->num_kinds(); ++kind) {
    parts.push_back({.kind = kind, .first = cache_->prefixes()->first_needed(kind, end), .start = bytes});
    bytes += (end - parts.back().first) * memory_->copy_bytes(kind);
  }
  parts.push_back({.kind = 0, .first = end, .start = bytes});
  return parts;
}

bool PromptDisk::write(const Sequence& sequence, const PieceKey& key, std::span<const BlockId> run, std::size_t first,
                       bool checkpoint) {
  if (files_->has(key)) {
    return true;
  }
  take_contents(sequence, first, run.size());
  const std::vector<Part> parts = parts_of(first, run.size(), checkpoint);
  PromptPiece piece{.key = key, .contents = contents_, .bytes = std::vector<std::byte>(parts.back().start)};
  for (const Part& part : parts) {
    std::byte* to = piece.bytes.data() + part.start;
    for (std::size_t i = part.first; i < run.size(); ++i, to += memory_->copy_bytes(part.kind)) {
      memory_->save(part.kind, part.kind == 0 ? run[i] : cache_->prefixes()->kept_with(part.kind, run[i]), to);
    }
  }
  memory_->wait();
  return files_->add(std::move(piece));
}

void PromptDisk::keep(Sequence& sequence) {
  if (!cache_->copies().empty() || !may_be_in_files(sequence)) {
    return;
  }
  try {
    cache_->insert_computed(sequence.cache, sequence.prefix_key());
    const std::vector<BlockId> found =
        cache_->prefixes()->match(sequence.tokens, sequence.prefix_salt, sequence.cache.spans);
    const std::span<const BlockId> run = found;
    const std::vector<PieceKey> keys = keys_of(sequence, run.size());
    for (std::size_t end = piece_blocks_; end <= run.size(); end += piece_blocks_) {
      if (!write(sequence, keys[end - 1], run.first(end), end - piece_blocks_, false)) {
        return;
      }
    }
    const auto tokens = static_cast<std::int32_t>(run.size()) * cache_->block_tokens();
    if (has_checkpoints() && tokens >= least_checkpoint_tokens) {
      write(sequence, checkpoint_key(keys.back()), run, run.size() / piece_blocks_ * piece_blocks_, true);
    }
  } catch (const std::bad_alloc&) {  // they are not kept
  }
}

std::size_t PromptDisk::usable(const Sequence& sequence) const {
  return cache_->prefixes()->hold(sequence.tokens, sequence.prefix_salt, sequence.cache.spans).num_blocks();
}

std::deque<PromptDisk::Piece> PromptDisk::pieces_behind(std::size_t known, std::size_t usable,
                                                        std::span<const PieceKey> keys) const {
  std::size_t end = piece_blocks_;
  while (end <= keys.size() && (end <= known || files_->has(keys[end - 1]))) {
    end += piece_blocks_;
  }
  std::size_t count = std::min(keys.size(), has_checkpoints() ? end - 1 : end - piece_blocks_);
  while (has_checkpoints() && count > usable && !files_->has(checkpoint_key(keys[count - 1]))) {
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
  if (has_checkpoints()) {
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
  Loading loading{.sequence = &sequence, .usable_before = usable(sequence), .pieces = {}};
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
    if (bring(sequence, piece, result->bytes) && !loading.pieces.empty()) {
      continue;
    }
    const std::size_t blocks = std::max(usable(sequence), loading.usable_before) - loading.usable_before;
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

bool PromptDisk::bring(const Sequence& sequence, const Piece& piece, const PromptReader::Bytes& bytes) {
  const std::vector<Part> parts = parts_of(piece.first, piece.end, piece.checkpoint);
  PrefixCache& prefixes = *cache_->prefixes();
  if (!bytes || bytes->size() != parts.back().start ||
      prefixes.num_known(sequence.tokens, sequence.prefix_salt, sequence.cache.spans) < piece.first) {
    return false;  // there was no room for those before
  }
  memory_->wait();  // earlier copies may still read or write host memory
  for (const PrefixCache::Added& copy :
       prefixes.add_on_host(sequence.tokens, sequence.prefix_salt, sequence.cache.spans, piece.end, piece.checkpoint)) {
    const Part& part = parts[copy.kind];
    const std::size_t size = memory_->copy_bytes(copy.kind);
    std::memcpy(memory_->host_copies()[copy.kind].block(copy.id),
                bytes->data() + part.start + (copy.index - part.first) * size, size);
  }
  return true;
}

}  // namespace rocmforge
