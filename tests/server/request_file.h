#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

// The files of tests/server/requests: requests, the tokens that the model draws, and what is expected. A file holds blocks:
//
//   # a comment
//   model <think>so</think>well
//   POST /v1/messages
//   {"messages": [{"role": "user", "content": "q"}], "max_tokens": 9}
//   ---- 200
//   x-ignored-fields: system
//   {"content": [{"type": "text", "text": "well"}], "id": "msg_*", "...": "*"}
//   ---- stream
//   {"type": "message_start", "...": "*"}
//
//   POST /v1/responses
//   {"input": "hi", "max_output_tokens": 0}
//   ---- 400 max_output_tokens
//
// A body and a whole answer may have several lines. An empty line ends a block.
// - "---- STATUS": what the request is answered with, and headers of the answer. Of a refusal: the field that it names. Its
//   message begins with that name, and OpenAI's form of errors has it in `param`.
// - "---- stream": the events of the same request with "stream": true, one a line, and "[DONE]" where the API has it.
//   Neighbours that differ in their piece of a text alone are one event with the whole text. Numbers of events and times
//   are left out.
// - In what is expected, "*" stands for any value, "abc*" for any text that begins so, and a member "..." for any others.
// - "model TEXT": a new model for the blocks below. It says TEXT after each prompt that ends with the mark, byte by byte.
//   Without a TEXT it draws what the request allows, as does the model of a file without this line.
// - "encoder", "reranker": a model that gives embeddings, or scores, for the blocks below.
// - "template TEXT", "mark CHARACTER": of the models below. A template ends its prompts with the mark, '|' at first, which
//   no TEXT holds. In both TEXTs \n is the end of a line.

namespace rocmforge {

using Json = nlohmann::ordered_json;

struct ExpectedAnswer {
  int line = 0;  ///< of its file
  bool is_stream = false;
  int status = 200;
  std::string field{};
  std::vector<std::pair<std::string, std::string>> headers{};
  std::vector<Json> events{};  ///< of a whole answer its body, if it is given
};

struct RequestBlock {
  int line = 0;
  std::string method{}, path{}, body{};
  std::vector<ExpectedAnswer> expected{};
};

/// Requests to one model.
struct RequestSection {
  std::string chat_template{};  ///< empty: the usual one
  char mark = '|';
  std::optional<std::string> script{};
  bool is_encoder = false;
  bool is_reranker = false;
  std::vector<RequestBlock> blocks{};
};

/// Throws std::runtime_error with file and line for what has another form.
std::vector<RequestSection> read_request_file(const std::string& path);

/// The data of the events of a stream, in either form ("data: ..." or a line each), as they are compared. Throws
/// std::runtime_error for an event whose name is not its type and for numbers that do not count from 0.
std::vector<Json> stream_events(std::string_view body);

/// Where `actual` is not as expected, and how; "" where it is.
std::string difference(const Json& expected, const Json& actual, const std::string& place = "");
std::string difference(const std::vector<Json>& expected, const std::vector<Json>& actual);

/// Why a refusal does not name the field; "" where it does.
std::string wrong_refusal(const Json& refusal, const std::string& field);

}  // namespace rocmforge
