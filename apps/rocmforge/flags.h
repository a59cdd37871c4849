#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace CLI {
class App;
}

namespace rocmforge::app {

constexpr std::int32_t max_threads = 1024;

/// The flags of every command that loads a model.
class EngineFlags {
 public:
  void add_to(CLI::App& command);
  /// Throws UsageError for a value that can't be (a kernel that does not exist, a negative number).
  [[nodiscard]] EngineOptions options() const;

 private:
  std::int32_t context_ = 0;
  std::int32_t batch_ = 512;
  std::int32_t threads_ = 0;
  std::string kv_type_ = "f16";
  std::string device_ = "auto";
  std::string kernel_dir_;
  bool no_graph_ = false;
  bool no_overlap_ = false;
  std::string isa_;
  std::string attention_;
  std::string matmul_;
};

/// The flags of the commands that generate text.
class GenerationFlags {
 public:
  void add_to(CLI::App& command);
  /// Throws UsageError as soon as a value is known to be wrong, before a model is loaded.
  void validate() const;
  /// A request without its prompt. Throws UsageError for a token id that the vocabulary lacks.
  [[nodiscard]] Request request(std::int32_t vocab) const;
  [[nodiscard]] const std::string& system() const { return system_; }
  [[nodiscard]] bool context_shift() const { return context_shift_; }

 private:
  SamplingParams sampling_;
  bool greedy_ = false;
  std::int64_t seed_ = -1;
  std::vector<std::string> logit_bias_;
  std::int32_t max_tokens_ = -1;
  std::vector<std::string> stop_;
  std::string system_;
  bool ignore_eos_ = false;
  bool context_shift_ = false;
};

/// "NVIDIA H200 (cuda:0, sm_90)" or "CPU (avx512, 8 threads)".
std::string describe_device(const DeviceInfo& device, int threads);

/// load_model behind a progress line.
std::unique_ptr<Engine> load_engine(const std::string& path, EngineOptions options);

}  // namespace rocmforge::app
