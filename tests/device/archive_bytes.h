#pragma once

#include <lzma.h>

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace rocmforge::test {

/// An archive of code objects (device/kernel_archive.h), whose fields a test may set to wrong values.
struct ArchiveBytes {
  struct Section {
    std::map<std::string, std::string> objects;
    std::optional<std::uint64_t> stored_offset, stored_bytes, stream_bytes;  ///< wrong values for the index
    std::uint64_t offset = 0;                                                ///< of the objects in the stream
    std::optional<std::string> stored;                                       ///< in place of the packed objects
  };

  std::string stamp;
  std::map<std::string, Section> sections;
  std::string behind_index;
  std::optional<std::uint32_t> index_bytes, section_count;

  static std::string number(std::uint64_t value, int size_bytes) {
    std::string text;
    for (int i = 0; i < size_bytes; ++i) {
      text += static_cast<char>(value >> (8 * i));
    }
    return text;
  }
  static std::string name(std::string_view word) { return number(word.size(), 1) + std::string(word); }

  static std::string packed(std::string_view raw, std::uint32_t preset = 0) {
    std::string stored(lzma_stream_buffer_bound(raw.size()), '\0');
    std::size_t size_bytes = 0;
    if (lzma_easy_buffer_encode(preset, LZMA_CHECK_CRC32, nullptr, reinterpret_cast<const std::uint8_t*>(raw.data()),
                                raw.size(), reinterpret_cast<std::uint8_t*>(stored.data()), &size_bytes,
                                stored.size()) != LZMA_OK) {
      throw std::runtime_error("cannot compress");
    }
    stored.resize(size_bytes);
    return stored;
  }

  [[nodiscard]] std::string text() const {
    std::string index;
    std::uint64_t index_size = 0;
    for (int round = 0; round < 2; ++round) {  // offsets follow from the size of the index
      index_size = index.size();
      index = name(stamp) + number(section_count.value_or(static_cast<std::uint32_t>(sections.size())), 4);
      std::uint64_t offset = 12 + index_size;
      for (const auto& [architecture, section] : sections) {
        const std::string stored = bytes_of(section);
        index += name(architecture) + number(section.stored_offset.value_or(offset), 8) +
                 number(section.stored_bytes.value_or(stored.size()), 8) +
                 number(section.stream_bytes.value_or(raw_of(section).size()), 8) + number(section.offset, 8) +
                 number(section.objects.size(), 4);
        for (const auto& [object, code] : section.objects) {
          index += name(object) + number(code.size(), 8);
        }
        offset += stored.size();
      }
      index += behind_index;
    }
    std::string file = "RFKERNL1" + number(index_bytes.value_or(static_cast<std::uint32_t>(index.size())), 4) + index;
    for (const auto& [architecture, section] : sections) {
      file += bytes_of(section);
    }
    return file;
  }

  static std::string raw_of(const Section& section) {
    std::string raw;
    for (const auto& [object, code] : section.objects) {
      raw += code;
      raw.resize((raw.size() + 63) / 64 * 64);
    }
    return raw;
  }

 private:
  static std::string bytes_of(const Section& section) { return section.stored ? *section.stored : packed(raw_of(section)); }
};

}  // namespace rocmforge::test
