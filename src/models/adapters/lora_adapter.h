#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "models/adapters/lora_file.h"
#include "models/parts/fused_linear.h"
#include "models/parts/linear.h"
#include "weights/weight_store.h"

namespace rocmforge {

/// Where an adapter of a model is loaded: the device, its kernels, and the limit of its steps.
struct AdapterDevice {
  const KernelRegistry* registry = nullptr;
  const DeviceInfo* info = nullptr;
  Device* device = nullptr;
  ThreadPool* pool = nullptr;
  std::int64_t rows = 0;  ///< of a step
};

/// Rows of a product: its input, and its output to which an adapter adds.
struct ProductRows {
  const float* x = nullptr;
  std::int64_t x_stride = 0;
  float* out = nullptr;
  std::int64_t stride = 0;
};

/// A LoRA adapter in the memory of a device, with the rows and columns that the weights there have of their tensors. Where a
/// weight is a tensor of several pieces with an adapter each (Q, K and V), it has one pair: A of all pieces below each
/// other, B with a block for each piece and zeros elsewhere. Numbers are F32.
class LoraAdapter {
 public:
  /// `weights` are those of a WeightTable. Throws Error naming the file and a tensor whose shape is not that of its weight,
  /// and for a device without a kernel. Tensors for which `weights` have no product are passed over: see finds().
  LoraAdapter(std::shared_ptr<const LoraFile> file, const std::deque<MatmulWeight>& weights, const AdapterDevice& where);

  /// Whether `weights` have a product to which the adapter's pair of tensor `base` belongs.
  static bool finds(std::string_view base, const std::deque<MatmulWeight>& weights);

  /// Adds scale * B (A x) to rows [first, first + count) of the product with `weight`.
  void add(const Step& step, const AdapterRun& run, float scale, const MatmulWeight& weight, const ProductRows& rows) const;

 private:
  /// A matrix of the pair of one weight, in the layout of its kernel.
  struct Matrix {
    Matmul::Spec spec;
    const MatmulKernel* kernel = nullptr;
    const void* data = nullptr;
  };
  struct Pair {
    Matrix a;  ///< [rank, inputs]
    Matrix b;  ///< [outputs, rank]
  };
  /// A pair of the file, and the rows of the weight's tensor that its B gives.
  struct Piece {
    const LoraFile::Pair* pair = nullptr;
    std::int64_t first_row = 0;
    std::int64_t rows = 0;
  };
  /// A weight with an adapter, its pieces, and its pair in the kernels' layouts.
  struct Target {
    const MatmulWeight* weight = nullptr;
    std::vector<Piece> pieces{};
    Pair pair{};
  };

  [[nodiscard]] std::vector<Piece> pieces_of(const MatmulWeight& weight) const;
  void check_shapes(const MatmulWeight& weight, const Piece& piece) const;
  void plan(Target& target, const AdapterDevice& where);
  void load(Target& target, ThreadPool* pool);
  [[nodiscard]] static std::vector<float> rows_of_a(const Target& target);
  [[nodiscard]] static std::vector<float> rows_of_b(const Target& target);
  const void* store(const Matrix& matrix, const Target& target, const std::vector<float>& rows, ThreadPool* pool);
  void run(const Matrix& matrix, const ProductRows& rows, std::int64_t tokens, bool accumulate, const Step& step) const;

  std::shared_ptr<const LoraFile> file_;
  std::vector<std::optional<Pair>> pairs_;  ///< by MatmulWeight::index
  Resolved<Scale> scale_;
  std::int64_t most_rank_ = 0;
  std::size_t workspace_bytes_ = 0;
  WeightStore store_;
  DeviceBuffer inner_;  ///< [rows of a step, rank]: A x
  DeviceBuffer workspace_;
};

}  // namespace rocmforge
