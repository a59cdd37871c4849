#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/piece_file.h"
#include "memory/sequence_memory.h"
#include "schedule/pages/sequence_cache.h"
#include "schedule/pages/token_span.h"
#include "weights/gguf_file.h"

namespace rocmforge {

/// A hash of all that the bytes of a model's cached blocks depend on beside tokens: the files (their metadata, tensors and
/// samples of the data), `options` that change what a layer computes, and the layout of the pages.
PieceKey identity_of(std::span<const GgufFile* const> files, std::string_view options, const SequenceMemory& memory);

/// A prompt as the prefix cache knows it. There is at least one token behind its last block.
struct KnownPrompt {
  std::span<const std::int32_t> tokens;
  std::string_view salt;  ///< Sequence::prefix_salt
  std::span<const TokenSpan> spans;
};

/// What blocks [first, end) of a prompt hold, appended to `contents`. Each block begins with the number of values that
/// follow: an image in one block is not taken for tokens of the next.
void append_contents(std::vector<std::int32_t>& contents, const KnownPrompt& prompt, std::int32_t block_tokens,
                     std::size_t first, std::size_t end);

/// The bytes of blocks in the order in which files have them: those of the blocks, then with a checkpoint what a sequence
/// continues from behind them, recurrent state and blocks of windows, each kind's copies one after another.
class PromptPieces {
 public:
  /// `memory` has host copies and outlives it, as `cache` does.
  PromptPieces(SequenceMemory& memory, SequenceCache& cache) : memory_(&memory), cache_(&cache) {}

  /// Whether a prompt continues only behind a checkpoint.
  [[nodiscard]] bool has_checkpoints() const { return memory_->num_kinds() > 1; }
  /// How many blocks have at least, or at most, so many bytes; at least 1.
  [[nodiscard]] std::size_t blocks_of_least(std::size_t bytes) const;
  [[nodiscard]] std::size_t blocks_of_most(std::size_t bytes) const;
  /// How many of the first blocks of a prompt can be continued from.
  [[nodiscard]] std::size_t usable(const KnownPrompt& prompt) const;
  /// The bytes of blocks [first, end) of a run, which the device or host memory has.
  [[nodiscard]] std::vector<std::byte> save(const PrefixCache::Held& run, std::size_t first, std::size_t end,
                                            bool checkpoint) const;
  /// Brings them to host memory; false where the bytes are not of these blocks, those before are not known, or there is no
  /// room. Copies that wait to be made must not exist.
  bool bring(const KnownPrompt& prompt, std::size_t first, std::size_t end, bool checkpoint,
             std::span<const std::byte> bytes);

 private:
  /// The copies of one kind in a file.
  struct Part {
    std::size_t kind = 0;
    std::size_t first = 0;  ///< block of the prompt; the last one is that before the file's end
    std::size_t start = 0;  ///< in the file's bytes
  };
  /// The parts of blocks [first, end), and behind them one without copies, where the bytes end.
  [[nodiscard]] std::vector<Part> parts_of(std::size_t first, std::size_t end, bool checkpoint) const;

  SequenceMemory* memory_;
  SequenceCache* cache_;
};

}  // namespace rocmforge
