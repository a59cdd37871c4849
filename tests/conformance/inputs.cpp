#include "conformance/inputs.h"

#include <algorithm>
#include <stdexcept>

#include "base/half.h"

namespace rocmforge::test {

std::vector<DType> computing_types() {
  std::vector<DType> types;
  for (std::uint32_t id = 0; id < 64; ++id) {
    if (const auto type = dtype_from_id(id); type && info(*type).computes) {
      types.push_back(*type);
    }
  }
  return types;
}

std::vector<std::byte> random_rows(DType type, std::int64_t rows, std::int64_t cols, Random& random) {
  std::vector<std::byte> data(row_bytes(type, cols) * static_cast<std::size_t>(rows));
  const auto put = [&data](std::size_t offset, const auto& value) {
    std::memcpy(data.data() + offset, &value, sizeof value);
  };
  if (type == DType::f32 || type == DType::f16 || type == DType::bf16) {
    const std::size_t bytes = type == DType::f32 ? 4 : 2;
    const std::vector<float> values = random.normals(static_cast<std::int64_t>(data.size() / bytes));
    for (std::size_t i = 0; i < data.size(); i += bytes) {
      const float value = values[i / bytes];
      if (type == DType::f32) {
        put(i, value);
      } else {
        put(i, type == DType::f16 ? float_to_half(value) : float_to_bfloat16(value));
      }
    }
    return data;
  }
  const auto fields = scale_fields();
  const auto format = std::find_if(fields.begin(), fields.end(), [type](const ScaleFields& f) { return f.type == type; });
  if (format == fields.end()) {
    throw std::logic_error("scale_fields() has no entry for " + std::string(name(type)));
  }
  std::generate(data.begin(), data.end(), [&random] { return static_cast<std::byte>(random.bits()); });
  for (std::size_t block = 0; block < data.size(); block += static_cast<std::size_t>(info(type).block_bytes)) {
    if (format->scale_offset < 0) {
      data[block] = static_cast<std::byte>(118 + random.below(6));
      continue;
    }
    const float scale = random.uniform(0.002f, 0.02f) * (random.below(2) == 0 ? -1.0f : 1.0f);
    put(block + static_cast<std::size_t>(format->scale_offset), float_to_half(scale));
    if (format->minimum_offset >= 0) {
      put(block + static_cast<std::size_t>(format->minimum_offset), float_to_half(scale * format->minimum_ratio));
    }
  }
  return data;
}

}  // namespace rocmforge::test
