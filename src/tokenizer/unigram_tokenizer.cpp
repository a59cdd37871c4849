#include "tokenizer/unigram_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/space_marks.h"

namespace rocmforge {

UnigramTokenizer::UnigramTokenizer(Vocabulary vocabulary)
    : Tokenizer(std::move(vocabulary)), charsmap_(vocabulary_.charsmap), bytes_(vocabulary_) {
  if (vocabulary_.scores.empty()) {
    throw Error("a unigram vocabulary needs scores, there are none");
  }
  if (vocabulary_.unknown < 0) {
    throw Error("a unigram vocabulary needs the unknown token (unknown_token_id), there is none");
  }
  read_tokens();
  merges_spaces_ = vocabulary_.remove_extra_whitespaces.value_or(false);
  drops_leading_space_ = vocabulary_.add_space_prefix.value_or(true);
  adds_bos_ = vocabulary_.add_bos.value_or(false) && vocabulary_.bos >= 0;
  adds_eos_ = vocabulary_.add_eos.value_or(true) && vocabulary_.eos >= 0;
}

void UnigramTokenizer::read_tokens() {
  constexpr std::size_t longest_token = 1024;
  std::vector<PrefixTrie::Entry> entries;
  float least = std::numeric_limits<float>::max();
  for (std::int32_t id = 0; id < size(); ++id) {
    const std::string_view text = vocabulary_.tokens[static_cast<std::size_t>(id)];
    const float score = vocabulary_.scores[static_cast<std::size_t>(id)];
    if (!std::isfinite(score)) {
      throw Error("the score of token " + std::to_string(id) + " is not a finite number");
    }
    if (text.size() > longest_token) {
      throw Error("token " + std::to_string(id) + " has " + std::to_string(text.size()) +
                  " bytes, at most 1,024 are supported in a unigram vocabulary");
    }
    scores_.push_back(type(id) == TokenType::user_defined ? 0.0f : score);
    if (type(id) == TokenType::normal) {
      least = std::min(least, score);
    }
    if (find_mergeable(text) == id) {
      entries.emplace_back(text, id);
    }
  }
  constexpr float penalty = 10.0f;  // SentencePiece's
  unknown_score_ = (least == std::numeric_limits<float>::max() ? 0.0f : least) - penalty;
  tokens_ = PrefixTrie(std::move(entries));
}

std::string UnigramTokenizer::normalised(std::string_view text) const {
  std::string made;
  made.reserve(text.size() + text.size() / 2);
  if (drops_leading_space_ && !merges_spaces_ && !text.empty()) {
    made.append(space_mark);
  }
  bool in_word = false;
  const auto add = [&](char c) {
    const bool is_space = c == ' ';
    const bool begins_word = !is_space && !in_word && (!made.empty() || drops_leading_space_);
    if (merges_spaces_ ? begins_word : is_space) {
      made.append(space_mark);
    }
    if (!is_space) {
      made.push_back(c);
    }
    in_word = !is_space;
  };
  for (std::size_t at = 0; at < text.size();) {
    const Charsmap::Match match = charsmap_.match(text.substr(at));
    const std::size_t length = match.length > 0 ? match.length : utf8_unit(text, at).length;
    std::ranges::for_each(match.length > 0 ? match.replacement : text.substr(at, length), add);
    at += length;
  }
  return made;
}

std::vector<UnigramTokenizer::Step> UnigramTokenizer::best_steps(std::string_view text, WorkBudget* budget) const {
  std::vector<Step> steps(text.size() + 1);
  const auto offer = [&](std::size_t begin, std::size_t end, std::int32_t token, float score) {
    Step& step = steps[end];
    const float sum = steps[begin].score + score;
    if (step.token < 0 || sum > step.score) {
      step = {sum, token, static_cast<std::uint32_t>(end - begin)};
    }
  };
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t next = begin + utf8_unit(text, begin).length;
    bool has_character = false;
    std::int32_t node = PrefixTrie::root;
    std::size_t end = begin;
    while (end < text.size() && (node = tokens_.child(node, text[end])) >= 0) {
      ++end;
      if (const std::int32_t id = tokens_.id(node); id >= 0) {
        offer(begin, end, id, scores_[static_cast<std::size_t>(id)]);
        has_character = has_character || end == next;
      }
    }
    spend(budget, 1 + (end - begin) / 8);
    if (!has_character) {
      offer(begin, next, vocabulary_.unknown, unknown_score_);
    }
    begin = next;
  }
  return steps;
}

void UnigramTokenizer::encode_text(std::string_view text, WorkBudget* budget, std::vector<std::int32_t>& ids) const {
  const std::string all = normalised(text);
  const std::vector<Step> steps = best_steps(all, budget);
  std::vector<std::uint32_t> ends;  // of the tokens, from the last one on
  for (std::size_t end = all.size(); end > 0; end -= steps[end].length) {
    ends.push_back(static_cast<std::uint32_t>(end));
  }
  bool after_unknown = false;
  for (auto end = ends.rbegin(); end != ends.rend(); ++end) {
    const Step& step = steps[*end];
    const bool is_token = step.token != vocabulary_.unknown;
    const bool is_known = is_token || bytes_.append(std::string_view(all).substr(*end - step.length, step.length), ids);
    if (is_token || (!is_known && !after_unknown)) {
      ids.push_back(step.token);
    }
    after_unknown = !is_known;
  }
}

std::string UnigramTokenizer::ordinary_bytes(std::int32_t id) const {
  const std::string_view text = vocabulary_.tokens[static_cast<std::size_t>(id)];
  return type(id) == TokenType::byte ? std::string(1, static_cast<char>(byte_of(text))) : unmarked(text);
}

}  // namespace rocmforge
