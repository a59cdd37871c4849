#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/work_budget.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/vocabulary.h"

namespace rocmforge {

/// Converts text to token ids and back as the model's file defines it. Immutable after construction: several threads may use
/// it at the same time.
class Tokenizer {
 public:
  /// Throws Error when the vocabulary is inconsistent, or with the name of an unknown pre-tokenizer.
  static std::shared_ptr<const Tokenizer> create(Vocabulary vocabulary);
  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  struct EncodeOptions {
    bool add_special = true;     ///< adds BOS and EOS if the model wants them, unless the text already has them there
    bool parse_special = false;  ///< control tokens written in the text become their ids (templates: yes; user text: no)
  };

  /// A part of a longer text, with its own rule for control tokens.
  struct TextPart {
    std::string_view text;
    bool parse_special = false;
  };

  /// The ids of a text, in O(n log n) for n bytes at most. Bytes that are not UTF-8 become U+FFFD first. Characters that the
  /// vocabulary can't express are left out, or each run of them becomes the unknown token if its type is `unknown`; create()
  /// logs a warning for such vocabularies. Throws Error for texts of half a GiB and more, and when `budget`, of which
  /// each byte takes some units, is used up.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text, EncodeOptions options,
                                                 WorkBudget* budget = nullptr) const;

  /// The ids of the parts as one text. Ordinary tokens may contain a border between parts; control tokens never do.
  [[nodiscard]] std::vector<std::int32_t> encode(std::span<const TextPart> parts, bool add_special,
                                                 WorkBudget* budget = nullptr) const;

  /// The ids of two texts that a model reads together, such as a query and a document: BOS, the first, EOS, the separator,
  /// the second, EOS, each mark if the model wants it.
  [[nodiscard]] std::vector<std::int32_t> encode_pair(std::string_view first, std::string_view second,
                                                      WorkBudget* budget = nullptr) const;

  /// The text of all ids, equal to the result of a StreamDecoder. Control tokens are left out unless `special` is set or
  /// they mark a part of an answer ("<think>").
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids, bool special = false) const;

  /// The bytes of one token, which may be part of a UTF-8 character. "" for an id outside the vocabulary, and for control
  /// tokens unless `special` is set or they mark a part of an answer.
  [[nodiscard]] std::string token_bytes(std::int32_t id, bool special = false) const;

  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(vocabulary_.tokens.size()); }
  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }
  [[nodiscard]] bool adds_bos() const { return adds_bos_; }
  [[nodiscard]] bool adds_eos() const { return adds_eos_; }
  /// Whether the tokenizer adds a space at the start of a text, which decoding from the start removes.
  [[nodiscard]] bool drops_leading_space() const { return drops_leading_space_; }
  /// Generation ends at these tokens: eos, eot, eom, the end tokens known by their text, and the marks between files. In
  /// increasing order.
  [[nodiscard]] bool is_end_of_generation(std::int32_t id) const;
  [[nodiscard]] const std::vector<std::int32_t>& end_of_generation_ids() const { return end_ids_; }
  /// The id of the token with exactly this text (the first if several have it), or -1.
  [[nodiscard]] std::int32_t find(std::string_view token_text) const;

 protected:
  explicit Tokenizer(Vocabulary vocabulary);

  /// Appends the ids of a part of the text between special tokens.
  virtual void encode_text(std::string_view text, WorkBudget* budget, std::vector<std::int32_t>& ids) const = 0;
  /// The bytes of a token that is ordinary text (never a control, unknown or user-defined token).
  [[nodiscard]] virtual std::string ordinary_bytes(std::int32_t id) const = 0;

  /// The id of a token that text may become by merging, or -1.
  [[nodiscard]] std::int32_t find_mergeable(std::string_view text) const;
  /// The unknown token for characters without bytes, or -1. A control token of the file is not used, because text must not
  /// become one.
  [[nodiscard]] std::int32_t text_unknown() const;
  [[nodiscard]] TokenType type(std::int32_t id) const { return vocabulary_.types[static_cast<std::size_t>(id)]; }

  Vocabulary vocabulary_;
  std::vector<std::int32_t> end_ids_;
  bool adds_bos_ = false;
  bool adds_eos_ = false;
  bool drops_leading_space_ = false;

 private:
  void find_gap_ids();
  void find_end_ids();

  std::unordered_map<std::string_view, std::int32_t> ids_;  // views of vocabulary_.tokens
  SpecialTokens special_tokens_;
  std::vector<std::int32_t> shown_ids_;  // control tokens that are part of an answer's text
};

/// Converts a stream of ids to text and never returns an incomplete UTF-8 character. Bytes that are not UTF-8 become U+FFFD.
class StreamDecoder {
 public:
  /// `at_start`: the ids are the start of a text, whose leading space is removed if the tokenizer has added it. False for
  /// ids that continue an earlier text.
  explicit StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool special = false, bool at_start = true);

  /// Adds a token and returns the text that is complete now; "" while a character is incomplete.
  std::string add(std::int32_t id);
  /// Returns the remaining text; an incomplete character becomes U+FFFD.
  std::string finish();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool special_;
  bool first_;
  std::string held_;
};

}  // namespace rocmforge
