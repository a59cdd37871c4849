#pragma once

#include <fmt/format.h>

#include <string_view>

#include "base/error.h"
#include "ops/kv_layout.h"
#include "ops/registry.h"
#include "tensor/dtype.h"

namespace rocmforge {

// Building blocks of the checks of all operations.

/// check() whose message is only composed when it is needed.
template <class... Values>
void require(bool condition, fmt::format_string<Values...> message, Values... values) {
  if (!condition) [[unlikely]] {
    check(false, fmt::vformat(message, fmt::make_format_args(values...)));
  }
}

inline void require_pointer(const void* pointer, std::string_view operation, std::string_view argument) {
  require(pointer != nullptr, "{}: {} is null", operation, argument);
}

/// `value` is at least `least`.
inline void require_least(std::int64_t value, std::int64_t least, std::string_view operation, std::string_view argument) {
  require(value >= least, "{}: {} is {}", operation, argument, value);
}

inline bool is_float_dtype(DType type) { return type == DType::f32 || type == DType::f16 || type == DType::bf16; }

inline bool is_power_of_two(std::int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

/// Whether kernels can compute with a weight [rows, cols] of this type.
[[nodiscard]] Support check_weight(DType type, std::int64_t rows, std::int64_t cols);
[[nodiscard]] Support check_layout(const KvLayout& layout);
[[nodiscard]] Support check_heads(std::int32_t q_heads, std::int32_t kv_heads, std::int32_t head_dim);

/// Checks the pages to which an operation appends each token's row.
void check_append(std::string_view operation, const KvLayout& layout, const KvCacheView& cache, const RaggedBatch& batch,
                  DeviceKind device);

}  // namespace rocmforge
