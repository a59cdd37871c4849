#include "server/api/json_pieces.h"

#include <algorithm>
#include <utility>

namespace rocmforge {

TextPieces pieces_of(std::vector<TextPieces> parts) {
  return [parts = std::move(parts), next = std::size_t{0}](std::string& out) mutable {
    if (next < parts.size() && !parts[next](out)) {
      parts[next++] = nullptr;
    }
    return next < parts.size();
  };
}

TextPieces pieces_of(std::string text) {
  return [text = std::move(text)](std::string& out) {
    out += text;
    return false;
  };
}

TextPieces pieces_of(std::shared_ptr<const std::string> text) {
  constexpr std::size_t size = std::size_t{64} << 10;
  return [text = std::move(text), at = std::size_t{0}](std::string& out) mutable {
    out += std::string_view(*text).substr(at, size);
    at = std::min(at + size, text->size());
    return at < text->size();
  };
}

TextPieces list_in_pieces(std::size_t count, std::function<std::string(std::size_t)> value) {
  return [count, value = std::move(value), next = std::size_t{0}](std::string& out) mutable {
    out += next == 0 ? '[' : ',';
    out += count > 0 ? value(next) : "";
    const bool goes_on = ++next < count;
    out += goes_on ? "" : "]";
    return goes_on;
  };
}

TextPieces list_of_pieces(std::size_t count, std::function<TextPieces(std::size_t)> value) {
  return [count, value = std::move(value), current = TextPieces(), next = std::size_t{0}](std::string& out) mutable {
    if (current == nullptr) {
      out += next == 0 ? "[" : next < count ? "," : "";
      if (next == count) {
        out += "]";
        return false;
      }
      current = value(next);
    }
    if (!current(out)) {
      current = nullptr;
      ++next;
    }
    return true;
  };
}

TextPieces with_member(const Json& object, std::string_view name, TextPieces value) {
  std::string before, after;
  bool found = false;
  for (const auto& [key, member] : object.items()) {
    std::string& text = found ? after : before;
    text += before.empty() ? "{" : ",";
    text += to_text(Json(key)) + ":";
    if (key == name) {
      found = true;
    } else {
      text += to_text(member);
    }
  }
  if (!found) {
    return pieces_of(to_text(object));
  }
  return pieces_of({pieces_of(std::move(before)), std::move(value), pieces_of(after + "}")});
}

std::string escaped(std::string_view text) {
  const std::string quoted = to_text(Json(text));
  return quoted.substr(1, quoted.size() - 2);
}

TextPieces string_in_pieces(std::string text) {
  constexpr std::size_t size = std::size_t{16} << 10;
  constexpr std::size_t longest_tail = 3;  // bytes of a character after its first
  const auto inside = [text = std::move(text), at = std::size_t{0}](std::string& out) mutable {
    std::size_t end = std::min(at + size, text.size());
    for (std::size_t i = 0; i < longest_tail && end < text.size() && end > at + 1 && (text[end] & 0xc0) == 0x80; ++i) {
      --end;
    }
    out += escaped(std::string_view(text).substr(at, end - at));
    at = end;
    return at < text.size();
  };
  return pieces_of({pieces_of("\""), inside, pieces_of("\"")});
}

}  // namespace rocmforge
