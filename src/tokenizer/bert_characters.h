#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rocmforge {

/// What BERT's normalizer does beside cleaning: both for "uncased" models, neither for "cased" ones.
struct BertNormalizer {
  bool strip_accents = true;  ///< characters are decomposed (NFD) and marks without a width are dropped
  bool lowercase = true;
};

/// Appends the words of `text`, which is UTF-8, as BERT's normalizer and pre-tokenizer make them: without control
/// characters, cut at white space; a punctuation mark or a Han character is a word of its own.
void append_bert_words(std::string_view text, const BertNormalizer& normalizer, std::vector<std::u32string>& words);

}  // namespace rocmforge
