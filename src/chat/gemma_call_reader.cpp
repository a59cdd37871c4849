#include "base/blanks.h"
#include "base/json.h"
#include "chat/python_literal.h"
#include "chat/tool_call_reader.h"

namespace rocmforge {
namespace {

std::string json_text(std::string_view text) {
  return nlohmann::ordered_json(text).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

/// Reads `call:f{a:1,b:<|"|>x<|"|>,c:[true,{d:null}]}`. Keys are bare words or are between the marks of texts.
class GemmaCallReader final : public ToolCallReader {
 private:
  enum class Place {
    head,    ///< up to the first {
    key,     ///< up to the colon after it
    value,   ///< before its first character; numbers and words up to their end
    text,    ///< up to the mark that ends it
    behind,  ///< after a value
  };

  void step(char c) override {
    switch (place_) {
      case Place::head:
        step_head(c);
        break;
      case Place::key:
        step_key(c);
        break;
      case Place::value:
        step_value(c);
        break;
      case Place::text:
        held_ += c;
        if (held_.ends_with(text_mark)) {
          held_.resize(held_.size() - text_mark.size());
          arguments_ += json_text(held_);
          go_on(Place::behind);
        }
        break;
      case Place::behind:
        step_behind(c);
        break;
    }
  }

  void go_on(Place place) {
    place_ = place;
    held_.clear();
  }
  void fail() { status_ = Status::failed; }

  void step_head(char c) {
    constexpr std::string_view begin = "call:";
    if (c != '{') {
      held_ += c;
      const bool may_be = held_.starts_with(begin) || begin.starts_with(held_);
      constexpr std::string_view never = "<>[]}\"' \t\r\n";
      if (!may_be || never.find(c) != std::string_view::npos || held_.size() > longest_call_name) {
        fail();
      }
      return;
    }
    if (held_.size() <= begin.size()) {
      fail();
      return;
    }
    name_ = held_.substr(begin.size());
    open('{');
  }

  void open(char bracket) {
    open_ += bracket;
    arguments_ += bracket;
    is_first_ = true;
    go_on(bracket == '{' ? Place::key : Place::value);
  }

  void close(char bracket) {
    if (open_.back() != (bracket == '}' ? '{' : '[')) {
      fail();
      return;
    }
    open_.pop_back();
    arguments_ += bracket;
    is_first_ = false;
    go_on(Place::behind);
    status_ = open_.empty() ? Status::done : Status::reading;
  }

  /// Writes the separator before an element of the innermost object or list.
  void separate() {
    arguments_ += is_first_ ? "" : ", ";
    is_first_ = false;
  }

  void step_key(char c) {
    if (c == '}' && is_blank(held_)) {  // an empty object, or a comma after the last pair
      close(c);
      return;
    }
    const std::string_view key = trimmed(held_);
    const bool in_marks = key.starts_with(text_mark) && (key.size() < 2 * text_mark.size() || !key.ends_with(text_mark));
    if (c != ':' || in_marks) {
      held_ += c;
      if (held_.size() > longest_call_name || (!in_marks && std::string_view("{}[],").find(c) != std::string_view::npos)) {
        fail();
      }
      return;
    }
    const bool marked = key.starts_with(text_mark);
    separate();
    arguments_ += json_text(marked ? key.substr(text_mark.size(), key.size() - 2 * text_mark.size()) : key) + ": ";
    if (key.empty()) {
      fail();
    }
    go_on(Place::value);
  }

  void step_value(char c) {
    const bool in_list = open_.back() == '[';
    const bool is_fresh = is_blank(held_);
    if (is_fresh && in_list && c == ']') {
      close(c);
      return;
    }
    if (is_fresh && (c == '{' || c == '[')) {
      if (in_list) {
        separate();
      }
      open(c);
      return;
    }
    if (!is_fresh && (c == ',' || c == '}' || c == ']')) {
      if (in_list) {
        separate();
      }
      const std::string word(trimmed(held_));
      arguments_ += json_of_literal(word).value_or(json_text(word));
      go_on(Place::behind);
      step_behind(c);
      return;
    }
    held_ += c;
    if (trimmed(held_) == text_mark) {
      if (in_list) {
        separate();
      }
      go_on(Place::text);
    } else if (is_fresh && std::string_view(",}:").find(c) != std::string_view::npos) {
      fail();
    }
  }

  void step_behind(char c) {
    if (c == '}' || c == ']') {
      close(c);
    } else if (c == ',') {
      go_on(open_.back() == '{' ? Place::key : Place::value);
    } else if (!is_blank({&c, 1})) {
      fail();
    }
  }

  static constexpr std::string_view text_mark = "<|\"|>";

  Place place_ = Place::head;
  std::string held_;
  std::string open_;      ///< the brackets that are still open
  bool is_first_ = true;  ///< the innermost object or list has no element yet
};

}  // namespace

std::unique_ptr<ToolCallReader> make_gemma_call_reader() { return std::make_unique<GemmaCallReader>(); }

}  // namespace rocmforge
