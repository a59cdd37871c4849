#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/config/model_config.h"
#include "models/parts/fused_linear.h"
#include "models/parts/operation.h"
#include "models/plan/planner.h"

namespace rocmforge {

/// The end of a model: the gathering of wanted rows, the final norm, the head, and the scale and soft-cap of its logits. Not
/// moved once it has returned operations.
class OutputHead {
 public:
  struct Names {
    NormName norm;
    std::string operation{};              ///< of the plan
    std::string head{};                   ///< its tensor, without ".weight"
    const FusedLinear* shared = nullptr;  ///< another head, whose layers are used here too
  };

  /// The last block's mixer leaves `mixed_width` elements of a row, 0 without one. `config` must outlive the head.
  OutputHead(Planner& planner, const ModelConfig& config, const Names& names, std::int64_t mixed_width);

  /// Wanted rows of the residual stream, from Buffers::normed to Buffers::hidden.
  [[nodiscard]] const Operations& pick_hidden() const { return pick_hidden_; }
  /// The wanted rows of the last mixer's output, from Buffers::projected to Buffers::gathered.
  [[nodiscard]] const Operations& pick_mixed() const { return pick_mixed_; }
  /// The rows whose hidden states are wanted, with the final norm, to Buffers::projected.
  [[nodiscard]] const Operations& hidden_states() const { return hidden_states_; }
  /// The final norm and the head, to Buffers::logits; where ranks share the head, to those of the first rank.
  [[nodiscard]] const Operations& logits() const { return logits_; }
  /// The head with the final norm.
  [[nodiscard]] const FusedLinear& layers() const { return layers_; }

 private:
  void add_rows();
  void add_logits(const ModelConfig& config);
  void append_gather();

  Resolved<GatherRows> gather_hidden_;
  std::optional<Resolved<GatherRows>> gather_mixed_;
  FusedLinear layers_;
  std::vector<std::int64_t> widths_;      ///< rows of the head that each rank has, where several share it
  bool has_all_ = true;                   ///< this rank gets the logits of all
  std::optional<Resolved<Scale>> scale_;  ///< and soft-cap, where the model has them
  Operations pick_hidden_;
  Operations pick_mixed_;
  Operations hidden_states_;
  Operations logits_;
};

}  // namespace rocmforge
