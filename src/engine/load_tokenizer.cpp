#include "engine/load_tokenizer.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/log.h"

namespace rocmforge {
namespace {

// Pre-tokenizers with which the BPE of "gpt2" is over characters, not bytes: the same as model "gemma4".
constexpr std::array<std::string_view, 3> pre_of_marked_bpe = {"gemma4", "sarvam-moe", "granite-embed-multi-311m"};

std::string key_of(std::string_view name) { return "tokenizer.ggml." + std::string(name); }

std::vector<TokenType> read_types(const GgufFile& file, std::size_t count) {
  const auto numbers = file.integers(key_of("token_type"));
  if (!numbers) {
    return std::vector<TokenType>(count, TokenType::normal);
  }
  std::vector<TokenType> types;
  for (const std::int64_t number : *numbers) {
    // 0 is "undefined" in the format. Such a token and one of an unknown type are ordinary tokens.
    types.push_back(number >= 1 && number <= 6 ? static_cast<TokenType>(number) : TokenType::normal);
  }
  return types;
}

/// The first of the names that the file has, or `fallback`. An id outside the vocabulary counts as none.
std::int32_t read_id(const GgufFile& file, std::initializer_list<std::string_view> names, std::int32_t fallback,
                     std::size_t count) {
  for (const std::string_view name : names) {
    const std::string key = key_of(name);
    if (!file.contains(key)) {
      continue;
    }
    const std::int64_t id = file.integer(key);
    if (id >= 0 && static_cast<std::size_t>(id) < count) {
      return static_cast<std::int32_t>(id);
    }
    log_warning("{}: {} is outside the vocabulary of {} tokens and is ignored", key, id, count);
  }
  return fallback >= 0 && static_cast<std::size_t>(fallback) < count ? fallback : -1;
}

std::optional<bool> read_flag(const GgufFile& file, std::string_view name) {
  const std::string key = key_of(name);
  return file.contains(key) ? std::optional(file.boolean(key, false)) : std::nullopt;
}

/// An array of bytes, signed or not; "" when the file has none.
std::string read_bytes(const GgufFile& file, std::string_view name) {
  std::string bytes;
  if (const auto numbers = file.integers(key_of(name))) {
    std::ranges::transform(*numbers, std::back_inserter(bytes),
                           [](std::int64_t number) { return static_cast<char>(number); });
  }
  return bytes;
}

void read_special_ids(const GgufFile& file, Vocabulary& vocabulary) {
  const std::size_t count = vocabulary.tokens.size();
  const auto read = [&](std::initializer_list<std::string_view> names, std::int32_t fallback = -1) {
    return read_id(file, names, fallback, count);
  };
  const bool is_spm = vocabulary.model == TokenizerModel::spm;
  const bool is_wordpiece = vocabulary.model == TokenizerModel::wordpiece,
             is_unigram = vocabulary.model == TokenizerModel::unigram;
  if (!is_spm && !is_wordpiece && !is_unigram && !file.contains(key_of("eos_token_id"))) {
    log_warning("{} is missing: the end of an answer is known by the texts of tokens alone", key_of("eos_token_id"));
  }
  vocabulary.bos = read({"bos_token_id", "cls_token_id"}, is_spm ? 1 : is_wordpiece ? 101 : -1);
  vocabulary.eos = read({"eos_token_id"}, is_spm ? 2 : is_unigram ? 1 : -1);
  vocabulary.unknown = read({"unknown_token_id"}, is_spm ? 0 : is_unigram ? 2 : is_wordpiece ? 100 : -1);
  vocabulary.eot = read({"eot_token_id"});
  vocabulary.eom = read({"eom_token_id"});
  vocabulary.separator = read({"separator_token_id", "seperator_token_id"}, is_wordpiece ? 102 : -1);
  vocabulary.padding = read({"padding_token_id"});
  vocabulary.fim_pre = read({"fim_pre_token_id", "prefix_token_id"});
  vocabulary.fim_suf = read({"fim_suf_token_id", "suffix_token_id"});
  vocabulary.fim_mid = read({"fim_mid_token_id", "middle_token_id"});
  vocabulary.fim_pad = read({"fim_pad_token_id"});
  vocabulary.fim_rep = read({"fim_rep_token_id"});
  vocabulary.fim_sep = read({"fim_sep_token_id"});
}

}  // namespace

std::shared_ptr<const Tokenizer> load_tokenizer(const GgufFile& file) {
  const std::string& model = file.string(key_of("model"));
  if (model == "no_vocab" || model == "none") {
    return nullptr;
  }
  Vocabulary vocabulary;
  const std::string pre = model == "gpt2" ? file.string(key_of("pre"), "") : "";
  if (model == "llama") {
    vocabulary.model = TokenizerModel::spm;
  } else if (std::ranges::find(pre_of_marked_bpe, pre) != pre_of_marked_bpe.end()) {
    vocabulary.model = TokenizerModel::marked_bpe;
  } else if (model == "gpt2") {
    vocabulary.model = TokenizerModel::bpe;
    vocabulary.pre = pre;
  } else if (model == "gemma4") {
    vocabulary.model = TokenizerModel::marked_bpe;
  } else if (model == "bert") {
    vocabulary.model = TokenizerModel::wordpiece;
  } else if (model == "t5") {
    vocabulary.model = TokenizerModel::unigram;
  } else {
    throw Error("tokenizer '" + model +
                "' is not supported; known are llama (SentencePiece-style BPE), gpt2 (byte-level BPE), gemma4 (BPE of "
                "characters), bert (WordPiece) and t5 (unigram)");
  }
  const auto required_strings = [&file](std::string_view name) -> const std::vector<std::string>& {
    const std::vector<std::string>* strings = file.strings(key_of(name));
    if (strings == nullptr) {
      throw Error("key '" + key_of(name) + "' is missing");
    }
    return *strings;
  };
  vocabulary.tokens = required_strings("tokens");
  vocabulary.types = read_types(file, vocabulary.tokens.size());
  if (const auto scores = file.numbers(key_of("scores"))) {
    for (const double score : *scores) {
      vocabulary.scores.push_back(static_cast<float>(score));
    }
  }
  if (vocabulary.model == TokenizerModel::bpe || vocabulary.model == TokenizerModel::marked_bpe) {
    vocabulary.merges = required_strings("merges");
  }
  read_special_ids(file, vocabulary);
  vocabulary.add_bos = read_flag(file, "add_bos_token");
  vocabulary.add_eos = read_flag(file, "add_eos_token");
  vocabulary.add_space_prefix = read_flag(file, "add_space_prefix");
  vocabulary.add_sep = read_flag(file, "add_sep_token");
  vocabulary.lowercase = read_flag(file, "normalizer.lowercase");
  vocabulary.strip_accents = read_flag(file, "normalizer.strip_accents");
  vocabulary.remove_extra_whitespaces = read_flag(file, "remove_extra_whitespaces");
  vocabulary.charsmap = read_bytes(file, "precompiled_charsmap");
  vocabulary.chat_template = file.string("tokenizer.chat_template", "");
  vocabulary.tool_use_template = file.string("tokenizer.chat_template.tool_use", "");
  vocabulary.rerank_template = file.string("tokenizer.chat_template.rerank", "");
  return with_context("tokenizer", [&] { return Tokenizer::create(std::move(vocabulary)); });
}

}  // namespace rocmforge
