#include "engine/plan_encoders.h"

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/log.h"

namespace rocmforge {
namespace {

std::int32_t image_tokens(const EngineOptions& options) {
  return options.image_tokens > 0 ? options.image_tokens : default_image_tokens;
}

/// An image or a piece of a recording is computed whole, beside one token of each other sequence.
void make_room(EngineOptions& options, std::int32_t rows) {
  options.max_batch_tokens = std::max(options.max_batch_tokens, rows + options.max_sequences - 1);
  options.model.given_rows = true;
}

void open_vision(PlannedModel& planned, const ModelConfig& text, EngineOptions& options) {
  const VisionConfig config = VisionConfig::from_gguf(*planned.mmproj_file, text, image_tokens(options));
  make_room(options, config.max_tokens);
  options.model.spans = options.model.spans || config.both_directions;
  planned.sees = true;
}

void open_audio(PlannedModel& planned, const ModelConfig& text, EngineOptions& options) {
  if (text.deepstack_layers > 0) {
    throw Error(options.mmproj + ": a model whose layers take rows of images hears no recordings");
  }
  make_room(options, AudioConfig::from_gguf(*planned.mmproj_file, text).max_rows());
  planned.hears = true;
}

void open(PlannedModel& planned, const ModelConfig& text, EngineOptions& options) {
  // Rows lie in the memory of one GPU, and no other rank waits for them.
  if (names_several(options.device)) {
    throw Error(options.mmproj + ": a model that GPUs share reads no images or recordings");
  }
  planned.mmproj_file = std::make_unique<const GgufFile>(options.mmproj);
  const GgufFile& file = *planned.mmproj_file;
  const bool has_audio = has_audio_encoder(file);
  if (!has_audio || file.boolean("clip.has_vision_encoder", false)) {
    open_vision(planned, text, options);
  }
  if (!has_audio) {
    return;
  }
  try {
    open_audio(planned, text, options);
  } catch (const Error& error) {
    if (!planned.sees) {
      throw;
    }
    log_warning("recordings are not heard: {}", error.what());
  }
}

}  // namespace

void open_encoders(PlannedModel& planned, const ModelConfig& text, EngineOptions& options) {
  try {
    open(planned, text, options);
  } catch (const Error& error) {
    if (!options.mmproj_is_found) {
      throw;
    }
    planned.mmproj_file.reset();
    log_warning("images and recordings are not read: {}", error.what());
  }
}

void plan_encoders(PlannedModel& planned, const ModelConfig& text, const EngineOptions& options, bool small_weights) {
  if (planned.sees) {
    planned.vision =
        VisionModel::plan(*planned.mmproj_file, text, *planned.registry, planned.device->info(), planned.threads,
                          {.max_tokens = image_tokens(options),
                           .max_rows = options.max_batch_tokens,
                           .overlap = options.model.overlap,
                           .small_weights = small_weights});
  }
  if (planned.hears) {
    planned.audio = AudioModel::plan(
        *planned.mmproj_file, text, *planned.registry, planned.device->info(), planned.threads,
        {.max_rows = options.max_batch_tokens, .overlap = options.model.overlap, .small_weights = small_weights});
  }
}

std::vector<const MediaEncoder*> PlannedModel::encoders() const {
  std::vector<const MediaEncoder*> encoders;
  for (const MediaEncoder* encoder : std::initializer_list<const MediaEncoder*>{vision.get(), audio.get()}) {
    if (encoder != nullptr) {
      encoders.push_back(encoder);
    }
  }
  return encoders;
}

std::int64_t encoder_weight_bytes(const PlannedModel& planned) {
  if (planned.mmproj_file == nullptr) {
    return 0;
  }
  std::size_t packed = 0;
  for (const MediaEncoder* encoder : planned.encoders()) {
    packed += encoder->packed_bytes();
  }
  const bool on_gpu = planned.device->is_gpu();
  return static_cast<std::int64_t>(on_gpu ? packed : std::max<std::size_t>(packed, planned.mmproj_file->file_bytes()));
}

std::int64_t encoder_workspace_bytes(const PlannedModel& planned) {
  std::size_t bytes = 0;
  for (const MediaEncoder* encoder : planned.encoders()) {
    bytes += encoder->workspace_bytes();
  }
  return static_cast<std::int64_t>(bytes);
}

void count_encoders(PlannedModel& planned) {
  planned.memory.weight_bytes += encoder_weight_bytes(planned);
  planned.memory.workspace_bytes += encoder_workspace_bytes(planned);
}

}  // namespace rocmforge
