#include "device/kernel_archive.h"

#include <fmt/format.h>
#include <lzma.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/math.h"

namespace rocmforge {
namespace {

/// More than any section needs: tools/build/kernel_archive.py uses dictionaries of up to 64 MiB.
constexpr std::uint64_t decoder_memory_bytes = std::uint64_t{80} << 20;

/// Reads the index from front to back. Throws Error when the index ends before a number or name does.
class Index {
 public:
  explicit Index(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::uint64_t number(std::size_t size_bytes) {
    const std::span<const std::byte> digits = take(size_bytes);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size_bytes; ++i) {
      value |= std::to_integer<std::uint64_t>(digits[i]) << (8 * i);
    }
    return value;
  }

  std::string name() {
    const std::span<const std::byte> bytes = take(number(1));
    std::string text(bytes.size(), '\0');
    std::ranges::transform(bytes, text.begin(), [](std::byte byte) { return static_cast<char>(byte); });
    const auto is_plain = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    };
    if (text.empty() || !std::ranges::all_of(text, is_plain)) {
      throw Error(fmt::format("damaged index: a name of {} bytes does not consist of letters, digits, '.', '_' and '-'",
                              text.size()));
    }
    return text;
  }

  [[nodiscard]] std::size_t left() const { return rest_.size(); }

 private:
  std::span<const std::byte> take(std::uint64_t size_bytes) {
    if (size_bytes > rest_.size()) {
      throw Error("damaged index: it ends within an entry");
    }
    const std::span<const std::byte> taken = rest_.first(static_cast<std::size_t>(size_bytes));
    rest_ = rest_.subspan(static_cast<std::size_t>(size_bytes));
    return taken;
  }

  std::span<const std::byte> rest_;
};

void check_order(const std::string& before, const std::string& name) {
  if (name <= before) {
    throw Error(fmt::format("damaged index: {} follows {}, but names must ascend", name, before));
  }
}

void read_objects(Index& index, KernelArchive::Section& section) {
  const std::size_t room = section.stream_bytes - section.offset;
  for (std::uint64_t left = index.number(4); left > 0; --left) {
    KernelArchive::Object object;
    object.name = index.name();
    object.offset = section.size_bytes;
    check_order(section.objects.empty() ? "" : section.objects.back().name, object.name);
    const std::uint64_t size_bytes = index.number(8);
    if (size_bytes > room - section.size_bytes) {
      throw Error(fmt::format("damaged index: {} has {} bytes, more than its stream has left", object.name, size_bytes));
    }
    object.size_bytes = static_cast<std::size_t>(size_bytes);
    section.size_bytes = round_up(section.size_bytes + object.size_bytes, kernel_archive_alignment);
    section.objects.push_back(std::move(object));
    if (section.size_bytes > room) {
      throw Error("damaged index: the stream ends within an object's padding");
    }
  }
  if (section.objects.empty()) {
    throw Error("damaged index: it has no objects");
  }
}

KernelArchive::Section read_section(Index& index, std::span<const std::byte> file) {
  KernelArchive::Section section;
  section.architecture = index.name();
  return with_context(section.architecture, [&] {
    const std::uint64_t stored_offset = index.number(8);
    const std::uint64_t stored_bytes = index.number(8);
    const std::uint64_t stream_bytes = index.number(8);
    const std::uint64_t offset = index.number(8);
    if (stored_offset > file.size() || stored_bytes > file.size() - stored_offset) {
      throw Error(fmt::format("cut short: its stream has {} bytes from offset {} on, but the file has {} bytes",
                              stored_bytes, stored_offset, file.size()));
    }
    if (stream_bytes > largest_kernel_stream_bytes) {
      throw Error(fmt::format("the index says that its stream decodes to {} bytes; at most {} are allowed", stream_bytes,
                              largest_kernel_stream_bytes));
    }
    if (offset > stream_bytes || offset % kernel_archive_alignment != 0) {
      throw Error(fmt::format("damaged index: its offset is {} in a stream of {} bytes", offset, stream_bytes));
    }
    section.stored = file.subspan(static_cast<std::size_t>(stored_offset), static_cast<std::size_t>(stored_bytes));
    section.stream_bytes = static_cast<std::size_t>(stream_bytes);
    section.offset = static_cast<std::size_t>(offset);
    read_objects(index, section);
    return std::move(section);
  });
}

/// liblzma's decoder of one xz stream.
class XzDecoder {
 public:
  /// `raw_bytes` is the number of bytes that `stored` must decode to.
  XzDecoder(std::span<const std::byte> stored, std::size_t raw_bytes) : raw_bytes_(raw_bytes) {
    if (lzma_stream_decoder(&stream_, decoder_memory_bytes, 0) != LZMA_OK) {
      throw Error("no memory to decode its stream");
    }
    stream_.next_in = reinterpret_cast<const std::uint8_t*>(stored.data());
    stream_.avail_in = stored.size();
  }
  ~XzDecoder() { lzma_end(&stream_); }
  XzDecoder(const XzDecoder&) = delete;
  XzDecoder& operator=(const XzDecoder&) = delete;

  /// Decodes the next bytes. Throws Error when the stream has fewer.
  void fill(std::span<std::byte> to) {
    if (advance(to) < to.size()) {
      throw Error(fmt::format("its stream decodes to {} bytes, but the index says {}", stream_.total_out, raw_bytes_));
    }
  }
  void skip(std::size_t size_bytes) {
    std::array<std::byte, 16384> ignored;
    for (; size_bytes > 0; size_bytes -= std::min(size_bytes, ignored.size())) {
      fill(std::span(ignored).first(std::min(size_bytes, ignored.size())));
    }
  }
  /// Throws Error unless the stream ends here and no stored bytes follow.
  void finish() {
    std::byte more{};
    if (advance({&more, 1}) > 0) {
      throw Error(fmt::format("its stream decodes to more than the {} bytes that the index says", raw_bytes_));
    }
    if (stream_.avail_in > 0) {
      throw Error(fmt::format("damaged: {} bytes follow the end of its stream", stream_.avail_in));
    }
  }

 private:
  /// Decodes up to `to.size()` bytes and returns their number, which is smaller at the end of the stream.
  std::size_t advance(std::span<std::byte> to) {
    stream_.next_out = reinterpret_cast<std::uint8_t*>(to.data());
    stream_.avail_out = to.size();
    while (!ended_ && stream_.avail_out > 0) {  // without progress lzma_code returns LZMA_BUF_ERROR
      const lzma_ret code = lzma_code(&stream_, LZMA_FINISH);
      ended_ = code == LZMA_STREAM_END;
      if (code != LZMA_OK && !ended_) {
        throw Error(reason_of(code));
      }
    }
    return to.size() - stream_.avail_out;
  }
  [[nodiscard]] std::string reason_of(lzma_ret code) const {
    switch (code) {
      case LZMA_BUF_ERROR:
        return "damaged: its stream ends too early";
      case LZMA_MEMLIMIT_ERROR:
        return fmt::format("its stream needs {} bytes of memory to decode; at most {} are allowed", lzma_memusage(&stream_),
                           decoder_memory_bytes);
      case LZMA_MEM_ERROR:
        return "no memory to decode its stream";
      case LZMA_FORMAT_ERROR:
        return "damaged: not an xz stream";
      case LZMA_OPTIONS_ERROR:
        return "its stream uses a feature of xz that this liblzma does not support";
      default:
        return "damaged: its stream does not decode";
    }
  }

  lzma_stream stream_ = LZMA_STREAM_INIT;
  std::size_t raw_bytes_;
  bool ended_ = false;
};

}  // namespace

KernelArchive::KernelArchive(std::span<const std::byte> bytes, std::string_view stamp) {
  if (bytes.size() < kernel_archive_magic.size() ||
      std::memcmp(bytes.data(), kernel_archive_magic.data(), kernel_archive_magic.size()) != 0) {
    throw Error(fmt::format("not an archive of GPU kernels (it does not begin with {})", kernel_archive_magic));
  }
  const std::span<const std::byte> behind_magic = bytes.subspan(kernel_archive_magic.size());
  constexpr std::size_t count_bytes = 4;
  const std::uint64_t index_bytes = behind_magic.size() < count_bytes ? 0 : Index(behind_magic).number(count_bytes);
  if (behind_magic.size() < count_bytes || index_bytes > behind_magic.size() - count_bytes) {
    throw Error(fmt::format("cut short: the file has {} bytes, less than its index", bytes.size()));
  }
  Index index(behind_magic.subspan(count_bytes, static_cast<std::size_t>(index_bytes)));
  if (const std::string found = index.name(); found != stamp) {
    throw Error(fmt::format("made from other kernel sources than this program ({}, not {})", found, stamp));
  }
  for (std::uint64_t left = index.number(4); left > 0; --left) {
    Section section = read_section(index, bytes);
    check_order(sections_.empty() ? "" : sections_.back().architecture, section.architecture);
    sections_.push_back(std::move(section));
  }
  if (index.left() > 0) {
    throw Error(fmt::format("damaged index: {} bytes follow its last entry", index.left()));
  }
}

// The whole stream is decoded, although only a part is kept, because its checksum is at its end.
std::vector<KernelArchiveLine> KernelArchive::Section::decode() const {
  std::vector<KernelArchiveLine> lines(size_bytes / kernel_archive_alignment);
  XzDecoder decoder(stored, stream_bytes);
  decoder.skip(offset);
  decoder.fill(std::as_writable_bytes(std::span(lines)));
  decoder.skip(stream_bytes - offset - size_bytes);
  decoder.finish();
  return lines;
}

}  // namespace rocmforge
