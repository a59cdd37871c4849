#include "models/audio/audio_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/error.h"
#include "models/config/clip_file.h"
#include "models/config/metadata_reader.h"
#include "weights/gguf_value.h"

namespace rocmforge {
namespace {

constexpr std::int32_t most_states = 4096;
constexpr std::int32_t most_bands = 512;
constexpr std::int32_t most_stacked = 64;

/// What a family of encoders fixes.
struct AudioFamily {
  std::string_view name;  ///< as clip.projector_type has it
  void (*configure)(AudioConfig& config, MetadataReader& metadata);
};

MediaMarks marks_of_qwen() {
  return {.placeholder = "<|AUDIO|>",
          .token = "<|AUDIO|>",
          .before = "<|audio_bos|>",
          .after = "<|audio_eos|>",
          .printed = true};
}

void configure_qwen2(AudioConfig& config, MetadataReader&) {
  config.projector = SoundProjector::mean;
  config.stack = 2;
  config.marks = marks_of_qwen();
}

/// Its pieces have 200 frames, which files don't say.
void configure_omni(AudioConfig& config, MetadataReader& metadata) {
  configure_qwen2(config, metadata);
  config.states = std::min(config.states, 100);
  config.silent_ends = true;
}

/// Outputs of the projector's first layer, by its tensor.
std::int32_t projector_width(MetadataReader& metadata) {
  constexpr std::string_view name = "mm.a.mlp.1.weight";
  const GgufTensor* first = metadata.file().find_tensor(name);
  constexpr std::int64_t most = 1 << 20;
  if (first == nullptr || first->tensor.shape.rank() != 2 || first->tensor.shape.rows() > most) {
    throw Error(fmt::format("{}: tensor '{}' is missing or no matrix", metadata.file().path().string(), name));
  }
  return static_cast<std::int32_t>(first->tensor.shape.rows());
}

void read_stack(AudioConfig& config, MetadataReader& metadata) {
  config.stack = metadata.count("audio.projector.stack_factor");
  if (config.stack > std::min(most_stacked, config.states)) {
    throw metadata.error("audio.projector.stack_factor", fmt::format("is {}", config.stack));
  }
  config.projector_width = projector_width(metadata);
}

void configure_voxtral(AudioConfig& config, MetadataReader& metadata) {
  config.projector = SoundProjector::stacked;
  read_stack(config, metadata);
  config.whole_pieces = true;
  config.marks = {.placeholder = "[AUDIO]", .token = "[AUDIO]", .before = "[BEGIN_AUDIO]", .after = ""};
}

void configure_ultravox(AudioConfig& config, MetadataReader& metadata) {
  config.projector = SoundProjector::stacked_norm;
  read_stack(config, metadata);
  if (config.projector_width % 2 != 0) {
    throw Error(fmt::format("{}: tensor 'mm.a.mlp.1.weight' has no gate for each row", metadata.file().path().string()));
  }
  // The models that it is trained on have no token for it; one that Llama 3 never uses marks the place.
  config.marks = {.placeholder = "<|reserved_special_token_0|>", .token = "<|reserved_special_token_0|>"};
}

constexpr AudioFamily audio_families[] = {{"ultravox", configure_ultravox},
                                          {"qwen2a", configure_qwen2},
                                          {"qwen2.5o", configure_omni},
                                          {"voxtral", configure_voxtral}};

const AudioFamily& audio_family(const GgufFile& file) {
  const std::string_view key =
      file.contains("clip.audio.projector_type") ? "clip.audio.projector_type" : "clip.projector_type";
  const std::string name = file.string(key);
  const auto* found = std::ranges::find(audio_families, std::string_view(name), &AudioFamily::name);
  if (found != std::end(audio_families)) {
    return *found;
  }
  std::string names;
  for (const AudioFamily& family : audio_families) {
    names += (names.empty() ? "" : ", ") + std::string(family.name);
  }
  throw Error(fmt::format("{}: the audio projector {} is not supported, those supported are {}", file.path().string(),
                          quote(name), names));
}

/// Pre-norm layers with biases but for K's.
void read_layers(AudioConfig& config, MetadataReader& metadata) {
  ModelConfig& encoder = config.encoder;
  read_encoder_layers(encoder, metadata, "audio");
  encoder.norm_kind = NormKind::layer;
  encoder.norm_needs_bias = true;
  for (LayerConfig& layer : encoder.blocks) {
    layer.graph.mixer_norm = "ln1";
    layer.graph.ffn_norm = "ln2";
    layer.attention.output_needs_bias = true;
    layer.feed_forward.activation = Activation::gelu;
    layer.feed_forward.gated = false;
    layer.feed_forward.needs_bias = true;
  }
}

void read_sizes(AudioConfig& config, MetadataReader& metadata) {
  config.bands = metadata.count("audio.num_mel_bins");
  if (config.bands > most_bands) {
    throw metadata.error("audio.num_mel_bins", fmt::format("is {}, at most {} are computed", config.bands, most_bands));
  }
  const GgufTensor* table = metadata.file().find_tensor("a.position_embd.weight");
  const std::int64_t positions = table != nullptr && table->tensor.shape.rank() == 2 ? table->tensor.shape.rows() : 0;
  if (positions < 2 || positions > most_states) {
    throw Error(fmt::format("{}: tensor 'a.position_embd.weight' has no 2 to {} positions", metadata.file().path().string(),
                            most_states));
  }
  config.positions = static_cast<std::int32_t>(positions);
  config.states = config.positions;
  config.spectrum_frames = 2 * config.positions;
}

}  // namespace

bool has_audio_encoder(const GgufFile& file) {
  return file.contains("general.architecture") && file.string("general.architecture") == "clip" &&
         file.boolean("clip.has_audio_encoder", false);
}

AudioConfig AudioConfig::from_gguf(const GgufFile& file, const ModelConfig& text) {
  check(has_audio_encoder(file), "the file has an audio encoder");
  const AudioFamily& family = audio_family(file);
  MetadataReader metadata(file, "clip");
  AudioConfig config;
  read_layers(config, metadata);
  read_sizes(config, metadata);
  config.text_width = text.hidden;
  family.configure(config, metadata);
  if (config.whole_pieces && config.states % config.stack != 0) {
    throw metadata.error("audio.projector.stack_factor",
                         fmt::format("is {}, which does not divide the {} states of a piece", config.stack, config.states));
  }
  if (const std::int32_t width = metadata.count("audio.projection_dim"); width != text.hidden) {
    throw metadata.error(
        "audio.projection_dim",
        fmt::format("is {}, the model has rows of {}: this encoder is another model's", width, text.hidden));
  }
  return config;
}

}  // namespace rocmforge
