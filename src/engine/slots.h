#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/adapters.h"
#include "engine/prompt_pieces.h"
#include "engine/slot_file.h"
#include "schedule/sequence.h"

namespace rocmforge {

/// Slots: names for conversations, whose computed prefix the prefix cache may still know. Each names the last conversation
/// that ended in it, and holds nothing: the cache gives room to others as without slots. Errors of its functions are Error,
/// with a reason for who asked. To be used between two steps, when no copies wait to be made.
class EngineSlots {
 public:
  /// A piece of a saved prompt has at most so many bytes, or one block.
  static constexpr std::size_t most_piece_bytes = std::size_t{32} << 20;

  /// `memory` has host copies; all outlive it.
  EngineSlots(std::int32_t count, const PieceKey& identity, const EngineAdapters& adapters, SequenceMemory& memory,
              SequenceCache& cache, std::size_t piece_bytes = most_piece_bytes);

  /// Names the conversation of a sequence that ends: by the slot that its request asks for, else by the one whose
  /// conversation it goes on with, else by the one not used for longest. It is not named where there is no memory for that.
  void keep(const Sequence& sequence) noexcept;
  [[nodiscard]] std::int32_t count() const { return static_cast<std::int32_t>(slots_.size()); }
  /// Tokens of the conversation that a slot names; 0 for none.
  [[nodiscard]] std::int32_t num_tokens(std::int32_t id) const;

  /// What is known of a slot's conversation, to save it piece by piece. `salt`: Request::cache_salt, which must be its own.
  [[nodiscard]] SlotHead save(std::int32_t id, std::string_view salt, const PieceKey& owner) const;
  /// The bytes of a piece, while all of the prompt is still known.
  [[nodiscard]] std::vector<std::byte> piece(std::int32_t id, const SlotHead& head, std::int32_t index) const;
  /// Brings a piece of a saved prompt to host memory, for requests with this salt.
  void restore_piece(const SlotHead& head, std::string_view salt, std::int32_t index, std::span<const std::byte> bytes);
  /// Names a restored prompt by a slot.
  void restored(std::int32_t id, const SlotHead& head, std::string_view salt);
  /// Names nothing by the slot any more, and forgets what no other known prompt goes on from. Returns its tokens.
  std::int32_t erase(std::int32_t id, std::string_view salt);

 private:
  struct Slot {
    std::vector<std::int32_t> tokens{};  ///< empty: it names nothing
    std::vector<TokenSpan> spans{};
    std::vector<AdapterScale> adapters{};
    std::string salt{};         ///< of the request
    std::string prefix_salt{};  ///< of salt and adapters
    std::uint64_t last_use = 0;

    [[nodiscard]] KnownPrompt prompt() const { return {.tokens = tokens, .salt = prefix_salt, .spans = spans}; }
  };
  [[nodiscard]] const Slot& used(std::int32_t id, std::string_view salt) const;
  [[nodiscard]] std::int32_t choose(const Sequence& sequence) const;
  [[nodiscard]] std::vector<AdapterScale> loaded(const SlotHead& head) const;

  std::vector<Slot> slots_;
  PieceKey identity_;
  const EngineAdapters* adapters_;
  SequenceCache* cache_;
  PromptPieces pieces_;
  std::size_t piece_bytes_;
  std::uint64_t clock_ = 0;
};

}  // namespace rocmforge
