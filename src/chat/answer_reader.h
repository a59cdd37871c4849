#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/answer_parser.h"

namespace rocmforge {

/// The interface behind AnswerParser, with one implementation for marked answers and one for the harmony format.
class AnswerReader {
 public:
  AnswerReader() = default;
  virtual ~AnswerReader() = default;
  AnswerReader(const AnswerReader&) = delete;
  AnswerReader& operator=(const AnswerReader&) = delete;

  virtual void add(std::string_view text) = 0;
  virtual void finish(bool is_cut) = 0;
  [[nodiscard]] virtual bool is_inside_call() const = 0;

  [[nodiscard]] bool has_deltas() const { return !out_.empty(); }
  std::vector<AnswerDelta> take() { return std::exchange(out_, {}); }
  [[nodiscard]] std::int32_t calls() const { return calls_; }

 protected:
  /// Adds a piece of content, reasoning or arguments.
  void emit(AnswerDelta::Kind kind, std::string_view text) {
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
  void emit_call(std::string_view name, std::string_view id) {
    out_.push_back({AnswerDelta::Kind::call, std::string(name), calls_++, std::string(id)});
  }
  /// Adds the pieces of another reader, which began with none of its own.
  void append(std::vector<AnswerDelta> deltas) {
    for (AnswerDelta& delta : deltas) {
      if (delta.kind == AnswerDelta::Kind::call) {
        emit_call(delta.text, delta.id);
      } else {
        emit(delta.kind, delta.text);
      }
    }
  }

 private:
  std::int32_t calls_ = 0;
  std::vector<AnswerDelta> out_;
};

/// The reader of answers that are messages with channels (AnswerFormat::in_channels).
std::unique_ptr<AnswerReader> make_harmony_reader(AnswerFormat format);

}  // namespace rocmforge
