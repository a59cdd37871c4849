#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "chat/jinja/text.h"

namespace rocmforge::jinja {

// What Python's str methods do, on texts that know where they came from. Sizes and places are in bytes.

Text upper(const Text& text);
Text lower(const Text& text);
/// The first character in upper, the others in lower case.
Text capitalize(const Text& text);

/// &, <, > and quotes as entities of HTML, marked as markup. What is marked stays as it is.
Text escape(const Text& text);
/// The text as it must be to become part of `whole`: escaped where that is markup.
Text fitting(const Text& text, const Text& whole);

/// Without the characters of `characters` (white space when empty) at the chosen ends.
Text strip(const Text& text, std::optional<std::string_view> characters, bool left, bool right);
/// `limit` replacements at most, all when negative. An empty `old` stands between all characters, as in Python.
Text replace(const Text& text, std::string_view old, const Text& with, std::int64_t limit);
/// At most `limit` cuts, from the end when `from_right`; without a limit when it is negative. `separator` is not empty.
std::vector<Text> split(const Text& text, std::string_view separator, std::int64_t limit, bool from_right);
/// At stretches of white space, none at the ends.
std::vector<Text> split_at_space(const Text& text, std::int64_t limit, bool from_right);
std::vector<Text> split_lines(const Text& text, bool keep_ends);
/// How many pieces split_at_space and split_lines give without a limit.
std::size_t count_words(std::string_view text);
std::size_t count_lines(std::string_view text);
/// How often `part` occurs without overlap.
std::size_t count(std::string_view text, std::string_view part);

}  // namespace rocmforge::jinja
