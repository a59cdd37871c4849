#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "foreign_options.h"

namespace rocmforge::app {

/// Translates options of llama.cpp's programs for one command line.
class ForeignArguments {
 public:
  /// Appends to `translated` what stands for `option`, which arguments[place] gives, and its value. A warning says what is
  /// not needed. Returns the place behind. Throws UsageError for what does not exist here.
  std::size_t take(const Command& command, const ForeignOption& option, const std::vector<std::string>& arguments,
                   std::size_t place, std::vector<std::string>& translated);

 private:
  std::map<std::string, std::string> values_;  ///< by the option that stands for it
};

/// The options that an environment variable sets, with their values: "--host" and "--port" for OLLAMA_HOST. None for a
/// flag that is off.
std::vector<std::pair<std::string, std::vector<std::string>>> options_of(const ForeignVariable& variable,
                                                                         const Command& command);

/// Whether a word with one dash can be read: letters of flags ("-ab"), or a letter with its value ("-n10"). Words such as
/// "-ncmoe" can't, which would be the value "cmoe" of -n.
bool is_bundle(const Command& command, const std::string& word);

/// The option that has this name; null if there is none.
const Option* find_option(const Command& command, const std::string& name);

}  // namespace rocmforge::app
