// Any bytes must give a grammar or an Error; with a grammar, a text can always go on until it ends or the limits are named.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/grammar/grammar_constraint.h"
#include "engine/grammar/json_schema.h"

namespace {

using namespace rocmforge;

std::shared_ptr<const TokenTrie> make_trie() {
  Vocabulary vocabulary;
  vocabulary.model = TokenizerModel::spm;
  const auto add = [&](std::string text, TokenType type) {
    vocabulary.tokens.push_back(std::move(text));
    vocabulary.types.push_back(type);
    vocabulary.scores.push_back(0);
  };
  add("<unk>", TokenType::unknown);
  add("</s>", TokenType::control);
  vocabulary.unknown = 0;
  vocabulary.eos = 1;
  constexpr const char* digits = "0123456789ABCDEF";
  for (unsigned byte = 0; byte < 256; ++byte) {
    add(std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">", TokenType::byte);
  }
  for (const char* text : {"ab", "abc", "aa", "aaaa", "{\"", "\":", "\",\"", "}}", "]]", "00", "\u00e9", "e\u20ac", "true",
                           "\"\"", "\\u0", "\n\n"}) {
    add(text, TokenType::normal);
  }
  return std::make_shared<const TokenTrie>(*Tokenizer::create(std::move(vocabulary)));
}

void write_text(TokenConstraint& constraint, const TokenTrie& trie, std::span<const std::uint8_t> choices) {
  std::vector<std::uint32_t> mask(trie.mask_words());
  std::unique_ptr<TokenConstraint> fork;
  for (const std::uint8_t choice : choices) {
    constraint.allowed(mask);
    std::vector<std::int32_t> tokens;
    for (std::int32_t token = 0; token < trie.size(); ++token) {
      if ((mask[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1) != 0) {
        tokens.push_back(token);
      }
    }
    check(!tokens.empty(), "a token is allowed");
    const std::int32_t token = tokens[choice % tokens.size()];
    constraint.accept(token);
    if (trie.is_end(token)) {
      check(constraint.finished(), "a text that has ended is finished");
      return;
    }
    if (choice == 7) {
      fork = constraint.clone();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::shared_ptr<const TokenTrie> trie = make_trie();
  if (size == 0 || size > 4096) {
    return 0;
  }
  // The first byte says what the rest is; behind a zero byte come the choices among the allowed tokens.
  const std::string all(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t end = std::min(all.find('\0'), all.size());
  const std::string text = all.substr(0, end);
  const std::span choices = std::span(data, size).subspan(std::min(size, end + 2));
  try {
    std::string gbnf = text;
    if (data[0] % 2 == 1) {
      const auto schema = nlohmann::ordered_json::parse(text, nullptr, false);
      if (schema.is_discarded()) {
        return 0;
      }
      gbnf = json_schema_to_gbnf(schema);
    }
    const auto constraint = make_grammar_constraint(gbnf, trie);
    write_text(*constraint, *trie, choices);
  } catch (const Error&) {  // refused with a reason: right
  }
  return 0;
}
