#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/parts/linear.h"
#include "ops/elementwise.h"
#include "ops/experts.h"
#include "weights/gguf_file.h"

namespace rocmforge {

/// One place of the feed-forward part (gate, up or down) in all experts, and the kernel chosen for it.
struct ExpertMatrix {
  /// One tensor with the experts one after another, or one tensor for each expert.
  std::vector<const GgufTensor*> tensors;
  const GgufTensor* shared = nullptr;  ///< the last expert, where it has a tensor of its own
  std::int64_t first_row = 0;          ///< of an expert's rows in the stacked tensor, where up may follow gate
  std::int64_t tensor_rows = 0;        ///< rows of each expert in the stacked tensor
  Selection of_rows{};                 ///< of an expert's, from first_row on; a single range
  Selection of_columns{};
  ExpertMatmul::Spec spec;
  const ExpertMatmulKernel* kernel = nullptr;
  const WeightVector* bias = nullptr;   ///< [experts, tensor_rows] or null
  const WeightVector* scale = nullptr;  ///< [experts] or null
  const void* data = nullptr;           ///< expert 0 in the kernel's layout, when weights are loaded
  bool down = false;                    ///< the slots of a token are summed
  /// Of gate and up: what the kernel's call applies to their products.
  std::optional<GatedActivation::Spec> activation{};
  std::size_t index = 0;  ///< of the matrix in its WeightTable

  [[nodiscard]] bool stacked() const { return tensors.size() == 1; }
  /// Whether it is a part of the experts' matrices.
  [[nodiscard]] bool cut() const { return !of_rows.whole() || !of_columns.whole(); }
  /// Whether the kernel reads the rows of the stacked tensor in place.
  [[nodiscard]] bool in_place() const { return stacked() && shared == nullptr && !cut() && kernel->packed_bytes(spec) == 0; }
  /// Bytes from one expert to the next, in the kernel's layout.
  [[nodiscard]] std::int64_t expert_bytes() const;
  /// Bytes of weights that a slot reads.
  [[nodiscard]] std::size_t slot_bytes() const { return kernel->stored_bytes(spec); }
  /// Bytes of a copy of all experts.
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(spec.experts * expert_bytes()); }
  /// Bytes of one expert in the file's format.
  [[nodiscard]] std::size_t slot_file_bytes() const {
    return static_cast<std::size_t>(spec.n) * row_bytes(spec.weight, spec.k);
  }
  /// The rows of one expert in the file, of which cut() says that not all are needed.
  [[nodiscard]] const std::byte* rows(std::int64_t expert) const;
  /// Copies the needed part of these rows.
  void copy(std::int64_t expert, std::byte* to) const;
  [[nodiscard]] ExpertWeight weight() const;
};

/// The tensor names of gate, up or down: "blk.0.ffn_gate_exps", or "blk.0.ffn_gate.3" for one tensor per expert, or the
/// first or second half of the rows of "blk.0.ffn_gate_up_exps".
struct ExpertTensorName {
  std::string stacked;
  std::string single{};  ///< the prefix for one tensor per expert: expert 3 is "single.3"; "" for none
  std::string joined{};  ///< likewise
  bool second_half = false;
  bool needs_bias = false;
  bool any_scale = false;  ///< experts may have scales in every format, not in NVFP4 alone
  Selection rows{};        ///< of each expert, where a rank has a part
  Selection columns{};
  bool summed = false;   ///< each rank computes a part of a sum
  std::string shared{};  ///< the tensor of a shared expert, placed behind the others; "" for none
};

}  // namespace rocmforge
