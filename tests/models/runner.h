#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/model.h"

namespace rocmforge::testing {

/// "reference", and "cpu-ISA" for each instruction set this machine has.
const std::vector<std::string>& kernel_sets();

/// A part of a sequence that one step computes.
struct Piece {
  std::vector<std::int32_t> tokens;
  std::int32_t first_position = 0;
  std::vector<std::int32_t> blocks;  ///< of the cache, from position 0 on
};

/// A loaded model with a cache whose every element is poisoned: a wrong read shows in the logits.
class Runner {
 public:
  static constexpr std::int32_t num_blocks = 24;
  static constexpr std::int32_t block_tokens = 16;

  /// Options other than the KV type, which is f32, and the batch size are the defaults. `file` must outlive the runner.
  Runner(const GgufFile& file, const std::string& kernel_set, int num_threads = 2);
  Runner(const GgufFile& file, const std::string& kernel_set, const ModelOptions& options, int num_threads = 2);

  /// One step; logits of every row, [tokens, vocab].
  std::vector<float> step(const std::vector<Piece>& pieces);
  /// The whole sequence in one step.
  std::vector<float> whole(const std::vector<std::int32_t>& tokens);

  [[nodiscard]] Model& model() { return *model_; }
  [[nodiscard]] KvCache& cache() { return *cache_; }

 private:
  KernelRegistry registry_;
  DeviceInfo device_;
  ThreadPool pool_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<KvCache> cache_;
};

ModelOptions f32_options();

/// ||out - reference|| / ||reference||
double relative_error(const std::vector<float>& out, const std::vector<float>& reference);

}  // namespace rocmforge::testing
