#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "engine/fake_model.h"

namespace rocmforge {

/// The byte tokenizer without a space of its own before a text, and with `more` tokens of these types.
inline std::shared_ptr<const Tokenizer> plain_tokenizer(std::initializer_list<std::pair<std::string, TokenType>> more = {},
                                                        const std::string& rerank_template = "") {
  Vocabulary vocabulary = byte_tokenizer()->vocabulary();
  vocabulary.add_space_prefix = false;
  vocabulary.rerank_template = rerank_template;
  for (const auto& [text, type] : more) {
    vocabulary.tokens.push_back(text);
    vocabulary.types.push_back(type);
    vocabulary.scores.push_back(0.0f);
  }
  return Tokenizer::create(std::move(vocabulary));
}

}  // namespace rocmforge
