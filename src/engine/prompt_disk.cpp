#include "engine/prompt_disk.h"

#include <fmt/format.h>

#include <algorithm>
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

}  // namespace

PieceKey identity_of(std::span<const GgufFile* const> files, std::string_view options, const SequenceMemory& memory) {
  std::string text(options);
  for (const GgufFile* file : files) {
    text += "\n" + fingerprint(*file);
  }
  for (const KvGroup& group : memory.groups()) {
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
    : files_(std::move(files)), identity_(identity), memory_(&memory), cache_(&cache) {
  const std::size_t block_bytes = memory.host_copies()->block_bytes();
  piece_blocks_ = (piece_bytes + block_bytes - 1) / block_bytes;
}

// Each block begins with the number of values that follow: an image in one block is not taken for tokens of the next.
void PromptDisk::take_contents(const Sequence& sequence, std::size_t index) {
  contents_.clear();
  const std::int32_t block_tokens = cache_->block_tokens();
  for (std::size_t block = index * piece_blocks_; block < (index + 1) * piece_blocks_; ++block) {
    const auto first = static_cast<std::int32_t>(block) * block_tokens;
    const auto content = content_of(sequence.tokens, sequence.cache.spans, first, first + block_tokens, scratch_);
    contents_.push_back(static_cast<std::int32_t>(content.size()));
    contents_.insert(contents_.end(), content.begin(), content.end());
  }
}

void PromptDisk::keep(const Sequence& sequence) {
  const std::size_t blocks = static_cast<std::size_t>(sequence.cache.computed_tokens / cache_->block_tokens());
  if (blocks < piece_blocks_ || !cache_->copies().empty() || !may_be_in_files(sequence)) {
    return;
  }
  try {
    PieceKey key = first_piece_key(identity_, sequence.prefix_salt);
    for (std::size_t index = 0; (index + 1) * piece_blocks_ <= blocks; ++index) {
      take_contents(sequence, index);
      key = piece_key(key, contents_);
      if (files_->has(key)) {
        continue;
      }
      const std::size_t block_bytes = memory_->host_copies()->block_bytes();
      PromptPiece piece{.key = key, .contents = contents_, .bytes = std::vector<std::byte>(piece_blocks_ * block_bytes)};
      for (std::size_t i = 0; i < piece_blocks_; ++i) {
        memory_->save_block(sequence.cache.pages.blocks()[index * piece_blocks_ + i], piece.bytes.data() + i * block_bytes);
      }
      memory_->wait();
      if (!files_->add(std::move(piece))) {
        return;
      }
    }
  } catch (const std::bad_alloc&) {  // they are not kept
  }
}

std::int32_t PromptDisk::load(const Sequence& sequence) {
  if (!may_be_in_files(sequence)) {
    return 0;
  }
  const std::span<const std::int32_t> tokens = sequence.tokens;
  const std::size_t whole = (tokens.size() - 1) / static_cast<std::size_t>(cache_->block_tokens());
  const std::size_t known_before = cache_->prefixes()->num_known(tokens, sequence.prefix_salt, sequence.cache.spans);
  std::size_t known = known_before;
  PieceKey key = first_piece_key(identity_, sequence.prefix_salt);
  for (std::size_t index = 0; (index + 1) * piece_blocks_ <= whole; ++index) {
    take_contents(sequence, index);
    key = piece_key(key, contents_);
    const std::size_t end = (index + 1) * piece_blocks_;
    if (known < end) {
      known += load_piece(sequence, index, key, known);
      if (known < end) {
        break;
      }
    }
  }
  const auto loaded = static_cast<std::int32_t>(known - known_before) * cache_->block_tokens();
  loaded_tokens_ += loaded;
  return loaded;
}

std::size_t PromptDisk::load_piece(const Sequence& sequence, std::size_t index, const PieceKey& key, std::size_t known) {
  if (!files_->has(key) || !cache_->copies().empty()) {
    return 0;
  }
  const std::size_t block_bytes = memory_->host_copies()->block_bytes();
  const auto bytes = files_->read(key, contents_);
  if (!bytes || bytes->size() != piece_blocks_ * block_bytes) {
    return 0;
  }
  memory_->wait();  // earlier copies may still read or write host memory
  const std::vector<HostId> added = cache_->prefixes()->add_on_host(
      sequence.tokens, sequence.prefix_salt, sequence.cache.spans, (index + 1) * piece_blocks_ - known);
  for (std::size_t i = 0; i < added.size(); ++i) {
    const std::size_t in_piece = known + i - index * piece_blocks_;
    std::memcpy(memory_->host_copies()->block(added[i]), bytes->data() + in_piece * block_bytes, block_bytes);
  }
  return added.size();
}

}  // namespace rocmforge
