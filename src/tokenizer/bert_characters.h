#pragma once

#include <functional>
#include <string_view>

namespace rocmforge {

/// What BERT's normalizer does beside cleaning: both for "uncased" models, neither for "cased" ones.
struct BertNormalizer {
  bool strip_accents = true;  ///< characters are decomposed (NFD) and marks without a width are dropped
  bool lowercase = true;
};

/// Passes the words of `text`, which is UTF-8, to `take`, as BERT's normalizer and pre-tokenizer make them: without control
/// characters, cut at white space; a punctuation mark or a Han character is a word of its own.
void for_each_bert_word(std::string_view text, const BertNormalizer& normalizer,
                        const std::function<void(std::u32string_view)>& take);

}  // namespace rocmforge
