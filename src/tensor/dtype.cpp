#include "tensor/dtype.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "base/error.h"
#include "tensor/quant/formats.h"

namespace rocmforge {

namespace {

// The ids, block lengths and block sizes of the GGUF format (ggml's type table).
constexpr DTypeInfo entry(DType type, std::string_view name, std::int32_t block_elems, std::int32_t block_bytes) {
  return {type, name, block_elems, block_bytes, Formats::contains(type)};
}

constexpr std::array<DTypeInfo, 35> table{{
    entry(DType::f32, "F32", 1, 4),
    entry(DType::f16, "F16", 1, 2),
    entry(DType::q4_0, "Q4_0", 32, 18),
    entry(DType::q4_1, "Q4_1", 32, 20),
    entry(DType::q5_0, "Q5_0", 32, 22),
    entry(DType::q5_1, "Q5_1", 32, 24),
    entry(DType::q8_0, "Q8_0", 32, 34),
    entry(DType::q8_1, "Q8_1", 32, 36),
    entry(DType::q2_k, "Q2_K", 256, 84),
    entry(DType::q3_k, "Q3_K", 256, 110),
    entry(DType::q4_k, "Q4_K", 256, 144),
    entry(DType::q5_k, "Q5_K", 256, 176),
    entry(DType::q6_k, "Q6_K", 256, 210),
    entry(DType::q8_k, "Q8_K", 256, 292),
    entry(DType::iq2_xxs, "IQ2_XXS", 256, 66),
    entry(DType::iq2_xs, "IQ2_XS", 256, 74),
    entry(DType::iq3_xxs, "IQ3_XXS", 256, 98),
    entry(DType::iq1_s, "IQ1_S", 256, 50),
    entry(DType::iq4_nl, "IQ4_NL", 32, 18),
    entry(DType::iq3_s, "IQ3_S", 256, 110),
    entry(DType::iq2_s, "IQ2_S", 256, 82),
    entry(DType::iq4_xs, "IQ4_XS", 256, 136),
    entry(DType::i8, "I8", 1, 1),
    entry(DType::i16, "I16", 1, 2),
    entry(DType::i32, "I32", 1, 4),
    entry(DType::i64, "I64", 1, 8),
    entry(DType::f64, "F64", 1, 8),
    entry(DType::iq1_m, "IQ1_M", 256, 56),
    entry(DType::bf16, "BF16", 1, 2),
    entry(DType::tq1_0, "TQ1_0", 256, 54),
    entry(DType::tq2_0, "TQ2_0", 256, 66),
    entry(DType::mxfp4, "MXFP4", 32, 17),
    entry(DType::nvfp4, "NVFP4", 64, 36),
    entry(DType::q1_0, "Q1_0", 128, 18),
    entry(DType::q2_0, "Q2_0", 64, 18),
}};

struct RemovedType {
  std::uint32_t id;
  std::string_view name;
};
constexpr std::array<RemovedType, 8> removed{{{4, "Q4_2"},
                                              {5, "Q4_3"},
                                              {31, "Q4_0_4_4"},
                                              {32, "Q4_0_4_8"},
                                              {33, "Q4_0_8_8"},
                                              {36, "IQ4_NL_4_4"},
                                              {37, "IQ4_NL_4_8"},
                                              {38, "IQ4_NL_8_8"}}};

}  // namespace

std::span<const DTypeInfo> all_dtypes() { return table; }

const DTypeInfo& info(DType type) {
  const auto* found = std::find_if(table.begin(), table.end(), [&](const DTypeInfo& entry) { return entry.type == type; });
  check(found != table.end(), "unknown tensor type");
  return *found;
}

std::optional<DType> dtype_from_id(std::uint32_t id) {
  const auto* found = std::find_if(table.begin(), table.end(),
                                   [&](const DTypeInfo& entry) { return static_cast<std::uint32_t>(entry.type) == id; });
  return found == table.end() ? std::nullopt : std::optional(found->type);
}

std::string_view removed_dtype_name(std::uint32_t id) {
  const auto* found = std::find_if(removed.begin(), removed.end(), [&](const RemovedType& entry) { return entry.id == id; });
  return found == removed.end() ? std::string_view{} : found->name;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const auto* found = std::find_if(table.begin(), table.end(), [&](const DTypeInfo& entry) { return entry.name == upper; });
  return found == table.end() ? std::nullopt : std::optional(found->type);
}

std::size_t row_bytes(DType type, std::int64_t elems) {
  const DTypeInfo& entry = info(type);
  check(elems >= 0 && elems % entry.block_elems == 0, "a row must hold whole blocks");
  return static_cast<std::size_t>(elems / entry.block_elems) * static_cast<std::size_t>(entry.block_bytes);
}

}  // namespace rocmforge
