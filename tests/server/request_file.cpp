#include "server/request_file.h"

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace rocmforge {
namespace {

std::string with_line_ends(std::string text) {
  for (std::size_t at = 0; (at = text.find("\\n", at)) != std::string::npos;) {
    text.replace(at, 2, "\n");
  }
  return text;
}

bool takes_word(std::string_view& line, std::string_view word) {
  if (!line.starts_with(word) || (line.size() > word.size() && line[word.size()] != ' ')) {
    return false;
  }
  line.remove_prefix(std::min(line.size(), word.size() + 1));
  return true;
}

/// Reads a file line by line.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(path) {}

  std::vector<RequestSection> read() {
    sections_.emplace_back();
    for (std::string line; std::getline(file_, line);) {
      ++number_;
      if (line.empty()) {
        end_block();
      } else if (!expected_.empty() || !answer_text_.empty()) {
        read_answer_line(line);
      } else if (is_open_) {
        read_body_line(line);
      } else if (!line.starts_with('#')) {
        read_head(line);
      }
    }
    end_block();
    if (sections_.front().blocks.empty()) {
      sections_.erase(sections_.begin());
    }
    return std::move(sections_);
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw std::runtime_error(path_ + ":" + std::to_string(number_) + ": " + problem);
  }
  Json parse(const std::string& text) const {
    try {
      return Json::parse(text);
    } catch (const Json::exception& error) {
      fail(error.what());
    }
  }

  void read_head(std::string_view line) {
    if (takes_word(line, "template")) {
      template_ = with_line_ends(std::string(line));
    } else if (takes_word(line, "mark")) {
      mark_ = line.empty() ? '|' : line.front();
    } else if (takes_word(line, "model")) {
      sections_.push_back({.chat_template = template_, .mark = mark_});
      if (!line.empty()) {
        sections_.back().script = with_line_ends(std::string(line));
      }
    } else if (takes_word(line, "encoder")) {
      sections_.push_back({.is_encoder = true});
    } else if (takes_word(line, "reranker")) {
      sections_.push_back({.is_encoder = true, .is_reranker = true});
    } else if (const std::size_t slash = line.find(" /"); slash != std::string_view::npos) {
      block_ = {.line = number_, .method = std::string(line.substr(0, slash)), .path = std::string(line.substr(slash + 1))};
      is_open_ = true;
    } else {
      fail("neither a request nor a setting");
    }
  }

  void read_body_line(const std::string& line) {
    if (line.starts_with("---- ")) {
      begin_answer(line.substr(5));
    } else {
      block_.body += line + "\n";
    }
  }

  void begin_answer(const std::string& words) {
    end_answer();
    ExpectedAnswer answer{.line = number_, .is_stream = words == "stream"};
    if (!answer.is_stream) {
      std::istringstream(words) >> answer.status >> answer.field;
    }
    expected_.push_back(std::move(answer));
  }

  void read_answer_line(const std::string& line) {
    ExpectedAnswer& answer = expected_.back();
    if (line.starts_with("---- ")) {
      begin_answer(line.substr(5));
    } else if (answer.is_stream) {
      answer.events.push_back(line == "[DONE]" ? Json(line) : parse(line));
    } else if (const std::size_t colon = line.find(": ");
               answer_text_.empty() && line.front() >= 'a' && line.front() <= 'z') {
      answer.headers.emplace_back(line.substr(0, colon), line.substr(colon + 2));
    } else {
      answer_text_ += line + "\n";
    }
  }

  void end_answer() {
    if (!answer_text_.empty()) {
      expected_.back().events.push_back(parse(answer_text_));
      answer_text_.clear();
    }
  }

  void end_block() {
    if (is_open_ && expected_.empty()) {
      fail("the request has no answer");
    }
    end_answer();
    if (is_open_) {
      block_.expected = std::move(expected_);
      sections_.back().blocks.push_back(std::move(block_));
    }
    expected_.clear();
    is_open_ = false;
  }

  std::string path_;
  std::ifstream file_;
  int number_ = 0;
  std::string template_;
  char mark_ = '|';
  bool is_open_ = false;
  RequestBlock block_;
  std::vector<ExpectedAnswer> expected_;  ///< of the open block
  std::string answer_text_;               ///< of the last of them
  std::vector<RequestSection> sections_;
};

/// The events and the data of each line.
std::vector<Json> raw_events(std::string_view body) {
  std::vector<Json> events;
  std::istringstream lines{std::string(body)};
  std::string name;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("event: ")) {
      name = line.substr(7);
    } else if (line == "data: [DONE]") {
      events.emplace_back("[DONE]");
    } else if (line.starts_with("data: ") || line.starts_with('{')) {
      events.push_back(Json::parse(line.substr(line.find('{'))));
      if (!name.empty() && events.back().value("type", "") != name) {
        throw std::runtime_error("an event with another name than its type: " + line);
      }
      name.clear();
    }
  }
  return events;
}

/// Takes out what says when an event came, and where in its stream.
void forget_place(std::vector<Json>& events) {
  std::size_t number = 0;
  for (Json& event : events) {
    if (!event.is_object()) {
      continue;
    }
    if (event.contains("sequence_number") && event["sequence_number"] != number++) {
      throw std::runtime_error("events are not numbered from 0: " + event.dump());
    }
    for (const char* name : {"sequence_number", "created_at"}) {
      event.erase(name);
    }
  }
}

/// Appends the text of `next` to the event before it, if they differ in nothing else.
bool joins(Json& event, const Json& next) {
  for (const char* name :
       {"/choices/0/delta/content", "/choices/0/delta/reasoning_content", "/choices/0/text",
        "/choices/0/delta/tool_calls/0/function/arguments", "/delta/text", "/delta/thinking", "/delta/partial_json",
        "/delta", "/message/content", "/message/thinking", "/thinking", "/response", "/content"}) {
    const Json::json_pointer place(name);
    if (!event.contains(place) || !next.contains(place) || !event[place].is_string() || !next[place].is_string()) {
      continue;
    }
    Json changed = event;
    changed[place] = next[place];
    if (changed == next && !next[place].get<std::string>().empty()) {
      event[place] = event[place].get<std::string>() + next[place].get<std::string>();
      return true;
    }
  }
  return false;
}

bool fits(const std::string& expected, const Json& actual) {
  return expected == "*" || (actual.is_string() && expected.ends_with('*') &&
                             actual.get<std::string>().starts_with(expected.substr(0, expected.size() - 1)));
}

std::string difference_of_objects(const Json& expected, const Json& actual, const std::string& place) {
  for (const auto& [name, value] : expected.items()) {
    if (name == "...") {
      continue;
    }
    if (!actual.contains(name)) {
      return place + "/" + name + " is missing";
    }
    if (std::string problem = difference(value, actual[name], place + "/" + name); !problem.empty()) {
      return problem;
    }
  }
  for (const auto& [name, value] : actual.items()) {
    if (!expected.contains("...") && !expected.contains(name)) {
      return place + "/" + name + " is " + value.dump() + ", expected is none";
    }
  }
  return "";
}

}  // namespace

std::vector<RequestSection> read_request_file(const std::string& path) { return Reader(path).read(); }

std::vector<Json> stream_events(std::string_view body) {
  std::vector<Json> events = raw_events(body);
  forget_place(events);
  std::vector<Json> joined;
  for (Json& event : events) {
    if (joined.empty() || !joins(joined.back(), event)) {
      joined.push_back(std::move(event));
    }
  }
  return joined;
}

std::string difference(const Json& expected, const Json& actual, const std::string& place) {
  if (expected.is_object() && actual.is_object()) {
    return difference_of_objects(expected, actual, place);
  }
  if (expected.is_array() && actual.is_array() && expected.size() == actual.size()) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (std::string problem = difference(expected[i], actual[i], place + "/" + std::to_string(i)); !problem.empty()) {
        return problem;
      }
    }
    return "";
  }
  if (expected == actual || (expected.is_string() && fits(expected.get<std::string>(), actual))) {
    return "";
  }
  return place + " is " + actual.dump() + ", expected is " + expected.dump();
}

std::string difference(const std::vector<Json>& expected, const std::vector<Json>& actual) {
  for (std::size_t i = 0; i < std::max(expected.size(), actual.size()); ++i) {
    if (i >= expected.size() || i >= actual.size()) {
      return std::to_string(actual.size()) + " events, expected are " + std::to_string(expected.size());
    }
    if (std::string problem = difference(expected[i], actual[i]); !problem.empty()) {
      return "event " + std::to_string(i) + ": " + problem;
    }
  }
  return "";
}

std::string wrong_refusal(const Json& refusal, const std::string& field) {
  const Json& error = refusal.at("error");
  const std::string message = error.is_string() ? error.get<std::string>() : error.at("message").get<std::string>();
  if (!message.starts_with(field) && !message.starts_with("the chat template refuses")) {
    return "the message does not begin with " + field;
  }
  if (error.is_object() && error.contains("param") && error["param"] != field) {
    return "param is " + error["param"].dump();
  }
  return "";
}

}  // namespace rocmforge
