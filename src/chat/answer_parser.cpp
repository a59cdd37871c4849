#include "chat/answer_parser.h"

#include <algorithm>
#include <utility>

#include "base/blanks.h"
#include "base/error.h"
#include "chat/answer_reader.h"
#include "chat/tool_call_reader.h"

namespace rocmforge {
namespace {

/// The length of the longest end of `text` that is a beginning of `mark`, but not all of it.
std::size_t partial_mark(std::string_view text, std::string_view mark) {
  for (std::size_t size = std::min(text.size(), mark.empty() ? 0 : mark.size() - 1); size > 0; --size) {
    if (mark.starts_with(text.substr(text.size() - size))) {
      return size;
    }
  }
  return 0;
}

}  // namespace

std::string tool_call_id(std::uint64_t random) {
  constexpr std::string_view characters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  std::string id;
  for (int i = 0; i < 9; ++i) {
    id += characters[random % characters.size()];
    random /= characters.size();
  }
  return id;
}

namespace {

/// Reads text with reasoning at its beginning and calls between marks.
class MarkedAnswerReader final : public AnswerReader {
 public:
  explicit MarkedAnswerReader(AnswerFormat format)
      : format_(std::move(format)), marks_(tool_call_format(format_.style)), place_(Place::start) {
    if (format_.reasoning_is_open && format_.splits_reasoning) {
      place_ = Place::reasoning;
    }
  }

  void add(std::string_view text) override {
    pending_ += text;
    while (step()) {
    }
  }
  void finish(bool is_cut) override;
  [[nodiscard]] bool is_inside_call() const override { return place_ == Place::call && named_; }

 private:
  enum class Place {
    start,      // only blanks so far
    reasoning,  // up to </think>
    content,
    opened,   // after an opening: a list or an object must follow
    wrapper,  // inside {"tool_calls" of the generic style
    call,
    between,  // after a call, or after reasoning
  };

  // Each reads what it can from the front of pending_. Returns whether there may be more to read.
  bool step();
  bool step_start();
  bool step_reasoning();
  bool step_mention();
  /// The text from a call's mark on in reasoning is no call.
  void end_mention();
  bool step_content();
  bool step_opened();
  bool step_wrapper();
  bool step_call();
  bool step_between();

  /// Emits `size` bytes of pending_, except the blanks at their end, which are held until more text follows.
  void emit_trimmed(AnswerDelta::Kind kind, std::size_t size);
  void begin_call();
  void emit_read_call();
  /// Ends a call that turned out to be none: the text read so far becomes content.
  void give_up();
  void finish_text(bool is_cut);
  void finish_thought(bool is_cut);
  [[nodiscard]] std::string_view last_closing() const {
    return marks_.closings[1].empty() ? marks_.closings[0] : marks_.closings[1];
  }
  [[nodiscard]] bool may_be_half_a_call() const;
  void skip_blanks() { pending_.erase(0, std::min(pending_.find_first_not_of(blanks), pending_.size())); }
  [[nodiscard]] bool may_begin_unmarked() const { return format_.has_tools && !marks_.is_marked && calls() == 0; }

  /// The first of these texts in pending_, and where it is; else the number of bytes at the end that may be part of one.
  struct FoundMark {
    std::string_view mark{};
    std::size_t at = std::string::npos;
    std::size_t partial = 0;
  };
  [[nodiscard]] FoundMark first_mark(std::initializer_list<std::string_view> marks) const;
  [[nodiscard]] FoundMark call_mark_in_text() const;

  AnswerFormat format_;
  const ToolCallFormat& marks_;
  Place place_;
  std::string pending_;                     // not yet read
  std::string held_;                        // blanks after the last text, emitted if more of it follows
  std::string lead_;                        // text read before a call, emitted if it is not a call
  std::unique_ptr<ToolCallReader> reader_;  // null before the first character of a call
  // A call in reasoning: its text from its mark on, and what reads it. It counts if the reasoning is never closed.
  std::string mention_;
  std::unique_ptr<MarkedAnswerReader> mentioned_;
  std::string_view mention_mark_;
  bool is_bare_ = false;     // the call began without an opening
  bool named_ = false;       // the name of the call was emitted
  bool in_list_ = false;     // inside a list [ ] of calls
  bool in_section_ = false;  // calls may follow each other
  bool in_wrapper_ = false;
  bool had_text_ = false;  // text of the current kind was emitted
};

void MarkedAnswerReader::emit_trimmed(AnswerDelta::Kind kind, std::size_t size) {
  std::string text = std::exchange(held_, "") + pending_.substr(0, size);
  pending_.erase(0, size);
  if (!had_text_ && (kind == AnswerDelta::Kind::reasoning || calls() > 0)) {
    text.erase(0, std::min(text.find_first_not_of(blanks), text.size()));
  }
  const std::size_t end = text.find_last_not_of(blanks) + 1;
  had_text_ = had_text_ || end > 0;
  emit(kind, std::string_view(text).substr(0, end));
  held_ = text.substr(end);
}

bool MarkedAnswerReader::step() {
  switch (place_) {
    case Place::start:
      return step_start();
    case Place::reasoning:
      return step_reasoning();
    case Place::content:
      return step_content();
    case Place::opened:
      return step_opened();
    case Place::wrapper:
      return step_wrapper();
    case Place::call:
      return step_call();
    case Place::between:
      return step_between();
  }
  throw LogicError("an unknown place in an answer");
}

bool MarkedAnswerReader::step_start() {
  const std::size_t first = pending_.find_first_not_of(blanks);
  if (first == std::string::npos) {
    return false;
  }
  const std::string_view text = std::string_view(pending_).substr(first);
  if (format_.splits_reasoning && text.starts_with(format_.reasoning.begin)) {
    pending_.erase(0, first + format_.reasoning.begin.size());
    place_ = Place::reasoning;
    return true;
  }
  if (format_.splits_reasoning && format_.reasoning.begin.starts_with(text)) {
    return false;
  }
  if (may_begin_unmarked() && text[0] == '{') {
    lead_ = pending_.substr(0, first);
    pending_.erase(0, first);
    if (format_.style == ToolCallStyle::generic) {
      place_ = Place::wrapper;
    } else {
      begin_call();
    }
    return true;
  }
  place_ = Place::content;
  return true;
}

MarkedAnswerReader::FoundMark MarkedAnswerReader::first_mark(std::initializer_list<std::string_view> marks) const {
  FoundMark found;
  for (const std::string_view mark : marks) {
    const std::size_t at = mark.empty() ? std::string::npos : pending_.find(mark);
    if (at < found.at) {
      found.mark = mark;
      found.at = at;
    }
    found.partial = std::max(found.partial, partial_mark(pending_, mark));
  }
  return found;
}

MarkedAnswerReader::FoundMark MarkedAnswerReader::call_mark_in_text() const {
  const ReasoningMarks& text = format_.reasoning;
  if (!format_.has_tools) {
    return first_mark({text.text_begin, text.text_end});
  }
  return first_mark(
      {marks_.opening, marks_.other_opening, marks_.is_marked ? marks_.bare : "", text.text_begin, text.text_end});
}

bool MarkedAnswerReader::step_reasoning() {
  if (mentioned_ != nullptr) {
    return step_mention();
  }
  const std::string_view end = format_.reasoning.end;
  const FoundMark found =
      format_.has_tools ? first_mark({end, marks_.opening, marks_.other_opening, marks_.bare}) : first_mark({end});
  if (found.at == std::string::npos) {
    emit_trimmed(AnswerDelta::Kind::reasoning, pending_.size() - found.partial);
    return false;
  }
  emit_trimmed(AnswerDelta::Kind::reasoning, found.at);
  if (found.mark != end) {
    AnswerFormat inside = format_;
    inside.splits_reasoning = inside.reasoning_is_open = false;
    mentioned_ = std::make_unique<MarkedAnswerReader>(std::move(inside));
    mention_mark_ = found.mark;
    return true;
  }
  pending_.erase(0, end.size());
  held_.clear();
  had_text_ = false;
  format_.splits_reasoning = false;
  // Blanks between reasoning and answer belong to neither.
  place_ = Place::between;
  return true;
}

/// Reads a call in reasoning. It is part of the reasoning if this is closed later, or if it turns out to be none.
bool MarkedAnswerReader::step_mention() {
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    mention_ += pending_[i];
    if (mention_.ends_with(format_.reasoning.end)) {
      pending_.replace(0, i + 1, mention_);
      emit_trimmed(AnswerDelta::Kind::reasoning, mention_.size() - format_.reasoning.end.size());
      mention_.clear();
      mentioned_ = nullptr;
      return true;
    }
    mentioned_->add({&pending_[i], 1});
    if (mentioned_->calls() == 0 && mentioned_->has_deltas()) {
      pending_.erase(0, i + 1);
      end_mention();
      return true;
    }
  }
  pending_.clear();
  return false;
}

void MarkedAnswerReader::end_mention() {
  // Another call may begin in this text. Text that was long taken for a call is not searched again, so that the work
  // stays linear.
  constexpr std::size_t longest_searched_again = 1024;
  const std::size_t kept = format_.reasoning.end.size() - 1;
  const bool is_short = mention_.size() <= longest_searched_again;
  const std::size_t done = is_short ? mention_mark_.size() : mention_.size() - kept;
  pending_.insert(0, mention_);
  mention_.clear();
  mentioned_ = nullptr;
  emit_trimmed(AnswerDelta::Kind::reasoning, done);
}

bool MarkedAnswerReader::step_content() {
  const FoundMark found = call_mark_in_text();
  const bool may_call = format_.has_tools && !(marks_.opening.empty() && marks_.other_opening.empty());
  if (found.at == std::string::npos) {
    if (may_call) {
      emit_trimmed(AnswerDelta::Kind::content, pending_.size() - found.partial);
    } else {
      std::string text = std::exchange(held_, "") + pending_.substr(0, pending_.size() - found.partial);
      pending_.erase(0, pending_.size() - found.partial);
      emit(AnswerDelta::Kind::content, text);
    }
    return false;
  }
  emit_trimmed(AnswerDelta::Kind::content, found.at);
  if (found.mark == format_.reasoning.text_begin || found.mark == format_.reasoning.text_end) {
    pending_.erase(0, found.mark.size());
    return true;
  }
  is_bare_ = found.mark == marks_.bare;
  lead_ = std::exchange(held_, "");
  if (is_bare_) {
    in_section_ = marks_.is_section;
    begin_call();
    return true;
  }
  lead_ += found.mark;
  pending_.erase(0, found.mark.size());
  place_ = Place::opened;
  return true;
}

bool MarkedAnswerReader::step_opened() {
  const std::size_t first = pending_.find_first_not_of(blanks);
  if (first == std::string::npos) {
    return false;
  }
  in_section_ = marks_.is_section;
  in_list_ = marks_.is_list && pending_[first] == '[';
  if (in_list_) {
    lead_ += pending_.substr(0, first + 1);
    pending_.erase(0, first + 1);
  }
  begin_call();
  return true;
}

/// Reads `{"tool_calls": [` or the call itself.
bool MarkedAnswerReader::step_wrapper() {
  static constexpr std::string_view expected = "{\"tool_calls\":[";
  const auto may_skip = [](std::size_t place) { return place == 1 || place >= expected.size() - 2; };
  std::size_t matched = 0;
  for (std::size_t i = 0; i < pending_.size() && matched < expected.size(); ++i) {
    if (pending_[i] == expected[matched]) {
      if (++matched == expected.size()) {
        lead_ += pending_.substr(0, i + 1);
        pending_.erase(0, i + 1);
        in_list_ = in_wrapper_ = true;
        begin_call();
        return true;
      }
    } else if (blanks.find(pending_[i]) == std::string_view::npos || !may_skip(matched)) {
      begin_call();
      return true;
    }
  }
  return false;
}

void MarkedAnswerReader::begin_call() {
  reader_ = nullptr;
  named_ = false;
  place_ = Place::call;
}

void MarkedAnswerReader::emit_read_call() {
  if (!named_ && reader_->has_name()) {
    named_ = true;
    emit_call(reader_->name(), reader_->id());
  }
  if (named_) {
    emit(AnswerDelta::Kind::arguments, reader_->take_arguments());
  }
}

bool MarkedAnswerReader::step_call() {
  if (reader_ == nullptr) {
    const std::size_t first = pending_.find_first_not_of(blanks);
    lead_ += pending_.substr(0, first);
    pending_.erase(0, first);
    if (pending_.empty()) {
      return false;
    }
    reader_ = make_tool_call_reader(marks_, in_list_, pending_[0], format_.tools.get());
  }
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    const ToolCallReader::Status status = reader_->feed(pending_[i]);
    const bool is_known = (marks_.is_marked && !is_bare_) || in_wrapper_ || !reader_->has_name() ||
                          std::ranges::find(format_.tool_names, reader_->name()) != format_.tool_names.end();
    if (status == ToolCallReader::Status::failed || !is_known) {
      pending_.erase(0, i + 1);
      if (is_known) {
        emit_read_call();  // the result must not depend on where the text was cut
      }
      give_up();
      return true;
    }
    if (status == ToolCallReader::Status::done) {
      pending_.erase(0, i + 1);
      emit_read_call();
      lead_.clear();
      had_text_ = false;
      place_ = Place::between;
      return true;
    }
  }
  pending_.clear();
  emit_read_call();
  return false;
}

void MarkedAnswerReader::give_up() {
  place_ = Place::content;
  in_list_ = in_wrapper_ = in_section_ = is_bare_ = false;
  if (named_) {  // a call that breaks off: its rest can't be told from arguments
    emit_read_call();
    return;
  }
  const std::string text = std::exchange(lead_, "") + (reader_ == nullptr ? "" : reader_->raw());
  had_text_ = true;
  emit(AnswerDelta::Kind::content, std::exchange(held_, "") + text);
}

bool MarkedAnswerReader::step_between() {
  skip_blanks();
  if (pending_.empty()) {
    return false;
  }
  if (calls() > 0 && format_.single_call) {
    pending_.clear();
    return false;
  }
  if (calls() == 0) {  // after reasoning, not after a call
    place_ = Place::start;
    return true;
  }
  if (in_list_ && pending_[0] == ',') {
    pending_.erase(0, 1);
    begin_call();
    return true;
  }
  if (in_list_ && pending_[0] == ']') {
    pending_.erase(0, 1);
    in_list_ = false;
    return true;
  }
  if (in_wrapper_ && pending_[0] == '}') {
    pending_.erase(0, 1);
    in_wrapper_ = false;
    return true;
  }
  for (const std::string_view closing : marks_.closings) {
    if (!closing.empty() && pending_.starts_with(closing)) {
      pending_.erase(0, closing.size());
      in_section_ = in_section_ && closing != last_closing();
      return true;
    }
    if (closing.starts_with(pending_)) {
      return false;
    }
  }
  if (in_section_) {
    begin_call();
    return true;
  }
  if (format_.style == ToolCallStyle::llama3 && (pending_[0] == ';' || pending_[0] == ',')) {
    lead_ = pending_.substr(0, 1);
    pending_.erase(0, 1);
    begin_call();
    return true;
  }
  place_ = Place::content;
  return true;
}

void MarkedAnswerReader::finish_text(bool is_cut) {
  if (is_cut) {
    pending_.resize(pending_.size() - call_mark_in_text().partial);
  }
  if (calls() == 0) {
    emit(AnswerDelta::Kind::content, std::exchange(held_, "") + std::exchange(pending_, ""));
  } else {
    emit_trimmed(AnswerDelta::Kind::content, pending_.size());
  }
}

/// Whether the text of the current call may be the beginning of one. Without a mark, JSON with other keys than those of a
/// call is an answer in JSON.
bool MarkedAnswerReader::may_be_half_a_call() const {
  return marks_.is_marked || in_wrapper_ || calls() > 0 || reader_ == nullptr || reader_->may_be_call();
}

/// Ends an answer whose reasoning was never closed: a whole call in it is a call, unless a limit cut the reasoning off.
void MarkedAnswerReader::finish_thought(bool is_cut) {
  if (mentioned_ != nullptr && !is_cut && mentioned_->calls() > 0 && !mentioned_->is_inside_call()) {
    mentioned_->finish(false);
    append(mentioned_->take());
    return;
  }
  pending_.insert(0, std::exchange(mention_, ""));
  emit_trimmed(AnswerDelta::Kind::reasoning, pending_.size() - (is_cut ? partial_mark(pending_, format_.reasoning.end) : 0));
}

void MarkedAnswerReader::finish(bool is_cut) {
  switch (place_) {
    case Place::reasoning:
      finish_thought(is_cut);
      break;
    case Place::start:
      if (is_cut && format_.splits_reasoning && format_.reasoning.begin.starts_with(trimmed(pending_))) {
        pending_.clear();
      }
      [[fallthrough]];
    case Place::content:
      finish_text(is_cut);
      break;
    case Place::opened:
    case Place::wrapper:
      if (!is_cut) {
        emit(AnswerDelta::Kind::content, lead_ + std::exchange(pending_, ""));
      }
      break;
    case Place::call:
      if (!named_ && !(calls() > 0 && reader_ == nullptr) && !(is_cut && may_be_half_a_call())) {
        give_up();
      }
      break;
    case Place::between:
      break;
  }
}

}  // namespace

AnswerParser::AnswerParser(AnswerFormat format) {
  if (format.in_channels) {
    reader_ = make_harmony_reader(std::move(format));
  } else {
    reader_ = std::make_unique<MarkedAnswerReader>(std::move(format));
  }
}
AnswerParser::~AnswerParser() = default;
AnswerParser::AnswerParser(AnswerParser&&) noexcept = default;
AnswerParser& AnswerParser::operator=(AnswerParser&&) noexcept = default;

std::vector<AnswerDelta> AnswerParser::add(std::string_view text) {
  reader_->add(text);
  return reader_->take();
}

std::vector<AnswerDelta> AnswerParser::finish(bool is_cut) {
  reader_->finish(is_cut);
  return reader_->take();
}

std::int32_t AnswerParser::calls() const { return reader_->calls(); }
bool AnswerParser::is_inside_call() const { return reader_->is_inside_call(); }

ParsedAnswer parse_answer(std::string_view text, const AnswerFormat& format, bool is_cut) {
  AnswerParser parser(format);
  std::vector<AnswerDelta> deltas = parser.add(text);
  for (AnswerDelta& delta : parser.finish(is_cut)) {
    deltas.push_back(std::move(delta));
  }
  ParsedAnswer answer;
  for (AnswerDelta& delta : deltas) {
    switch (delta.kind) {
      case AnswerDelta::Kind::content:
        answer.content += delta.text;
        break;
      case AnswerDelta::Kind::reasoning:
        answer.reasoning += delta.text;
        break;
      case AnswerDelta::Kind::call:
        answer.calls.push_back({std::move(delta.id), std::move(delta.text), ""});
        break;
      case AnswerDelta::Kind::arguments:
        answer.calls.back().arguments += delta.text;
        break;
    }
  }
  return answer;
}

}  // namespace rocmforge
