#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "grammar/grammar_constraint.h"

namespace rocmforge {
namespace {

/// Progress is the number of bytes of the trigger's text that match the end of a free text, or `never` if it can no longer
/// occur.
constexpr int never = -1;

/// Shared by the constraints of one request and its forks. Immutable, except for the masks.
class LazyGrammar {
 public:
  LazyGrammar(std::shared_ptr<GrammarMatcher> matcher, GrammarTrigger trigger)
      : matcher_(std::move(matcher)), trigger_(std::move(trigger)), borders_(trigger_.text.size() + 1, 0), begun_(matcher_) {
    const std::string& text = trigger_.text;
    for (std::size_t i = 1; i < text.size(); ++i) {
      std::size_t border = borders_[i];
      while (border > 0 && text[i] != text[border]) {
        border = borders_[border];
      }
      borders_[i + 1] = border + (text[i] == text[border] ? 1 : 0);
    }
    std::sort(trigger_.tokens.begin(), trigger_.tokens.end());
    if (trigger_.text_is_part_of_grammar && !begun_.accept(trigger_.text)) {
      throw Error("grammar: no text of it begins with '" + trigger_.text + "'");
    }
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

  /// One step of Knuth, Morris and Pratt's search. `progress` must not be complete.
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

  /// A cursor at the grammar's start, or after the trigger's text if that belongs to the grammar.
  [[nodiscard]] GrammarMatcher::Cursor begin(bool by_text) const {
    return by_text ? begun_ : GrammarMatcher::Cursor(matcher_);
  }

  void allow_all(std::span<std::uint32_t> mask) const {
    std::fill(mask.begin(), mask.end(), 0u);
    std::fill_n(mask.begin(), trie().mask_words(), ~0u);
    if (trie().size() % 32 != 0) {
      mask[trie().mask_words() - 1] = (1u << (trie().size() % 32)) - 1;
    }
  }

  /// All tokens, except those in which the trigger is followed by text that the grammar forbids. False if that takes more
  /// than `units`; the work done is added to them.
  bool allowed_within(std::uint64_t units, int progress, std::span<std::uint32_t> mask, std::uint64_t& work) {
    const std::scoped_lock lock(mutex_);
    const auto [found, is_new] = masks_.try_emplace(progress);
    FreeMask& free = found->second;
    if (is_new) {
      begin_mask(progress, free);
    }
    if (!free.is_complete) {
      const std::uint64_t before = free.work;
      const std::uint64_t left = GrammarMatcher::most_mask_work - std::min(GrammarMatcher::most_mask_work, before);
      free.is_complete = forbid(free, before + std::min(units, left));
      work += free.work - before;
      if (!free.is_complete && free.work >= GrammarMatcher::most_mask_work) {
        throw Error("grammar: too ambiguous: telling what may follow its beginning takes more work than a token may");
      }
    }
    if (free.is_complete) {
      check(mask.size() >= free.mask.size(), "a mask has a bit for every token");
      std::fill(std::copy(free.mask.begin(), free.mask.end(), mask.begin()), mask.end(), 0u);
    }
    return free.is_complete;
  }

 private:
  /// The mask of a free text, and the position of the walk over the trie's two parts that removes tokens.
  struct FreeMask {
    std::vector<std::uint32_t> mask;
    std::vector<int> path;  // the progress before each byte of the current token
    std::size_t part = 0;
    std::uint32_t node = 0, place = 0;  // place: of a token below `node`, 0 before the first
    std::uint64_t work = 0;
    bool is_complete = false;
  };

  void begin_mask(int progress, FreeMask& free) const {
    free.mask.assign(trie().mask_words(), ~0u);
    if (trie().size() % 32 != 0) {
      free.mask.back() = (1u << (trie().size() % 32)) - 1;
    }
    free.path.assign(trie().longest() + 1, progress);
  }

  /// Continues until `free.work` reaches `end_of_work`. True when all tokens were examined.
  [[nodiscard]] bool forbid(FreeMask& free, std::uint64_t end_of_work) const {
    for (; free.part < 2; ++free.part, free.node = 0) {
      const TokenTrie::Part& part = free.part == 0 ? trie().plain() : trie().other();
      while (free.node + 1 < part.nodes.size()) {
        const TokenTrie::Node& node = part.nodes[free.node];
        const int reached = next(free.path[node.depth], static_cast<char>(node.byte));
        free.path[node.depth + 1u] = reached;
        ++free.work;
        if (reached != never && is_complete(reached)) {
          if (!forbid_below(part, node, free, end_of_work)) {
            return false;
          }
        } else if (free.work >= end_of_work) {
          return false;
        }
        free.node = reached == never || is_complete(reached) ? node.end : free.node + 1;
      }
    }
    return true;
  }

  /// Removes the tokens that begin like `node` and continue in a way that the grammar forbids.
  [[nodiscard]] bool forbid_below(const TokenTrie::Part& part, const TokenTrie::Node& node, FreeMask& free,
                                  std::uint64_t end_of_work) const {
    for (free.place = std::max(free.place, node.first_token); free.place < part.nodes[node.end].first_token; ++free.place) {
      if (free.work >= end_of_work) {
        return false;
      }
      const std::int32_t token = part.tokens[free.place];
      if (is_trigger(token)) {
        continue;
      }
      GrammarMatcher::Cursor cursor(begun_);
      if (!cursor.accept(trie().bytes(token).substr(node.depth + 1u))) {
        free.mask[static_cast<std::size_t>(token) / 32] &= ~(1u << (token % 32));
      }
      free.work += 10 + cursor.work();
    }
    free.place = 0;
    return true;
  }

  std::shared_ptr<GrammarMatcher> matcher_;
  GrammarTrigger trigger_;
  std::vector<std::size_t>
      borders_;  // [bytes of the text + 1], the longest prefix that is also a suffix of the first i bytes
  GrammarMatcher::Cursor begun_;
  std::mutex mutex_;
  std::map<int, FreeMask> masks_;  // by progress
};

class LazyConstraint final : public TokenConstraint {
 public:
  explicit LazyConstraint(std::shared_ptr<LazyGrammar> grammar)
      : grammar_(std::move(grammar)), progress_(grammar_->start()) {
    const LeadingThought& thought = grammar_->trigger().thought;
    place_ = thought.end.empty() ? Place::behind : thought.is_open ? Place::thought : Place::before;
  }

  bool allowed_within(std::uint64_t units, std::span<std::uint32_t> mask) override {
    if (cursor_) {
      return cursor_->allowed_within(units, mask);
    }
    if (place_ == Place::thought) {
      // A token may close the reasoning and go on behind it: what it says there is checked like any other text.
      grammar_->allow_all(mask);
      return true;
    }
    return grammar_->allowed_within(units, progress_, mask, work_);
  }

  [[nodiscard]] std::uint64_t work() const override { return work_ + (cursor_ ? cursor_->work() : 0); }

  [[nodiscard]] bool finished() const override { return ended_ || (cursor_ && cursor_->at_end()); }

  [[nodiscard]] std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<LazyConstraint>(*this); }
  void go_to(const TokenConstraint& earlier) override {
    const std::uint64_t work = this->work();
    *this = dynamic_cast<const LazyConstraint&>(earlier);
    work_ = work - (cursor_ ? cursor_->work() : 0);
  }

 private:
  enum class Place : std::uint8_t {
    before,   ///< only blanks so far, or a part of the mark that begins reasoning
    thought,  ///< reasoning; tail_ is its last text, which may be the start of its end
    behind,
  };

  void advance(std::int32_t token) override {
    const TokenTrie& trie = grammar_->trie();
    if (trie.is_end(token) && !grammar_->is_trigger(token)) {
      check(!cursor_ || cursor_->may_end(), "the text may not end here");
      ended_ = true;
      return;
    }
    check(!ended_ && token >= 0 && token < trie.size(), "the token was allowed");
    if (cursor_) {
      check(!trie.bytes(token).empty() && cursor_->accept(trie.bytes(token)), "the token was allowed");
    } else if (grammar_->is_trigger(token) && place_ != Place::thought) {
      cursor_.emplace(grammar_->begin(false));
    } else {
      const bool in_thought = place_ == Place::thought;
      accept_free(accept_thought(trie.bytes(token)), in_thought);
    }
    if (cursor_ && grammar_->trigger().repeats && cursor_->at_end()) {
      work_ += cursor_->work();
      cursor_.reset();
      progress_ = grammar_->trigger().at_start_only ? never : grammar_->start();
    }
  }

  /// Advances through the reasoning at the beginning. Returns the part of `bytes` behind it.
  std::string_view accept_thought(std::string_view bytes) {
    const LeadingThought& thought = grammar_->trigger().thought;
    for (std::size_t i = 0; i < bytes.size() && place_ != Place::behind; ++i) {
      tail_ += bytes[i];
      if (place_ == Place::thought) {
        if (tail_.ends_with(thought.end)) {
          leave_thought();
          return bytes.substr(i + 1);
        }
        tail_.erase(0, tail_.size() - std::min(tail_.size(), thought.end.size()));
        continue;
      }
      tail_.erase(0, std::min(tail_.find_first_not_of(" \t\r\n"), tail_.size()));
      if (!thought.begin.starts_with(tail_)) {
        leave_thought();
        return bytes;
      }
      if (tail_ == thought.begin) {
        place_ = Place::thought;
        tail_.clear();
        progress_ = grammar_->start();
        return accept_thought(bytes.substr(i + 1));
      }
    }
    return place_ == Place::thought ? std::string_view() : bytes;
  }

  void leave_thought() {
    place_ = Place::behind;
    tail_.clear();
  }

  /// `unchecked`: the token began in reasoning, where it was allowed without regard to the grammar. If it goes on with a
  /// call that the grammar forbids, the text stays free.
  void accept_free(std::string_view bytes, bool unchecked) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      progress_ = grammar_->next(progress_, bytes[i]);
      if (grammar_->is_complete(progress_)) {
        cursor_.emplace(grammar_->begin(true));
        const bool accepted = cursor_->accept(bytes.substr(i + 1));
        check(accepted || unchecked, "the token was allowed");
        if (!accepted) {
          cursor_.reset();
          progress_ = never;
        }
        return;
      }
    }
  }

  std::shared_ptr<LazyGrammar> grammar_;
  std::optional<GrammarMatcher::Cursor> cursor_;  // once the grammar has begun
  int progress_;
  Place place_ = Place::behind;
  std::string tail_;
  std::uint64_t work_ = 0;  // without the cursor's
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<TokenConstraint> make_lazy_grammar_constraint(std::shared_ptr<GrammarMatcher> matcher,
                                                              GrammarTrigger trigger) {
  check(matcher != nullptr, "a grammar's constraint needs its matcher");
  check(!trigger.text.empty() || !trigger.tokens.empty(), "a lazy grammar needs something that begins it");
  auto grammar = std::make_shared<LazyGrammar>(std::move(matcher), std::move(trigger));
  return std::make_unique<LazyConstraint>(std::move(grammar));
}

}  // namespace rocmforge
