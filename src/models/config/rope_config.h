#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "models/config/metadata_reader.h"
#include "models/config/model_config.h"

namespace rocmforge {

/// Reads the rotation of a model's heads from the common keys: base, scaling (none, linear, YaRN) and the file's frequency
/// factors (`rope_freqs`, or `rope_factors_long` and `rope_factors_short`, chosen by `context`, the most positions of a
/// sequence). `whole_pairs` is RopeScaling's, for which there is no key.
RopeConfig read_rope(MetadataReader& metadata, std::int32_t head_dim, std::int32_t trained_context, std::int32_t context,
                     bool whole_pairs = true);

/// The rotation of the first `n_rot` elements of heads of which read_rope() would rotate more: with the base, the scaling
/// and the factors of the first pairs.
std::shared_ptr<const RopeFrequencies> read_part_frequencies(MetadataReader& metadata, const ModelConfig& config,
                                                             std::int32_t n_rot);

/// How the sections of multimodal RoPE lie in a head's pairs.
enum class RopeSections {
  contiguous,   ///< one after another (Qwen2-VL)
  interleaved,  ///< pair p turns by axis p mod 3 while that axis has pairs left, else by the first (Qwen3-VL)
};

/// The axis of each of `pairs` pairs, of which sections[a] turn by axis a.
std::vector<std::int32_t> rope_axes(std::span<const std::int32_t> sections, RopeSections order);

/// Reads `rope.dimension_sections`, if the file has it, to the rotation of every layer and to ModelConfig::position_axes.
void read_rope_sections(ModelConfig& config, MetadataReader& metadata, RopeSections order);

/// Frequencies of `n_rot` elements with this base, without scaling.
std::shared_ptr<const RopeFrequencies> plain_frequencies(std::int32_t n_rot, double base);

/// Whether the file gives YaRN's whole magnitude (rope.scaling.yarn_attn_factor), as converters write the attention factor
/// of a configuration. The architecture's own rule for the magnitude does not apply then.
bool names_yarn_magnitude(MetadataReader& metadata);

/// rope.freq_base, above 1; 10000 when absent.
double read_rope_base(MetadataReader& metadata);

/// rope.freq_base_swa, the base of layers with a window, above 1. Without a value for an absent key it is required.
double read_window_rope_base(MetadataReader& metadata, std::optional<double> absent = {});

/// rope.dimension_count_swa, the rotated elements of heads of layers with a window: all when absent. Throws Error unless the
/// number is even and at most `head_dim`.
std::int32_t read_window_rotated(MetadataReader& metadata, std::int32_t head_dim);

}  // namespace rocmforge
