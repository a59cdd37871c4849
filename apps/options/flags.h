#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "command.h"
#include "engine/engine.h"
#include "kv_type_flags.h"
#include "model_path.h"
#include "schedule/sampling_numbers.h"
#include "service/constraints.h"

namespace rocmforge::app {

constexpr std::int32_t max_threads = 1024;

// The same options of several commands, with the same limits.
Option device_option(std::string& target);
Option kernel_dir_option(std::string& target);
Option threads_option(std::int32_t& target);
Option json_option(bool& target, std::string meaning = "JSON");
Option without_option(std::vector<std::string>& target);
Option no_avoid_option(bool& target);

/// The values of --without: "KERNEL" or "OPERATION:KERNEL". Throws UsageError that names similar kernels for one that does
/// not exist.
std::vector<AvoidedKernel> avoided_kernels(const std::vector<std::string>& names);
/// The same for another flag that names kernels; `reason` of each is the flag with its value.
std::vector<AvoidedKernel> kernels_of_flag(std::string_view flag, const std::vector<std::string>& names);

/// Where `rocmforge check --save` writes: rocmforge/checks in $XDG_STATE_HOME or ~/.local/state. Empty without a home.
std::filesystem::path checks_folder();

/// Where measured bandwidths are (CeilingCache): rocmforge/ceilings.txt in $XDG_CACHE_HOME or ~/.cache.
std::filesystem::path ceilings_file();

/// Adds the model: as an argument, or as the value of -m or -hf.
void add_model(Command& command, ModelArgument& model);

/// The model and a text as arguments; if -m or -hf names the model, the text is the only argument.
class ModelAndText {
 public:
  /// `name`: "PROMPT"
  void add_to(Command& command, const std::string& name, const std::string& meaning);
  [[nodiscard]] ModelArgument model() const;
  /// Throws UsageError when there is one argument too many.
  [[nodiscard]] std::optional<std::string> text() const;

 private:
  std::optional<std::string> first_, second_, model_;
  std::string hub_name_;
};

/// Where the parts of a model lie that is larger than the GPU's memory.
class PlacementFlags {
 public:
  void add_to(Command& command, const std::string& group);
  /// Throws UsageError for a number of layers that is none.
  [[nodiscard]] PlacementOptions options() const;

 private:
  std::string gpu_layers_ = "auto";
  bool cpu_moe_ = false;
  std::int32_t n_cpu_moe_ = -1;
  std::vector<std::string> overrides_;
  std::int32_t margin_mib_ = 512;
  std::int32_t gpu_memory_mib_ = 0;
};

/// The flags of every command that loads a model.
class EngineFlags {
 public:
  void add_to(Command& command);
  /// Throws UsageError for a kernel that does not exist.
  [[nodiscard]] EngineOptions options() const;
  /// Adds the image encoder that lies beside the model, if none was named and none was declined.
  void find_image_encoder(EngineOptions& options, const std::string& model_file) const;

 private:
  /// Throws UsageError for a scale that is no number.
  [[nodiscard]] std::vector<AdapterOptions> adapters() const;
  /// Throws UsageError likewise, and for a range that is none.
  void add_control_vectors(EngineOptions& options) const;
  [[nodiscard]] std::int32_t number_of_ranks() const;
  /// Throws UsageError for what is no number.
  [[nodiscard]] std::vector<double> proportions() const;

  std::string mmproj_;
  bool no_mmproj_ = false;
  std::int32_t image_tokens_ = 0;
  std::int32_t context_ = 0;
  std::int32_t batch_ = 512;
  std::int32_t threads_ = 0;
  KvTypeFlags kv_types_;
  std::string device_ = "auto";
  PlacementFlags placement_;
  std::int32_t ranks_ = 1;
  std::string split_ = "auto";
  std::string tensor_split_;
  std::string kernel_dir_;
  bool no_graph_ = false;
  bool no_overlap_ = false;
  std::string merge_launches_ = "auto";
  std::string isa_;
  std::string attention_;
  std::string matmul_;
  std::vector<std::string> without_;
  bool safe_ = false;
  bool no_avoid_ = false;
  std::optional<double> step_seconds_;
  DraftOptions drafts_{};
  std::string mtp_ = "auto";
  std::vector<std::string> adapters_;
  std::vector<std::string> scaled_adapters_;
  bool adapters_wait_ = false;
  std::vector<std::string> control_vectors_;
  std::vector<std::string> scaled_control_vectors_;
  std::string control_layers_;
};

/// The sampling options. They override the recommendations of the model's file.
class SamplingFlags {
 public:
  void add_to(Command& command);
  /// Throws UsageError for an order that cannot be.
  [[nodiscard]] SamplingChoices choices() const;

 private:
  SamplingChoices choices_;
  std::string samplers_, sampler_letters_;
  bool greedy_ = false;
};

/// The constraint of an answer: at most one of four options.
class GrammarFlags {
 public:
  void add_to(Command& command);
  /// Reads the named file. Throws UsageError for an invalid grammar or schema.
  [[nodiscard]] std::optional<AnswerGrammar> grammar() const;
  /// Throws UsageError as grammar() does, and for a grammar that is too large or left-recursive.
  void validate() const;
  /// Adds it as a member to a request for the server. Throws UsageError as grammar() does.
  void write(nlohmann::ordered_json& request) const;

 private:
  /// The flag or the file that gives the constraint, for messages; "" without one.
  [[nodiscard]] std::string source() const;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool is_schema() const { return !schema_.empty() || !schema_file_.empty(); }

  std::string grammar_, grammar_file_, schema_, schema_file_;
};

/// The flags of the commands that generate text.
class GenerationFlags {
 public:
  void add_to(Command& command);
  /// Throws UsageError as soon as a value is known to be wrong, before a model is loaded. `raw`: no template is used.
  void validate(bool raw = false) const;
  /// A request without its prompt. Throws UsageError for a token id that the vocabulary lacks.
  [[nodiscard]] Request request(const Engine& engine) const;
  /// Adds the options as members to a request for the server, except those that the request has itself. The system message
  /// becomes the first of its "messages". Throws UsageError for options that the server does not offer.
  void write(nlohmann::ordered_json& request) const;
  [[nodiscard]] SamplingChoices sampling() const { return sampling_.choices(); }
  [[nodiscard]] std::optional<AnswerGrammar> grammar() const { return grammar_.grammar(); }
  [[nodiscard]] const std::string& system() const { return system_; }
  [[nodiscard]] bool context_shift() const { return context_shift_; }

 private:
  void add_biases(Request& request, std::int32_t vocab) const;

  SamplingFlags sampling_;
  GrammarFlags grammar_;
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

}  // namespace rocmforge::app
