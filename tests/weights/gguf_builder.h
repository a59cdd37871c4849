#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "weights/gguf_file.h"

namespace rocmforge {

/// Little-endian bytes of a GGUF file or a part of one, written without any check.
class Bytes {
 public:
  template <class T>
  Bytes& put(T value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), from, from + sizeof value);
    return *this;
  }
  Bytes& text(std::string_view text) {  ///< with its length
    put(std::uint64_t{text.size()});
    return raw(text);
  }
  Bytes& raw(std::string_view text) {
    const auto* from = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), from, from + text.size());
    return *this;
  }
  Bytes& raw(const std::vector<std::byte>& other) {
    bytes_.insert(bytes_.end(), other.begin(), other.end());
    return *this;
  }
  Bytes& pad_to(std::size_t alignment) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
    return *this;
  }
  Bytes& zeros(std::size_t count) {
    bytes_.resize(bytes_.size() + count);
    return *this;
  }

  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }

 private:
  std::vector<std::byte> bytes_;
};

/// A GGUF file from its parts. Any field may be set to a wrong value; by default all are correct.
struct GgufBuilder {
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::uint64_t num_tensors = 0;  ///< as written; the functions below count
  std::uint64_t num_pairs = 0;
  Bytes pairs;
  Bytes entries;
  std::size_t alignment = 32;
  std::size_t data_bytes = 0;

  /// A pair with a value of any bytes.
  GgufBuilder& pair(std::string_view key, GgufType type, const Bytes& value) {
    pairs.text(key).put(static_cast<std::uint32_t>(type)).raw(value.bytes());
    ++num_pairs;
    return *this;
  }
  template <class T>
  GgufBuilder& scalar(std::string_view key, GgufType type, T value) {
    return pair(key, type, Bytes().put(value));
  }
  GgufBuilder& string(std::string_view key, std::string_view value) {
    return pair(key, GgufType::string, Bytes().text(value));
  }
  template <class T>
  GgufBuilder& array(std::string_view key, GgufType element, const std::vector<T>& values) {
    Bytes value;
    value.put(static_cast<std::uint32_t>(element)).put(std::uint64_t{values.size()});
    for (const T& element_value : values) {
      if constexpr (std::is_same_v<T, std::string>) {
        value.text(element_value);
      } else {
        value.put(element_value);
      }
    }
    return pair(key, GgufType::array, value);
  }
  /// A tensor's entry; `dims` innermost first, as the file lists them.
  GgufBuilder& entry(std::string_view name, const std::vector<std::int64_t>& dims, std::uint32_t type,
                     std::uint64_t offset) {
    entries.text(name).put(static_cast<std::uint32_t>(dims.size()));
    for (const auto dim : dims) {
      entries.put(dim);
    }
    entries.put(type).put(offset);
    ++num_tensors;
    return *this;
  }
  /// A tensor placed after the ones before it, with its data.
  GgufBuilder& tensor(std::string_view name, const std::vector<std::int64_t>& dims, DType type, std::size_t bytes) {
    entry(name, dims, static_cast<std::uint32_t>(type), data_bytes);
    data_bytes = (data_bytes + bytes + alignment - 1) / alignment * alignment;
    return *this;
  }

  [[nodiscard]] Bytes header() const {
    Bytes out;
    out.raw(magic).put(version).put(num_tensors).put(num_pairs).raw(pairs.bytes()).raw(entries.bytes());
    return out;
  }
  [[nodiscard]] std::vector<std::byte> build() const { return header().pad_to(alignment).zeros(data_bytes).bytes(); }
};

}  // namespace rocmforge
