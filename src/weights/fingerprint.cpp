#include "weights/fingerprint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/sha256.h"

namespace rocmforge {
namespace {

constexpr std::size_t sample_bytes = 4096;

class Collected {
 public:
  void add(std::span<const std::byte> bytes) {
    const auto* const first = reinterpret_cast<const std::uint8_t*>(bytes.data());
    bytes_.insert(bytes_.end(), first, first + bytes.size());
  }
  void add_text(std::string_view text) {
    add_number(text.size());
    add(std::as_bytes(std::span(text)));
  }
  template <class Number>
  void add_number(Number number) {
    add(std::as_bytes(std::span(&number, 1)));
  }
  void add_value(const GgufValue& value) {
    std::visit(
        [this](const auto& held) {
          using Held = std::decay_t<decltype(held)>;
          if constexpr (std::is_same_v<Held, std::string>) {
            add_text(held);
          } else if constexpr (std::is_same_v<Held, GgufArray>) {
            add_number(held.size());
          } else {
            add_number(held);
          }
        },
        value);
  }
  [[nodiscard]] std::string digest() const { return fmt::format("{:08x}", fmt::join(sha256(bytes_), "")); }

 private:
  std::vector<std::uint8_t> bytes_;
};

}  // namespace

std::string fingerprint(const GgufFile& file) {
  Collected collected;
  collected.add_number(file.file_bytes());
  for (const auto& [key, value] : file.metadata()) {
    collected.add_text(key);
    collected.add_value(value);
  }
  Collected all;
  all.add_text(collected.digest());
  for (const GgufTensor& tensor : file.tensors()) {
    Collected own;
    own.add_text(tensor.name);
    own.add_text(name(tensor.tensor.dtype));
    own.add_number(tensor.file_offset);
    own.add_number(tensor.shard);
    const std::span data(static_cast<const std::byte*>(tensor.tensor.data), tensor.tensor.bytes());
    const std::size_t sample = std::min(data.size(), sample_bytes);
    for (const std::size_t at : {std::size_t{0}, (data.size() - sample) / 2, data.size() - sample}) {
      own.add(data.subspan(at, sample));
    }
    all.add_text(own.digest());
  }
  return all.digest();
}

}  // namespace rocmforge
