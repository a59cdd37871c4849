#pragma once

#include "models/config/model_config.h"
#include "weights/gguf_file.h"

namespace rocmforge {

/// Sets AttentionConfig::own_gate of every layer. Whether tensor attn_gate has a gate for each head or for each element is
/// told by its rows. Throws Error naming a tensor that is missing or has another number of rows.
void set_own_gates(ModelConfig& config, const GgufFile& file, OutputGate::Gate form);

}  // namespace rocmforge
