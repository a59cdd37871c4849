#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/parts/embedding_table.h"
#include "models/parts/expert_matrix.h"
#include "models/parts/head_matrix.h"
#include "models/parts/linear.h"
#include "weights/weight_store.h"

namespace rocmforge {

/// The weights that a model computes with. While the model is planned, tensors of the file are looked up and checked, and
/// weights are added with their kernels, so that their memory can be counted. Then `load` copies them to the device, in the
/// layouts of the kernels. What the table hands out keeps its address.
class WeightTable {
 public:
  /// The file's name of a tensor that the parts of a model call otherwise.
  using FileNames = std::function<std::string(std::string_view)>;
  /// `file` must outlive the table. Without `names` tensors have the names that the parts use.
  explicit WeightTable(const GgufFile& file, FileNames names = {});
  /// A table of the same file for another memory. A tensor that either of them uses counts as used.
  [[nodiscard]] WeightTable beside() const;

  /// Throws Error naming the tensor when it is missing, of another shape, or in a format that can't be computed.
  const GgufTensor& tensor(std::string_view name, const Shape& shape);
  [[nodiscard]] bool has_tensor(std::string_view name) const { return file_->find_tensor(in_file(name)) != nullptr; }
  /// Whether the file has a tensor with this name and shape.
  [[nodiscard]] bool has_tensor(std::string_view name, const Shape& shape) const;
  /// Throws Error naming a tensor that changes the computation and is not supported, if the file has it.
  void refuse_tensor(const std::string& name) const;
  /// Prevents the warning about a tensor that the file may have and the model does not read.
  void pass_over(const std::string& name) { used_->insert(in_file(name)); }
  /// Whether the shared expert can be one of the stacked experts: same format, no bias or scale vectors.
  [[nodiscard]] bool can_stack_shared(const ExpertTensorName& name) const;

  /// A small tensor of any shape, as floats.
  const WeightVector* vector(std::string_view name, const Shape& shape);
  /// These rows of a small tensor [rows] or [rows, columns]; together they have `shape`.
  const WeightVector* selected_vector(std::string_view name, Shape shape, const Selection& rows);
  /// The same of several tensors, whose selected rows of the shape `each` follow one another.
  const WeightVector* joined_vector(std::span<const std::string> names, const Shape& each, const Selection& rows);
  /// The same [dim], times `factor`.
  const WeightVector* scaled_vector(std::string_view name, std::int64_t dim, float factor);
  /// Numbers that `derive` makes of those of such a tensor.
  const WeightVector* derived_vector(std::string_view name, const Shape& shape,
                                     const std::function<std::vector<float>(std::span<const float>)>& derive);
  /// Computed numbers in the device's memory.
  const WeightVector* computed(std::vector<float> values) { return constants(computed_.emplace_back(std::move(values))); }
  /// The same. The owner of `values` must outlive the table. Equal arrays share one copy.
  const WeightVector* constants(std::span<const float> values);
  /// The same of integers.
  const IntegerVector* constants(std::span<const std::int32_t> values);
  /// The value of an F32 tensor of one element. Throws Error naming a tensor whose value is not finite.
  float number(std::string_view name);
  /// As number(), where it may be infinite.
  float limit(std::string_view name);
  /// The factor of an NVFP4 weight's whole product: tensor LAYER.scale.
  float product_scale(std::string_view layer, DType type);
  /// Throws Error unless these scales of weights are finite numbers in F32.
  void check_scales(const GgufTensor& scales) const;
  /// Refuses a file with a scale for this layer: without the scale the results would be wrong.
  [[noreturn]] void refuse_scale(std::string_view layer) const;
  /// As refuse_scale(), if the file has one.
  void refuse_any_scale(std::string_view layer) const;

  EmbeddingTable* add(EmbeddingTable table) { return &tables_.emplace_back(std::move(table)); }
  const MatmulWeight* add(MatmulWeight weight) {
    weight.index = matrices_.size();
    return &matrices_.emplace_back(std::move(weight));
  }
  const ExpertMatrix* add(ExpertMatrix matrix) {
    matrix.index = expert_matrices_.size();
    return &expert_matrices_.emplace_back(std::move(matrix));
  }
  const HeadMatrix* add(HeadMatrix matrix) { return &head_matrices_.emplace_back(std::move(matrix)); }

  /// The least columns of a tensor that can be taken from it: a block of its format. 1 for a tensor that the file lacks.
  [[nodiscard]] std::int64_t block_columns(std::string_view name) const;
  /// Throws Error if a selection of columns parts blocks of the tensor's format.
  void check_blocks(const GgufTensor& tensor, const Selection& columns) const;

  /// The weights of products, each at its MatmulWeight::index.
  [[nodiscard]] const std::deque<MatmulWeight>& matrices() const { return matrices_; }
  [[nodiscard]] const std::deque<EmbeddingTable>& tables() const { return tables_; }
  /// The matrices of experts, each at its ExpertMatrix::index.
  [[nodiscard]] const std::deque<ExpertMatrix>& expert_matrices() const { return expert_matrices_; }

  [[nodiscard]] std::string file_name() const { return file_->path().string(); }
  /// "FILE: tensor 'NAME'", the begin of a message.
  [[nodiscard]] std::string place(std::string_view tensor) const;

  /// Bytes of copies of weights: on the CPU the repacked ones, on a GPU all.
  [[nodiscard]] std::size_t packed_bytes(bool on_gpu) const;
  /// The part of them that is stacked experts.
  [[nodiscard]] std::size_t expert_bytes(bool on_gpu) const;
  /// Uploads and repacks all weights and sets their addresses. `progress` may be empty; it is called with 0..1.
  void load(Device& device, ThreadPool& pool, const std::function<void(double)>& progress);
  /// Warns of tensors that no table uses.
  void warn_of_unused() const;

 private:
  const GgufTensor& vector_tensor(std::string_view name, const Shape& shape);
  void load_matrices(WeightStore& store, ThreadPool& pool, const std::function<void()>& show);
  void refuse_unused_scales() const;

  [[nodiscard]] std::string in_file(std::string_view name) const { return names_ ? names_(name) : std::string(name); }

  const GgufFile* file_;
  FileNames names_;
  std::shared_ptr<std::set<std::string, std::less<>>> used_;  ///< by this table and those beside it
  // Deques, because the addresses of elements must not change.
  std::deque<MatmulWeight> matrices_;
  std::deque<ExpertMatrix> expert_matrices_;
  std::deque<HeadMatrix> head_matrices_;
  std::deque<WeightVector> vectors_;
  std::deque<IntegerVector> integers_;
  std::deque<std::vector<float>> computed_;  ///< values of vectors_ that no configuration owns
  std::deque<EmbeddingTable> tables_;
  std::optional<WeightStore> store_;  ///< once weights are loaded
};

}  // namespace rocmforge
