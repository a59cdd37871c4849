#include "models/config/output_gates.h"

#include <fmt/format.h>

#include <string>

#include "base/error.h"
#include "models/config/model_tensors.h"
#include "weights/gguf_value.h"

namespace rocmforge {

void set_own_gates(ModelConfig& config, const GgufFile& file, OutputGate::Gate form) {
  for (int index = 0; index < config.layers; ++index) {
    AttentionConfig& attention = config.blocks[static_cast<std::size_t>(index)].attention;
    const std::string name = block_tensor(index, "attn_gate.weight");
    const std::int64_t rows = file.tensor(name).tensor.shape.squeezed().rows();
    if (rows != attention.q_heads && rows != attention.q_dim()) {
      throw Error(fmt::format("{}: tensor {} has {} rows, neither one for each of {} heads nor for their {} elements",
                              file.path().string(), quote(name), rows, attention.q_heads, attention.q_dim()));
    }
    attention.own_gate = form;
    attention.gates_of_heads = rows == attention.q_heads;
  }
}

}  // namespace rocmforge
