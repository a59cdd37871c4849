#include "engine/piece_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/sha256.h"

namespace rocmforge {
namespace {

PieceHeader header_of(const PieceKey& key, std::span<const std::int32_t> contents, std::span<const std::byte> bytes) {
  return {.key = key,
          .num_contents = contents.size(),
          .num_bytes = bytes.size(),
          .sum = checksum(std::as_bytes(contents)) * 3 + checksum(bytes)};
}

PieceKey hash_of(std::span<const std::byte> bytes) {
  return sha256({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

}  // namespace

PieceKey first_piece_key(const PieceKey& identity, std::string_view salt) {
  std::vector<std::byte> text(sizeof(identity) + salt.size());
  std::memcpy(text.data(), identity.data(), sizeof(identity));
  std::ranges::copy(std::as_bytes(std::span(salt)), text.begin() + sizeof(identity));
  return hash_of(text);
}

PieceKey piece_key(const PieceKey& before, std::span<const std::int32_t> contents) {
  std::vector<std::byte> text(sizeof(before) + contents.size_bytes());
  std::memcpy(text.data(), before.data(), sizeof(before));
  std::ranges::copy(std::as_bytes(contents), text.begin() + sizeof(before));
  return hash_of(text);
}

// Each step is a bijection of its sum for a given word, and of the word for a given sum. Four sums are independent, so that
// a processor has four multiplications under way.
std::uint64_t checksum(std::span<const std::byte> bytes) {
  constexpr std::uint64_t factor = 0x9e3779b97f4a7c15u;
  std::array<std::uint64_t, 4> sums = {bytes.size(), 1, 2, 3};
  const auto take = [](std::uint64_t& sum, std::uint64_t word) {
    sum = (sum ^ word) * factor;
    sum ^= sum >> 32;
  };
  std::size_t at = 0;
  for (; at + 32 <= bytes.size(); at += 32) {
    std::array<std::uint64_t, 4> words{};
    std::memcpy(words.data(), bytes.data() + at, sizeof(words));
    for (std::size_t i = 0; i < 4; ++i) {
      take(sums[i], words[i]);
    }
  }
  for (; at < bytes.size(); ++at) {
    take(sums[at % 4], static_cast<std::uint64_t>(bytes[at]));
  }
  std::uint64_t all = 0;
  for (const std::uint64_t sum : sums) {
    take(all, sum);
  }
  return all;
}

PieceFile::PieceFile(const std::filesystem::path& path, int flags)
    : descriptor_(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600)) {}

PieceFile::~PieceFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

bool PieceFile::read(std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t count = ::read(descriptor_, to.data(), to.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return false;
    }
    to = to.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

void PieceFile::write(std::span<const std::byte> from) {
  while (!from.empty()) {
    const ssize_t count = ::write(descriptor_, from.data(), from.size());
    if (count < 0 && errno != EINTR) {
      throw Error(std::strerror(errno));
    }
    from = from.subspan(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }
}

std::int64_t PieceFile::size() const {
  struct stat status {};
  return ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode) ? std::int64_t{status.st_size} : -1;
}

std::uint64_t PieceFile::bytes_left() const {
  const std::int64_t at = ::lseek(descriptor_, 0, SEEK_CUR), all = size();
  return at >= 0 && all > at ? static_cast<std::uint64_t>(all - at) : 0;
}

std::uint64_t bytes_on_disk(const PromptPiece& piece) {
  return sizeof(PieceHeader) + 4 * piece.contents.size() + piece.bytes.size();
}

void write_piece(PieceFile& file, const PromptPiece& piece) {
  PieceHeader header = header_of(piece.key, piece.contents, piece.bytes);
  file.write(bytes_of_value(header));
  file.write(std::as_bytes(std::span(piece.contents)));
  file.write(piece.bytes);
}

std::optional<PieceHeader> read_piece_header(PieceFile& file) {
  PieceHeader header;
  if (!file.read(bytes_of_value(header))) {
    return std::nullopt;
  }
  const PieceHeader usual;
  const std::uint64_t left = file.bytes_left();
  const bool fits = header.num_contents <= left / 4 && header.num_bytes <= left - 4 * header.num_contents;
  return header.magic == usual.magic && header.version == usual.version && fits ? std::optional(header) : std::nullopt;
}

std::optional<std::vector<std::byte>> read_piece(PieceFile& file, const PieceKey& key,
                                                 std::span<const std::int32_t> contents) {
  const std::optional<PieceHeader> header = read_piece_header(file);
  std::vector<std::int32_t> own(contents.size());
  if (!header || header->num_contents != contents.size() || !file.read(std::as_writable_bytes(std::span(own))) ||
      !std::ranges::equal(own, contents)) {
    return std::nullopt;
  }
  std::vector<std::byte> bytes(header->num_bytes);
  const bool is_whole = file.read(bytes) && *header == header_of(key, own, bytes);
  return is_whole ? std::optional(std::move(bytes)) : std::nullopt;
}

}  // namespace rocmforge
