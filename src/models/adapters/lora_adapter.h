#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/adapters/adapter_device.h"
#include "models/adapters/expert_adapter.h"
#include "models/adapters/lora_file.h"
#include "models/parts/fused_linear.h"
#include "models/parts/linear.h"
#include "models/plan/weight_table.h"
#include "weights/weight_store.h"

namespace rocmforge {

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
  /// Throws Error naming the file and a tensor whose shape is not that of its weight, and for a device without a kernel.
  /// Tensors for which `weights` have no product are passed over: see finds().
  LoraAdapter(std::shared_ptr<const LoraFile> file, const WeightTable& weights, const AdapterDevice& where);

  /// Whether `weights` have a product, or the embedding, to which the adapter's pair of tensor `base` belongs.
  static bool finds(std::string_view base, const WeightTable& weights);

  /// Adds scale * B (A x) to rows [first, first + count) of the product with `weight`.
  void add(const Step& step, const AdapterRun& run, float scale, const MatmulWeight& weight, const ProductRows& rows) const;
  /// Adds scale * B A[id] to rows [first, first + count) of the tokens' embeddings in Buffers::hidden.
  void add_to_embedding(const Step& step, const AdapterRun& run, float scale) const;
  [[nodiscard]] const ExpertAdapter& experts() const { return experts_; }
  [[nodiscard]] std::string path() const { return file_->file().path().string(); }

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
  /// The pair of the embedding.
  struct TokenPair {
    const LoraFile::Pair* pair = nullptr;
    Resolved<EmbeddingRows> a{};  ///< of a table [tokens, rank]
    const void* table = nullptr;
    Matrix b{};  ///< [hidden, rank]
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
  void plan_tokens(const EmbeddingTable& table, const AdapterDevice& where);
  /// Chooses the kernel. `first`: the tensor that an error names.
  void plan(Matrix& matrix, const Matmul::Spec& spec, const GgufTensor& first, const AdapterDevice& where);
  void load_tokens(ThreadPool* pool);
  void load(Target& target, ThreadPool* pool);
  [[nodiscard]] static std::vector<float> rows_of_a(const Target& target);
  [[nodiscard]] static std::vector<float> rows_of_b(const Target& target);
  /// `tensors`: those that `rows` are made of.
  const void* store(const Matrix& matrix, const std::vector<const GgufTensor*>& tensors, const std::vector<float>& rows,
                    ThreadPool* pool);
  void run(const Matrix& matrix, const ProductRows& rows, std::int64_t tokens, bool accumulate, const Step& step) const;

  std::shared_ptr<const LoraFile> file_;
  std::vector<std::optional<Pair>> pairs_;  ///< by MatmulWeight::index
  std::optional<TokenPair> tokens_;
  ExpertAdapter experts_;
  Resolved<Scale> scale_;
  std::int64_t most_rank_ = 0;
  std::size_t workspace_bytes_ = 0;
  WeightStore store_;
  DeviceBuffer inner_;  ///< [rows of a step, rank]: A x
  DeviceBuffer workspace_;
};

}  // namespace rocmforge
