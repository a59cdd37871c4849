#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "grammar/gbnf_parser.h"
#include "grammar/grammar_constraint.h"
#include "tokenizer/vocabulary_files.h"

namespace rocmforge::test {

/// A vocabulary of every byte, of `pieces` (with plain spaces) and of tokens that no constrained text may contain.
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

inline std::shared_ptr<GrammarMatcher> matcher_of(const std::string& gbnf, std::shared_ptr<const TokenTrie> trie) {
  return GrammarMatcher::create(parse_gbnf(gbnf), std::move(trie));
}

inline std::unique_ptr<TokenConstraint> constraint_of(const std::string& gbnf, std::shared_ptr<const TokenTrie> trie) {
  return make_grammar_constraint(matcher_of(gbnf, std::move(trie)));
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
  for (std::size_t word = 0; word < mask.size(); ++word) {
    for (std::uint32_t bits = mask[word]; bits != 0; bits &= bits - 1) {
      tokens.push_back(static_cast<std::int32_t>(word * 32) + std::countr_zero(bits));
    }
  }
  return tokens;
}

struct Walk {
  std::string text;
  bool ended = false;
};

/// Draws texts from constraints over one vocabulary.
class Walker {
 public:
  explicit Walker(std::shared_ptr<const TokenTrie> trie) : trie_(std::move(trie)), mask_(trie_->mask_words()) {
    for (std::int32_t token = 0; token < trie_->size(); ++token) {
      if (trie_->bytes(token).size() == 1) {
        characters_.emplace(trie_->bytes(token)[0], token);
      }
    }
  }

  /// Draws up to `longest` random tokens among the allowed ones, then tokens that close the JSON text, until the end.
  Walk walk(TokenConstraint& constraint, std::mt19937& random, std::size_t longest) {
    Walk walk;
    for (std::size_t step = 0; step < longest + 500; ++step) {
      constraint.allowed(mask_);
      const std::int32_t closing = step < longest ? -1 : closing_token(step);
      const std::int32_t token = closing < 0 ? random_token(random) : closing;
      if (token < 0) {
        ADD_FAILURE() << "no token is allowed after: " << walk.text;
        break;
      }
      constraint.accept(token);
      if (trie_->is_end(token)) {
        walk.ended = true;
        break;
      }
      walk.text += trie_->bytes(token);
    }
    return walk;
  }

 private:
  [[nodiscard]] bool is_allowed(std::int32_t token) const {
    return (mask_[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1) != 0;
  }

  /// The token of one character, or -1 where it is not allowed.
  [[nodiscard]] std::int32_t find(char character) const {
    const auto found = characters_.find(character);
    return found != characters_.end() && is_allowed(found->second) ? found->second : -1;
  }

  [[nodiscard]] std::int32_t random_token(std::mt19937& random) const {
    std::size_t count = 0;
    for (const std::uint32_t word : mask_) {
      count += static_cast<std::size_t>(std::popcount(word));
    }
    std::size_t left = count == 0 ? 0 : random() % count;
    for (std::size_t word = 0; word < mask_.size(); ++word) {
      for (std::uint32_t bits = mask_[word]; bits != 0; bits &= bits - 1) {
        if (left-- == 0) {
          return static_cast<std::int32_t>(word * 32) + std::countr_zero(bits);
        }
      }
    }
    return -1;
  }

  /// The token that closes a JSON text soonest: the end token, else a closing character, else a short value; -1 for none.
  [[nodiscard]] std::int32_t closing_token(std::size_t step) const {
    for (const std::int32_t token : trie_->end_ids()) {
      if (is_allowed(token)) {
        return token;
      }
    }
    if (find('~') >= 0) {  // inside a string, which may have a minimum length
      constexpr std::string_view needed = "xxend@a";
      return find('"') >= 0 ? find('"') : find(needed[step % needed.size()]);
    }
    for (const char closing : {'}', ']', '"', '0'}) {
      if (const std::int32_t token = find(closing); token >= 0) {
        return token;
      }
    }
    return -1;
  }

  std::shared_ptr<const TokenTrie> trie_;
  std::vector<std::uint32_t> mask_;
  std::map<char, std::int32_t> characters_;
};

}  // namespace rocmforge::test
