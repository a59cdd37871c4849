#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"
#include "tokenizer/answer_formats.h"
#include "tokenizer/bpe_tokenizer.h"
#include "tokenizer/marked_bpe_tokenizer.h"
#include "tokenizer/spm_tokenizer.h"
#include "tokenizer/unigram_tokenizer.h"
#include "tokenizer/wordpiece_tokenizer.h"

namespace rocmforge {
namespace {

// End tokens are found by their text, because many files name only one of several.
constexpr std::array<std::string_view, 21> end_texts = {"<|eot_id|>",
                                                        "<|im_end|>",
                                                        "<|end|>",
                                                        "<|return|>",
                                                        "<|call|>",
                                                        "<|calls|>",
                                                        "<|flush|>",
                                                        "<end_of_turn>",
                                                        "<|endoftext|>",
                                                        "</s>",
                                                        "<|eom_id|>",
                                                        "<EOT>",
                                                        "_<EOT>",
                                                        "[EOT]",
                                                        "[EOS]",
                                                        "<|end_of_text|>",
                                                        "<eos>",
                                                        "<turn|>",
                                                        "<|tool_response>",
                                                        "<end_of_utterance>",
                                                        "<\uFF5Cend\u2581of\u2581sentence\uFF5C>"};

/// The texts of one mark around a gap, for the families of models that have such marks (fill in the middle).
struct GapMark {
  std::int32_t Vocabulary::*id;
  std::array<std::string_view, 8> texts;
};

constexpr std::array<GapMark, 3> gap_marks = {{
    {&Vocabulary::fim_pre,
     {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<\uFF5Cfim\u2581begin\uFF5C>", "<PRE>", "\u2581<PRE>",
      "<|code_prefix|>", "<|prefix|>"}},
    {&Vocabulary::fim_suf,
     {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<\uFF5Cfim\u2581hole\uFF5C>", "<SUF>", "\u2581<SUF>",
      "<|code_suffix|>", "<|suffix|>"}},
    {&Vocabulary::fim_mid,
     {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<\uFF5Cfim\u2581end\uFF5C>", "<MID>", "\u2581<MID>",
      "<|code_middle|>", "<|middle|>"}},
}};

// Further marks of these families. The text after one of them belongs to another file, so that an answer ends there.
constexpr std::array<GapMark, 3> file_marks = {{
    {&Vocabulary::fim_pad, {"<|fim_pad|>", "<fim-pad>", "<fim_pad>"}},
    {&Vocabulary::fim_rep, {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
    {&Vocabulary::fim_sep, {"<|file_sep|>"}},
}};

void check_vocabulary(const Vocabulary& vocabulary) {
  const std::size_t count = vocabulary.tokens.size();
  if (count == 0) {
    throw Error("the vocabulary has no tokens");
  }
  if (count > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max() / 2)) {
    throw Error("the vocabulary has " + std::to_string(count) + " tokens, more than are supported");
  }
  if (vocabulary.types.size() != count) {
    throw Error("the vocabulary has " + std::to_string(count) + " tokens but " + std::to_string(vocabulary.types.size()) +
                " token types");
  }
  if (!vocabulary.scores.empty() && vocabulary.scores.size() != count) {
    throw Error("the vocabulary has " + std::to_string(count) + " tokens but " + std::to_string(vocabulary.scores.size()) +
                " scores");
  }
}

/// An id outside the vocabulary becomes -1.
void drop_bad_ids(Vocabulary& vocabulary) {
  const auto size = static_cast<std::int32_t>(vocabulary.tokens.size());
  for (std::int32_t* id : {&vocabulary.bos, &vocabulary.eos, &vocabulary.eot, &vocabulary.eom, &vocabulary.unknown,
                           &vocabulary.separator, &vocabulary.padding, &vocabulary.fim_pre, &vocabulary.fim_suf,
                           &vocabulary.fim_mid, &vocabulary.fim_pad, &vocabulary.fim_rep, &vocabulary.fim_sep}) {
    if (*id >= size) {
      log_warning("special token id {} is outside the vocabulary of {} tokens and is ignored", *id, size);
    }
    if (*id < 0 || *id >= size) {
      *id = -1;
    }
  }
}

bool is_control(TokenType type) { return type == TokenType::control || type == TokenType::unknown; }

}  // namespace

std::shared_ptr<const Tokenizer> Tokenizer::create(Vocabulary vocabulary) {
  check_vocabulary(vocabulary);
  drop_bad_ids(vocabulary);
  if (vocabulary.model == TokenizerModel::spm) {
    return std::make_shared<SpmTokenizer>(std::move(vocabulary));
  }
  if (vocabulary.model == TokenizerModel::marked_bpe) {
    return std::make_shared<MarkedBpeTokenizer>(std::move(vocabulary));
  }
  if (vocabulary.model == TokenizerModel::wordpiece) {
    return std::make_shared<WordPieceTokenizer>(std::move(vocabulary));
  }
  if (vocabulary.model == TokenizerModel::unigram) {
    return std::make_shared<UnigramTokenizer>(std::move(vocabulary));
  }
  return std::make_shared<BpeTokenizer>(std::move(vocabulary));
}

Tokenizer::Tokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {
  ids_.reserve(vocabulary_.tokens.size());
  for (std::int32_t id = 0; id < size(); ++id) {
    ids_.emplace(vocabulary_.tokens[static_cast<std::size_t>(id)], id);
  }
  find_gap_ids();
  find_end_ids();
  for (const std::string_view text : answer_mark_tokens()) {
    if (const std::int32_t id = find(text); id >= 0 && !is_end_of_generation(id)) {
      shown_ids_.push_back(id);
    }
  }
  for (std::int32_t id = 0; id < size(); ++id) {
    if (is_control(type(id)) || type(id) == TokenType::user_defined) {
      special_tokens_.add(vocabulary_.tokens[static_cast<std::size_t>(id)], id, type(id) == TokenType::user_defined);
    }
  }
}

// Few files name the marks of gaps. They are used only if all three marks are found.
void Tokenizer::find_gap_ids() {
  const auto find_any = [this](const GapMark& mark) {
    std::int32_t id = vocabulary_.*mark.id;
    for (const std::string_view text : mark.texts) {
      id = id < 0 && !text.empty() ? find(text) : id;
    }
    return id;
  };
  if (std::ranges::any_of(gap_marks, [&](const GapMark& mark) { return find_any(mark) < 0; })) {
    return;
  }
  for (const auto& marks : {gap_marks, file_marks}) {
    for (const GapMark& mark : marks) {
      if (const std::int32_t id = find_any(mark); id >= 0 && vocabulary_.*mark.id < 0) {
        vocabulary_.*mark.id = id;
        vocabulary_.types[static_cast<std::size_t>(id)] = TokenType::control;  // text of the user must not become this token
      }
    }
  }
}

std::int32_t Tokenizer::text_unknown() const {
  const std::int32_t named = vocabulary_.unknown;
  const bool is_plain = named >= 0 && type(named) == TokenType::unknown && named != vocabulary_.bos;
  return is_plain && !is_end_of_generation(named) ? named : -1;
}

void Tokenizer::find_end_ids() {
  const auto add = [this](std::int32_t id) {
    if (id >= 0) {
      end_ids_.push_back(id);
    }
  };
  for (const std::string_view text : end_texts) {
    const std::int32_t id = find(text);
    add(id);
    if (id >= 0) {
      // Some files mark these tokens as ordinary; text of the user must not become one of them.
      vocabulary_.types[static_cast<std::size_t>(id)] = TokenType::control;
    }
  }
  for (const std::int32_t id :
       {vocabulary_.eos, vocabulary_.eot, vocabulary_.eom, vocabulary_.fim_pad, vocabulary_.fim_rep, vocabulary_.fim_sep}) {
    add(id);
  }
  std::sort(end_ids_.begin(), end_ids_.end());
  end_ids_.erase(std::unique(end_ids_.begin(), end_ids_.end()), end_ids_.end());
  // In these families <|end|> ends a message inside an answer.
  const bool has_messages =
      (find("<|return|>") >= 0 && find("<|call|>") >= 0) || (find("<|calls|>") >= 0 && find("<|flush|>") >= 0);
  if (has_messages) {
    std::erase(end_ids_, find("<|end|>"));
  }
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options, WorkBudget* budget) const {
  const TextPart part{text, options.parse_special};
  return encode(std::span(&part, 1), options.add_special, budget);
}

std::vector<std::int32_t> Tokenizer::encode(std::span<const TextPart> parts, bool add_special, WorkBudget* budget) const {
  std::vector<std::int32_t> ids;
  if (add_special && adds_bos_) {
    ids.push_back(vocabulary_.bos);
  }
  const std::size_t start = ids.size();
  std::string pending;
  std::string replaced;
  for (const TextPart& part : parts) {
    spend(budget, part.text.size());
    const std::string_view text = replace_invalid_utf8(part.text, replaced);
    if (text.size() + pending.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max() / 4)) {
      throw Error("a text of " + std::to_string(part.text.size()) + " bytes is too long to be tokenized at once");
    }
    std::size_t position = 0;
    while (position < text.size()) {
      const SpecialTokens::Match match = special_tokens_.find(text, position, part.parse_special);
      pending.append(text.substr(position, match.begin - position));
      if (match.id < 0) {
        break;
      }
      if (!pending.empty()) {
        encode_text(pending, budget, ids);
        pending.clear();
      }
      ids.push_back(match.id);
      position = match.begin + match.length;
    }
  }
  if (!pending.empty()) {
    encode_text(pending, budget, ids);
  }
  if (start == 1 && ids.size() > 1 && ids[1] == vocabulary_.bos) {
    ids.erase(ids.begin());
  }
  if (add_special && adds_eos_ && (ids.empty() || ids.back() != vocabulary_.eos)) {
    ids.push_back(vocabulary_.eos);
  }
  return ids;
}

std::vector<std::int32_t> Tokenizer::encode_pair(std::string_view first, std::string_view second, WorkBudget* budget) const {
  std::vector<std::int32_t> ids;
  const auto add = [&ids](bool wanted, std::int32_t id) {
    if (wanted) {
      ids.push_back(id);
    }
  };
  const auto add_text = [&](std::string_view text) {
    const std::vector<std::int32_t> encoded = encode(text, EncodeOptions{.add_special = false}, budget);
    ids.insert(ids.end(), encoded.begin(), encoded.end());
    add(adds_eos_, vocabulary_.eos);
  };
  add(adds_bos_, vocabulary_.bos);
  add_text(first);
  const bool is_apart = vocabulary_.model != TokenizerModel::wordpiece;  // there the separator ends both texts
  add(is_apart && vocabulary_.add_sep.value_or(false) && vocabulary_.separator >= 0, vocabulary_.separator);
  add_text(second);
  return ids;
}

std::string Tokenizer::token_bytes(std::int32_t id, bool special) const {
  if (id < 0 || id >= size()) {
    return "";
  }
  if (is_control(type(id))) {
    const bool shown = special || std::find(shown_ids_.begin(), shown_ids_.end(), id) != shown_ids_.end();
    return shown ? vocabulary_.tokens[static_cast<std::size_t>(id)] : "";
  }
  return type(id) == TokenType::user_defined ? vocabulary_.tokens[static_cast<std::size_t>(id)] : ordinary_bytes(id);
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool special) const {
  std::string bytes;
  for (const std::int32_t id : ids) {
    bytes += token_bytes(id, special);
  }
  if (drops_leading_space_ && bytes.starts_with(' ')) {
    bytes.erase(0, 1);
  }
  return take_utf8(bytes, /*last=*/true);
}

bool Tokenizer::is_end_of_generation(std::int32_t id) const {
  return std::binary_search(end_ids_.begin(), end_ids_.end(), id);
}

std::int32_t Tokenizer::find(std::string_view token_text) const {
  const auto found = ids_.find(token_text);
  return found == ids_.end() ? -1 : found->second;
}

std::int32_t Tokenizer::find_mergeable(std::string_view text) const {
  const std::int32_t id = find(text);
  return id >= 0 && (type(id) == TokenType::normal || type(id) == TokenType::user_defined) ? id : -1;
}

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool special, bool at_start)
    : tokenizer_(std::move(tokenizer)), special_(special), first_(at_start) {
  check(tokenizer_ != nullptr, "a stream decoder needs a tokenizer");
}

std::string StreamDecoder::add(std::int32_t id) {
  const std::string bytes = tokenizer_->token_bytes(id, special_);
  const bool drops_space = first_ && tokenizer_->drops_leading_space() && bytes.starts_with(' ');
  first_ = first_ && bytes.empty();
  held_.append(bytes, drops_space ? 1 : 0);
  return take_utf8(held_, /*last=*/false);
}

std::string StreamDecoder::finish() { return take_utf8(held_, /*last=*/true); }

}  // namespace rocmforge
