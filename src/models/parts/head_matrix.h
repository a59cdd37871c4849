#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "models/parts/operation.h"
#include "ops/latent.h"
#include "weights/gguf_file.h"

namespace rocmforge {

/// A matrix for each head, and the kernel chosen for it.
struct HeadMatrix {
  const GgufTensor* tensor = nullptr;
  bool cut = false;              ///< the tensor has more heads
  std::int64_t first_row = 0;    ///< of head 0 in the tensor
  std::int64_t tensor_rows = 0;  ///< from one head to the next
  bool transposed = false;       ///< the tensor holds k rows of n; they are transposed to n rows of k in F32
  HeadMatmul::Spec spec;
  const HeadMatmulKernel* kernel = nullptr;
  const void* data = nullptr;  ///< head 0 in the kernel's layout, when weights are loaded

  /// Whether the kernel reads the rows of the tensor in place.
  [[nodiscard]] bool in_place() const { return !transposed && !cut && kernel->packed_bytes(spec) == 0; }
  /// Bytes from one head to the next, in the kernel's layout.
  [[nodiscard]] std::int64_t head_bytes() const;
  /// Bytes of a copy of all heads.
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(spec.heads * head_bytes()); }
  /// Bytes of the tensor before head 0.
  [[nodiscard]] std::size_t skipped_bytes() const;
  /// Writes a copy of all heads in the kernel's layout.
  void copy(std::byte* to, ExecutionContext& context) const;

  /// out [tokens, heads * (n + tail)] from x, rows `x_stride` apart. With `single_rows` the results of sequences with
  /// several rows are undefined.
  void run(const Step& step, const float* x, std::int64_t x_stride, float* out, bool single_rows = false) const;

 private:
  void transpose(std::int64_t head, float* to) const;
};

/// The tensor of a matrix in the file: [heads, n, k], or some of each head's rows in a tensor [heads * all_rows, columns]
/// that holds several matrices.
struct HeadTensorName {
  std::string own;     ///< without ".weight"
  std::string joined;  ///< without ".weight"
  std::int64_t all_rows = 0;
  std::int64_t first_row = 0;
  bool transposed = false;  ///< in the joined tensor
  std::int64_t first_head = 0;
  std::int64_t all_heads = 0;  ///< of the tensor
};

}  // namespace rocmforge
