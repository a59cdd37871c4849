#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/local_server.h"
#include "service/reading.h"

// Shared by the tests of APIs other than chat completions.

namespace rocmforge {

/// A template that shows all it gets and ends a message with '|'.
inline TestServerOptions options_that_show_all() {
  TestServerOptions options;
  options.server.chat_template =
      "{% for t in tools or [] %}{{ t.function.name }} {% endfor %}{% for m in messages %}{{ m.content }}"
      "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}"
      "{{ '<think>' if enable_thinking is defined and enable_thinking }}|{% endfor %}";
  return options;
}

/// What reading a request may use, without limits of memory.
struct FreeReading : Reading {
  FreeReading() : Reading(200'000'000, nullptr, "") {}
};

inline Json user(Json content) { return {{"role", "user"}, {"content", std::move(content)}}; }

/// The events of a streamed answer, each named as its type says.
template <class Server>
std::vector<Json> named_events(const Server& server, std::string_view path, Json request) {
  request["stream"] = true;
  const HttpAnswer answer = post(server, path, request);
  EXPECT_EQ(answer.status, 200) << answer.body;
  std::vector<Json> events;
  for (std::size_t at = 0; at < answer.body.size();) {
    const std::size_t end = answer.body.find("\n\n", at);
    const std::string event = answer.body.substr(at, end - at);
    const std::size_t data = event.find("\ndata: ");
    if (end == std::string::npos || !event.starts_with("event: ") || data == std::string::npos) {
      ADD_FAILURE() << "no event: " << event;
      break;
    }
    events.push_back(Json::parse(event.substr(data + 7)));
    EXPECT_EQ(event.substr(7, data - 7), events.back()["type"].get<std::string>());
    at = end + 2;
  }
  return events;
}

}  // namespace rocmforge
