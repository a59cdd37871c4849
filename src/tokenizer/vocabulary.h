#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rocmforge {

/// The token types of the GGUF format (tokenizer.ggml.token_type).
enum class TokenType : std::uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

enum class TokenizerModel {
  spm,         ///< "llama": SentencePiece-style BPE with scores
  bpe,         ///< "gpt2": byte-level BPE with merges
  marked_bpe,  ///< "gemma4": BPE with merges over characters, spaces as U+2581
  wordpiece,   ///< "bert": the longest pieces of normalised words
  unigram,     ///< "t5": SentencePiece's unigram model with scores
};

/// The data of a tokenizer as the model's file has them. Ids are -1 when the model has none.
struct Vocabulary {
  TokenizerModel model = TokenizerModel::bpe;
  std::string pre;  ///< pre-tokenizer name, bpe only; "" when the file has none
  std::vector<std::string> tokens;
  std::vector<float> scores;        ///< empty or one per token
  std::vector<TokenType> types;     ///< one per token
  std::vector<std::string> merges;  ///< "left right"; the index is the rank
  std::int32_t bos = -1, eos = -1, eot = -1, eom = -1, unknown = -1, separator = -1, padding = -1;
  std::int32_t fim_pre = -1, fim_suf = -1, fim_mid = -1, fim_pad = -1, fim_rep = -1, fim_sep = -1;
  std::optional<bool> add_bos, add_eos, add_space_prefix;  ///< unset: the default of the model and its pre-tokenizer
  std::optional<bool> add_sep;                             ///< between two texts: Tokenizer::encode_pair
  std::optional<bool> lowercase, strip_accents;            ///< wordpiece only
  std::optional<bool> remove_extra_whitespaces;            ///< unigram only
  std::string charsmap;                                    ///< unigram only: see Charsmap
  std::string chat_template;                               ///< Jinja text, "" when the file has none
  std::string tool_use_template;  ///< the template for conversations with tools, "" when the file has none
  std::string rerank_template;    ///< a text with "{query}" and "{document}" in it, "" when the file has none
};

}  // namespace rocmforge
