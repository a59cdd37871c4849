#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace rocmforge {

/// Text to token ids and back, as the model's file defines it. Immutable after construction; safe to use from several threads.
class Tokenizer {
 public:
  /// Throws Error on an inconsistent vocabulary or an unknown pre-tokenizer, which it names.
  static std::shared_ptr<const Tokenizer> create(Vocabulary vocabulary);
  virtual ~Tokenizer() = default;

  struct EncodeOptions {
    bool add_special = true;     ///< BOS and EOS where the model asks for them
    bool parse_special = false;  ///< control tokens written in the text become their ids (templates: yes; user text: no)
  };

  /// Linear in the length of `text`, which is UTF-8; invalid bytes are encoded like any other bytes.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text, EncodeOptions options) const;

  /// All ids as text. Control tokens are left out unless `special`.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids, bool special = false) const;

  /// The bytes one token stands for (may be part of a UTF-8 character); "" for control tokens unless `special`.
  [[nodiscard]] std::string token_bytes(std::int32_t id, bool special = false) const;

  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(vocabulary_.tokens.size()); }
  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }
  [[nodiscard]] bool adds_bos() const { return adds_bos_; }
  [[nodiscard]] bool adds_eos() const { return adds_eos_; }
  /// Generation ends at these tokens (eos, eot, eom and those known by their text).
  [[nodiscard]] bool is_end_of_generation(std::int32_t id) const;
  [[nodiscard]] const std::vector<std::int32_t>& end_of_generation_ids() const { return end_ids_; }
  /// The id of a token by its exact text, or -1.
  [[nodiscard]] std::int32_t find(std::string_view token_text) const;

 protected:
  explicit Tokenizer(Vocabulary vocabulary);
  // The author of the implementation lays out the rest.
  Vocabulary vocabulary_;
  std::vector<std::int32_t> end_ids_;
  bool adds_bos_ = false;
  bool adds_eos_ = false;
};

/// Turns a stream of ids into text, never emitting half a UTF-8 character.
class StreamDecoder {
 public:
  explicit StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool special = false);

  /// The text that is complete now; "" while a character is unfinished.
  std::string add(std::int32_t id);
  /// What is left at the end; an incomplete character becomes U+FFFD.
  std::string finish();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool special_;
  bool first_ = true;
  std::string held_;
};

}  // namespace rocmforge
