#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace rocmforge::app {

/// The existing folders in which other programs keep models: the hub's cache (HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE,
/// HF_HOME, ~/.cache/huggingface/hub), LM Studio's (~/.lmstudio/models, ~/.cache/lm-studio/models) and llama.cpp's
/// (LLAMA_CACHE, ~/.cache/llama.cpp).
std::vector<std::filesystem::path> shared_model_folders();

/// The model files below a folder.
struct ModelFiles {
  std::vector<std::filesystem::path> files;  ///< ascending; only the first existing part of a split model
  bool complete = true;                      ///< false: the search has reached a limit
};

struct WalkLimits {
  int depth = 8;  ///< levels of nested folders
  std::size_t entries = 200'000;
};

/// Follows links to files and folders, visits each folder once, and skips hidden folders. Subfolders that can't be read are
/// left out. Throws UsageError if `folder` itself can't be read.
ModelFiles find_model_files(const std::filesystem::path& folder, const WalkLimits& limits = {});

}  // namespace rocmforge::app
