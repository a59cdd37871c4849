#include "chat/tool_calls.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "chat/tool_call_object.h"

namespace rocmforge {
namespace {

constexpr std::string_view blanks = " \t\r\n";
constexpr std::string_view think_begin = "<think>";
constexpr std::string_view think_end = "</think>";

/// What stands around calls; where `opening` is unmarked, a call begins with the answer.
struct StyleMarks {
  std::string_view name, opening, closing;
  bool is_list = false;   ///< calls stand in [ ]
  bool is_marked = true;  ///< a call needs the opening
};

constexpr std::array<StyleMarks, 6> marks = {{{"generic", "", "", false, false},
                                              {"hermes", "<tool_call>", "</tool_call>", false, true},
                                              {"llama3", "<|python_tag|>", "", false, false},
                                              {"mistral", "[TOOL_CALLS]", "", true, true},
                                              {"mistral-named", "[TOOL_CALLS]", "", true, true},
                                              {"granite", "<|tool_call|>", "", true, true}}};

const StyleMarks& marks_of(ToolCallStyle style) { return marks[static_cast<std::size_t>(style)]; }

/// The longest end of `text` that begins `mark` without being all of it.
std::size_t partial_mark(std::string_view text, std::string_view mark) {
  for (std::size_t size = std::min(text.size(), mark.empty() ? 0 : mark.size() - 1); size > 0; --size) {
    if (mark.starts_with(text.substr(text.size() - size))) {
      return size;
    }
  }
  return 0;
}

}  // namespace

std::string_view name(ToolCallStyle style) { return marks_of(style).name; }

ToolCallStyle detect_tool_call_style(const ChatTemplate& chat_template) {
  const std::string& source = chat_template.source();
  const auto has = [&](std::string_view mark) { return source.find(mark) != std::string::npos; };
  if (!chat_template.abilities().takes_tools()) {
    return ToolCallStyle::generic;
  }
  if (has("[TOOL_CALLS]")) {
    return has("[ARGS]") ? ToolCallStyle::mistral_named : ToolCallStyle::mistral;
  }
  if (has("<|tool_call|>")) {
    return ToolCallStyle::granite;
  }
  if (has("<tool_call>") && !has("<arg_key>") && !has("<function=")) {
    return ToolCallStyle::hermes;
  }
  return has("<|python_tag|>") || has("\"parameters\": ") ? ToolCallStyle::llama3 : ToolCallStyle::generic;
}

std::string tool_call_id(std::uint64_t random) {
  constexpr std::string_view characters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  std::string id;
  for (int i = 0; i < 9; ++i) {
    id += characters[random % characters.size()];
    random /= characters.size();
  }
  return id;
}

class AnswerParser::State {
 public:
  explicit State(AnswerFormat format) : format_(std::move(format)), marks_(marks_of(format_.style)), place_(Place::start) {
    if (format_.reasoning_is_open && format_.splits_reasoning) {
      place_ = Place::reasoning;
    }
  }

  void add(std::string_view text) {
    pending_ += text;
    while (step()) {
    }
  }
  void finish(bool is_cut);
  std::vector<AnswerDelta> take() { return std::exchange(out_, {}); }
  [[nodiscard]] std::int32_t calls() const { return calls_; }
  [[nodiscard]] bool is_inside_call() const { return place_ == Place::object && named_; }

 private:
  enum class Place {
    start,      // before anything but blanks
    reasoning,  // up to </think>
    content,
    opened,   // behind an opening: a list or an object comes
    wrapper,  // inside {"tool_calls" of the generic style
    object,   // a call
    between,  // behind a call
  };

  // Each takes what it understands from the front of pending_, and tells whether there may be more to do.
  bool step();
  bool step_start();
  bool step_reasoning();
  bool step_content();
  bool step_opened();
  bool step_named_call(std::size_t first);
  bool step_wrapper();
  bool step_object();
  bool step_between();

  void emit(AnswerDelta::Kind kind, std::string_view text);
  /// Gives out `size` bytes of pending_, all but blanks at their end, which wait for what follows them.
  void emit_trimmed(AnswerDelta::Kind kind, std::size_t size);
  void begin_object();
  void emit_call();
  /// It was no call: what was read of it is content.
  void give_up();
  void finish_text(bool is_cut);
  [[nodiscard]] bool may_be_half_a_call() const;
  void skip_blanks() { pending_.erase(0, std::min(pending_.find_first_not_of(blanks), pending_.size())); }
  [[nodiscard]] bool may_begin_unmarked() const { return format_.has_tools && !marks_.is_marked && calls_ == 0; }

  AnswerFormat format_;
  const StyleMarks& marks_;
  Place place_;
  std::string pending_;  // not looked at yet
  std::string held_;     // blanks of the text before, given out if more of it comes
  std::string lead_;     // what was read before an object, given back if it is none
  ToolCallObject object_;
  bool named_ = false;    // the object's name was given out
  bool in_list_ = false;  // calls stand in [ ]
  bool in_wrapper_ = false;
  bool had_text_ = false;  // of the kind that is given out now
  std::int32_t calls_ = 0;
  std::vector<AnswerDelta> out_;
};

void AnswerParser::State::emit(AnswerDelta::Kind kind, std::string_view text) {
  if (text.empty()) {
    return;
  }
  const std::int32_t index = kind == AnswerDelta::Kind::arguments ? calls_ - 1 : 0;
  if (!out_.empty() && out_.back().kind == kind && out_.back().index == index) {
    out_.back().text += text;
  } else {
    out_.push_back({kind, std::string(text), index, ""});
  }
}

void AnswerParser::State::emit_trimmed(AnswerDelta::Kind kind, std::size_t size) {
  std::string text = std::exchange(held_, "") + pending_.substr(0, size);
  pending_.erase(0, size);
  if (!had_text_ && (kind == AnswerDelta::Kind::reasoning || calls_ > 0)) {
    text.erase(0, std::min(text.find_first_not_of(blanks), text.size()));
  }
  const std::size_t end = text.find_last_not_of(blanks) + 1;
  had_text_ = had_text_ || end > 0;
  emit(kind, std::string_view(text).substr(0, end));
  held_ = text.substr(end);
}

bool AnswerParser::State::step() {
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
    case Place::object:
      return step_object();
    case Place::between:
      return step_between();
  }
  throw LogicError("a place of an answer without a meaning");
}

bool AnswerParser::State::step_start() {
  const std::size_t first = pending_.find_first_not_of(blanks);
  if (first == std::string::npos) {
    return false;
  }
  const std::string_view text = std::string_view(pending_).substr(first);
  if (format_.splits_reasoning && text.starts_with(think_begin)) {
    pending_.erase(0, first + think_begin.size());
    place_ = Place::reasoning;
    return true;
  }
  if (format_.splits_reasoning && think_begin.starts_with(text)) {
    return false;
  }
  if (may_begin_unmarked() && text[0] == '{') {
    lead_ = pending_.substr(0, first);
    pending_.erase(0, first);
    if (format_.style == ToolCallStyle::generic) {
      place_ = Place::wrapper;
    } else {
      begin_object();
    }
    return true;
  }
  place_ = Place::content;
  return true;
}

bool AnswerParser::State::step_reasoning() {
  const std::size_t end = pending_.find(think_end);
  if (end == std::string::npos) {
    emit_trimmed(AnswerDelta::Kind::reasoning, pending_.size() - partial_mark(pending_, think_end));
    return false;
  }
  emit_trimmed(AnswerDelta::Kind::reasoning, end);
  pending_.erase(0, think_end.size());
  held_.clear();
  had_text_ = false;
  format_.splits_reasoning = false;
  // Blanks between reasoning and answer belong to neither.
  place_ = Place::between;
  return true;
}

bool AnswerParser::State::step_content() {
  if (!format_.has_tools || marks_.opening.empty()) {
    emit(AnswerDelta::Kind::content, std::exchange(held_, "") + std::exchange(pending_, ""));
    return false;
  }
  const std::size_t opening = pending_.find(marks_.opening);
  if (opening == std::string::npos) {
    emit_trimmed(AnswerDelta::Kind::content, pending_.size() - partial_mark(pending_, marks_.opening));
    return false;
  }
  emit_trimmed(AnswerDelta::Kind::content, opening);
  lead_ = std::exchange(held_, "") + std::string(marks_.opening);
  pending_.erase(0, marks_.opening.size());
  place_ = Place::opened;
  return true;
}

bool AnswerParser::State::step_opened() {
  const std::size_t first = pending_.find_first_not_of(blanks);
  if (first == std::string::npos) {
    return false;
  }
  in_list_ = marks_.is_list && pending_[first] == '[';
  if (in_list_) {
    lead_ += pending_.substr(0, first + 1);
    pending_.erase(0, first + 1);
  } else if (marks_.opening == "[TOOL_CALLS]" && pending_[first] != '{') {
    return step_named_call(first);
  }
  begin_object();
  return true;
}

/// `f[CALL_ID]id[ARGS]` up to the arguments; where no name can be, the opening was none.
bool AnswerParser::State::step_named_call(std::size_t first) {
  constexpr std::size_t longest_name = 256;
  constexpr std::string_view id_mark = "[CALL_ID]";
  constexpr std::string_view arguments_mark = "[ARGS]";
  const std::size_t brace = pending_.find('{');
  const std::string_view head = std::string_view(pending_).substr(first, brace == std::string::npos ? brace : brace - first);
  const std::size_t end = head.find_last_not_of(blanks) + 1;
  const bool may_be_name = end <= longest_name && head.substr(0, end).find_first_of(blanks) == std::string_view::npos;
  if (brace == std::string::npos && may_be_name) {
    return false;
  }
  std::string_view name = head.substr(0, end);
  name.remove_suffix(name.ends_with(arguments_mark) ? arguments_mark.size() : 0);
  const std::size_t mark = std::min(name.find(id_mark), name.size());
  const std::string id(name.substr(std::min(mark + id_mark.size(), name.size())));
  name = name.substr(0, mark);
  if (!may_be_name || name.empty()) {
    had_text_ = true;
    emit(AnswerDelta::Kind::content, std::exchange(lead_, ""));
    place_ = Place::content;
    return true;
  }
  lead_ += pending_.substr(0, brace);
  begin_object();
  object_ = ToolCallObject(std::string(name), id);
  pending_.erase(0, brace);
  return true;
}

/// `{"tool_calls": [` or the call itself.
bool AnswerParser::State::step_wrapper() {
  static constexpr std::string_view expected = "{\"tool_calls\":[";
  const auto may_skip = [](std::size_t place) { return place == 1 || place >= expected.size() - 2; };
  std::size_t matched = 0;
  for (std::size_t i = 0; i < pending_.size() && matched < expected.size(); ++i) {
    if (pending_[i] == expected[matched]) {
      if (++matched == expected.size()) {
        lead_ += pending_.substr(0, i + 1);
        pending_.erase(0, i + 1);
        in_list_ = in_wrapper_ = true;
        begin_object();
        return true;
      }
    } else if (blanks.find(pending_[i]) == std::string_view::npos || !may_skip(matched)) {
      begin_object();
      return true;
    }
  }
  return false;
}

void AnswerParser::State::begin_object() {
  object_ = ToolCallObject();
  named_ = false;
  place_ = Place::object;
}

void AnswerParser::State::emit_call() {
  if (!named_ && object_.has_name()) {
    named_ = true;
    out_.push_back({AnswerDelta::Kind::call, object_.name(), calls_++, object_.id()});
  }
  if (named_) {
    emit(AnswerDelta::Kind::arguments, object_.take_arguments());
  }
}

bool AnswerParser::State::step_object() {
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    const ToolCallObject::Status status = object_.feed(pending_[i]);
    const bool is_known = marks_.is_marked || in_wrapper_ || !object_.has_name() ||
                          std::ranges::find(format_.tool_names, object_.name()) != format_.tool_names.end();
    if (status == ToolCallObject::Status::failed || !is_known) {
      pending_.erase(0, i + 1);
      give_up();
      return true;
    }
    if (status == ToolCallObject::Status::done) {
      pending_.erase(0, i + 1);
      emit_call();
      lead_.clear();
      had_text_ = false;
      place_ = Place::between;
      return true;
    }
  }
  pending_.clear();
  emit_call();
  return false;
}

void AnswerParser::State::give_up() {
  place_ = Place::content;
  in_list_ = in_wrapper_ = false;
  if (named_) {  // a call that breaks off: what is left can't be told from its arguments
    emit_call();
    return;
  }
  const std::string text = std::exchange(lead_, "") + object_.raw();
  had_text_ = true;
  emit(AnswerDelta::Kind::content, std::exchange(held_, "") + text);
}

bool AnswerParser::State::step_between() {
  skip_blanks();
  if (pending_.empty()) {
    return false;
  }
  if (calls_ > 0 && format_.single_call) {
    pending_.clear();
    return false;
  }
  if (calls_ == 0) {  // behind reasoning
    place_ = Place::start;
    return true;
  }
  if (in_list_ && pending_[0] == ',') {
    pending_.erase(0, 1);
    begin_object();
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
  if (!marks_.closing.empty() && pending_.starts_with(marks_.closing)) {
    pending_.erase(0, marks_.closing.size());
    return true;
  }
  if (marks_.closing.starts_with(pending_)) {
    return false;
  }
  if (format_.style == ToolCallStyle::llama3 && (pending_[0] == ';' || pending_[0] == ',')) {
    lead_ = pending_.substr(0, 1);
    pending_.erase(0, 1);
    begin_object();
    return true;
  }
  place_ = Place::content;
  return true;
}

void AnswerParser::State::finish_text(bool is_cut) {
  if (is_cut && format_.has_tools) {
    pending_.resize(pending_.size() - partial_mark(pending_, marks_.opening));
  }
  if (calls_ == 0) {
    emit(AnswerDelta::Kind::content, std::exchange(held_, "") + std::exchange(pending_, ""));
  } else {
    emit_trimmed(AnswerDelta::Kind::content, pending_.size());
  }
}

/// Of the object that is being read. JSON that no mark makes a call, and whose keys are not a call's, is an answer in JSON.
bool AnswerParser::State::may_be_half_a_call() const {
  return marks_.is_marked || in_wrapper_ || calls_ > 0 || object_.has_only_keys_of_calls();
}

void AnswerParser::State::finish(bool is_cut) {
  switch (place_) {
    case Place::reasoning:
      emit_trimmed(AnswerDelta::Kind::reasoning, pending_.size());
      break;
    case Place::start:
    case Place::content:
      finish_text(is_cut);
      break;
    case Place::opened:
    case Place::wrapper:
      if (!is_cut) {
        emit(AnswerDelta::Kind::content, lead_ + std::exchange(pending_, ""));
      }
      break;
    case Place::object:
      if (!named_ && !(calls_ > 0 && object_.raw().find_first_not_of(blanks) == std::string::npos) &&
          !(is_cut && may_be_half_a_call())) {
        give_up();
      }
      break;
    case Place::between:
      break;
  }
}

AnswerParser::AnswerParser(AnswerFormat format) : state_(std::make_unique<State>(std::move(format))) {}
AnswerParser::~AnswerParser() = default;
AnswerParser::AnswerParser(AnswerParser&&) noexcept = default;
AnswerParser& AnswerParser::operator=(AnswerParser&&) noexcept = default;

std::vector<AnswerDelta> AnswerParser::add(std::string_view text) {
  state_->add(text);
  return state_->take();
}

std::vector<AnswerDelta> AnswerParser::finish(bool is_cut) {
  state_->finish(is_cut);
  return state_->take();
}

std::int32_t AnswerParser::calls() const { return state_->calls(); }
bool AnswerParser::is_inside_call() const { return state_->is_inside_call(); }

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
