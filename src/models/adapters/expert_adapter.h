#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "models/adapters/adapter_device.h"
#include "models/adapters/lora_file.h"
#include "models/parts/fused_linear.h"
#include "models/plan/weight_table.h"
#include "weights/weight_store.h"

namespace rocmforge {

/// Rows of a product with one matrix of the experts in Buffers::experts: its input, and its output to which an adapter adds.
/// A slot is one expert of one token, as in ExpertMatmul.
struct ExpertRows {
  const float* x = nullptr;       ///< [tokens, k], of down [slots, k]
  float* out = nullptr;           ///< [slots, n], of down [tokens, n]
  const float* shares = nullptr;  ///< [slots], of down
};

/// An adapter's pairs for the matrices of experts, in the memory of a device. Each expert has matrices of its own; where the
/// experts are several tensors (a shared expert behind the others), one without a pair has zeros. The products run with the
/// kernels of experts, for weights in F32.
class ExpertAdapter {
 public:
  /// Plans the pairs that `file` has for matrices of `weights`, both of which outlive the object. Throws Error naming the
  /// file and a tensor whose shape is not that of its matrix, and for a device without a kernel.
  ExpertAdapter(const LoraFile& file, const WeightTable& weights, const AdapterDevice& where);

  /// Whether a matrix of `weights` takes the pair of tensor `base`.
  static bool finds(std::string_view base, const WeightTable& weights);

  /// The memory that load() takes of its store.
  [[nodiscard]] std::size_t copy_bytes() const;
  void load(WeightStore& store, const AdapterDevice& where);
  [[nodiscard]] bool any() const { return !targets_.empty(); }
  /// Whether it has a pair for a matrix of gate or up.
  [[nodiscard]] bool any_inputs() const;
  [[nodiscard]] bool has(const ExpertMatrix& matrix) const { return target_of(matrix) != nullptr; }

  /// Adds scale * B_e (A_e x) to the slots of rows [first, first + count) of the product with `matrix`, if it has its pair.
  void add(const Step& step, const AdapterRun& run, float scale, const ExpertMatrix& matrix, const ExpertRows& rows) const;

 private:
  /// One matrix of all experts, in the layout of its kernel.
  struct Matrix {
    ExpertMatmul::Spec spec{};
    const ExpertMatmulKernel* kernel = nullptr;
    const void* data = nullptr;

    [[nodiscard]] std::size_t expert_bytes() const { return kernel->stored_bytes(spec); }
    [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(spec.experts) * expert_bytes(); }
  };
  /// A pair of the file, the experts that it is for, and the rows of its B that each of them has.
  struct Piece {
    const LoraFile::Pair* pair = nullptr;
    std::int64_t first_expert = 0;
    std::int64_t experts = 0;
    std::int64_t first_row = 0;
    std::int64_t rows = 0;  ///< of B for one expert
  };
  struct Target {
    const ExpertMatrix* matrix = nullptr;
    std::vector<Piece> pieces{};
    Matrix a{};  ///< [rank, inputs] of each expert
    Matrix b{};  ///< [outputs, rank]

    [[nodiscard]] const Piece* piece_of(std::int64_t expert) const;
  };

  [[nodiscard]] std::vector<Piece> pieces_of(const ExpertMatrix& matrix) const;
  void plan(Target& target, const AdapterDevice& where);
  void plan(Matrix& matrix, const ExpertMatmul::Spec& spec, std::int64_t tokens, const GgufTensor& first,
            const AdapterDevice& where);
  [[nodiscard]] static std::vector<float> rows_of_a(const Target& target, std::int64_t expert);
  [[nodiscard]] static std::vector<float> rows_of_b(const Target& target, std::int64_t expert);
  using RowsOf = std::vector<float> (*)(const Target&, std::int64_t expert);
  static void load(const Target& target, RowsOf rows_of, Matrix& matrix, WeightStore& store, ThreadPool* pool);
  [[nodiscard]] const Target* target_of(const ExpertMatrix& matrix) const;
  void run(const Matrix& matrix, std::int64_t tokens, const std::int32_t* ids, const ExpertRows& rows,
           const Step& step) const;

  const LoraFile* file_;
  std::vector<Target> targets_;
  std::vector<std::int32_t> target_of_;  ///< by ExpertMatrix::index, -1 for none
  Resolved<Scale> scale_;
  std::size_t inner_floats_ = 0;
  std::int64_t most_slots_ = 0;
  std::size_t workspace_bytes_ = 0;
  std::size_t order_bytes_ = 0;
  DeviceBuffer inner_;  ///< [slots of a step, rank]: A x
  DeviceBuffer ones_;   ///< [slots of a step]
  DeviceBuffer workspace_;
  DeviceBuffer order_;
};

}  // namespace rocmforge
