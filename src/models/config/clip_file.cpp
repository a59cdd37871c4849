#include "models/config/clip_file.h"

#include <fmt/format.h>

#include <string>

namespace rocmforge {

bool is_of_audio_encoder(std::string_view tensor) { return tensor.starts_with("a.") || tensor.starts_with("mm.a."); }

void read_encoder_layers(ModelConfig& encoder, MetadataReader& metadata, std::string_view half, bool has_layers) {
  const auto key = [half](std::string_view name) { return fmt::format("{}.{}", half, name); };
  encoder.architecture = "clip";
  encoder.hidden = metadata.count(key("embedding_length"));
  encoder.norm_eps = static_cast<float>(metadata.number(key("attention.layer_norm_epsilon")));
  encoder.encoder = {.is_encoder = true, .one_plane = true};
  if (!has_layers) {
    return;
  }
  encoder.layers = metadata.count(key("block_count"));
  // Every layer has tensors. The bound keeps a damaged file from causing allocations of gigabytes.
  if (const std::size_t tensors = metadata.file().tensors().size(); static_cast<std::size_t>(encoder.layers) > tensors) {
    throw metadata.error(key("block_count"), fmt::format("is {}, but the file has {} tensors", encoder.layers, tensors));
  }
  const std::int32_t heads = metadata.count(key("attention.head_count"));
  if (encoder.hidden % heads != 0) {
    throw metadata.error(key("attention.head_count"),
                         fmt::format("is {}, which does not divide embedding_length {}", heads, encoder.hidden));
  }
  LayerConfig layer;
  layer.attention.q_heads = heads;
  layer.attention.kv_heads = heads;
  layer.attention.head_dim = encoder.hidden / heads;
  layer.attention.rope.kind = RopeKind::none;
  layer.feed_forward.width = metadata.count(key("feed_forward_length"));
  encoder.blocks.assign(static_cast<std::size_t>(encoder.layers), layer);
}

}  // namespace rocmforge
