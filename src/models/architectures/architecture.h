#pragma once

#include <span>
#include <string_view>

#include "models/config/metadata_reader.h"
#include "models/config/model_config.h"

namespace rocmforge {

/// The differences between model architectures: the numbers of their layers and the graph of their blocks.
struct Architecture {
  std::string_view name;  ///< as general.architecture has it

  /// Sets the numbers that the architecture fixes and checks its requirements. Called after the common keys have been read.
  void (*configure)(ModelConfig& config, MetadataReader& metadata);

  NormKind norm = NormKind::rms;
  bool mixes_otherwise = false;  ///< layers may have no KV heads: they have another mixer
  bool latent = false;           ///< attention is latent: see LatentConfig
  bool single_parts = false;     ///< blocks may be without attention heads or without a feed-forward part: widths of 0
};

/// Every architecture that can be loaded.
std::span<const Architecture> architectures();

/// Throws Error with the list of names when none is called `name`.
const Architecture& find_architecture(std::string_view name);

// One function for each architecture, in the source file of its family.
Architecture llama_architecture();
Architecture qwen2_architecture();
Architecture qwen3_architecture();
Architecture gemma_architecture();
Architecture gemma2_architecture();
Architecture gemma3_architecture();
Architecture gemma4_architecture();
Architecture olmo2_architecture();
Architecture phi3_architecture();
Architecture smollm3_architecture();
Architecture granite_architecture();
Architecture glm4_architecture();
Architecture exaone4_architecture();
Architecture seed_oss_architecture();
Architecture ernie4_5_architecture();
Architecture command_r_architecture();
Architecture cohere2_architecture();
Architecture starcoder2_architecture();
Architecture hunyuan_dense_architecture();
Architecture qwen2moe_architecture();
Architecture qwen3moe_architecture();
Architecture olmoe_architecture();
Architecture granitemoe_architecture();
Architecture ernie4_5_moe_architecture();
Architecture hunyuan_moe_architecture();
Architecture dots1_architecture();
Architecture glm4moe_architecture();
Architecture minimax_m2_architecture();
Architecture gpt_oss_architecture();
Architecture qwen2vl_architecture();
Architecture qwen3vl_architecture();
Architecture qwen3vlmoe_architecture();
Architecture mistral3_architecture();
Architecture lfm2_architecture();
Architecture lfm2moe_architecture();
Architecture deepseek2_architecture();
Architecture mamba2_architecture();
Architecture granitehybrid_architecture();
Architecture nemotron_architecture();
Architecture nemotron_h_architecture();
Architecture nemotron_h_moe_architecture();
Architecture bailingmoe2_architecture();
Architecture mistral4_architecture();
Architecture falcon_architecture();
Architecture gpt2_architecture();
Architecture qwen3next_architecture();
Architecture qwen35_architecture();
Architecture qwen35moe_architecture();

}  // namespace rocmforge
