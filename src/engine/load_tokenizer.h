#pragma once

#include <memory>

#include "tokenizer/tokenizer.h"
#include "weights/gguf_file.h"

namespace rocmforge {

/// The tokenizer that a model file describes. Null when the file says it has none ("no_vocab", "none");
/// throws Error when the keys are missing, contradict each other, or name a tokenizer that is not supported.
std::shared_ptr<const Tokenizer> load_tokenizer(const GgufFile& file);

}  // namespace rocmforge
