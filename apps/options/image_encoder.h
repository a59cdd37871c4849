#pragma once

#include <string>

namespace rocmforge::app {

/// The file of a model's image encoder beside it: "mmproj-F16.gguf", "model-mmproj.gguf"; of several that with the best
/// quant, F16, BF16, Q8_0, others, F32. "" where there is none, and where several models share the folder and no name of an
/// encoder holds the model's.
std::string find_image_encoder(const std::string& model_file);

}  // namespace rocmforge::app
