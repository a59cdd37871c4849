#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace rocmforge {

/// Element type of a tensor. The values are the type ids of the GGUF format, so an id that the table has becomes a type by a
/// cast.
enum class DType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q8_1 = 9,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  q8_k = 15,
  iq2_xxs = 16,
  iq2_xs = 17,
  iq3_xxs = 18,
  iq1_s = 19,
  iq4_nl = 20,
  iq3_s = 21,
  iq2_s = 22,
  iq4_xs = 23,
  i8 = 24,
  i16 = 25,
  i32 = 26,
  i64 = 27,
  f64 = 28,
  iq1_m = 29,
  bf16 = 30,
  tq1_0 = 34,
  tq2_0 = 35,
  mxfp4 = 39,
  nvfp4 = 40,
  q1_0 = 41,
  q2_0 = 42,
};

struct DTypeInfo {
  DType type;
  std::string_view name;     ///< as the format writes it: "Q4_K", "F16"
  std::int32_t block_elems;  ///< elements in one block; 1 for plain types
  std::int32_t block_bytes;  ///< bytes of one block
  bool computes;             ///< matrix products and dequantisation exist for this type
};

/// All known types in the order of their ids.
std::span<const DTypeInfo> all_dtypes();

const DTypeInfo& info(DType type);

/// The type with this GGUF id; empty when the id is unknown or was removed from the format.
std::optional<DType> dtype_from_id(std::uint32_t id);

/// The name of a type that was removed from the format ("Q4_2"), or empty.
std::string_view removed_dtype_name(std::uint32_t id);

/// The type with this name in upper or lower case ("q4_k", "F16"); empty when there is none.
std::optional<DType> dtype_from_name(std::string_view name);

inline std::string_view name(DType type) { return info(type).name; }

/// The bytes of a row of `elems` elements, which must be a multiple of the block length.
std::size_t row_bytes(DType type, std::int64_t elems);

}  // namespace rocmforge
