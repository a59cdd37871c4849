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

/// Text to token ids and back, as the model's file defines it. Immutable after construction; safe to use from several
/// threads.
class Tokenizer {
 public:
  /// Throws Error on an inconsistent vocabulary or an unknown pre-tokenizer, which it names.
  static std::shared_ptr<const Tokenizer> create(Vocabulary vocabulary);
  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  struct EncodeOptions {
    bool add_special = true;     ///< BOS and EOS where the model asks for them, unless the text already has them there
    bool parse_special = false;  ///< control tokens written in the text become their ids (templates: yes; user text: no)
  };

  /// A stretch of a longer text, with its own rule for control tokens.
  struct TextPart {
    std::string_view text;
    bool parse_special = false;
  };

  /// Linear in the length of `text`; what is no UTF-8 becomes U+FFFD first. What the vocabulary can't express is left out,
  /// or a run of it is SentencePiece's unknown token, if its type says so; create() warns of such vocabularies. With a
  /// `budget` the work is spent as it is done, some units for each byte; throws Error where that does not suffice.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text, EncodeOptions options,
                                                 WorkBudget* budget = nullptr) const;

  /// The parts as one text: ordinary tokens may span a border between parts, control tokens never do.
  [[nodiscard]] std::vector<std::int32_t> encode(std::span<const TextPart> parts, bool add_special,
                                                 WorkBudget* budget = nullptr) const;

  /// All ids as text, equal to what a StreamDecoder gives for them. Control tokens are left out unless `special`.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids, bool special = false) const;

  /// The bytes one token stands for (may be part of a UTF-8 character); "" for control tokens unless `special`, and for
  /// an id outside the vocabulary.
  [[nodiscard]] std::string token_bytes(std::int32_t id, bool special = false) const;

  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(vocabulary_.tokens.size()); }
  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }
  [[nodiscard]] bool adds_bos() const { return adds_bos_; }
  [[nodiscard]] bool adds_eos() const { return adds_eos_; }
  /// The first space of a text is the tokenizer's own and is dropped when decoding from the start.
  [[nodiscard]] bool drops_leading_space() const { return drops_leading_space_; }
  /// Generation ends at these tokens (eos, eot, eom and those known by their text), in increasing order.
  [[nodiscard]] bool is_end_of_generation(std::int32_t id) const;
  [[nodiscard]] const std::vector<std::int32_t>& end_of_generation_ids() const { return end_ids_; }
  /// The id of a token by its exact text (the first where several share it), or -1.
  [[nodiscard]] std::int32_t find(std::string_view token_text) const;

 protected:
  explicit Tokenizer(Vocabulary vocabulary);

  /// Appends the ids of a stretch of text between special tokens.
  virtual void encode_text(std::string_view text, WorkBudget* budget, std::vector<std::int32_t>& ids) const = 0;
  /// The bytes of a token that is ordinary text (never control, unknown or user-defined).
  [[nodiscard]] virtual std::string ordinary_bytes(std::int32_t id) const = 0;

  /// The id of a token that text may become by merging, or -1.
  [[nodiscard]] std::int32_t find_mergeable(std::string_view text) const;
  /// The unknown token, for what has no bytes, or -1: also for a file's that is a control token, which text must not become.
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

  std::unordered_map<std::string_view, std::int32_t> ids_;  // views into vocabulary_.tokens
  SpecialTokens special_tokens_;
  std::vector<std::int32_t> shown_ids_;  // control tokens that are part of an answer's text
};

/// Turns a stream of ids into text, never emitting half a UTF-8 character. Bytes that are not UTF-8 become U+FFFD.
class StreamDecoder {
 public:
  /// `at_start`: the ids begin a text, so that a leading space of the tokenizer's own is dropped. False for ids that
  /// continue a text shown before.
  explicit StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool special = false, bool at_start = true);

  /// The text that is complete now; "" while a character is unfinished.
  std::string add(std::int32_t id);
  /// What is left at the end; an incomplete character becomes U+FFFD.
  std::string finish();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool special_;
  bool first_;
  std::string held_;
};

}  // namespace rocmforge
