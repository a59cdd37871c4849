#include "tokenizer/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstdint>
#include <limits>

#include "base/error.h"
#include "base/utf8.h"

namespace rocmforge {
namespace {

// White_Space of the Unicode standard, as the content of a character class. PCRE2's \s also matches U+180E.
constexpr std::string_view white_space =
    R"(\t-\r\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

/// Replaces \s and \S by these characters. \S must not be inside a class.
std::string expand_white_space(std::string_view expression) {
  std::string expanded;
  bool in_class = false;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c == '\\') {
      const char escaped = expression[++i];
      if (escaped == 's') {
        expanded.append(in_class ? "" : "[").append(white_space).append(in_class ? "" : "]");
      } else if (escaped == 'S') {
        check(!in_class, "\\S inside a class is not supported");
        expanded.append("[^").append(white_space).append("]");
      } else {
        expanded.append({c, escaped});
      }
      continue;
    }
    in_class = c == '[' || (in_class && c != ']');
    expanded.push_back(c);
  }
  return expanded;
}

std::string message_of(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

struct Piece {
  std::string_view text;
  bool is_utf8 = true;
};

/// The runs of valid UTF-8 and the runs of other bytes.
std::vector<Piece> runs(std::string_view text) {
  std::vector<Piece> pieces;
  std::size_t begin = 0;
  bool was_utf8 = true;
  for (std::size_t position = 0; position < text.size();) {
    const Utf8Unit unit = utf8_unit(text, position);
    const bool is_utf8 = unit.kind == Utf8Unit::Kind::character;
    if (is_utf8 != was_utf8 && position > begin) {
      pieces.push_back({text.substr(begin, position - begin), was_utf8});
      begin = position;
    }
    was_utf8 = is_utf8;
    position += unit.length;
  }
  if (begin < text.size()) {
    pieces.push_back({text.substr(begin), was_utf8});
  }
  return pieces;
}

}  // namespace

class PreTokenizer::Expression {
 public:
  explicit Expression(std::string_view text) {
    const std::string expanded = expand_white_space(text);
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expanded.data()), expanded.size(), PCRE2_UTF | PCRE2_UCP, &error,
                              &offset, nullptr));
    check(code_ != nullptr, "pre-tokenizer expression: " + message_of(error) + " at " + std::to_string(offset));
    // If this machine has no just-in-time compiler, the interpreter makes the same pieces more slowly.
    static_cast<void>(pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE));
    context_.reset(pcre2_match_context_create(nullptr));
    check(context_ != nullptr, "out of memory for a match context");
    // PCRE2's limits guard against expressions of unbounded time. The expressions here take linear time.
    pcre2_set_match_limit(context_.get(), std::numeric_limits<std::uint32_t>::max());
    pcre2_set_heap_limit(context_.get(), std::numeric_limits<std::uint32_t>::max());
  }

  void split(std::string_view text, pcre2_match_data* match, WorkBudget* budget, std::vector<Piece>& pieces) const {
    constexpr std::size_t bytes_of_a_unit = 8;
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match);
    std::size_t position = 0;
    while (position < text.size()) {
      const int count = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), position,
                                    PCRE2_NO_UTF_CHECK, match, context_.get());
      if (count == PCRE2_ERROR_NOMATCH) {
        break;
      }
      if (count < 0) {
        throw Error("cutting a text of " + std::to_string(text.size()) + " bytes for the tokenizer: " + message_of(count));
      }
      spend(budget, 2 + (ends[1] - position) / bytes_of_a_unit);
      check(ends[1] > ends[0], "a pre-tokenizer expression matched nothing");
      if (ends[0] > position) {
        pieces.push_back({text.substr(position, ends[0] - position)});
      }
      pieces.push_back({text.substr(ends[0], ends[1] - ends[0])});
      position = ends[1];
    }
    if (position < text.size()) {
      pieces.push_back({text.substr(position)});
    }
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
  std::unique_ptr<pcre2_match_context, Free> context_;
};

PreTokenizer::PreTokenizer(const PreTokenizerRules& rules) {
  for (const std::string_view pass : rules.passes) {
    passes_.push_back(std::make_unique<Expression>(pass));
  }
}

PreTokenizer::~PreTokenizer() = default;

std::vector<std::string_view> PreTokenizer::split(std::string_view text, WorkBudget* budget) const {
  std::vector<Piece> pieces = runs(text);
  std::vector<Piece> cut;
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(pcre2_match_data_create(1, nullptr),
                                                                                  pcre2_match_data_free);
  check(match != nullptr, "out of memory for a match");
  for (const auto& pass : passes_) {
    cut.clear();
    for (const Piece& piece : pieces) {
      if (piece.is_utf8) {
        pass->split(piece.text, match.get(), budget, cut);
      } else {
        cut.push_back(piece);
      }
    }
    pieces.swap(cut);
  }
  std::vector<std::string_view> texts;
  texts.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    texts.push_back(piece.text);
  }
  return texts;
}

}  // namespace rocmforge
