#include "grammar/decimal_multiples.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace rocmforge {
namespace {

constexpr std::size_t most_unit_digits = 15, most_integer_digits = 16;
constexpr std::size_t most_multiple_rules = 4'000;

/// `count` times 10^exponent; exponent 0 or below for fractions. `count` does not end in a zero digit.
struct Unit {
  std::uint64_t count = 1;
  int exponent = 0;
};

Unit read_unit(const Decimal& unit) {
  std::string digits = unit.whole + unit.fraction;
  int exponent = -static_cast<int>(unit.fraction.size());
  while (digits.size() > 1 && digits.back() == '0') {
    digits.pop_back();
    ++exponent;
  }
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  if (digits.size() > most_unit_digits || exponent < -static_cast<int>(most_unit_digits)) {
    throw Error(fmt::format("takes more than {} digits", most_unit_digits));
  }
  return {std::stoull(digits), exponent};
}

/// The least common multiple.
Unit common(Unit a, Unit b) {
  constexpr std::uint64_t most = 1'000'000'000'000'000;
  const auto product = [](std::uint64_t x, std::uint64_t y) {
    if (x > most / y) {
      throw Error("the least number that is a multiple of all is too large");
    }
    return x * y;
  };
  for (Unit* one : {&a, &b}) {
    for (const int exponent = std::min(a.exponent, b.exponent); one->exponent > exponent; --one->exponent) {
      one->count = product(one->count, 10);
    }
  }
  Unit all = {product(a.count / std::gcd(a.count, b.count), b.count), a.exponent};
  for (; all.count % 10 == 0; ++all.exponent) {
    all.count /= 10;
  }
  return all;
}

/// One more or one less, by `step`; not less than 0.
std::string one_further(const std::string& digits, int step) {
  std::string all = digits;
  std::size_t place = all.size();
  const char last = step > 0 ? '9' : '0', wrapped = step > 0 ? '0' : '9';
  while (place > 0 && all[place - 1] == last) {
    all[--place] = wrapped;
  }
  if (place > 0) {
    all[place - 1] = static_cast<char>(all[place - 1] + step);
  } else {
    all.insert(0, 1, '1');  // step is 1: nothing is taken from zero
  }
  return all.erase(0, std::min(all.find_first_not_of('0'), all.size() - 1));
}

/// The absolute value times 10^-exponent, rounded up or down to digits of a whole number. `is_whole`: nothing was rounded.
std::string scaled(const Decimal& value, int exponent, bool up, bool& is_whole) {
  std::string digits = value.whole, rest = value.fraction;
  for (; exponent < 0; ++exponent) {
    digits += rest.empty() ? '0' : rest.front();
    rest.erase(0, 1);
  }
  for (; exponent > 0; --exponent) {
    rest.insert(0, 1, digits.back());
    digits.pop_back();
    digits = digits.empty() ? "0" : digits;
  }
  is_whole = rest.find_first_not_of('0') == std::string::npos;
  if (up && !is_whole) {
    digits = one_further(digits, 1);
  }
  return digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
}

bool is_less(const std::string& a, const std::string& b) { return a.size() != b.size() ? a.size() < b.size() : a < b; }

/// The multiples of one unit above 0 between two bounds, as rules that match digit by digit. A rule knows the remainder of
/// the digits so far, and whether they equal those of the lower or of the upper bound.
class Multiples {
 public:
  Multiples(const Unit& unit, GrammarBuilder& grammar)
      : unit_(unit),
        grammar_(grammar),
        end_(grammar.literal(std::string(static_cast<std::size_t>(std::max(0, unit.exponent)), '0'))) {}

  /// `lower` and `upper`: digits of whole numbers of 10^exponent, from 1.
  std::optional<GrammarNode> between(const std::string& lower, const std::optional<std::string>& upper) {
    const std::size_t fraction = fraction_digits();
    const std::size_t usual = fraction > 0 ? most_unit_digits : most_integer_digits - trailing_zeros();
    const std::size_t longest = std::max(usual, lower.size() + 1);
    std::vector<GrammarNode> parts;
    for (length_ = fraction + 1; length_ <= std::min(longest, upper ? std::max(upper->size(), fraction + 1) : longest);
         ++length_) {
      // The first digit is zero only if it is the only one before the point.
      const std::string least = (length_ == fraction + 1 ? "0" : "1") + std::string(length_ - 1, '0');
      const std::string most(length_, '9');
      low_ = lower.size() > length_ ? "" : std::max(std::string(length_ - lower.size(), '0') + lower, least);
      high_ = upper && upper->size() <= length_ ? std::string(length_ - upper->size(), '0') + *upper : most;
      bounded_.clear();
      if (!low_.empty() && low_ <= high_) {
        if (const auto part = rest(0, 0, true, true)) {
          parts.push_back(*part);
        }
      }
    }
    return parts.empty() ? std::nullopt : std::optional(grammar_.choice(parts));
  }

 private:
  using Digits = std::optional<GrammarNode>;

  [[nodiscard]] std::size_t fraction_digits() const { return static_cast<std::size_t>(std::max(0, -unit_.exponent)); }
  [[nodiscard]] std::size_t trailing_zeros() const {
    return std::min(static_cast<std::size_t>(std::max(0, unit_.exponent)), most_integer_digits - 1);
  }

  [[nodiscard]] static bool all_are(const std::string& digits, std::size_t from, char digit) {
    return digits.find_first_not_of(digit, from) == std::string::npos;
  }

  /// The digits from `place` on. `remainder`: of the digits before, followed by zeros.
  Digits rest(std::size_t place, std::uint64_t remainder, bool at_low, bool at_high) {
    at_low = at_low && !all_are(low_, place, '0');
    at_high = at_high && !all_are(high_, place, '9');
    const bool may_stop = remainder == 0 && !at_low && place >= length_ - fraction_digits() && place > 0;
    if (place == length_) {
      return may_stop ? Digits(end_) : std::nullopt;
    }
    auto& known = at_low || at_high ? bounded_ : free_;
    const auto key = std::make_tuple(length_ - place, remainder, at_low, at_high);
    if (const auto found = known.find(key); found != known.end()) {
      return found->second;
    }
    if (++num_rules_ > most_multiple_rules) {
      throw Error(fmt::format("takes more than {} rules to tell the multiples", most_multiple_rules));
    }
    std::map<GrammarNode, std::vector<CodeRange>> digits;  // those that lead to the same rest
    const std::uint64_t step = power(length_ - place - 1);
    const char first = at_low ? low_[place] : '0', last = at_high ? high_[place] : '9';
    for (char digit = first; digit <= last; ++digit) {
      const std::uint64_t next = (remainder + static_cast<std::uint64_t>(digit - '0') * step) % unit_.count;
      if (const Digits after = rest(place + 1, next, at_low && digit == first, at_high && digit == last)) {
        digits[*after].push_back({static_cast<char32_t>(digit), static_cast<char32_t>(digit)});
      }
    }
    grammar_.budget().spend(20);
    const bool begins_fraction = place > 0 && place == length_ - fraction_digits();
    std::vector<GrammarNode> parts;
    for (auto& [after, leading] : digits) {
      const GrammarNode digit = grammar_.characters(normalize(std::move(leading)));
      parts.push_back(begins_fraction ? grammar_.sequence({grammar_.literal("."), digit, after})
                                      : grammar_.sequence({digit, after}));
    }
    if (may_stop) {
      parts.push_back(grammar_.literal(""));
    }
    return known[key] = parts.empty() ? std::nullopt : Digits(grammar_.add_rule("digits", grammar_.choice(parts)));
  }

  [[nodiscard]] std::uint64_t power(std::size_t places) const {
    std::uint64_t value = 1 % unit_.count;
    for (; places > 0; --places) {
      value = value * 10 % unit_.count;
    }
    return value;
  }

  Unit unit_;
  GrammarBuilder& grammar_;
  GrammarNode end_;         ///< the zeros that the unit adds
  std::size_t length_ = 0;  ///< digits, without the zeros that the unit adds
  std::string low_, high_;  ///< the bounds in as many digits
  std::size_t num_rules_ = 0;
  using Rules = std::map<std::tuple<std::size_t, std::uint64_t, bool, bool>, Digits>;
  Rules free_, bounded_;  ///< by digits left; the bounded ones for this length
};

bool holds_zero(const DecimalRange& range) {
  const Decimal zero;
  const int above = range.lower ? compare(zero, range.lower->value) : 1;
  const int below = range.upper ? compare(zero, range.upper->value) : -1;
  return (above > 0 || (above == 0 && !range.lower->exclusive)) && (below < 0 || (below == 0 && !range.upper->exclusive));
}

}  // namespace

bool is_multiple(const Decimal& value, const Decimal& unit) {
  // By long division: with fractions of the same length, the digits are those of whole numbers.
  const std::size_t fraction = std::max(value.fraction.size(), unit.fraction.size());
  const auto digits = [&](const Decimal& one) {
    std::string all = one.whole + one.fraction + std::string(fraction - one.fraction.size(), '0');
    return all.erase(0, std::min(all.find_first_not_of('0'), all.size() - 1));
  };
  const std::string divisor = digits(unit);
  std::string remainder = "0";
  for (const char digit : digits(value)) {
    remainder = remainder == "0" ? std::string(1, digit) : remainder + digit;
    while (!is_less(remainder, divisor)) {
      std::string difference = remainder;
      int borrow = 0;
      for (std::size_t i = 0; i < remainder.size(); ++i) {
        const std::size_t place = remainder.size() - 1 - i;
        int one = remainder[place] - '0' - borrow - (i < divisor.size() ? divisor[divisor.size() - 1 - i] - '0' : 0);
        borrow = one < 0 ? 1 : 0;
        difference[place] = static_cast<char>('0' + one + 10 * borrow);
      }
      remainder = difference.erase(0, std::min(difference.find_first_not_of('0'), difference.size() - 1));
    }
  }
  return remainder == "0";
}

std::optional<GrammarNode> decimal_multiples_grammar(const DecimalRange& range, const std::vector<Decimal>& units,
                                                     GrammarBuilder& grammar) {
  Unit unit = read_unit(units.front());
  for (const Decimal& other : units) {
    unit = common(unit, read_unit(other));
  }
  std::vector<GrammarNode> parts;
  if (holds_zero(range)) {
    parts.push_back(grammar.literal("0"));
  }
  Multiples multiples(unit, grammar);
  for (const bool negative : {false, true}) {
    const auto& near = negative ? range.upper : range.lower;
    const auto& far = negative ? range.lower : range.upper;
    if (far && (far->value.is_zero() || far->value.negative != negative)) {
      continue;  // nothing above 0 lies on this side
    }
    bool is_whole = true;
    std::string lower = "1";
    if (near && near->value.negative == negative && !near->value.is_zero()) {
      lower = scaled(near->value, unit.exponent, true, is_whole);
      lower = is_whole && near->exclusive ? one_further(lower, 1) : lower;
    }
    std::optional<std::string> upper;
    if (far) {
      upper = scaled(far->value, unit.exponent, false, is_whole);
      if (*upper == "0") {
        continue;
      }
      upper = is_whole && far->exclusive ? one_further(*upper, -1) : *upper;
    }
    if (upper && is_less(*upper, lower)) {
      continue;
    }
    if (const auto part = multiples.between(lower, upper)) {
      parts.push_back(negative ? grammar.sequence({grammar.literal("-"), *part}) : *part);
    }
  }
  return parts.empty() ? std::nullopt : std::optional(grammar.choice(parts));
}

}  // namespace rocmforge
