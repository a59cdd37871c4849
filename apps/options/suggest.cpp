#include "suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace rocmforge::app {
namespace {

constexpr std::size_t longest_word = 64;

/// The number of letters to change, add, remove or swap with a neighbour (optimal string alignment distance).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string_view without_dashes(std::string_view word) {
  return word.substr(std::min(word.find_first_not_of('-'), word.size()));
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  word = without_dashes(word).substr(0, longest_word);
  std::string best;
  std::size_t least = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& name : known) {
    const std::string_view other = without_dashes(name);
    if (other.size() < 2 || word.size() < 2) {
      continue;  // a name of one letter is near to any other letter
    }
    // The beginning of a name, or a name with a suffix, is nearer than any misspelling.
    const bool begins = (word.size() >= 3 && other.starts_with(word)) || (other.size() >= 3 && word.starts_with(other));
    const std::size_t distance = begins ? 0 : edit_distance(word, other);
    if (distance < least) {
      least = distance;
      best = name;
    }
  }
  return best;
}

std::string unknown_option(const Command& command, const std::string& full_name, const std::string& text) {
  std::vector<std::string> known = {"--help"};
  for (const Option& option : command.options) {
    for (const std::string& name : option.all_names()) {
      known.push_back(name);
    }
  }
  const std::string near = nearest(text.substr(0, text.find('=')), known);
  return fmt::format("there is no option {}{} (see {} --help)", text,
                     near.empty() ? "" : fmt::format("; did you mean {}?", near), full_name);
}

}  // namespace rocmforge::app
