#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/piece_file.h"
#include "schedule/pages/token_span.h"

namespace rocmforge {

/// An adapter by what it computes, not by its id, which another process may give to another one.
struct SavedAdapter {
  std::string fingerprint;  ///< 64 hex digits, of its file
  float scale = 1.0f;
};

/// What the file of a slot tells before its pieces.
struct SlotHead {
  PieceKey identity{};  ///< of the model and its cache, see identity_of()
  PieceKey owner{};     ///< who may restore it
  std::int32_t block_tokens = 0;
  std::int32_t blocks = 0;           ///< of the saved prompt
  std::int32_t piece_blocks = 0;     ///< of each piece but the last
  std::vector<std::int32_t> tokens;  ///< those of the blocks, and one more
  std::vector<TokenSpan> spans;
  std::vector<SavedAdapter> adapters;

  [[nodiscard]] std::int32_t saved_tokens() const { return blocks * block_tokens; }
  [[nodiscard]] std::int32_t pieces() const { return (blocks + piece_blocks - 1) / piece_blocks; }
  /// The blocks of piece `index` are [first, end).
  [[nodiscard]] std::size_t first(std::int32_t index) const { return static_cast<std::size_t>(index * piece_blocks); }
  [[nodiscard]] std::size_t end(std::int32_t index) const;
};

/// The path of a slot's file in a folder. Throws Error for a name with parts of a path, a hidden one, one with control
/// characters, and one of more than 200 bytes.
std::filesystem::path slot_path(const std::filesystem::path& folder, std::string_view name);

/// Writes the file of a slot. It gets its name when it is whole; before it had one or not, it stays as it was.
class SlotWriter {
 public:
  /// Throws Error with the system's reason, as add() and finish().
  SlotWriter(std::filesystem::path path, const SlotHead& head);
  /// Removes what is not whole.
  ~SlotWriter();
  SlotWriter(const SlotWriter&) = delete;
  SlotWriter& operator=(const SlotWriter&) = delete;

  /// The bytes of the next piece.
  void add(std::vector<std::byte> bytes);
  /// After the last piece. Returns the bytes of the file.
  std::int64_t finish();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  SlotHead head_;
  PieceFile file_;
  PieceKey key_;
  std::int32_t index_ = 0;
};

/// Reads the file of a slot.
class SlotReader {
 public:
  /// Throws Error where there is no such file, or none of a slot, or where its start is damaged.
  explicit SlotReader(const std::filesystem::path& path);
  [[nodiscard]] const SlotHead& head() const { return head_; }
  /// The bytes of the next piece. Throws Error where it is damaged or cut off.
  std::vector<std::byte> next();
  /// Bytes of the file.
  [[nodiscard]] std::int64_t bytes() const { return file_.size(); }

 private:
  PieceFile file_;
  SlotHead head_;
  PieceKey key_;
  std::int32_t index_ = 0;
};

}  // namespace rocmforge
