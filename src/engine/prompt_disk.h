#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/prompt_files.h"
#include "memory/sequence_memory.h"
#include "schedule/pages/sequence_cache.h"
#include "schedule/sequence.h"
#include "weights/gguf_file.h"

namespace rocmforge {

/// A hash of all that the bytes of a model's cached blocks depend on beside tokens: the files (their metadata, tensors and
/// samples of the data), `options` that change what a layer computes, and the layout of the pages.
PieceKey identity_of(std::span<const GgufFile* const> files, std::string_view options, const SequenceMemory& memory);

/// Keeps the computed blocks of sequences that end in files, and brings them to host memory for prompts that begin alike,
/// from where they are restored as others. Pieces of a file hold whole blocks, at least piece_bytes.
class PromptDisk {
 public:
  static constexpr std::size_t piece_bytes = std::size_t{1} << 20;

  /// `memory` has host copies and outlives it, as `cache` does.
  PromptDisk(std::unique_ptr<PromptFiles> files, const PieceKey& identity, SequenceMemory& memory, SequenceCache& cache);

  /// Has the computed pieces of a sequence written that no file has. It must still have its blocks.
  void keep(const Sequence& sequence);
  /// Brings what files know of a sequence's prompt, behind what is known already, to host memory. Returns its tokens.
  std::int32_t load(const Sequence& sequence);

  [[nodiscard]] const PromptFiles& files() const { return *files_; }
  /// Tokens that load() has brought.
  [[nodiscard]] std::int64_t loaded_tokens() const { return loaded_tokens_; }

 private:
  /// The contents of piece `index` of a sequence's tokens.
  void take_contents(const Sequence& sequence, std::size_t index);
  /// Brings the blocks of piece `index` from `known` on to host memory; returns how many.
  std::size_t load_piece(const Sequence& sequence, std::size_t index, const PieceKey& key, std::size_t known);

  std::unique_ptr<PromptFiles> files_;
  PieceKey identity_;
  SequenceMemory* memory_;
  SequenceCache* cache_;
  std::size_t piece_blocks_;
  std::vector<std::int32_t> contents_;
  std::vector<std::int32_t> scratch_;
  std::int64_t loaded_tokens_ = 0;
};

}  // namespace rocmforge
