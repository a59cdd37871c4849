#pragma once

#include <cstdint>
#include <vector>

#include "models/parts/selection.h"
#include "weights/gguf_file.h"

namespace rocmforge {

// The numbers of an adapter's pairs, as kernels get them.

/// A rank filled up with zeros: kernels read rows of whole vectors.
std::int64_t padded_rank(std::int64_t rank);

/// Rows [first, first + count) of a tensor, in F32.
std::vector<float> dequantised_rows(const GgufTensor& tensor, std::int64_t first, std::int64_t count);
/// All of them.
std::vector<float> dequantised(const GgufTensor& tensor);

/// Rows of `rank` numbers, times `factor`, each filled up with zeros to padded_rank `width`.
std::vector<float> with_padding(const std::vector<float>& rows, std::int64_t rank, std::int64_t width, float factor);

/// The selected part of a matrix [rows, columns].
std::vector<float> selected(std::vector<float> matrix, std::int64_t rows, std::int64_t columns, const Selection& of_rows,
                            const Selection& of_columns);

}  // namespace rocmforge
