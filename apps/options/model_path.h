#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace rocmforge::app {

/// The existing folders in which models are searched: $ROCMFORGE_MODELS_DIR, ../share/rocmforge relative to the folders of
/// the program and of the library that contains this code, and share/rocmforge of the installation prefix.
std::vector<std::filesystem::path> models_folders();

/// The folders that `rocmforge models` lists with their subfolders: `models_folders`, the current folder and those of other
/// programs.
std::vector<std::filesystem::path> listed_folders();

/// The model that a command line names.
struct ModelArgument {
  std::string file;      ///< a path or a file's name; "" for the demo model
  std::string hub_name;  ///< the value of -hf; if it is set, `file` is ""
};

/// The file for the argument MODEL: a path, or the name of a file (with or without .gguf) in `models_folders` or, after
/// them, below any of `listed_folders`; "" is the demo model. Throws UsageError that lists the searched folders, or two of
/// several matching files.
std::string find_model(const std::string& argument);

}  // namespace rocmforge::app
