#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "chat/jinja/text.h"

namespace rocmforge::jinja {

// Python's str methods for texts that record their sources. Sizes and positions are in bytes.

Text upper(const Text& text);
Text lower(const Text& text);
/// The first character in upper case, the others in lower case.
Text capitalize(const Text& text);

/// &, <, > and quotes as HTML entities; the result is markup. Text that is markup is returned unchanged.
Text escape(const Text& text);
/// The form of `text` that may be appended to `whole`: escaped if that is markup.
Text fitting(const Text& text, const Text& whole);

/// The text without `characters` (white space if not given) at the chosen ends.
Text strip(const Text& text, std::optional<std::string_view> characters, bool left, bool right);
/// At most `limit` replacements, or all when it is negative. An empty `old` matches between all characters, as in Python.
Text replace(const Text& text, std::string_view old, const Text& with, std::int64_t limit);
/// At most `limit` cuts, or all when it is negative; from the end if `from_right`. `separator` must not be empty.
std::vector<Text> split(const Text& text, std::string_view separator, std::int64_t limit, bool from_right);
/// The words between runs of white space; white space at the ends makes no empty words.
std::vector<Text> split_at_space(const Text& text, std::int64_t limit, bool from_right);
std::vector<Text> split_lines(const Text& text, bool keep_ends);
/// The number of parts that split_at_space and split_lines return without a limit.
std::size_t count_words(std::string_view text);
std::size_t count_lines(std::string_view text);
/// The number of occurrences of `part` that do not overlap.
std::size_t count(std::string_view text, std::string_view part);

}  // namespace rocmforge::jinja
