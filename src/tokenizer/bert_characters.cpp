#include "tokenizer/bert_characters.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>

#include "base/utf8.h"

namespace rocmforge {
namespace {

#include "tokenizer/bert_characters.inc"

template <std::size_t count, std::size_t columns>
const char32_t* row_of(const char32_t (&rows)[count][columns], char32_t character) {
  const auto* after =
      std::upper_bound(rows, rows + count, character, [](char32_t value, const auto& row) { return value < row[0]; });
  return after == rows ? nullptr : after[-1];
}

template <std::size_t count>
bool is_in(const char32_t (&ranges)[count][2], char32_t character) {
  const char32_t* range = row_of(ranges, character);
  return range != nullptr && character <= range[1];
}

/// The letters of a syllable of Hangul, by the arithmetic of the Unicode standard (3.12). False for another character.
bool append_hangul(char32_t character, std::u32string& to) {
  constexpr char32_t first = 0xAC00, count = 11172, tails = 28, vowels_and_tails = 21 * tails;
  if (character < first || character >= first + count) {
    return false;
  }
  const char32_t index = character - first;
  to += 0x1100 + index / vowels_and_tails;
  to += 0x1161 + index % vowels_and_tails / tails;
  if (index % tails != 0) {
    to += 0x11A7 + index % tails;
  }
  return true;
}

void append_stripped(char32_t character, std::u32string& to) {
  if (character < 0x80) {
    to += character;
  } else if (!is_in(accent_ranges, character) && !append_hangul(character, to)) {
    const char32_t* row = row_of(stripped, character);
    if (row == nullptr || row[0] != character) {
      to += character;
      return;
    }
    for (std::size_t i = 1; i < std::size(stripped[0]) && row[i] != 0; ++i) {
      to += row[i];
    }
  }
}

void append_lower(char32_t character, std::u32string& to) {
  if (character < 0x80) {
    to += character >= 'A' && character <= 'Z' ? character + ('a' - 'A') : character;
  } else if (character == 0x130) {  // I with a dot: the only character with a lower case of two
    to += U"i\u0307";
  } else {
    const char32_t* run = row_of(lower_runs, character);
    const bool maps = run != nullptr && character <= run[1] && (character - run[0]) % run[2] == 0;
    to += maps ? character + run[3] : character;
  }
}

/// Makes words of characters that are given one by one.
class Words {
 public:
  explicit Words(const std::function<void(std::u32string_view)>& take) : take_(take) {}

  void end() {
    if (!word_.empty()) {
      take_(word_);
      word_.clear();
    }
  }
  void add(char32_t character) {
    const bool is_word = is_in(punctuation_ranges, character);
    if (is_word) {
      end();
    }
    word_ += character;
    if (is_word) {
      end();
    }
  }

 private:
  const std::function<void(std::u32string_view)>& take_;
  std::u32string word_;
};

}  // namespace

void for_each_bert_word(std::string_view text, const BertNormalizer& normalizer,
                        const std::function<void(std::u32string_view)>& take) {
  Words made(take);
  std::u32string from, to;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view unit = text.substr(at, utf8_unit(text, at).length);
    at += unit.size();
    const char32_t character = utf8_code_point(unit);
    if (is_in(dropped_ranges, character)) {
      continue;
    }
    if (is_in(space_ranges, character)) {
      made.end();
      continue;
    }
    const bool is_word = is_in(ideograph_ranges, character);
    to.assign(1, character);
    if (normalizer.strip_accents) {
      from.swap(to);
      to.clear();
      std::ranges::for_each(from, [&](char32_t c) { append_stripped(c, to); });
    }
    if (normalizer.lowercase) {
      from.swap(to);
      to.clear();
      std::ranges::for_each(from, [&](char32_t c) { append_lower(c, to); });
    }
    if (is_word) {
      made.end();
    }
    std::ranges::for_each(to, [&](char32_t c) { made.add(c); });
    if (is_word) {
      made.end();
    }
  }
  made.end();
}

}  // namespace rocmforge
