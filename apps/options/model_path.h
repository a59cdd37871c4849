#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace rocmforge::app {

/// Folders where models are looked for: $ROCMFORGE_MODELS_DIR, ../share/rocmforge beside the folder of the program and that
/// of the library which this is part of, and where the program was built to be installed; those that exist.
std::vector<std::filesystem::path> models_folders();

/// Folders that `rocmforge models` lists, with all below: `models_folders`, the current folder and those of other programs.
std::vector<std::filesystem::path> listed_folders();

/// The model that a command line names.
struct ModelArgument {
  std::string file;      ///< a path or a file's name; "" for the demo model
  std::string hub_name;  ///< what -hf says; where it is set, `file` is not
};

/// The file that MODEL means: a path, or the name of a file (with or without .gguf) in `models_folders` or, after them,
/// below any of `listed_folders`; "" is the demo model. Throws UsageError that says where it looked, or that names two such
/// files.
std::string find_model(const std::string& argument);

}  // namespace rocmforge::app
