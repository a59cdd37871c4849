#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/prompt_files.h"
#include "engine/prompt_pieces.h"
#include "engine/prompt_reader.h"
#include "schedule/pages/sequence_cache.h"
#include "schedule/sequence.h"

namespace rocmforge {

/// Keeps what was computed of sequences that end in files, and brings it to host memory for prompts that begin alike, from
/// where it is restored as others. There are two kinds of files. A piece holds whole blocks, at least piece_bytes. Models
/// with recurrent state or windows continue only where these are known: a checkpoint holds them, and the blocks behind the
/// last whole piece.
class PromptDisk {
 public:
  static constexpr std::size_t piece_bytes = std::size_t{1} << 20;
  /// A state may have many bytes: those of shorter prompts are not kept.
  static constexpr std::int32_t least_checkpoint_tokens = 256;

  /// `memory` has host copies and outlives it, as `cache` does.
  PromptDisk(std::unique_ptr<PromptFiles> files, const PieceKey& identity, SequenceMemory& memory, SequenceCache& cache);

  /// Has what is computed of a sequence written where no file has it. It must still have its blocks.
  void keep(Sequence& sequence);
  /// Has read what files know of a sequence's prompt behind what is known already. Returns whether that is something: the
  /// sequence then has to wait until take_read() returns it, or forget() is called.
  bool load(const Sequence& sequence);
  struct Loaded {
    RequestId id = 0;
    std::int32_t tokens = 0;  ///< that are known now and were not
  };
  /// Brings what was read to host memory. Returns a sequence whose prompt has come, as far as files have it; call again
  /// until there is none. Waits where `may_wait` is set and nothing was read, a few milliseconds at most.
  std::optional<Loaded> take_read(bool may_wait);
  /// The sequence does not wait any more.
  void forget(RequestId id);

  [[nodiscard]] const PromptFiles& files() const { return *files_; }
  /// Tokens that take_read() has brought.
  [[nodiscard]] std::int64_t loaded_tokens() const { return loaded_tokens_; }

 private:
  /// The key behind each of the first blocks of a sequence.
  [[nodiscard]] std::vector<PieceKey> keys_of(const Sequence& sequence, std::size_t blocks);
  /// What blocks [first, end) of a sequence hold.
  void take_contents(const Sequence& sequence, std::size_t first, std::size_t end);
  /// Has blocks [first, end) of a run written, and for a checkpoint what is kept with them; false where nothing can be
  /// written now.
  bool write(const Sequence& sequence, const PieceKey& key, const PrefixCache::Held& run, std::size_t first, std::size_t end,
             bool checkpoint);
  /// A file of blocks [first, end), for a checkpoint with what is kept with them.
  struct Piece {
    std::size_t first = 0;
    std::size_t end = 0;
    bool checkpoint = false;
  };
  struct Loading {
    const Sequence* sequence = nullptr;
    std::size_t usable_before = 0;
    std::deque<Piece> pieces;  ///< that are read, in their order
  };
  /// The files that bring the most of a prompt whose first `known` blocks are known; none where that is not more than
  /// `usable`.
  [[nodiscard]] std::deque<Piece> pieces_behind(std::size_t known, std::size_t usable, std::span<const PieceKey> keys) const;

  std::unique_ptr<PromptFiles> files_;
  PieceKey identity_;
  SequenceCache* cache_;
  PromptPieces pieces_;
  std::size_t piece_blocks_;
  std::vector<std::int32_t> contents_;
  std::int64_t loaded_tokens_ = 0;
  std::map<RequestId, Loading> loading_;
  PromptReader reader_;  // uses files_
};

}  // namespace rocmforge
