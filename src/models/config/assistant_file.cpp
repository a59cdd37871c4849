#include "models/config/assistant_file.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "models/config/architecture.h"
#include "models/config/draft_file.h"
#include "models/config/metadata_reader.h"
#include "models/config/model_tensors.h"
#include "weights/gguf_value.h"

namespace rocmforge {
namespace {

constexpr std::string_view model_architecture = "gemma4";

}  // namespace

bool is_assistant_file(const GgufFile& file) { return has_architecture(file, gemma4_assistant_architecture().name); }

AssistantFile::AssistantFile(GgufFile opened, const GgufFile& model, const ModelConfig& of_model, std::int32_t context)
    : file(std::move(opened)), model_hidden(of_model.hidden) {
  check(is_assistant_file(file), "the file is an assistant");
  const std::string path = file.path().string();
  if (of_model.architecture != model_architecture) {
    throw Error(fmt::format("{}: it drafts for models of architecture {}, the model is {}", path, model_architecture,
                            quote(of_model.architecture)));
  }
  config = read_config(file, gemma4_assistant_architecture(), context);
  MetadataReader metadata(file, config.architecture);
  constexpr std::string_view width = "embedding_length_out";
  if (const std::int32_t hidden = metadata.count(width); hidden != of_model.hidden) {
    throw metadata.error(
        width, fmt::format("is {}, the model's width is {}: it drafts for another model", hidden, of_model.hidden));
  }
  if (config.vocab != of_model.vocab) {
    throw Error(fmt::format("{}: it has {} tokens, the model has {}", path, config.vocab, of_model.vocab));
  }
  check_same_tokens(file, model);
  for (int index = 0; index < config.layers; ++index) {
    find_keys(index, of_model);
  }
  expect_tensor(file, block_tensor(0, "nextn.pre_projection.weight"), {config.hidden, 2 * std::int64_t{model_hidden}});
  expect_tensor(file, "nextn.post_projection.weight", {model_hidden, config.hidden});
}

void AssistantFile::find_keys(int index, const ModelConfig& of_model) {
  AttentionConfig& own = config.blocks[static_cast<std::size_t>(index)].attention;
  int last = of_model.layers - 1;
  while (last >= 0 && (of_model.layer(last).attention.window > 0) != (own.window > 0)) {
    --last;
  }
  const std::string_view kind = own.window > 0 ? "with a window" : "without a window";
  if (last < 0) {
    throw Error(fmt::format("{}: layer {} reads the keys of the model's last layer {}, which has none", file.path().string(),
                            index, kind));
  }
  const AttentionConfig& others = of_model.layer(last).attention;
  if (own.head_dim != others.head_dim || own.kv_heads != others.kv_heads || own.window != others.window) {
    throw Error(fmt::format("{}: layer {} reads {} KV heads of {} (window {}), the model's last layer {} has {} of {} ({})",
                            file.path().string(), index, own.kv_heads, own.head_dim, own.window, kind, others.kv_heads,
                            others.head_dim, others.window));
  }
  own.keys_of = last;
  if (own.window > 0) {
    --own.window;
  }
}

}  // namespace rocmforge
