#include "engine/slot_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "engine/prompt_pieces.h"

namespace rocmforge {
namespace {

constexpr std::string_view slot_temporary_suffix = ".slot-tmp";

/// An adapter as the file has it.
struct AdapterRecord {
  std::array<char, 64> fingerprint{};
  float scale = 0.0f;
};
static_assert(sizeof(AdapterRecord) == 68 && sizeof(TokenSpan) == 40);

/// The start of a file. Behind it come tokens, spans and adapters, then the pieces.
struct Start {
  std::array<char, 8> magic{'R', 'F', 'S', 'L', 'O', 'T', '0', '1'};
  PieceKey identity{};
  PieceKey owner{};
  std::int32_t block_tokens = 0;
  std::int32_t blocks = 0;
  std::int32_t piece_blocks = 0;
  std::uint32_t num_tokens = 0;
  std::uint32_t num_spans = 0;
  std::uint32_t num_adapters = 0;
  std::uint64_t sum = 0;  ///< checksum() of what follows up to the pieces, and of this with a sum of 0
};
static_assert(sizeof(Start) == 104);

/// All of the head as the file has it.
struct HeadBytes {
  Start start;
  std::vector<std::byte> rest;
};

template <class T>
void append(std::vector<std::byte>& bytes, std::span<const T> values) {
  const auto part = std::as_bytes(values);
  bytes.insert(bytes.end(), part.begin(), part.end());
}

std::uint64_t sum_of(Start start, std::span<const std::byte> rest) {
  start.sum = 0;
  return checksum(std::as_bytes(std::span(&start, 1))) * 3 + checksum(rest);
}

HeadBytes bytes_of_head(const SlotHead& head) {
  HeadBytes bytes{.start = {.identity = head.identity,
                            .owner = head.owner,
                            .block_tokens = head.block_tokens,
                            .blocks = head.blocks,
                            .piece_blocks = head.piece_blocks,
                            .num_tokens = static_cast<std::uint32_t>(head.tokens.size()),
                            .num_spans = static_cast<std::uint32_t>(head.spans.size()),
                            .num_adapters = static_cast<std::uint32_t>(head.adapters.size())},
                  .rest = {}};
  append(bytes.rest, std::span(head.tokens));
  append(bytes.rest, std::span(head.spans));
  for (const SavedAdapter& adapter : head.adapters) {
    AdapterRecord record{.fingerprint = {}, .scale = adapter.scale};
    check(adapter.fingerprint.size() == record.fingerprint.size(), "a fingerprint has 64 digits");
    std::ranges::copy(adapter.fingerprint, record.fingerprint.begin());
    append(bytes.rest, std::span<const AdapterRecord>(&record, 1));
  }
  bytes.start.sum = sum_of(bytes.start, bytes.rest);
  return bytes;
}

template <class T>
std::span<const std::byte> take(std::span<const std::byte> from, std::vector<T>& to, std::size_t count) {
  to.resize(count);
  if (count > 0) {
    std::memcpy(to.data(), from.data(), count * sizeof(T));
  }
  return from.subspan(count * sizeof(T));
}

/// Whether the numbers agree; sums of them are no overflow then.
bool is_possible(const SlotHead& head) {
  constexpr std::size_t most_tokens = std::size_t{1} << 30;
  if (head.block_tokens < 1 || head.blocks < 1 || head.piece_blocks < 1 || head.piece_blocks > head.blocks ||
      head.tokens.size() > most_tokens ||
      !std::cmp_equal(head.tokens.size(), std::int64_t{head.blocks} * head.block_tokens + 1)) {
    return false;
  }
  std::int64_t end = 0;  // of the span before
  return std::ranges::all_of(head.spans, [&](const TokenSpan& span) {
    const bool fits = span.first >= end && span.count > 0 && std::int64_t{span.first} + span.count <= head.saved_tokens();
    end = std::int64_t{span.first} + span.count;
    return fits;
  });
}

SlotHead read_head(PieceFile& file) {
  Start start;
  if (!file.read(bytes_of_value(start)) || start.magic != Start().magic) {
    throw Error("is no file of a slot");
  }
  const std::uint64_t size = std::uint64_t{start.num_tokens} * sizeof(std::int32_t) +
                             std::uint64_t{start.num_spans} * sizeof(TokenSpan) +
                             std::uint64_t{start.num_adapters} * sizeof(AdapterRecord);
  std::vector<std::byte> rest(std::min<std::uint64_t>(size, file.bytes_left()));
  if (rest.size() != size || !file.read(rest) || start.sum != sum_of(start, rest)) {
    throw Error("is damaged or cut off at its start");
  }
  SlotHead head{.identity = start.identity,
                .owner = start.owner,
                .block_tokens = start.block_tokens,
                .blocks = start.blocks,
                .piece_blocks = start.piece_blocks,
                .tokens = {},
                .spans = {},
                .adapters = {}};
  std::vector<AdapterRecord> adapters;
  take(take(take(rest, head.tokens, start.num_tokens), head.spans, start.num_spans), adapters, start.num_adapters);
  for (const AdapterRecord& record : adapters) {
    head.adapters.push_back({{record.fingerprint.begin(), record.fingerprint.end()}, record.scale});
  }
  if (!is_possible(head)) {
    throw Error("has numbers that contradict each other at its start");
  }
  return head;
}

/// The key in the place of that of the piece before the first.
PieceKey first_key(const SlotHead& head) {
  const HeadBytes bytes = bytes_of_head(head);
  return first_piece_key(head.identity, {reinterpret_cast<const char*>(bytes.rest.data()), bytes.rest.size()});
}

std::vector<std::int32_t> contents_of_piece(const SlotHead& head, std::int32_t index) {
  std::vector<std::int32_t> contents;
  append_contents(contents, {.tokens = head.tokens, .salt = {}, .spans = head.spans}, head.block_tokens, head.first(index),
                  head.end(index));
  return contents;
}

}  // namespace

std::size_t SlotHead::end(std::int32_t index) const {
  return std::min(first(index) + static_cast<std::size_t>(piece_blocks), static_cast<std::size_t>(blocks));
}

std::filesystem::path slot_path(const std::filesystem::path& folder, std::string_view name) {
  constexpr std::size_t longest = 200;
  const auto is_bad = [](char c) { return c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (name.empty() || name.size() > longest || name.front() == '.' || std::ranges::any_of(name, is_bad) ||
      name.ends_with(slot_temporary_suffix)) {
    throw Error(fmt::format(
        "a file's name has 1 to {} bytes, no parts of a path, no control characters and no dot before it", longest));
  }
  return folder / name;
}

SlotWriter::SlotWriter(std::filesystem::path path, const SlotHead& head)
    : path_(std::move(path)),
      temporary_(path_.string() + fmt::format("-{}", ::getpid()) + std::string(slot_temporary_suffix)),
      head_(head),
      file_(temporary_, O_WRONLY | O_CREAT | O_TRUNC),
      key_(first_key(head)) {
  if (!file_.is_open()) {
    throw Error(std::strerror(errno));
  }
}

SlotWriter::~SlotWriter() { ::unlink(temporary_.c_str()); }

void SlotWriter::add(std::vector<std::byte> bytes) {
  if (index_ == 0) {
    HeadBytes start = bytes_of_head(head_);
    file_.write(bytes_of_value(start.start));
    file_.write(start.rest);
  }
  PromptPiece piece{.key = {}, .contents = contents_of_piece(head_, index_), .bytes = std::move(bytes)};
  key_ = piece.key = piece_key(key_, piece.contents);
  write_piece(file_, piece);
  ++index_;
}

std::int64_t SlotWriter::finish() {
  check(index_ == head_.pieces(), "a slot's file has all pieces");
  const std::int64_t bytes = file_.size();
  std::filesystem::rename(temporary_, path_);
  return bytes;
}

SlotReader::SlotReader(const std::filesystem::path& path) : file_(path, O_RDONLY) {
  if (!file_.is_open() || file_.size() < 0) {
    throw Error(file_.is_open() ? "is no usual file" : std::strerror(errno));
  }
  head_ = read_head(file_);
  key_ = first_key(head_);
}

std::vector<std::byte> SlotReader::next() {
  const std::vector<std::int32_t> contents = contents_of_piece(head_, index_);
  key_ = piece_key(key_, contents);
  std::optional<std::vector<std::byte>> bytes = read_piece(file_, key_, contents);
  if (!bytes || (index_ + 1 == head_.pieces() && file_.bytes_left() > 0)) {
    throw Error(fmt::format("is damaged, cut off or too long in piece {} of {}", index_ + 1, head_.pieces()));
  }
  ++index_;
  return std::move(*bytes);
}

}  // namespace rocmforge
