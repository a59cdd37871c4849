#include "image_encoder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <vector>

#include "base/ascii.h"
#include "hub/choice.h"

namespace rocmforge::app {

namespace fs = std::filesystem;

namespace {

/// "qwen3-vl-8b-instruct" of "Qwen3-VL-8B-Instruct-Q4_K_M.gguf".
std::string name_of_model(const fs::path& file) {
  std::string name = ascii_lower(hub::split_name(file.filename().string()).base);
  const std::string quant = ascii_lower(hub::quant_of(name));
  if (name.size() > quant.size() + 1 && name.ends_with(quant)) {
    name.resize(name.size() - quant.size() - (quant.empty() ? 0 : 1));
  }
  return name;
}

}  // namespace

std::string find_image_encoder(const std::string& model_file) {
  const fs::path folder = fs::path(model_file).parent_path();
  const std::string model = name_of_model(model_file);
  std::vector<fs::path> encoders;
  bool is_alone = true;
  std::error_code problem;
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, problem); !problem && entry != fs::directory_iterator();
       entry.increment(problem)) {
    const fs::path& file = entry->path();
    const std::string name = ascii_lower(file.filename().string());
    if (!name.ends_with(".gguf")) {
      continue;
    }
    if (hub::is_image_encoder(name)) {
      encoders.push_back(file);
    } else {
      is_alone = is_alone && name_of_model(file) == model;
    }
  }
  const auto names_model = [&](const fs::path& file) {
    return ascii_lower(file.filename().string()).find(model) != std::string::npos;
  };
  if (!is_alone) {
    std::erase_if(encoders, [&](const fs::path& file) { return !names_model(file); });
  }
  const auto order = [&](const fs::path& file) {
    return std::tuple(!names_model(file), hub::encoder_rank(file.filename().string()), file);
  };
  const auto best = std::ranges::min_element(encoders, {}, order);
  return best == encoders.end() ? "" : (folder / best->filename()).string();
}

}  // namespace rocmforge::app
