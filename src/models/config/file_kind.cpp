#include "models/config/file_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/printable.h"
#include "models/config/assistant_file.h"
#include "models/config/eagle_file.h"
#include "weights/gguf_value.h"

namespace rocmforge {
namespace {

constexpr std::array<std::string_view, 7> draft_heads = {"eagle",  "eagle2",           "medusa",    "hydra",
                                                         "dflash", "gemma4_assistant", "gemma4-mtp"};
constexpr std::array<std::string_view, 7> text_diffusion = {"dream", "llada",           "llada-moe", "llada2",
                                                            "rnd1",  "diffusion-gemma", "sdar"};
constexpr std::array<std::string_view, 20> image_diffusion = {
    "sd1",  "sd2",    "sdxl",    "sd3",     "sd3.5",      "flux",    "flux2",  "wan",    "hyvid",  "ltxv",
    "aura", "cosmos", "hidream", "lumina2", "qwen_image", "z_image", "chroma", "pixart", "kolors", "hunyuan_video"};

template <class List>
bool holds(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

/// Whether there are tensors, and the names of all begin so.
bool all_tensors_begin(const GgufFile& file, std::string_view beginning) {
  return !file.tensors().empty() && std::all_of(file.tensors().begin(), file.tensors().end(), [&](const GgufTensor& tensor) {
    return tensor.name.starts_with(beginning);
  });
}

/// The text of a key; "" where it has none.
std::string text_at(const GgufFile& file, std::string_view key) {
  const GgufValue* value = file.find(key);
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return text == nullptr ? "" : *text;
}

bool has_tensor_ending(const GgufFile& file, std::string_view ending) {
  return std::any_of(file.tensors().begin(), file.tensors().end(),
                     [&](const GgufTensor& tensor) { return tensor.name.ends_with(ending); });
}

}  // namespace

std::string other_file_kind(const GgufFile& file) {
  const std::string type = text_at(file, "general.type"), architecture = text_at(file, "general.architecture");
  if (type == "adapter" || file.contains("adapter.type") || has_tensor_ending(file, ".lora_a")) {
    return fmt::format("a LoRA adapter for {} models: load its model, and this file with --lora",
                       architecture.empty() ? "other" : quote(architecture));
  }
  if (type == "imatrix" || has_tensor_ending(file, ".in_sum2") || file.contains("imatrix.chunk_count")) {
    return "an importance matrix (imatrix): llama-quantize --imatrix takes it";
  }
  if (type == "mmproj" || architecture == "clip" || file.contains("clip.has_vision_encoder") ||
      file.contains("clip.has_audio_encoder")) {
    return "the image or audio encoder of a model (mmproj): load the model it belongs to, and this file with --mmproj";
  }
  if (architecture == "controlvector" || file.contains("controlvector.model_hint") ||
      all_tensors_begin(file, "direction.")) {
    return "a control vector, which is not supported: llama-server --control-vector takes it";
  }
  if (is_eagle_file(file)) {
    return "an EAGLE3 draft: load the model it drafts for, and this file with --draft-model";
  }
  if (is_assistant_file(file)) {
    return "an assistant of a Gemma 4 model: load the model it drafts for, and this file with --draft-model";
  }
  if (holds(draft_heads, architecture)) {
    return fmt::format("a draft head ({}), which is not supported: load the model it drafts for", printable(architecture));
  }
  if (holds(text_diffusion, architecture)) {
    return fmt::format("a diffusion language model ({}), which is not supported: llama-diffusion-cli takes it",
                       printable(architecture));
  }
  if (holds(image_diffusion, architecture)) {
    return fmt::format("a diffusion model of images or video ({}): stable-diffusion.cpp takes it", printable(architecture));
  }
  if (type == "vocab" || (file.tensors().empty() && file.contains("tokenizer.ggml.tokens"))) {
    return "a vocabulary alone, without weights: rocmforge tokenize takes it";
  }
  return "";
}

}  // namespace rocmforge
