#include "tensor/random_rows.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/half.h"
#include "tensor/quant/formats.h"

namespace rocmforge {
namespace {

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

/// Sets scales as large as those of real weights, and minima that centre the weights on 0.
template <class Block>
void set_scales(Block& block, Random& random) {
  if constexpr (requires { block.exponent; }) {
    block.exponent = static_cast<std::uint8_t>(118 + random.below(6));
  } else if constexpr (!has_block_scale<Block>) {
    for (std::uint8_t& scale : block.scales) {  // NVFP4: exponents 1 and 2, which are 0.016 to 0.059
      scale = static_cast<std::uint8_t>(0x08 + random.below(0x10));
    }
  } else {
    const float scale = random.uniform(0.002f, 0.02f) * (random.below(2) == 0 ? -1.0f : 1.0f);
    set_block_scale(block, half(scale));
    constexpr float middle = [] {
      if constexpr (DescribedBlock<Block>) {
        return static_cast<float>((1u << (Block::Low::bits + Block::High::bits)) - 1) / 2.0f;
      }
      return 0.0f;
    }();
    if constexpr (requires { block.minimum; }) {
      block.minimum = half(-scale * middle);
    } else if constexpr (requires { block.minimum_scale; }) {
      block.minimum_scale = half(scale * middle);
    }
  }
}

}  // namespace

std::vector<std::byte> random_rows(DType type, std::int64_t rows, std::int64_t cols, Random& random) {
  std::vector<std::byte> data(row_bytes(type, cols) * static_cast<std::size_t>(rows));
  if (type == DType::f32 || type == DType::f16 || type == DType::bf16) {
    fill_plain(type, data, random);
    return data;
  }
  std::generate(data.begin(), data.end(), [&random] { return static_cast<std::byte>(random.bits()); });
  bool made = false;
  Formats::visit(type, [&]<class Block>(Block*) {
    if constexpr (Block::elems > 1) {
      made = true;
      for (std::size_t at = 0; at < data.size(); at += sizeof(Block)) {
        Block block;
        std::memcpy(&block, data.data() + at, sizeof block);
        set_scales(block, random);
        put(data, at, block);
      }
    }
  });
  if (!made) {
    throw Error("no random rows can be made of " + std::string(name(type)));
  }
  return data;
}

}  // namespace rocmforge
