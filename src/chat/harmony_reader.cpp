#include <algorithm>
#include <array>
#include <utility>

#include "base/blanks.h"
#include "chat/answer_reader.h"
#include "chat/tool_call_reader.h"

namespace rocmforge {
namespace {

namespace marks = harmony_marks;

/// The marks that end a message. The first two also begin the header of the next message.
constexpr std::array ends_of_message = {marks::start, marks::channel, marks::end, marks::call, marks::last};
constexpr std::array starts_of_header = {marks::start, marks::channel, marks::constrain, marks::message, marks::recipient};
constexpr std::size_t longest_header = 2 * longest_call_name;

struct Header {
  std::string_view channel;
  std::string_view recipient;  ///< "" for the user
};

/// Reads the text before the mark of a message: "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json".
/// The recipient may also come before the channel.
Header read_header(std::string_view text) {
  const auto word = [](std::string_view from) { return from.substr(0, from.find_first_of(" \t\r\n<")); };
  Header header;
  if (const std::size_t at = text.find(marks::channel); at != std::string_view::npos) {
    header.channel = word(text.substr(at + marks::channel.size()));
  }
  if (const std::size_t at = text.find(marks::recipient); at != std::string_view::npos) {
    header.recipient = word(text.substr(at + marks::recipient.size()));
  }
  return header;
}

/// Reads the harmony format of gpt-oss. An answer consists of messages, and the header of each names its channel and its
/// recipient. The channel analysis is reasoning, a message to a function is a call, and everything else is content.
class HarmonyReader final : public AnswerReader {
 public:
  explicit HarmonyReader(AnswerFormat format) : format_(std::move(format)) {
    if (!format_.header_is_open) {
      begin_message(format_.reasoning_is_open && format_.splits_reasoning ? Message::reasoning : Message::content);
    }
  }

  void add(std::string_view text) override {
    pending_ += text;
    while (in_header_ ? step_header() : step_message()) {
    }
    pending_.erase(0, std::exchange(at_, 0));
  }

  void finish(bool is_cut) override {
    const std::string_view left = rest();
    if (!in_header_) {
      give(is_cut ? "" : left);  // at most the beginning of a mark is left
      call_is_open_ = call_is_open_ && (is_cut || has_object_);
    } else if (!is_cut && !is_blank(left)) {
      begin_message(Message::content);
      give(left);
    }
    pending_.clear();
  }

  [[nodiscard]] bool is_inside_call() const override { return call_is_open_; }

 private:
  enum class Message { content, reasoning, call, dropped };

  [[nodiscard]] std::string_view rest() const { return std::string_view(pending_).substr(at_); }

  bool step_header() {
    const std::size_t first = rest().find_first_not_of(blanks);
    if (first == std::string_view::npos) {
      return false;
    }
    const std::string_view text = rest().substr(first);
    const bool may_be = std::ranges::any_of(
        starts_of_header, [&](std::string_view start) { return text.starts_with(start) || start.starts_with(text); });
    if (!may_be) {  // the model has left out the header
      begin_message(Message::content);
      return true;
    }
    const std::size_t end = text.substr(0, longest_header).find(marks::message);
    if (end != std::string_view::npos) {
      const std::string_view whole = text.substr(0, end + marks::message.size());
      begin(read_header(text.substr(0, end)), whole);
      at_ += first + whole.size();
      return true;
    }
    if (text.size() < longest_header) {
      return false;
    }
    begin_message(Message::content);  // not a header: its first character is text, so that its mark is not read as one
    give(rest().substr(0, first + 1));
    at_ += first + 1;
    return true;
  }

  void begin(const Header& header, std::string_view whole) {
    const bool is_call = !header.recipient.empty();
    const bool is_reasoning = !is_call && header.channel == "analysis";
    if (is_call && format_.has_tools) {
      const bool is_dropped = format_.single_call && calls() > 0;
      begin_message(is_dropped ? Message::dropped : Message::call);
      if (!is_dropped) {
        const bool is_function = header.recipient.starts_with(marks::function);
        emit_call(header.recipient.substr(is_function ? marks::function.size() : 0), "");
        call_is_open_ = true;
      }
      return;
    }
    begin_message(is_reasoning && format_.splits_reasoning ? Message::reasoning : Message::content);
    if (is_call || (is_reasoning && !format_.splits_reasoning)) {
      give(whole);
    }
  }

  void begin_message(Message message) {
    in_header_ = false;
    message_ = message;
    is_fresh_ = true;
    has_object_ = false;
    nesting_ = {};
    held_.clear();
  }

  bool step_message() {
    const std::string_view text = rest();
    for (std::size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
      const std::string_view from = text.substr(at);
      for (const std::string_view mark : ends_of_message) {
        if (from.starts_with(mark)) {
          give(text.substr(0, at));
          at_ += at + (mark == marks::start || mark == marks::channel ? 0 : mark.size());
          in_header_ = true;
          call_is_open_ = call_is_open_ && has_object_;
          return true;
        }
      }
      if (std::ranges::any_of(ends_of_message, [&](std::string_view mark) { return mark.starts_with(from); })) {
        give(text.substr(0, at));
        at_ += at;
        return false;
      }
    }
    give(text);
    at_ = pending_.size();
    return false;
  }

  /// Emits a piece of the current message.
  void give(std::string_view text) {
    switch (message_) {
      case Message::content:
        give_content(text);
        break;
      case Message::reasoning:
        give_reasoning(text);
        break;
      case Message::call:
        give_arguments(text);
        break;
      case Message::dropped:
        break;
    }
  }

  void give_content(std::string_view text) {
    if (is_fresh_ && had_content_ && !text.empty()) {
      emit(AnswerDelta::Kind::content, "\n\n");
    }
    is_fresh_ = is_fresh_ && text.empty();
    had_content_ = had_content_ || !text.empty();
    emit(AnswerDelta::Kind::content, text);
  }

  /// Emits reasoning without the white space at its ends.
  void give_reasoning(std::string_view text) {
    if (is_fresh_) {
      text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
    }
    if (text.empty()) {
      return;
    }
    const std::size_t end = text.find_last_not_of(blanks) + 1;
    if (is_fresh_ && had_reasoning_) {
      emit(AnswerDelta::Kind::reasoning, "\n\n");
    }
    is_fresh_ = false;
    had_reasoning_ = true;
    if (end > 0) {
      emit(AnswerDelta::Kind::reasoning, std::exchange(held_, "") + std::string(text.substr(0, end)));
    }
    held_ += text.substr(end);
  }

  /// Emits the arguments up to the end of their object. If they do not begin with {, all of the text is emitted.
  void give_arguments(std::string_view text) {
    if (is_fresh_) {
      text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
      has_object_ = text.starts_with('{');
      is_fresh_ = text.empty();
    }
    std::size_t size = has_object_ && call_is_open_ ? 0 : text.size();
    if (has_object_ && !call_is_open_) {
      return;  // text after the end of the object
    }
    while (size < text.size() && call_is_open_) {
      nesting_.feed(text[size++]);
      call_is_open_ = nesting_.is_inside();
    }
    emit(AnswerDelta::Kind::arguments, text.substr(0, size));
  }

  AnswerFormat format_;
  std::string pending_;  // the text from at_ on is not yet read
  std::size_t at_ = 0;
  bool in_header_ = true;
  Message message_ = Message::content;
  std::string held_;      // white space of reasoning, emitted only if more reasoning follows
  bool is_fresh_ = true;  // the message has no text yet
  bool had_content_ = false;
  bool had_reasoning_ = false;
  bool has_object_ = false;    // the arguments of the call begin with {
  bool call_is_open_ = false;  // the arguments of the call have not ended
  Nesting nesting_;
};

}  // namespace

std::unique_ptr<AnswerReader> make_harmony_reader(AnswerFormat format) {
  return std::make_unique<HarmonyReader>(std::move(format));
}

}  // namespace rocmforge
