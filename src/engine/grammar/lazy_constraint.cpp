#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "engine/grammar/grammar_constraint.h"

namespace rocmforge {
namespace {

/// How far a free text has come towards the trigger's text: so many of its bytes stand at the text's end, or it can't come.
constexpr int never = -1;

/// What the constraints of one request and its forks share. Immutable but for the masks.
class LazyGrammar {
 public:
  LazyGrammar(std::shared_ptr<GrammarMatcher> matcher, GrammarTrigger trigger)
      : matcher_(std::move(matcher)), trigger_(std::move(trigger)), borders_(trigger_.text.size() + 1, 0) {
    const std::string& text = trigger_.text;
    for (std::size_t i = 1; i < text.size(); ++i) {
      std::size_t border = borders_[i];
      while (border > 0 && text[i] != text[border]) {
        border = borders_[border];
      }
      borders_[i + 1] = border + (text[i] == text[border] ? 1 : 0);
    }
    std::sort(trigger_.tokens.begin(), trigger_.tokens.end());
  }

  [[nodiscard]] const std::shared_ptr<GrammarMatcher>& matcher() const { return matcher_; }
  [[nodiscard]] const TokenTrie& trie() const { return *matcher_->trie(); }
  [[nodiscard]] const GrammarTrigger& trigger() const { return trigger_; }
  [[nodiscard]] bool is_trigger(std::int32_t token) const {
    return std::binary_search(trigger_.tokens.begin(), trigger_.tokens.end(), token);
  }
  [[nodiscard]] int start() const { return trigger_.text.empty() ? never : 0; }
  [[nodiscard]] bool is_complete(int progress) const {
    return progress > 0 && static_cast<std::size_t>(progress) == trigger_.text.size();
  }

  /// Knuth, Morris and Pratt's search, one byte further. `progress` is not complete.
  [[nodiscard]] int next(int progress, char byte) const {
    const std::string& text = trigger_.text;
    if (progress == never) {
      return never;
    }
    if (trigger_.at_start_only) {
      const bool blank = progress == 0 && (byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r');
      return byte == text[static_cast<std::size_t>(progress)] ? progress + 1 : blank ? 0 : never;
    }
    auto matched = static_cast<std::size_t>(progress);
    while (matched > 0 && text[matched] != byte) {
      matched = borders_[matched];
    }
    return static_cast<int>(matched) + (text[matched] == byte ? 1 : 0);
  }

  /// The grammar's beginning, behind what of the trigger belongs to it.
  [[nodiscard]] GrammarMatcher::Cursor begin(bool by_text) const {
    GrammarMatcher::Cursor cursor(matcher_);
    if (by_text && trigger_.text_is_part_of_grammar && !cursor.accept(trigger_.text)) {
      throw Error("grammar: no text of it begins with '" + trigger_.text + "'");
    }
    return cursor;
  }

  /// Every token, but for those in which the trigger is followed by what the grammar forbids.
  void allowed(int progress, std::span<std::uint32_t> mask) {
    const std::scoped_lock lock(mutex_);
    auto found = masks_.find(progress);
    if (found == masks_.end()) {
      found = masks_.emplace(progress, make_mask(progress)).first;
    }
    check(mask.size() >= found->second.size(), "a mask has a bit for every token");
    std::fill(std::copy(found->second.begin(), found->second.end(), mask.begin()), mask.end(), 0u);
  }

 private:
  [[nodiscard]] std::vector<std::uint32_t> make_mask(int progress) const {
    std::vector<std::uint32_t> mask(trie().mask_words(), ~0u);
    if (trie().size() % 32 != 0) {
      mask.back() = (1u << (trie().size() % 32)) - 1;
    }
    for (const TokenTrie::Part* part : {&trie().plain(), &trie().other()}) {
      forbid(*part, progress, mask);
    }
    return mask;
  }

  void forbid(const TokenTrie::Part& part, int progress, std::vector<std::uint32_t>& mask) const {
    std::vector<int> path(trie().longest() + 1, progress);
    for (std::uint32_t i = 0; i + 1 < part.nodes.size();) {
      const TokenTrie::Node& node = part.nodes[i];
      const int reached = next(path[node.depth], static_cast<char>(node.byte));
      path[node.depth + 1u] = reached;
      if (reached == never || !is_complete(reached)) {
        i = reached == never ? node.end : i + 1;
        continue;
      }
      for (std::uint32_t place = node.first_token; place < part.nodes[node.end].first_token; ++place) {
        const std::int32_t token = part.tokens[place];
        if (!is_trigger(token) && !begin(true).accept(trie().bytes(token).substr(node.depth + 1u))) {
          mask[static_cast<std::size_t>(token) / 32] &= ~(1u << (token % 32));
        }
      }
      i = node.end;
    }
  }

  std::shared_ptr<GrammarMatcher> matcher_;
  GrammarTrigger trigger_;
  std::vector<std::size_t> borders_;  // [bytes of the text + 1], the longest beginning that also ends the first i bytes
  std::mutex mutex_;
  std::map<int, std::vector<std::uint32_t>> masks_;  // by progress
};

class LazyConstraint final : public TokenConstraint {
 public:
  explicit LazyConstraint(std::shared_ptr<LazyGrammar> grammar)
      : grammar_(std::move(grammar)), progress_(grammar_->start()) {}

  void allowed(std::span<std::uint32_t> mask) override {
    if (cursor_) {
      cursor_->allowed(mask);
    } else {
      grammar_->allowed(progress_, mask);
    }
  }

  void accept(std::int32_t token) override {
    const TokenTrie& trie = grammar_->trie();
    if (trie.is_end(token) && !grammar_->is_trigger(token)) {
      check(!cursor_ || cursor_->may_end(), "the text may not end here");
      ended_ = true;
      return;
    }
    check(!ended_ && token >= 0 && token < trie.size(), "the token was allowed");
    if (cursor_) {
      check(!trie.bytes(token).empty() && cursor_->accept(trie.bytes(token)), "the token was allowed");
    } else if (grammar_->is_trigger(token)) {
      cursor_.emplace(grammar_->begin(false));
    } else {
      accept_free(trie.bytes(token));
    }
    if (cursor_ && grammar_->trigger().repeats && cursor_->at_end()) {
      cursor_.reset();
      progress_ = grammar_->trigger().at_start_only ? never : grammar_->start();
    }
  }

  [[nodiscard]] bool finished() const override { return ended_ || (cursor_ && cursor_->at_end()); }

  [[nodiscard]] std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<LazyConstraint>(*this); }

 private:
  void accept_free(std::string_view bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      progress_ = grammar_->next(progress_, bytes[i]);
      if (grammar_->is_complete(progress_)) {
        cursor_.emplace(grammar_->begin(true));
        check(cursor_->accept(bytes.substr(i + 1)), "the token was allowed");
        return;
      }
    }
  }

  std::shared_ptr<LazyGrammar> grammar_;
  std::optional<GrammarMatcher::Cursor> cursor_;  // once the grammar has begun
  int progress_;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<TokenConstraint> make_lazy_grammar_constraint(std::shared_ptr<GrammarMatcher> matcher,
                                                              GrammarTrigger trigger) {
  check(matcher != nullptr, "a grammar's constraint needs its matcher");
  check(!trigger.text.empty() || !trigger.tokens.empty(), "a lazy grammar needs something that begins it");
  auto grammar = std::make_shared<LazyGrammar>(std::move(matcher), std::move(trigger));
  (void)grammar->begin(true);
  return std::make_unique<LazyConstraint>(std::move(grammar));
}

}  // namespace rocmforge
