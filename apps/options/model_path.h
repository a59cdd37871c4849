#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace rocmforge::app {

/// Folders where models are looked for: $ROCMFORGE_MODELS_DIR, ../share/rocmforge beside the folder of the program and that
/// of the library which this is part of, and where the program was built to be installed; those that exist.
std::vector<std::filesystem::path> models_folders();

/// The model that a command line names.
struct ModelArgument {
  std::string file;      ///< a path or a file's name; "" for the demo model
  std::string hub_name;  ///< what -hf says; where it is set, `file` is not
};

/// The file that MODEL means: a path, or the name of a file (with or without .gguf) in one of these folders or below those
/// of other programs; "" is the demo model. Throws UsageError that says where it looked.
std::string find_model(const std::string& argument);

}  // namespace rocmforge::app
