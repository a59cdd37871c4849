#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "weights/gguf_file.h"

namespace rocmforge {

/// A LoRA adapter, as llama.cpp's convert_lora_to_gguf.py writes it: for tensor NAME of the model, a product W x, the
/// tensors NAME.lora_a [rank, inputs] and NAME.lora_b [outputs, rank]. With the adapter the product is W x + scale * alpha /
/// rank * B (A x); alpha 0 stands for alpha = rank. Of the embedding lora_a is [tokens, rank], and the product B A[id]; of
/// experts in one tensor the matrices of all of them follow one another, as a first dimension.
class LoraFile {
 public:
  /// The tensor of the embedding.
  static constexpr std::string_view embedding = "token_embd.weight";

  /// Throws Error naming the file and the key or tensor: for a file that is no such adapter, for a tensor without its
  /// partner, for pairs whose ranks differ, and for other kinds of adapters.
  explicit LoraFile(GgufFile file);
  LoraFile(const LoraFile&) = delete;
  LoraFile& operator=(const LoraFile&) = delete;

  struct Pair {
    const GgufTensor* a = nullptr;
    const GgufTensor* b = nullptr;
    std::int64_t rank = 0;
    float factor = 1.0f;  ///< alpha / rank
  };

  [[nodiscard]] const GgufFile& file() const { return file_; }
  /// By the names of the model's tensors; at least one.
  [[nodiscard]] const std::map<std::string, Pair, std::less<>>& pairs() const { return pairs_; }
  /// Tokens from whose last occurrence in a prompt on the adapter acts (aLoRA); none: it acts everywhere.
  [[nodiscard]] const std::vector<std::int32_t>& invocation_tokens() const { return invocation_tokens_; }
  /// Null where the adapter has nothing for the tensor.
  [[nodiscard]] const Pair* find(std::string_view tensor) const;
  /// "FILE: tensor 'NAME'", the begin of a message.
  [[nodiscard]] std::string place(const GgufTensor& tensor) const;
  /// Throws Error naming the tensor unless it has this shape, which the model's tensor `of` needs.
  void check_shape(const GgufTensor& tensor, const Shape& expected, const GgufTensor& of) const;

 private:
  void check_kind() const;
  void read_invocation();
  void add_pair(const std::string& base, const GgufTensor& a);

  GgufFile file_;
  double alpha_ = 0.0;
  std::vector<std::int32_t> invocation_tokens_;
  std::map<std::string, Pair, std::less<>> pairs_;
};

}  // namespace rocmforge
