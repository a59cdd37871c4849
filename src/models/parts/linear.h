#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/parts/operation.h"
#include "models/parts/selection.h"
#include "ops/matmul.h"
#include "tensor/dtype.h"
#include "weights/gguf_file.h"

namespace rocmforge {

/// Neighbouring rows of a tensor, by the name that they have where they are a tensor of their own: Q in a tensor of Q, K and
/// V.
struct TensorPiece {
  std::string name;  ///< without ".weight"
  std::int64_t rows = 0;
};

/// A weight matrix and the kernel chosen for it.
struct MatmulWeight {
  const GgufTensor* tensor = nullptr;
  Matmul::Spec spec;
  const MatmulKernel* kernel = nullptr;
  const void* data = nullptr;  ///< in the kernel's layout once weights are loaded
  float scale = 1.0f;          ///< MatmulOutput::scale
  Selection rows{};            ///< of the tensor's, taken when they are loaded
  Selection columns{};
  std::int64_t interleaved = 1;       ///< LinearName::interleaved: columns are put in another order, blocks as F32
  bool transposed = false;            ///< the file has [k, n], of elements that stand by themselves
  std::vector<TensorPiece> pieces{};  ///< of the tensor, in the order of its rows; or none
  std::size_t index = 0;              ///< of the weight in its WeightTable

  /// Whether the loaded rows differ from the file's.
  [[nodiscard]] bool rearranged() const { return transposed || interleaved > 1 || !rows.whole() || !columns.whole(); }
  /// Bytes of its rows in the file's format.
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(spec.n) * row_bytes(spec.weight, spec.k); }
};

/// A vector that operations read beside their input: a tensor of the file or computed numbers.
struct WeightVector {
  const GgufTensor* tensor = nullptr;  ///< null for computed numbers
  std::span<const float> values;       ///< the computed numbers; their owner must outlive the plan
  const float* data = nullptr;         ///< in the device's memory once weights are loaded

  [[nodiscard]] std::size_t count() const {
    return tensor != nullptr ? static_cast<std::size_t>(tensor->tensor.shape.elems()) : values.size();
  }
};

/// Computed integers that a kernel reads.
struct IntegerVector {
  std::span<const std::int32_t> values;  ///< their owner must outlive the plan
  const std::int32_t* data = nullptr;    ///< in the device's memory once weights are loaded
};

/// The operations that a call of linear layers includes.
struct LinearFusion {
  const float* norm_weight = nullptr;  ///< [k] or null
  float norm_eps = 0.0f;
  std::optional<Activation> gate{};
  std::optional<MatmulPostNorm> post_norm{};
};

/// Linear layers of one input whose outputs lie side by side in each row: Q, K and V, or gate and up. Those with the same
/// kernel run as one call.
class Linear {
 public:
  struct Part {
    const MatmulWeight* weight = nullptr;  ///< owned by the plan
    const WeightVector* bias = nullptr;    ///< [n] or null

    [[nodiscard]] const float* bias_data() const { return bias != nullptr ? bias->data : nullptr; }
  };

  Linear() = default;
  /// `kind` is the name of its line in the plan, without the layer: "attn_qkv".
  Linear(std::string kind, const std::vector<Part>& parts);

  /// Writes `out` [tokens, width], or adds to it; `x` is [tokens, k], both dense. With a gate `out` is [tokens, width / 2].
  void run(const Step& step, const float* x, float* out, const LinearFusion& fusion = {}, bool accumulate = false) const;
  /// As run(), where rows of `x` are `x_stride` elements apart, and rows of `out` `out_stride`; 0: they are dense.
  void run_strided(const Step& step, const float* x, std::int64_t x_stride, float* out, const LinearFusion& fusion = {},
                   bool accumulate = false, std::int64_t out_stride = 0) const;

  /// Adds an operation: out += the product with `x`, both buffers of a step.
  void append_residual(Operations& operations, float* Buffers::*x, float* Buffers::*out) const;
  [[nodiscard]] const std::string& kind() const { return kind_; }

  /// The fusions that the kernels of all calls support. A post-norm writes its sum, so it needs a single call.
  [[nodiscard]] MatmulFusions fusions() const;

  /// The layers, grouped by call; in the order of the group if all have one kernel.
  [[nodiscard]] std::vector<Part> parts() const;

  /// Columns of a row of all outputs.
  [[nodiscard]] std::int64_t width() const { return width_; }

 private:
  struct Column {
    Part part;
    std::int64_t offset = 0;
  };
  using Call = std::vector<Column>;  ///< parts with the same kernel

  /// Adds what the adapters of the step's rows add to the products.
  void add_adapters(const Step& step, const float* x, std::int64_t x_stride, float* out, std::int64_t stride) const;

  std::string kind_;
  std::vector<Call> calls_;
  std::int64_t width_ = 0;
};

}  // namespace rocmforge
