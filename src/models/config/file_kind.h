#pragma once

#include <string>

#include "weights/gguf_file.h"

namespace rocmforge {

/// What a GGUF file is that holds no language model, and what takes it: "a LoRA adapter for 'llama' models; ..."; "" for any
/// other file. It is known by `general.type`, `general.architecture` and the tensors' names, as the tools of llama.cpp and
/// stable-diffusion.cpp write them.
std::string other_file_kind(const GgufFile& file);

}  // namespace rocmforge
