#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace rocmforge {

/// The tokens that may come next in one sequence. One object per sequence, used by one thread at a time; cloned when a
/// sequence forks. Any call may throw Error, with the reason for the user, when the text can't be continued under the
/// constraint (a grammar exceeds its limits): the sequence then ends with that error.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  /// Sets bit t of `mask` [ceil(vocab/32)] for every token t that may come next (end-of-generation tokens where the text may
  /// end) and clears all others. At least one bit is set.
  void allowed(std::span<std::uint32_t> mask);

  /// The same with about `units` of work, of some ten nanoseconds each. False when more is needed; `mask` is then undefined,
  /// and the next call continues. A mask that takes little work is always finished.
  virtual bool allowed_within(std::uint64_t units, std::span<std::uint32_t> mask) = 0;

  /// Units of work that all calls have used. Never decreases.
  [[nodiscard]] virtual std::uint64_t work() const { return 0; }

  /// Advances by `token`, which was allowed.
  void accept(std::int32_t token);

  /// The most tokens that rewind() can go back over.
  static constexpr std::size_t most_draft_tokens = 32;

  /// Marks this place, in place of an earlier one. After more than most_draft_tokens tokens the mark is dropped.
  void checkpoint();

  /// Goes back over the last `count` tokens, which were accepted since the mark. The mark stays where it is.
  void rewind(std::size_t count);

  /// Whether only an end token may follow.
  [[nodiscard]] virtual bool finished() const = 0;

  /// An independent constraint at the same position of the text, without a mark.
  [[nodiscard]] virtual std::unique_ptr<TokenConstraint> clone() const = 0;

  /// Goes back to the position of `earlier`, a clone() of this object. work() and the mark stay.
  virtual void go_to(const TokenConstraint& earlier) = 0;

 protected:
  TokenConstraint() = default;
  // A mark belongs to one object: it is neither copied nor assigned.
  TokenConstraint(const TokenConstraint& /*other*/) {}
  TokenConstraint& operator=(const TokenConstraint& /*other*/) { return *this; }

  virtual void advance(std::int32_t token) = 0;

 private:
  std::unique_ptr<TokenConstraint> mark_;
  std::vector<std::int32_t> since_mark_;
};

}  // namespace rocmforge
