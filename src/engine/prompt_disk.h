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

/// Keeps what was computed of sequences that end in files, and brings it to host memory for prompts that begin alike, from
/// where it is restored as others. There are two kinds of files. A piece holds whole blocks, at least piece_bytes. Models with
/// recurrent state or windows continue only where these are known: a checkpoint holds them, and the blocks behind the last
/// whole piece.
class PromptDisk {
 public:
  static constexpr std::size_t piece_bytes = std::size_t{1} << 20;
  /// A state may have many bytes: those of shorter prompts are not kept.
  static constexpr std::int32_t least_checkpoint_tokens = 256;

  /// `memory` has host copies and outlives it, as `cache` does.
  PromptDisk(std::unique_ptr<PromptFiles> files, const PieceKey& identity, SequenceMemory& memory, SequenceCache& cache);

  /// Has what is computed of a sequence written where no file has it. It must still have its blocks.
  void keep(Sequence& sequence);
  /// Brings what files know of a sequence's prompt, behind what is known already, to host memory. Returns its tokens.
  std::int32_t load(const Sequence& sequence);

  [[nodiscard]] const PromptFiles& files() const { return *files_; }
  /// Tokens that load() has brought.
  [[nodiscard]] std::int64_t loaded_tokens() const { return loaded_tokens_; }

 private:
  /// The key behind each of the first blocks of a sequence.
  [[nodiscard]] std::vector<PieceKey> keys_of(const Sequence& sequence, std::size_t blocks);
  /// What blocks [first, end) of a sequence hold.
  void take_contents(const Sequence& sequence, std::size_t first, std::size_t end);
  [[nodiscard]] bool has_checkpoints() const { return memory_->num_kinds() > 1; }
  /// The copies of one kind in a file, one after another.
  struct Part {
    std::size_t kind = 0;
    std::size_t first = 0;  ///< block of the prompt; the last one is that before the file's end
    std::size_t start = 0;  ///< in the file's bytes
  };
  /// The parts of a file of blocks [first, end), and behind them one without copies, where the bytes end.
  [[nodiscard]] std::vector<Part> parts_of(std::size_t first, std::size_t end, bool checkpoint) const;
  /// Has blocks written from `first` on, and for a checkpoint what is kept with them; false where nothing can be written now.
  bool write(const Sequence& sequence, const PieceKey& key, std::span<const BlockId> run, std::size_t first, bool checkpoint);
  /// Brings blocks [first, end), and for a checkpoint what is kept with them; false where the file does not serve.
  bool bring(const Sequence& sequence, const PieceKey& key, std::size_t first, std::size_t end, bool checkpoint);

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
