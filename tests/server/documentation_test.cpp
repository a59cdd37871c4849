// The pages of the server are complete and correct: every route, field, limit and metric in them exists, and all that exist
// are in them.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "chat/jinja/interpreter.h"
#include "paths.h"
#include "server/api/prompts.h"
#include "server/api/unserved_fields.h"
#include "server/client.h"
#include "server/local_server.h"
#include "server/routes.h"

namespace rocmforge {
namespace {

/// The text of a section of a page, without its heading.
std::string section(const std::string& page, const std::string& name) {
  std::ifstream file(test::source_path("docs/" + page));
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::size_t begin = text.find("\n## " + name + "\n");
  EXPECT_NE(begin, std::string::npos) << name;
  const std::size_t end = text.find("\n## ", begin + 1);
  return text.substr(begin, end - begin);
}

/// The texts between backquotes.
std::vector<std::string> quoted(const std::string& text) {
  std::vector<std::string> found;
  const std::regex quotes("`([^`]+)`");
  for (std::sregex_iterator next(text.begin(), text.end(), quotes), end; next != end; ++next) {
    found.push_back((*next)[1]);
  }
  return found;
}

/// The first cells of a section's tables.
std::vector<std::string> first_cells(const std::string& text) {
  std::vector<std::string> found;
  const std::regex cell("\n\\| (`[^|]+) \\|");
  for (std::sregex_iterator next(text.begin(), text.end(), cell), end; next != end; ++next) {
    found.push_back((*next)[1]);
  }
  return found;
}

/// The paths of the table of routes: "POST /cancel/".
std::set<std::string> documented_routes() {
  std::set<std::string> routes;
  for (const std::string& cell : first_cells(section("server.md", "Routes"))) {
    std::string method;
    for (std::string name : quoted(cell)) {
      if (const std::size_t blank = name.find(' '); blank != std::string::npos) {
        method = name.substr(0, blank);
        name = name.substr(blank + 1);
      }
      if (name.ends_with("/ID")) {
        name.resize(name.size() - 2);
      }
      routes.insert(method + " " + name);
    }
  }
  return routes;
}

TEST(Documentation, NamesEveryRoute) {
  std::set<std::string> routes;
  for (const Route& route : server_routes(ServerOptions{})) {
    if (!route.path.starts_with("/page/")) {  // files that the page loads
      routes.insert(std::string(route.method) + " " + route.path.substr(0, route.path.find('{')));
    }
  }
  EXPECT_EQ(documented_routes(), routes);
}

/// Whether one of the routes that compute reads the field.
bool is_known(const LocalServer& server, const std::string& name) {
  const std::vector<std::pair<std::string, Json>> requests = {
      {"/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", "a"}}}}}},
      {"/v1/completions", {{"prompt", "a>"}}},
      {"/generate", {{"prompt", "a>"}}},
      {"/v1/embeddings", {{"input", "a"}}}};
  return std::ranges::any_of(requests, [&](const auto& one) {
    Json request = one.second;
    request[name] = Json::array({Json::array({Json::array()})});  // no field is of such a type: nothing is computed
    return post(server, one.first, request).body.find("'" + name + "' is not a field") == std::string::npos;
  });
}

TEST(Documentation, NamesNoFieldThatIsNotKnown) {
  TestServerOptions options;
  options.server.chat_template = "{% for m in messages %}{{ m.content }}>{% endfor %}";
  options.server.strict_fields = true;
  const LocalServer server(options, say("hi"));
  EXPECT_FALSE(is_known(server, "unheard_of"));
  const std::string text = section("server-fields.md", "Fields");
  std::size_t fields = 0;
  for (const std::string& cell : first_cells(text)) {
    for (const std::string& name : quoted(cell)) {
      EXPECT_TRUE(is_known(server, name.substr(0, name.find('.')))) << name;
      ++fields;
    }
  }
  EXPECT_GE(fields, 34u);
}

TEST(Documentation, NamesEveryFieldThatIsNotServed) {
  std::set<std::string> documented;
  const std::string text = section("server-fields.md", "Fields");
  for (const std::string& cell : first_cells(text.substr(text.find("| not served |")))) {
    for (const std::string& name : quoted(cell)) {
      documented.insert(name);
    }
  }
  std::set<std::string> unserved;
  for (const UnservedField& field : unserved_fields()) {
    unserved.insert(std::string(field.name));
  }
  EXPECT_EQ(documented, unserved);
}

/// The numbers of the table of limits by their names.
std::map<std::string, std::int64_t> documented_limits() {
  std::map<std::string, std::int64_t> limits;
  const std::string text = section("server-limits.md", "Limits");
  const std::regex row("\n\\| `([^`]+)` \\|[^\n|]*\\|[^\n|]*\\| ([0-9]+)");
  for (std::sregex_iterator next(text.begin(), text.end(), row), end; next != end; ++next) {
    limits[(*next)[1]] = std::stoll((*next)[2]);
  }
  return limits;
}

TEST(Documentation, StatesTheLimitsThatHold) {
  auto limits = documented_limits();
  const HttpLimits http;
  const ServerOptions server;
  const jinja::Limits rendering;
  const auto seconds = [](std::chrono::milliseconds time) { return time.count() / 1000; };
  const std::map<std::string, std::int64_t> held = {{"head bytes", static_cast<std::int64_t>(http.head_bytes)},
                                                    {"body bytes", static_cast<std::int64_t>(http.body_bytes)},
                                                    {"unread bytes", static_cast<std::int64_t>(http.unread_bytes)},
                                                    {"connections", http.connections},
                                                    {"reserved connections", http.reserved_connections},
                                                    {"head time", seconds(http.head_time)},
                                                    {"reserved head time", seconds(http.reserved_head_time)},
                                                    {"body time", seconds(http.body_time)},
                                                    {"idle time", seconds(http.idle_time)},
                                                    {"write time", seconds(http.write_time)},
                                                    {"connections of a client", server.client_share},
                                                    {"memory of a client", server.client_share},
                                                    {"answers of a client", server.client_share},
                                                    {"request work", static_cast<std::int64_t>(server.request_work)},
                                                    {"request memory", server.request_memory >> 20},
                                                    {"priority", server.max_priority},
                                                    {"stored responses", ResponseStore::most_responses},
                                                    {"json depth", max_json_depth},
                                                    {"prompts", static_cast<std::int64_t>(most_prompts)},
                                                    {"top_logprobs", max_logprobs},
                                                    {"n_probs", max_logprobs},
                                                    {"template steps", static_cast<std::int64_t>(rendering.steps)},
                                                    {"template memory", static_cast<std::int64_t>(rendering.live_bytes)},
                                                    {"template text", static_cast<std::int64_t>(rendering.text_bytes)}};
  EXPECT_GE(limits.size(), held.size());
  for (const auto& [name, value] : held) {
    EXPECT_TRUE(limits.contains(name)) << name;
    EXPECT_EQ(limits[name], value) << name;
  }
}

TEST(Documentation, NamesEveryMetric) {
  const LocalServer server({}, say("hi"));
  post(server, "/v1/completions", {{"prompt", "x>"}});
  const std::string metrics = get(server, "/metrics").body;
  std::set<std::string> served;
  const std::regex type("# TYPE rocmforge:([a-z0-9_]+) ");
  for (std::sregex_iterator next(metrics.begin(), metrics.end(), type), end; next != end; ++next) {
    served.insert((*next)[1]);
  }
  const std::string text = section("server.md", "Watching");
  std::set<std::string> documented;
  for (const std::string& name : quoted(text.substr(0, text.find("\n\n", 20)))) {
    if (!name.starts_with("/") && !name.ends_with(":")) {
      documented.insert(name.substr(0, name.find('{')));
    }
  }
  EXPECT_EQ(documented, served);
}

}  // namespace
}  // namespace rocmforge
