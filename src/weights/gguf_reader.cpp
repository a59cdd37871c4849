#include "weights/gguf_reader.h"

#include <fmt/format.h>

#include <array>
#include <bit>

#include "base/error.h"

namespace rocmforge {

static_assert(std::endian::native == std::endian::little, "values are copied from the file as they are");

namespace {

constexpr std::uint64_t longest_string = std::uint64_t{1} << 30;
// The limit for all arrays of a file together. The largest vocabularies have fewer than 2^19 entries in a few arrays.
// Without the limit, a false count or a tensor stored as metadata could need gigabytes, as an element takes up to 40 bytes
// of memory.
constexpr std::uint64_t most_array_elements = std::uint64_t{1} << 24;
constexpr int deepest_array = 8;

/// Bytes of one value by type id. For strings and arrays, the fewest bytes: those of their length fields.
constexpr std::array<std::uint64_t, 13> least_bytes{1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

}  // namespace

void GgufReader::fail_at(std::uint64_t offset, std::string_view message) {
  throw Error(fmt::format("{} (at byte {})", message, offset));
}

void GgufReader::need(std::uint64_t count, std::string_view what) const {
  if (count > left()) {
    fail_at(position_, fmt::format("the file ends inside {}: {} bytes needed, {} left", what, count, left()));
  }
}

std::string GgufReader::read_string(std::string_view what) {
  const std::uint64_t start = position_;
  const auto length = read<std::uint64_t>(what);
  if (length > longest_string || length > left()) {
    fail_at(start, fmt::format("{} claims {} bytes, {} are left (limit {})", what, length, left(), longest_string));
  }
  std::string text(reinterpret_cast<const char*>(bytes_.data() + position_), length);
  position_ += length;
  return text;
}

GgufType GgufReader::read_type(std::string_view what) {
  const std::uint64_t start = position_;
  const auto id = read<std::uint32_t>(what);
  if (id >= least_bytes.size()) {
    fail_at(start, fmt::format("{} {} is unknown", what, id));
  }
  return static_cast<GgufType>(id);
}

bool GgufReader::read_bool() {
  const auto value = read<std::uint8_t>("a boolean");
  if (value > 1) {
    fail_at(position_ - 1, fmt::format("a boolean is {}, not 0 or 1", value));
  }
  return value == 1;
}

GgufValue GgufReader::read_value(GgufType type) {
  constexpr std::string_view what = "a value";
  switch (type) {
    case GgufType::u8:
      return std::uint64_t{read<std::uint8_t>(what)};
    case GgufType::i8:
      return std::int64_t{read<std::int8_t>(what)};
    case GgufType::u16:
      return std::uint64_t{read<std::uint16_t>(what)};
    case GgufType::i16:
      return std::int64_t{read<std::int16_t>(what)};
    case GgufType::u32:
      return std::uint64_t{read<std::uint32_t>(what)};
    case GgufType::i32:
      return std::int64_t{read<std::int32_t>(what)};
    case GgufType::f32:
      return double{read<float>(what)};
    case GgufType::boolean:
      return read_bool();
    case GgufType::string:
      return read_string("a string");
    case GgufType::array:
      return read_array(1);
    case GgufType::u64:
      return read<std::uint64_t>(what);
    case GgufType::i64:
      return read<std::int64_t>(what);
    case GgufType::f64:
      return read<double>(what);
  }
  throw LogicError("an unknown value type");
}

GgufArray GgufReader::read_array(int depth) {
  const std::uint64_t start = position_;
  if (depth > deepest_array) {
    fail_at(start, fmt::format("arrays are nested more than {} deep", deepest_array));
  }
  GgufArray array;
  array.element_type = read_type("array element type");
  const auto count = read<std::uint64_t>("an array's length");
  if (count > left() / least_bytes[static_cast<std::size_t>(array.element_type)]) {
    fail_at(start,
            fmt::format("an array of {} claims {} elements, {} bytes are left", name(array.element_type), count, left()));
  }
  array_elements_ += count;
  if (array_elements_ > most_array_elements) {
    fail_at(start, fmt::format("an array of {} elements: all arrays of a file may have {}", count, most_array_elements));
  }
  read_array_elements(array, count, depth);
  return array;
}

template <class Stored, class Wide>
std::vector<Wide> GgufReader::read_elements(std::uint64_t count) {
  std::vector<Wide> out(count);
  const std::byte* from = bytes_.data() + position_;
  for (std::uint64_t i = 0; i < count; ++i) {
    Stored value;
    std::memcpy(&value, from + i * sizeof(Stored), sizeof(Stored));
    out[i] = value;
  }
  position_ += count * sizeof(Stored);
  return out;
}

void GgufReader::read_array_elements(GgufArray& array, std::uint64_t count, int depth) {
  const auto fill = [count](auto& elements, auto&& read_one) {
    elements.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      elements.push_back(read_one());
    }
  };
  switch (array.element_type) {
    case GgufType::u8:
      array.elements = read_elements<std::uint8_t, std::uint64_t>(count);
      break;
    case GgufType::i8:
      array.elements = read_elements<std::int8_t, std::int64_t>(count);
      break;
    case GgufType::u16:
      array.elements = read_elements<std::uint16_t, std::uint64_t>(count);
      break;
    case GgufType::i16:
      array.elements = read_elements<std::int16_t, std::int64_t>(count);
      break;
    case GgufType::u32:
      array.elements = read_elements<std::uint32_t, std::uint64_t>(count);
      break;
    case GgufType::i32:
      array.elements = read_elements<std::int32_t, std::int64_t>(count);
      break;
    case GgufType::u64:
      array.elements = read_elements<std::uint64_t, std::uint64_t>(count);
      break;
    case GgufType::i64:
      array.elements = read_elements<std::int64_t, std::int64_t>(count);
      break;
    case GgufType::f32:
      array.elements = read_elements<float, double>(count);
      break;
    case GgufType::f64:
      array.elements = read_elements<double, double>(count);
      break;
    case GgufType::boolean:
      fill(array.elements.emplace<std::vector<bool>>(), [this] { return read_bool(); });
      break;
    case GgufType::string:
      fill(array.elements.emplace<std::vector<std::string>>(), [this] { return read_string("a string of an array"); });
      break;
    case GgufType::array:
      fill(array.elements.emplace<std::vector<GgufArray>>(), [this, depth] { return read_array(depth + 1); });
      break;
  }
}

}  // namespace rocmforge
