#pragma once

#include <cstdint>
#include <iterator>
#include <string_view>

#include "tensor/dtype.h"

// The one table of how quantised weights are stored for the tuned kernels of GPUs: which form holds the numbers of a type of
// the file, which families of kernels read a form, and what a form's codes and scales are. Layouts (amd/weight_layout.h,
// hopper/weight_layout.h), packers (unpacked_row.h) and kernels follow from it. Host and device code include this.

/// The forms that both families read. APPLY(name): of WeightFormat, and in the names of kernels. LAST(name): the last one.
#define ROCMFORGE_HOPPER_FORMATS_WITH_LAST(APPLY, LAST) \
  APPLY(q4_0)                                           \
  APPLY(q5_0)                                           \
  APPLY(q8_0)                                           \
  APPLY(mxfp4)                                          \
  APPLY(q4_k)                                           \
  APPLY(q5_k)                                           \
  LAST(q6_k)
#define ROCMFORGE_HOPPER_FORMATS(APPLY) ROCMFORGE_HOPPER_FORMATS_WITH_LAST(APPLY, APPLY)
/// The forms that AMD's kernels read: those, and their own.
#define ROCMFORGE_AMD_FORMATS(APPLY) \
  ROCMFORGE_HOPPER_FORMATS(APPLY)    \
  APPLY(q4_1)                        \
  APPLY(q5_1)                        \
  APPLY(iq4_nl)                      \
  APPLY(iq4_xs)                      \
  APPLY(q2_k)                        \
  APPLY(q3_k)                        \
  APPLY(iq3)                         \
  APPLY(iq1_iq2)                     \
  APPLY(nvfp4)

namespace rocmforge::gpu {

enum class WeightFormat : std::int32_t {
#define ROCMFORGE_NAME(name) name,
  ROCMFORGE_AMD_FORMATS(ROCMFORGE_NAME)
#undef ROCMFORGE_NAME
      f16,  ///< as the file stores them, as is the next
  bf16,
  none
};

/// What multiplies the codes of a form. A strip is 16 columns, a block 32; "of 256" is one for as many columns of a row.
enum class WeightScales : std::uint8_t {
  half,              ///< binary16 of a block
  half_and_minimum,  ///< binary16 scale and minimum of a block
  exponent,          ///< a power of two of a block
  e4m3,              ///< a float of 8 bits of a strip
  code,              ///< an integer of a block, times binary16 of 256
  code_of_strip,     ///< an integer of a strip, times binary16 of 256
  code_and_minimum,  ///< integers of a block, times two binary16 of 256
  nibbles_of_strip,  ///< integers below 16 of a strip, scale and minimum, times two binary16 of 256
  odd_of_strip,      ///< an odd number below 32 of a strip, times binary16 of 256
};

/// Whether integers of strips or blocks are multiplied by a scale of 256 columns, and whether a minimum is subtracted.
constexpr bool has_super_scale(WeightScales scales) { return scales >= WeightScales::code; }
constexpr bool subtracts_minimum(WeightScales scales) {
  return scales == WeightScales::half_and_minimum || scales == WeightScales::code_and_minimum ||
         scales == WeightScales::nibbles_of_strip;
}

/// A form: its name in the names of kernels, its codes and its scales.
struct WeightTraits {
  WeightFormat format;
  std::string_view name;
  int code_bits;  ///< of a code, in the first plane
  int high_bits;  ///< of a code, in the second one
  int offset;     ///< the code of zero; 0 too where codes index a table or there is a minimum
  bool has_table;
  WeightScales scales;
};

/// In the order of WeightFormat.
inline constexpr WeightTraits weight_traits_of_all[] = {
    {WeightFormat::q4_0, "q4_0", 4, 0, 8, false, WeightScales::half},
    {WeightFormat::q5_0, "q5_0", 4, 1, 16, false, WeightScales::half},
    {WeightFormat::q8_0, "q8_0", 8, 0, 128, false, WeightScales::half},
    {WeightFormat::mxfp4, "mxfp4", 4, 0, 0, true, WeightScales::exponent},
    {WeightFormat::q4_k, "q4_k", 4, 0, 0, false, WeightScales::code_and_minimum},
    {WeightFormat::q5_k, "q5_k", 4, 1, 0, false, WeightScales::code_and_minimum},
    {WeightFormat::q6_k, "q6_k", 4, 2, 32, false, WeightScales::code_of_strip},
    {WeightFormat::q4_1, "q4_1", 4, 0, 0, false, WeightScales::half_and_minimum},
    {WeightFormat::q5_1, "q5_1", 4, 1, 0, false, WeightScales::half_and_minimum},
    {WeightFormat::iq4_nl, "iq4_nl", 4, 0, 0, true, WeightScales::half},
    {WeightFormat::iq4_xs, "iq4_xs", 4, 0, 0, true, WeightScales::code},
    {WeightFormat::q2_k, "q2_k", 2, 0, 0, false, WeightScales::nibbles_of_strip},
    {WeightFormat::q3_k, "q3_k", 2, 1, 4, false, WeightScales::code_of_strip},
    {WeightFormat::iq3, "iq3", 4, 0, 0, true, WeightScales::code},
    {WeightFormat::iq1_iq2, "iq1_iq2", 2, 1, 0, true, WeightScales::odd_of_strip},
    {WeightFormat::nvfp4, "nvfp4", 4, 0, 0, true, WeightScales::e4m3},
};

/// The traits of a form that is repacked.
constexpr WeightTraits weight_traits(WeightFormat format) { return weight_traits_of_all[static_cast<int>(format)]; }

constexpr bool in_order_of_formats() {
  int place = 0;
  for (const WeightTraits& traits : weight_traits_of_all) {
    if (static_cast<int>(traits.format) != place++) {
      return false;
    }
  }
  return place == static_cast<int>(WeightFormat::f16);
}
static_assert(in_order_of_formats(), "each form has its traits");

/// A type of the file that is repacked, and the form that holds its numbers exactly.
struct StoredType {
  DType type;
  WeightFormat format;
};

inline constexpr StoredType stored_types[] = {
    {DType::q4_0, WeightFormat::q4_0},      {DType::q5_0, WeightFormat::q5_0},     {DType::q8_0, WeightFormat::q8_0},
    {DType::mxfp4, WeightFormat::mxfp4},    {DType::q4_k, WeightFormat::q4_k},     {DType::q5_k, WeightFormat::q5_k},
    {DType::q6_k, WeightFormat::q6_k},      {DType::q4_1, WeightFormat::q4_1},     {DType::q5_1, WeightFormat::q5_1},
    {DType::iq4_nl, WeightFormat::iq4_nl},  {DType::iq4_xs, WeightFormat::iq4_xs}, {DType::q2_k, WeightFormat::q2_k},
    {DType::tq1_0, WeightFormat::q2_k},     {DType::tq2_0, WeightFormat::q2_k},    {DType::q3_k, WeightFormat::q3_k},
    {DType::iq3_xxs, WeightFormat::iq3},    {DType::iq3_s, WeightFormat::iq3},     {DType::iq2_xxs, WeightFormat::iq1_iq2},
    {DType::iq2_xs, WeightFormat::iq1_iq2}, {DType::iq2_s, WeightFormat::iq1_iq2}, {DType::iq1_s, WeightFormat::iq1_iq2},
    {DType::iq1_m, WeightFormat::iq1_iq2},  {DType::nvfp4, WeightFormat::nvfp4},
};

/// The form of a type that is repacked, else `none`.
constexpr WeightFormat find_weight_format(DType type) {
  for (const StoredType& stored : stored_types) {
    if (stored.type == type) {
      return stored.format;
    }
  }
  return WeightFormat::none;
}

}  // namespace rocmforge::gpu
