#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "engine/draft_answers.h"
#include "engine/golden_model_file.h"
#include "paths.h"
#include "weights/gguf_file.h"

/// Golden models and drafts that are changed so that the drafts are often, but not always right.
namespace rocmforge::draft_answers {

/// A golden model whose layers change little, and whose MTP block computes from a token what the model does: so it is often,
/// but not always right.
inline std::string agreeing_mtp_model(const std::string& name) {
  constexpr float kept = 0.05f;
  const std::string path = golden_model_file(name);
  TensorEditor editor(path);
  for (const GgufTensor& tensor : editor.tensors()) {
    const auto count = static_cast<std::size_t>(tensor.tensor.shape.elems());
    float* values = editor.floats(tensor.name);
    const auto is = [&](std::string_view part) { return tensor.name.find(part) != std::string::npos; };
    if (is("attn_output.weight") || is("ffn_down") || is("ssm_out.weight")) {
      std::for_each_n(values, count, [](float& value) { value *= kept; });
    } else if (tensor.name == "token_embd.weight") {  // rows as large as the block's normalised ones
      const double squares = std::inner_product(values, values + count, values, 0.0);
      const auto scale = static_cast<float>(std::sqrt(static_cast<double>(count) / squares));
      std::for_each_n(values, count, [scale](float& value) { value *= scale; });
    } else if (is("nextn.enorm")) {
      std::fill_n(values, count, 1.0f);
    } else if (is("nextn.eh_proj")) {  // the columns of the embedding come first
      const std::int64_t hidden = tensor.tensor.shape[0];
      std::fill_n(values, count, 0.0f);
      for (std::int64_t i = 0; i < hidden; ++i) {
        values[i * 2 * hidden + i] = 1.0f;
      }
    }
  }
  const std::string block = "blk.2.nextn.";
  for (const auto& [own, shared] : {std::pair("shared_head_norm", "output_norm"), std::pair("embed_tokens", "token_embd"),
                                    std::pair("shared_head_head", "output")}) {
    if (float* values = editor.floats(block + own + ".weight")) {
      const auto of_model = std::ranges::find(editor.tensors(), std::string(shared) + ".weight", &GgufTensor::name);
      std::copy_n(editor.floats(of_model->name), of_model->tensor.shape.elems(), values);
    }
  }
  const std::string changed = path + ".agreeing.gguf";
  editor.save_as(changed);
  return changed;
}

inline std::string golden_eagle_draft(const std::string& name) {
  return test::test_data("golden/models/eagle3/" + name + "-draft.gguf");
}

inline std::size_t count_of(const GgufTensor& tensor) { return static_cast<std::size_t>(tensor.tensor.shape.elems()); }

inline void fill_one(TensorEditor& editor, std::string_view name, float value) {
  for (const GgufTensor& tensor : editor.tensors()) {
    if (tensor.name == name) {
      std::fill_n(editor.floats(name), count_of(tensor), value);
    }
  }
}

inline std::string nearly_plain_eagle_model(const std::string& name) {
  const std::string path = golden_model_file("eagle3/" + name);
  TensorEditor editor(path);
  make_nearly_plain(editor, {"attn_output", "ffn_down"}, 0.05f);
  // Rows of the embedding as large as normalised ones.
  const GgufFile file(path);
  const std::size_t count = count_of(file.tensor("token_embd.weight"));
  float* values = editor.floats("token_embd.weight");
  const double squares = std::inner_product(values, values + count, values, 0.0);
  const auto scale = static_cast<float>(std::sqrt(static_cast<double>(count) / squares));
  std::for_each_n(values, count, [scale](float& value) { value *= scale; });
  editor.save_as(path);
  return path;
}

/// The golden draft, whose state is the embedding of the token: its attention sees the positions with that token alone, by
/// heads that compare parts of the embeddings. So it often says what nearly_plain_eagle_model() does.
inline std::string agreeing_eagle_draft(const std::string& name, const std::string& model) {
  TensorEditor editor(golden_eagle_draft(name));
  TensorEditor of_model(model);
  const GgufFile file(golden_eagle_draft(name));
  const std::int64_t hidden = file.integer("eagle3.embedding_length");
  const std::int64_t dim = file.integer("eagle3.attention.key_length");
  const std::int64_t heads = file.integer("eagle3.attention.head_count");
  const std::int64_t shared = heads / file.integer("eagle3.attention.head_count_kv");
  for (const char* zero : {"fc", "blk.0.attn_q", "blk.0.attn_k", "blk.0.attn_v", "blk.0.attn_output", "blk.0.ffn_down"}) {
    fill_one(editor, std::string(zero) + ".weight", 0.0f);
  }
  fill_one(editor, "blk.0.attn_norm.weight", 1.0f);
  fill_one(editor, "blk.0.attn_norm_2.weight", 0.0f);
  constexpr float sharpness = 6.0f;
  for (std::int64_t row = 0; row < heads * dim; ++row) {
    const std::int64_t element = row / dim / shared * dim + row % dim;  // of the embedding, the first in a joined row
    editor.floats("blk.0.attn_q.weight")[row * 2 * hidden + element] = sharpness;
    if (row / dim % shared == 0) {
      editor.floats("blk.0.attn_output.weight")[element * heads * dim + row] = 1.0f;
    }
  }
  for (std::int64_t element = 0; element < hidden; ++element) {
    editor.floats("blk.0.attn_k.weight")[element * 2 * hidden + element] = 1.0f;
    editor.floats("blk.0.attn_v.weight")[element * 2 * hidden + element] = 1.0f;
  }
  std::copy_n(of_model.floats("output_norm.weight"), hidden, editor.floats("output_norm.weight"));
  if (float* own = editor.floats("token_embd.weight")) {
    std::copy_n(of_model.floats("token_embd.weight"), count_of(file.tensor("token_embd.weight")), own);
  }
  const GgufTensor* const ids = file.find_tensor("d2t");
  for (std::int64_t row = 0; row < file.tensor("output.weight").tensor.shape[0]; ++row) {
    std::int64_t token = row;
    if (ids != nullptr) {
      std::memcpy(&token, static_cast<const std::byte*>(ids->tensor.data) + row * std::int64_t{sizeof token}, sizeof token);
    }
    std::copy_n(of_model.floats("output.weight") + token * hidden, hidden, editor.floats("output.weight") + row * hidden);
  }
  const std::string path = model + ".draft.gguf";
  editor.save_as(path);
  return path;
}

inline std::string golden_assistant(const std::string& name) {
  return test::test_data("golden/models/assistant/" + name + "-draft.gguf");
}

inline void fill_all(TensorEditor& editor, std::string_view part, float value) {
  for (const GgufTensor& tensor : editor.tensors()) {
    if (tensor.name.find(part) != std::string::npos) {
      std::fill_n(editor.floats(tensor.name), tensor.tensor.shape.elems(), value);
    }
  }
}

/// The head is the embedding: without signs each token would follow itself.
inline std::string nearly_plain_gemma4() {
  const std::string path = golden_model_file("gemma4");
  TensorEditor editor(path);
  make_nearly_plain(editor, {"post_attention_norm", "post_ffw_norm"}, 0.3f);
  fill_all(editor, "layer_output_scale", 1.0f);
  float* const signs = editor.floats("output_norm.weight");
  for (int i = 0; i < GgufFile(path).integer("gemma4.embedding_length"); i += 3) {
    signs[i] = -signs[i];
  }
  editor.save_as(path);
  return path;
}

/// The golden assistant with the model's embedding as its first elements, and layers that change little. So it often says
/// what nearly_plain_gemma4() does.
inline std::string agreeing_assistant(const std::string& model) {
  TensorEditor editor(golden_assistant("gemma4"));
  TensorEditor of_model(model);
  const GgufFile file(golden_assistant("gemma4"));
  const std::int64_t width = file.integer("gemma4-assistant.embedding_length_out");
  const std::int64_t hidden = file.integer("gemma4-assistant.embedding_length");
  make_nearly_plain(editor, {"post_attention_norm", "post_ffw_norm"}, 0.3f);
  fill_all(editor, "layer_output_scale", 1.0f);
  fill_all(editor, "nextn.pre_projection", 0.0f);
  fill_all(editor, "token_embd", 0.0f);
  for (std::int64_t element = 0; element < width; ++element) {
    editor.floats("blk.0.nextn.pre_projection.weight")[element * 2 * width + element] = 1.0f;
  }
  for (std::int64_t token = 0; token < file.tensor("token_embd.weight").tensor.shape[0]; ++token) {
    std::copy_n(of_model.floats("token_embd.weight") + token * width, width,
                editor.floats("token_embd.weight") + token * hidden);
  }
  std::copy_n(of_model.floats("output_norm.weight"), width, editor.floats("output_norm.weight"));
  const std::string path = model + ".draft.gguf";
  editor.save_as(path);
  return path;
}

}  // namespace rocmforge::draft_answers
