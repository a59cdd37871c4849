#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/grammar_constraint.h"
#include "tokenizer/vocabulary_files.h"

namespace rocmforge::test {

/// A vocabulary of every byte, of `pieces` (a space is written as it is) and of what no constrained text may hold.
inline std::shared_ptr<const Tokenizer> small_tokenizer(const std::vector<std::string>& pieces = {}) {
  Vocabulary vocabulary;
  vocabulary.model = TokenizerModel::spm;
  const auto add = [&](std::string text, TokenType type) {
    vocabulary.tokens.push_back(std::move(text));
    vocabulary.types.push_back(type);
    vocabulary.scores.push_back(0);
  };
  add("<unk>", TokenType::unknown);
  add("<s>", TokenType::control);
  add("</s>", TokenType::control);
  vocabulary.unknown = 0;
  vocabulary.bos = 1;
  vocabulary.eos = 2;
  constexpr std::string_view digits = "0123456789ABCDEF";
  for (unsigned byte = 0; byte < 256; ++byte) {
    add(std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">", TokenType::byte);
  }
  for (std::string text : pieces) {
    for (std::size_t space = text.find(' '); space != std::string::npos; space = text.find(' ')) {
      text.replace(space, 1, "\u2581");
    }
    add(std::move(text), TokenType::normal);
  }
  add("", TokenType::normal);
  add("<tool>", TokenType::user_defined);
  add("a", TokenType::control);
  add("a", TokenType::unused);
  return Tokenizer::create(std::move(vocabulary));
}

inline std::shared_ptr<const TokenTrie> small_trie(const std::vector<std::string>& pieces = {}) {
  return std::make_shared<const TokenTrie>(*small_tokenizer(pieces));
}

/// Whether a whole text belongs to a grammar.
inline bool matches(const std::shared_ptr<GrammarMatcher>& matcher, std::string_view text) {
  GrammarMatcher::Cursor cursor(matcher);
  return cursor.accept(text) && cursor.may_end();
}

inline std::vector<std::int32_t> allowed_tokens(TokenConstraint& constraint, const TokenTrie& trie) {
  std::vector<std::uint32_t> mask(trie.mask_words() + 3, 0xDEADBEEF);
  constraint.allowed(mask);
  std::vector<std::int32_t> tokens;
  for (std::size_t token = 0; token < mask.size() * 32; ++token) {
    if ((mask[token / 32] >> (token % 32) & 1) != 0) {
      tokens.push_back(static_cast<std::int32_t>(token));
    }
  }
  return tokens;
}

struct Walk {
  std::string text;
  bool ended = false;
};

/// What brings a JSON text to its end soonest: the end itself, else what closes something, else a short value.
inline std::int32_t closing_token(const std::vector<std::int32_t>& tokens, const TokenTrie& trie, std::mt19937& random) {
  const auto find = [&](std::string_view bytes) {
    const auto found =
        std::find_if(tokens.begin(), tokens.end(), [&](std::int32_t token) { return trie.bytes(token) == bytes; });
    return found == tokens.end() ? -1 : *found;
  };
  for (const std::int32_t token : tokens) {
    if (trie.is_end(token)) {
      return token;
    }
  }
  if (find("~") >= 0 && find("\"") >= 0) {  // inside a string
    return find("\"");
  }
  for (const std::string_view closing : {"}", "]", "0", "\""}) {
    if (const std::int32_t token = find(closing); token >= 0) {
      return token;
    }
  }
  return tokens[random() % tokens.size()];
}

/// Draws among the allowed tokens, `longest` of them at random and then what ends the text, until the end.
inline Walk random_walk(TokenConstraint& constraint, const TokenTrie& trie, std::mt19937& random, int longest) {
  Walk walk;
  for (int step = 0; step < longest + 500; ++step) {
    const std::vector<std::int32_t> tokens = allowed_tokens(constraint, trie);
    if (tokens.empty()) {
      ADD_FAILURE() << "no token is allowed after: " << walk.text;
      break;
    }
    const std::int32_t token = step < longest ? tokens[random() % tokens.size()] : closing_token(tokens, trie, random);
    constraint.accept(token);
    if (trie.is_end(token)) {
      walk.ended = true;
      break;
    }
    walk.text += trie.bytes(token);
  }
  return walk;
}

}  // namespace rocmforge::test
