#include "tensor/random_rows.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "base/error.h"
#include "base/half.h"

namespace rocmforge {
namespace {

/// Where a format's blocks keep their 16-bit scale, and the offset or minimum that goes with it.
struct ScaleFields {
  DType type;
  int scale_offset;            ///< -1 where the scale is a power of two in the block's first byte
  int minimum_offset = -1;     ///< -1 for none
  float minimum_ratio = 0.0f;  ///< minimum / scale that gives weights around 0, as real ones are
};

constexpr ScaleFields scale_fields[] = {
    {DType::q4_0, 0},           {DType::q4_1, 0, 2, -7.5f},  {DType::q5_0, 0},   {DType::q5_1, 0, 2, -15.5f},
    {DType::q8_0, 0},           {DType::q2_k, 80, 82, 1.5f}, {DType::q3_k, 108}, {DType::q4_k, 0, 2, 7.5f},
    {DType::q5_k, 0, 2, 15.5f}, {DType::q6_k, 208},          {DType::iq4_nl, 0}, {DType::iq4_xs, 0},
    {DType::mxfp4, -1}};

template <class Value>
void put(std::vector<std::byte>& data, std::size_t offset, const Value& value) {
  std::memcpy(data.data() + offset, &value, sizeof value);
}

void fill_plain(DType type, std::vector<std::byte>& data, Random& random) {
  const std::size_t size = type == DType::f32 ? 4 : 2;
  const std::vector<float> values = random.normals(static_cast<std::int64_t>(data.size() / size));
  for (std::size_t offset = 0; offset < data.size(); offset += size) {
    const float value = values[offset / size];
    if (type == DType::f32) {
      put(data, offset, value);
    } else {
      put(data, offset, type == DType::f16 ? float_to_half(value) : float_to_bfloat16(value));
    }
  }
}

void set_scales(const ScaleFields& format, std::byte* block, Random& random) {
  if (format.scale_offset < 0) {
    *block = static_cast<std::byte>(118 + random.below(6));
    return;
  }
  const auto put_half = [block](int offset, float value) {
    const std::uint16_t bits = float_to_half(value);
    std::memcpy(block + offset, &bits, sizeof bits);
  };
  const float scale = random.uniform(0.002f, 0.02f) * (random.below(2) == 0 ? -1.0f : 1.0f);
  put_half(format.scale_offset, scale);
  if (format.minimum_offset >= 0) {
    put_half(format.minimum_offset, scale * format.minimum_ratio);
  }
}

}  // namespace

std::vector<std::byte> random_rows(DType type, std::int64_t rows, std::int64_t cols, Random& random) {
  std::vector<std::byte> data(row_bytes(type, cols) * static_cast<std::size_t>(rows));
  if (type == DType::f32 || type == DType::f16 || type == DType::bf16) {
    fill_plain(type, data, random);
    return data;
  }
  const auto* format = std::ranges::find(scale_fields, type, &ScaleFields::type);
  if (format == std::end(scale_fields)) {
    throw Error("no random rows can be made of " + std::string(name(type)));
  }
  std::generate(data.begin(), data.end(), [&random] { return static_cast<std::byte>(random.bits()); });
  const auto block_bytes = static_cast<std::size_t>(info(type).block_bytes);
  for (std::size_t block = 0; block < data.size(); block += block_bytes) {
    set_scales(*format, data.data() + block, random);
  }
  return data;
}

}  // namespace rocmforge
