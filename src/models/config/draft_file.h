#pragma once

#include <string_view>

#include "weights/gguf_file.h"

namespace rocmforge {

/// Whether `general.architecture` is `name`.
bool has_architecture(const GgufFile& file, std::string_view name);

/// Throws Error at the first token that a draft's file and its model's both name, and name differently.
void check_same_tokens(const GgufFile& draft, const GgufFile& model);

}  // namespace rocmforge
