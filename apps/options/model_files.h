#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace rocmforge::app {

/// Folders in which other programs keep models, those that exist: the hub's cache (HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE,
/// HF_HOME, ~/.cache/huggingface/hub), LM Studio's (~/.lmstudio/models, ~/.cache/lm-studio/models) and llama.cpp's
/// (LLAMA_CACHE, ~/.cache/llama.cpp).
std::vector<std::filesystem::path> shared_model_folders();

/// The model files below a folder.
struct ModelFiles {
  std::vector<std::filesystem::path> files;  ///< ascending; of a split model the first part there is
  bool complete = true;                      ///< false: the folder holds more than is looked at
};

struct WalkLimits {
  int depth = 8;  ///< of folders in folders
  std::size_t entries = 200'000;
};

/// Follows links to files and folders, each folder once, and looks into no hidden folder. Folders below that can't be read
/// are left out. Throws UsageError when `folder` itself can't be.
ModelFiles find_model_files(const std::filesystem::path& folder, const WalkLimits& limits = {});

}  // namespace rocmforge::app
