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

/// The configuration of a file that `architecture` describes, which has its keys under the architecture's name. Throws Error
/// as ModelConfig::from_gguf.
ModelConfig read_config(const GgufFile& file, const Architecture& architecture, std::int32_t context);

/// Of the assistants of Gemma 4 models (AssistantFile), which are no models by themselves.
Architecture gemma4_assistant_architecture();

/// Every architecture that can be loaded.
std::span<const Architecture> architectures();

/// Adds one from outside of the library. For the start of a program: spans of architectures() end, and no other thread may
/// read the list. check()s that the name is new.
void add_architecture(const Architecture& architecture);

/// Throws Error with the list of names when none is called `name`.
const Architecture& find_architecture(std::string_view name);

}  // namespace rocmforge
