#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "hub/name.h"

namespace rocmforge::hub {

/// The parts of a GGUF file's name: "model-00002-of-00005.gguf" is part 2 of 5 of "model".
struct SplitName {
  std::string base;
  int part = 1;
  int count = 1;
};
SplitName split_name(const std::string& file_name);

/// The quant at the end of a GGUF file's name, in capitals: "Q4_K_M", "UD-IQ2_XXS", "F16"; "" for none. `base` is
/// SplitName::base.
std::string quant_of(const std::string& base);

/// The default quant.
inline constexpr const char* default_quant = "Q4_K_M";

/// The files that `name` selects among the paths of a repository, in the order of their parts: the named file with its
/// other parts, or the files of the named quant. Without a name of either, the files of the default quant, else of the quant
/// of the nearest size. Throws Error that lists the files if none or several match, or if a part is missing.
std::vector<std::string> choose_files(const std::vector<std::string>& paths, const ModelName& name);

/// Whether a file's name is that of an image encoder: "mmproj-F16.gguf", "model-mmproj.gguf".
bool is_image_encoder(const std::string& file_name);
/// How good the quant of an encoder's file is, less is better: F16, BF16, Q8_0, others, F32.
std::size_t encoder_rank(const std::string& path);
/// The image encoder among the paths of a repository: that with the best quant. "" for none.
std::string choose_image_encoder(const std::vector<std::string>& paths);

}  // namespace rocmforge::hub
