#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace rocmforge {

/// Names a piece of a prompt by all that its bytes depend on: a SHA-256 of the key of the piece before it and its contents.
using PieceKey = std::array<std::uint32_t, 8>;

/// The key in the place of the piece before a prompt's first: of the model (see identity_of) and the salt.
PieceKey first_piece_key(const PieceKey& identity, std::string_view salt);
PieceKey piece_key(const PieceKey& before, std::span<const std::int32_t> contents);

/// A checksum that any change of one 8-byte word changes; not one against intent.
std::uint64_t checksum(std::span<const std::byte> bytes);

/// Several blocks of a prompt that follow each other.
struct PromptPiece {
  PieceKey key{};
  std::vector<std::int32_t> contents;  ///< tokens, and what images hold
  std::vector<std::byte> bytes;
};

/// A file that is closed at the end. Opening does not wait, also where it is a pipe, and does not follow a link.
class PieceFile {
 public:
  /// `flags` as those of open(); a new file is for this user alone.
  PieceFile(const std::filesystem::path& path, int flags);
  ~PieceFile();
  PieceFile(const PieceFile&) = delete;
  PieceFile& operator=(const PieceFile&) = delete;

  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  /// False at an error and where the file ends before.
  bool read(std::span<std::byte> to);
  /// Throws Error with the system's reason.
  void write(std::span<const std::byte> from);
  /// -1 where it is no usual file.
  [[nodiscard]] std::int64_t size() const;
  /// Bytes behind what was read or written; 0 where it is no usual file.
  [[nodiscard]] std::uint64_t bytes_left() const;

 private:
  int descriptor_;
};

/// The start of a piece in a file. Behind it come the contents, then the bytes.
struct PieceHeader {
  std::array<char, 8> magic{'R', 'F', 'P', 'R', 'O', 'M', 'P', 'T'};
  std::uint32_t version = 1;
  std::uint32_t reserved = 0;
  PieceKey key{};
  std::uint64_t num_contents = 0;
  std::uint64_t num_bytes = 0;
  std::uint64_t sum = 0;  ///< checksum() of contents and bytes, one multiplied

  friend bool operator==(const PieceHeader&, const PieceHeader&) = default;
  /// Of the piece with it.
  [[nodiscard]] std::uint64_t file_bytes() const { return sizeof(PieceHeader) + 4 * num_contents + num_bytes; }
};
static_assert(sizeof(PieceHeader) == 72);

std::uint64_t bytes_on_disk(const PromptPiece& piece);

/// Throws Error with the system's reason.
void write_piece(PieceFile& file, const PromptPiece& piece);
/// Empty where no piece of this version begins here, or one that is longer than the rest of the file.
std::optional<PieceHeader> read_piece_header(PieceFile& file);
/// The bytes of the piece that begins here; empty where it has another key or other contents, or is not whole.
std::optional<std::vector<std::byte>> read_piece(PieceFile& file, const PieceKey& key,
                                                 std::span<const std::int32_t> contents);

template <class T>
std::span<std::byte> bytes_of_value(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace rocmforge
