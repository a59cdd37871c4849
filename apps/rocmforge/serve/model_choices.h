#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "command.h"
#include "gateway/model_pool.h"
#include "option_value.h"

namespace rocmforge::app {

/// The options of a command line that were given, to write them again. The values before and after it was read are compared.
class GivenOptions {
 public:
  /// Before the command line is read.
  explicit GivenOptions(const std::vector<Option>& options);
  /// Arguments "--name=value" for what has changed since. Arguments without a name are left out, and options that are among
  /// `without`.
  [[nodiscard]] std::vector<std::string> arguments(const std::vector<std::string>& without) const;

 private:
  std::vector<Option> options_;
  std::vector<std::vector<std::string>> before_;
};

/// Options of the port, not of a model.
const std::vector<std::string>& options_of_the_port();

/// How models are served: `given` are the options of the command line that hold for all.
/// A name is a file's without .gguf. All throw UsageError: for a file that is not there, and two models of one name.
std::vector<ModelChoice> choices_of_models(const std::vector<std::string>& models, const std::vector<std::string>& given);
std::vector<ModelChoice> choices_of_folder(const std::string& folder, const std::vector<std::string>& given);
/// Each value is checked as on a command line; a mistake is named with its line.
std::vector<ModelChoice> choices_of_preset(const std::string& path, const std::vector<std::string>& given);

/// Divides `mib` of host memory for prompts among as many models as may be loaded at once, at most `most_loaded` (0: all).
/// -1: a quarter of the free memory. A model whose options have an amount of its own keeps that.
void share_cache_ram(std::vector<ModelChoice>& choices, std::int64_t mib, std::int32_t most_loaded);

/// Throws UsageError where two have one name.
void check_names(const std::vector<ModelChoice>& choices);

}  // namespace rocmforge::app
