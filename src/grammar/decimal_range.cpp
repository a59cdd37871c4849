#include "grammar/decimal_range.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace rocmforge {
namespace {

constexpr std::size_t most_digits = 40, usual_whole_digits = 16, significant_digits = 15;

/// The numbers without sign between two bounds, as rules that match digit by digit: each rule knows whether all digits so
/// far equal those of the lower or of the upper bound.
class MagnitudeRange {
 public:
  MagnitudeRange(const DecimalBound& lower, const std::optional<DecimalBound>& upper, bool fractions,
                 GrammarBuilder& grammar)
      : lower_(lower), upper_(upper), fractions_(fractions), grammar_(grammar), nothing_(grammar.literal("")) {}

  /// None where the range is empty.
  std::optional<GrammarNode> numbers() {
    std::vector<GrammarNode> parts;
    const std::size_t shortest = lower_.value.whole.size();
    const std::size_t longest = upper_ ? upper_->value.whole.size() : std::max(usual_whole_digits, shortest + 1);
    for (length_ = shortest; length_ <= std::min(longest, std::max(usual_whole_digits, shortest + 1)); ++length_) {
      rules_.clear();
      const bool at_lower = length_ == shortest, at_upper = upper_ && length_ == longest;
      if (auto part = whole(0, at_lower, at_upper)) {
        parts.push_back(*part);
      }
    }
    return parts.empty() ? std::nullopt : std::optional(grammar_.choice(parts));
  }

 private:
  using Digits = std::optional<GrammarNode>;

  [[nodiscard]] std::size_t most_fraction_digits() const {
    const std::size_t usual = significant_digits - std::min(length_, significant_digits);
    const std::size_t bounds =
        std::max(lower_.value.fraction.size(), upper_ ? upper_->value.fraction.size() : std::size_t{0});
    return std::max(usual, bounds == 0 ? 0 : bounds + 1);
  }
  static char digit(const std::string& digits, std::size_t place) { return place < digits.size() ? digits[place] : '0'; }
  GrammarNode one_of(char first, char last) {
    const CodeRange range{static_cast<char32_t>(first), static_cast<char32_t>(last)};
    return grammar_.characters({&range, 1});
  }
  GrammarNode followed(GrammarNode digits, GrammarNode rest) {
    return rest == nothing_ ? digits : grammar_.sequence({digits, rest});
  }

  /// Whether a number may end after `place` digits of its fraction.
  [[nodiscard]] bool may_end(std::size_t place, bool at_lower, bool at_upper) const {
    const bool equals_lower = at_lower && place >= lower_.value.fraction.size();
    const bool below_lower = at_lower && !equals_lower;  // the rest of the bound's digits does not end in zero
    const bool equals_upper = at_upper && place >= upper_->value.fraction.size();
    return !below_lower && !(equals_lower && lower_.exclusive) && !(equals_upper && upper_->exclusive);
  }

  /// The alternatives for one digit, where the bounds have `lower` and `upper`, each followed by `rest`.
  template <class Rest>
  void add_digits(char lower, char upper, bool at_lower, bool at_upper, const Rest& rest, std::vector<GrammarNode>& parts) {
    for (char first = at_lower ? lower : '0'; first <= (at_upper ? upper : '9');) {
      const bool keeps_lower = at_lower && first == lower, keeps_upper = at_upper && first == upper;
      char last = first;
      if (!keeps_lower && !keeps_upper) {
        last = at_upper ? static_cast<char>(upper - 1) : '9';
      }
      if (const Digits after = rest(keeps_lower, keeps_upper)) {
        parts.push_back(followed(one_of(first, last), *after));
      }
      first = static_cast<char>(last + 1);
    }
  }

  Digits as_rule(std::tuple<bool, std::size_t, bool, bool> key, const std::vector<GrammarNode>& parts) {
    Digits& made = rules_[key];
    if (!parts.empty()) {
      made = parts.size() == 1 ? parts[0] : grammar_.add_rule("digits", grammar_.choice(parts));
    }
    return made;
  }

  /// From digit `place` of the whole part on.
  Digits whole(std::size_t place, bool at_lower, bool at_upper) {
    if (place == length_) {
      return fraction_start(at_lower, at_upper);
    }
    if (!at_lower && !at_upper && place > 0) {
      const std::size_t count = length_ - place;
      return followed(grammar_.repeat(one_of('0', '9'), count, count), *fraction_start(false, false));
    }
    const auto key = std::make_tuple(false, place, at_lower, at_upper);
    if (const auto known = rules_.find(key); known != rules_.end()) {
      return known->second;
    }
    std::vector<GrammarNode> parts;
    const std::string& high = upper_ ? upper_->value.whole : lower_.value.whole;
    const auto rest = [&](bool lower, bool upper) { return whole(place + 1, lower, upper); };
    const char low_digit = at_lower ? lower_.value.whole[place] : place == 0 && length_ > 1 ? '1' : '0';
    // A number with more digits than the lower bound needs no lower bound, but its first digit is not zero.
    if (at_lower) {
      add_digits(low_digit, digit(high, place), true, at_upper, rest, parts);
    } else {
      const auto beyond = [&](bool, bool upper) { return rest(false, upper); };
      add_digits_from(low_digit, digit(high, place), at_upper, beyond, parts);
    }
    return as_rule(key, parts);
  }

  template <class Rest>
  void add_digits_from(char first, char upper, bool at_upper, const Rest& rest, std::vector<GrammarNode>& parts) {
    const char last_free = at_upper ? static_cast<char>(upper - 1) : '9';
    if (first <= last_free) {
      if (const Digits after = rest(false, false)) {
        parts.push_back(followed(one_of(first, last_free), *after));
      }
    }
    if (at_upper && first <= upper) {
      if (const Digits after = rest(false, true)) {
        parts.push_back(followed(one_of(upper, upper), *after));
      }
    }
  }

  GrammarNode optional_if(bool is_optional, GrammarNode digits) { return is_optional ? grammar_.optional(digits) : digits; }

  Digits fraction_start(bool at_lower, bool at_upper) {
    const bool ends = may_end(0, at_lower, at_upper);
    const Digits digits = fractions_ && most_fraction_digits() > 0 ? fraction(0, at_lower, at_upper) : std::nullopt;
    if (!digits) {
      return ends ? Digits(nothing_) : std::nullopt;
    }
    return optional_if(ends, grammar_.sequence({grammar_.literal("."), *digits}));
  }

  /// From digit `place` of the fraction on; at least one more digit.
  Digits fraction(std::size_t place, bool at_lower, bool at_upper) {
    if (place == most_fraction_digits()) {
      return std::nullopt;
    }
    if (!at_lower && !at_upper) {
      return grammar_.repeat(one_of('0', '9'), 1, most_fraction_digits() - place);
    }
    const auto key = std::make_tuple(true, place, at_lower, at_upper);
    if (const auto known = rules_.find(key); known != rules_.end()) {
      return known->second;
    }
    std::vector<GrammarNode> parts;
    const auto rest = [&](bool lower, bool upper) -> Digits {
      const bool ends = may_end(place + 1, lower, upper);
      const Digits more = fraction(place + 1, lower, upper);
      if (!more) {
        return ends ? Digits(nothing_) : std::nullopt;
      }
      return optional_if(ends, *more);
    };
    const char low = digit(lower_.value.fraction, place), high = upper_ ? digit(upper_->value.fraction, place) : '9';
    add_digits(low, high, at_lower, at_upper, rest, parts);
    return as_rule(key, parts);
  }

  DecimalBound lower_;
  std::optional<DecimalBound> upper_;
  bool fractions_;
  GrammarBuilder& grammar_;
  GrammarNode nothing_;     // where a number ends
  std::size_t length_ = 0;  // digits of the whole part
  std::map<std::tuple<bool, std::size_t, bool, bool>, Digits> rules_;
};

int compare_digits(const Decimal& a, const Decimal& b) {
  if (a.whole.size() != b.whole.size()) {
    return a.whole.size() < b.whole.size() ? -1 : 1;
  }
  const int whole = a.whole.compare(b.whole);
  return whole != 0 ? whole : a.fraction.compare(b.fraction);
}

Decimal negated(Decimal value) {
  value.negative = !value.negative && !value.is_zero();
  return value;
}

/// Without fractions they have no exponents either.
GrammarNode unbounded_numbers(bool fractions, GrammarBuilder& grammar) {
  const auto one_of = [&](std::vector<CodeRange> ranges) { return grammar.characters(normalize(std::move(ranges))); };
  const GrammarNode digit = one_of({{U'0', U'9'}}), minus = grammar.optional(grammar.literal("-"));
  const GrammarNode zero = grammar.literal("0");
  const GrammarNode above_zero =
      grammar.sequence({one_of({{U'1', U'9'}}), grammar.repeat(digit, 0, usual_whole_digits - 1)});
  if (!fractions) {
    return grammar.choice({zero, grammar.sequence({minus, above_zero})});
  }
  const GrammarNode fraction = grammar.sequence({grammar.literal("."), grammar.repeat(digit, 1, significant_digits)});
  const GrammarNode exponent =
      grammar.sequence({one_of({{U'E', U'E'}, {U'e', U'e'}}), grammar.optional(one_of({{U'+', U'+'}, {U'-', U'-'}})),
                        grammar.repeat(digit, 1, 2)});
  return grammar.sequence(
      {minus, grammar.choice({zero, above_zero}), grammar.optional(fraction), grammar.optional(exponent)});
}

bool is_empty(const DecimalBound& lower, const std::optional<DecimalBound>& upper) {
  if (!upper) {
    return false;
  }
  const int order = compare(lower.value, upper->value);
  return order > 0 || (order == 0 && (lower.exclusive || upper->exclusive));
}

}  // namespace

std::optional<Decimal> parse_decimal(std::string_view text) {
  Decimal value;
  if (text.starts_with('-')) {
    value.negative = true;
    text.remove_prefix(1);
  }
  int exponent = 0;
  if (const std::size_t mark = text.find_first_of("eE"); mark != std::string_view::npos) {
    std::string_view digits = text.substr(mark + 1);
    digits.remove_prefix(digits.starts_with('+') ? 1 : 0);
    if (std::from_chars(digits.data(), digits.data() + digits.size(), exponent).ec != std::errc{}) {
      return std::nullopt;
    }
    text = text.substr(0, mark);
  }
  const std::size_t point = std::min(text.find('.'), text.size());
  std::string digits(text.substr(0, point));
  digits += point < text.size() ? text.substr(point + 1) : "";
  auto places = static_cast<long>(point) + exponent;  // digits before the point
  if (places > 400 || places < -400) {
    return std::nullopt;
  }
  if (places <= 0) {
    digits.insert(0, static_cast<std::size_t>(1 - places), '0');
    places = 1;
  }
  if (static_cast<std::size_t>(places) > digits.size()) {
    digits.append(static_cast<std::size_t>(places) - digits.size(), '0');
  }
  value.whole = digits.substr(0, static_cast<std::size_t>(places));
  value.fraction = digits.substr(static_cast<std::size_t>(places));
  value.whole.erase(0, std::min(value.whole.find_first_not_of('0'), value.whole.size() - 1));
  value.fraction.erase(value.fraction.find_last_not_of('0') + 1);
  value.negative = value.negative && !value.is_zero();
  if (value.whole.size() > most_digits || value.fraction.size() > most_digits) {
    return std::nullopt;
  }
  return value;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) {
    return a.negative ? -1 : 1;
  }
  return a.negative ? compare_digits(b, a) : compare_digits(a, b);
}

std::optional<GrammarNode> decimal_range_grammar(const DecimalRange& range, bool fractions, GrammarBuilder& grammar) {
  if (!range.lower && !range.upper) {
    return unbounded_numbers(fractions, grammar);
  }
  std::vector<GrammarNode> parts;
  const Decimal zero;
  if (!range.upper || !range.upper->value.negative) {
    const bool from_zero = !range.lower || range.lower->value.negative;
    const DecimalBound lower = from_zero ? DecimalBound{zero, false} : *range.lower;
    if (!is_empty(lower, range.upper)) {
      if (const auto part = MagnitudeRange(lower, range.upper, fractions, grammar).numbers()) {
        parts.push_back(*part);
      }
    }
  }
  if (!range.lower || range.lower->value.negative) {
    DecimalBound lower{zero, true};
    if (range.upper && range.upper->value.negative) {
      lower = {negated(range.upper->value), range.upper->exclusive};
    }
    std::optional<DecimalBound> upper;
    if (range.lower) {
      upper = DecimalBound{negated(range.lower->value), range.lower->exclusive};
    }
    if (!is_empty(lower, upper)) {
      if (const auto part = MagnitudeRange(lower, upper, fractions, grammar).numbers()) {
        parts.push_back(grammar.sequence({grammar.literal("-"), *part}));
      }
    }
  }
  return parts.empty() ? std::nullopt : std::optional(grammar.choice(parts));
}

}  // namespace rocmforge
