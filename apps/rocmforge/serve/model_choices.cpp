#include "serve/model_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/available_memory.h"
#include "base/printable.h"
#include "command_line.h"
#include "commands.h"
#include "foreign_arguments.h"
#include "foreign_options.h"
#include "model_files.h"
#include "model_path.h"
#include "serve/model_preset.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

namespace fs = std::filesystem;

template <class T>
std::vector<std::string> texts(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? std::vector<std::string>{"true"} : std::vector<std::string>();
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    return value;
  } else {
    return {fmt::format("{}", value)};
  }
}
template <class T>
std::vector<std::string> texts(const std::optional<T>& value) {
  return value ? texts(*value) : std::vector<std::string>();
}

std::vector<std::string> texts_of(const Option& option) {
  return std::visit([](const auto* target) { return texts(*target); }, option.target);
}

const void* address_of(const Option& option) {
  return std::visit([](const auto* target) { return static_cast<const void*>(target); }, option.target);
}

/// The arguments of a process that serves the model.
std::vector<std::string> arguments_of(const std::string& name, const std::vector<std::string>& options) {
  // Shares hold between clients, whom the router names, not between its own connections.
  std::vector<std::string> all = {
      "serve", "--behind-router", "--no-page", "--max-connections=65536", "--drain-seconds=1", "--alias=" + name};
  all.insert(all.end(), options.begin(), options.end());
  return all;
}

ModelChoice choice_of_file(const std::string& file, const std::vector<std::string>& given) {
  ModelChoice choice = {.name = fs::path(file).stem().string(), .file = file};
  choice.arguments = arguments_of(choice.name, given);
  choice.arguments.push_back("--model=" + file);
  return choice;
}

bool is_one_of(const std::string& text, std::initializer_list<const char*> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

/// A section's values as arguments of `serve`.
class SectionReader {
 public:
  SectionReader(const ModelPreset& preset, const std::vector<std::string>& given) : preset_(preset), given_(given) {}

  ModelChoice read(const PresetSection& section) {
    choice_ = {.name = section.name};
    values_.clear();
    for (const PresetSection* part : {&preset_.common, &section}) {
      for (const PresetValue& value : part->values) {
        take(value);
      }
    }
    const std::string place = preset_.place(section.line);
    std::vector<std::string> all = given_;
    for (const auto& [key, arguments] : values_) {
      all.insert(all.end(), arguments.begin(), arguments.end());
    }
    const Parsed parsed = with_context(place, [&] { return parse(all); });
    choice_.arguments = arguments_of(section.name, parsed.options);
    if (!parsed.hub_name.empty()) {
      choice_.arguments.push_back("--hf-repo=" + parsed.hub_name);
    } else {
      choice_.file = with_context(place, [&] {
        if (parsed.model.empty()) {
          throw UsageError(fmt::format("the section [{}] names no model: model = FILE", printable(section.name, 100)));
        }
        return find_model(parsed.model);
      });
      choice_.arguments.push_back("--model=" + choice_.file);
    }
    return std::move(choice_);
  }

 private:
  struct Parsed {
    std::vector<std::string> options;
    std::string model, hub_name;
  };

  static Parsed parse(const std::vector<std::string>& arguments) {
    Command program = {.name = "rocmforge", .summary = ""};
    program.commands.push_back(serve_command());
    Command& serve = program.commands.front();
    const GivenOptions given(serve.options);
    std::vector<std::string> line = {"serve"};
    line.insert(line.end(), arguments.begin(), arguments.end());
    static_cast<void>(read_command_line(program, line));
    const auto text = [&](const char* name) {
      const std::vector<std::string> values = texts_of(serve.option(name));
      return values.empty() ? std::string() : values.front();
    };
    return {given.arguments(options_of_the_port()), text("--model"), text("--hf-repo")};
  }

  void take(const PresetValue& value) {
    with_context(preset_.place(value.line), [&] { take_checked(value); });
  }

  void take_checked(const PresetValue& value) {
    if (value.key == "load-on-startup") {
      choice_.load_at_start = is_true(value);
      return;
    }
    const Command serve = serve_command();
    std::string name = "--" + value.key;
    const bool is_foreign = find_option(serve, name) == nullptr && find_foreign_option(name) != nullptr;
    if (!is_foreign && find_option(serve, name) == nullptr && find_option(serve, "-" + value.key) != nullptr) {
      name = "-" + value.key;
    }
    const Option* option = find_option(serve, name);
    const std::string main_name = option == nullptr ? name : option->main_name();
    const auto& of_port = options_of_the_port();
    if (std::ranges::find(of_port, main_name) != of_port.end() && !is_one_of(main_name, {"--model", "--hf-repo"})) {
      throw UsageError(fmt::format("{} is no option of one model", main_name));
    }
    std::vector<std::string> arguments;
    if (option != nullptr && option->is_flag()) {
      if (is_true(value)) {
        arguments = {main_name};
      }
    } else {
      arguments = {main_name + "=" + value.value};
    }
    static_cast<void>(parse(arguments));
    values_[main_name] = std::move(arguments);
  }

  static bool is_true(const PresetValue& value) {
    if (is_one_of(value.value, {"true", "on", "1", "yes", "enabled"})) {
      return true;
    }
    if (is_one_of(value.value, {"false", "off", "0", "no", "disabled"})) {
      return false;
    }
    throw UsageError(fmt::format("{} is '{}', must be true or false", value.key, printable(value.value, 100)));
  }

  const ModelPreset& preset_;
  const std::vector<std::string>& given_;
  ModelChoice choice_;
  std::map<std::string, std::vector<std::string>> values_;  ///< arguments by option: a section's value replaces that of [*]
};

}  // namespace

GivenOptions::GivenOptions(const std::vector<Option>& options) : options_(options) {
  for (const Option& option : options_) {
    before_.push_back(texts_of(option));
  }
}

std::vector<std::string> GivenOptions::arguments(const std::vector<std::string>& without) const {
  std::vector<std::string> given;
  std::set<const void*> written;  // some targets have several options
  for (std::size_t i = 0; i < options_.size(); ++i) {
    const Option& option = options_[i];
    const std::vector<std::string> now = texts_of(option);
    const std::string name = option.main_name();
    if (option.is_argument() || now == before_[i] || std::ranges::find(without, name) != without.end() ||
        !written.insert(address_of(option)).second) {
      continue;
    }
    for (const std::string& value : now) {
      given.push_back(option.is_flag() ? name : name + "=" + value);
    }
  }
  return given;
}

const std::vector<std::string>& options_of_the_port() {
  static const std::vector<std::string> names = {
      "--model",         "--hf-repo",       "--alias",           "--host",          "--port",
      "--api-key",       "--api-key-file",  "--allowed-hosts",   "--cors-origin",   "--max-connections",
      "--drain-seconds", "--no-page",       "--share-prefixes",  "--isolate-keys",  "--max-priority",
      "--models-dir",    "--models-preset", "--models-max",      "--models-memory", "--keep-alive",
      "--sleep-idle",    "--allow-pull",    "--pull-with-token", "--behind-router"};
  return names;
}

std::vector<ModelChoice> choices_of_models(const std::vector<std::string>& models, const std::vector<std::string>& given) {
  std::vector<ModelChoice> choices;
  std::error_code ignored;
  for (const std::string& model : models) {
    if (fs::is_directory(model, ignored)) {
      const std::vector<ModelChoice> more = choices_of_folder(model, given);
      choices.insert(choices.end(), more.begin(), more.end());
    } else {
      choices.push_back(choice_of_file(find_model(model), given));
    }
  }
  return choices;
}

std::vector<ModelChoice> choices_of_folder(const std::string& folder, const std::vector<std::string>& given) {
  const ModelFiles found = find_model_files(folder);
  if (found.files.empty()) {
    throw UsageError(fmt::format("{}: there is no .gguf file below this folder", folder));
  }
  std::vector<ModelChoice> choices;
  for (const fs::path& file : found.files) {
    choices.push_back(choice_of_file(file.string(), given));
  }
  return choices;
}

std::vector<ModelChoice> choices_of_preset(const std::string& path, const std::vector<std::string>& given) {
  const ModelPreset preset = ModelPreset::read(path);
  SectionReader reader(preset, given);
  std::vector<ModelChoice> choices;
  for (const PresetSection& section : preset.models) {
    choices.push_back(reader.read(section));
  }
  return choices;
}

void share_cache_ram(std::vector<ModelChoice>& choices, std::int64_t mib, std::int32_t most_loaded) {
  const auto at_once = static_cast<std::int64_t>(
      most_loaded > 0 ? std::min(static_cast<std::size_t>(most_loaded), choices.size()) : choices.size());
  const std::int64_t total = mib >= 0 ? mib : (available_memory_bytes().value_or(0) >> 20) / 4;
  const std::string share = fmt::format("--cache-ram={}", total / std::max<std::int64_t>(at_once, 1));
  for (ModelChoice& choice : choices) {
    const auto is_own = [](const std::string& argument) { return argument.starts_with("--cache-ram="); };
    if (std::ranges::none_of(choice.arguments, is_own)) {
      choice.arguments.push_back(share);
    }
  }
}

void check_names(const std::vector<ModelChoice>& choices) {
  std::map<std::string, std::string> files;
  for (const ModelChoice& choice : choices) {
    const auto [other, is_new] = files.emplace(choice.name, choice.file);
    if (!is_new) {
      throw UsageError(fmt::format("two models are called {}: {} and {}; --models-preset gives them other names",
                                   printable(choice.name, 100), other->second, choice.file));
    }
  }
}

}  // namespace rocmforge::app
