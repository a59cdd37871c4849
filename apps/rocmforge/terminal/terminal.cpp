#include "terminal/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cwchar>

namespace rocmforge::app {

bool has_colour(std::FILE* stream) {
  const char* off = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return isatty(fileno(stream)) != 0 && (off == nullptr || *off == '\0') && terminal != nullptr &&
         std::string_view(terminal) != "dumb";
}

std::size_t terminal_width(std::FILE* stream, std::size_t otherwise) {
  winsize size = {};
  const bool known = ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : otherwise;
}

std::string styled(std::FILE* stream, Style style, std::string_view text) {
  const char* code = style == Style::bold    ? "\033[1m"
                     : style == Style::dim   ? "\033[2m"
                     : style == Style::red   ? "\033[31m"
                     : style == Style::green ? "\033[32m"
                                             : "";
  std::string out(text);
  if (*code != '\0' && has_colour(stream)) {
    out.insert(0, code).append("\033[0m");
  }
  return out;
}

std::size_t column_width(std::string_view text) {
  std::size_t columns = 0;
  std::mbstate_t state{};
  while (!text.empty()) {
    wchar_t character = 0;
    const std::size_t length = std::mbrtowc(&character, text.data(), text.size(), &state);
    if (length == 0 || length > text.size()) {  // no character of this locale, or only its beginning
      text.remove_prefix(1);
      ++columns;
      state = {};
      continue;
    }
    columns += static_cast<std::size_t>(std::max(wcwidth(character), 0));
    text.remove_prefix(length);
  }
  return columns;
}

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  std::string out;
  std::size_t column = indent;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::string_view word = text.substr(0, end);
    const std::size_t columns = column_width(word);
    if (column > indent && column + 1 + columns > width && columns > 0) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += columns;
    text.remove_prefix(end);
    if (!text.empty() && text.front() == '\n') {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
    }
    text.remove_prefix(text.empty() ? 0 : 1);
  }
  return out;
}

}  // namespace rocmforge::app
