#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/json.h"
#include "server/http/http.h"

namespace rocmforge {

// JSON text that is made piece by piece, as a client takes it: a whole answer may be far larger than its source.

/// One after another.
TextPieces pieces_of(std::vector<TextPieces> parts);
TextPieces pieces_of(std::string text);
/// A long text that others share, which is not copied as a whole.
TextPieces pieces_of(std::shared_ptr<const std::string> text);

/// An array of `count` values. `value` gives the text of one; it is called in order.
TextPieces list_in_pieces(std::size_t count, std::function<std::string(std::size_t)> value);
/// The same for values that are large themselves.
TextPieces list_of_pieces(std::size_t count, std::function<TextPieces(std::size_t)> value);

/// `object` with another value of its member `name`, if it has that member.
TextPieces with_member(const Json& object, std::string_view name, TextPieces value);

/// A JSON string. Invalid UTF-8 becomes U+FFFD.
TextPieces string_in_pieces(std::string text);

/// The inside of a JSON string.
std::string escaped(std::string_view text);

}  // namespace rocmforge
