// The parts of the server that need no engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "apps/program.h"
#include "base/error.h"
#include "error_of.h"
#include "server/access.h"
#include "server/api/embeddings.h"
#include "server/api/fields.h"
#include "server/api/token_logprobs_json.h"
#include "server/api/unserved_fields.h"
#include "server/request_log.h"
#include "service/embedding.h"
#include "service/metrics.h"

namespace rocmforge {
namespace {

TEST(AccessRules, TakeTheKeyFromEitherHeader) {
  const AccessRules rules({"secret", "other key"}, {});
  const auto with = [](const std::string& name, const std::string& value) {
    return HttpRequest{.method = "GET", .path = "/", .headers = {{name, value}}};
  };
  EXPECT_TRUE(rules.has_key(with("authorization", "Bearer secret")));
  EXPECT_TRUE(rules.has_key(with("Authorization", "bearer other key")));
  EXPECT_TRUE(rules.has_key(with("X-API-Key", "secret")));
  for (const char* wrong : {"secre", "secret ", "secretsecret", "Secret", "", "s"}) {
    EXPECT_FALSE(rules.has_key(with("Authorization", std::string("Bearer ") + wrong))) << wrong;
    EXPECT_FALSE(rules.has_key(with("X-Api-Key", wrong))) << wrong;
  }
  EXPECT_FALSE(rules.has_key(with("Authorization", "secret")));
  EXPECT_FALSE(rules.has_key({.method = "GET", .path = "/"}));
  EXPECT_TRUE(AccessRules({}, {}).has_key({.method = "GET", .path = "/"}));
}

TEST(AccessRules, LetPagesOfOtherOriginsInOnlyWhenAsked) {
  const auto from = [](const std::string& origin) {
    return HttpRequest{.method = "POST", .path = "/", .headers = {{"Host", "localhost:8080"}, {"Origin", origin}}};
  };
  const AccessRules own({}, {});
  EXPECT_TRUE(own.allows_origin({.method = "POST", .path = "/"}));
  EXPECT_TRUE(own.allows_origin(from("http://localhost:8080")));
  EXPECT_FALSE(own.allows_origin(from("http://localhost:9090")));
  EXPECT_FALSE(own.allows_origin(from("null")));
  EXPECT_TRUE(own.cors_headers(from("http://localhost:8080")).empty());
  const AccessRules one({}, {"https://page.example"});
  EXPECT_TRUE(one.allows_origin(from("https://page.example")));
  EXPECT_FALSE(one.allows_origin(from("https://page.example.evil")));
  EXPECT_EQ(one.cors_headers(from("https://page.example")).front().second, "https://page.example");
  EXPECT_TRUE(AccessRules({}, {"*"}).allows_origin(from("null")));
}

TEST(AccessRules, TakeNoNameOfTheNetworkForThisMachine) {
  const auto to = [](const std::string& host) {
    return HttpRequest{.method = "GET", .path = "/", .headers = {{"Host", host}}};
  };
  const AccessRules local({}, {}, {"forge", "10.0.0.1"});
  for (const char* host : {"localhost", "localhost:8080", "a.localhost:1", "127.0.0.1:8080", "[::1]:8080", "192.168.0.7",
                           "rocmforge", "rocmforge:8080", "nas.local", "LLM.Internal:80", "pc.home.arpa"}) {
    EXPECT_TRUE(local.allows_host(to(host))) << host;
  }
  for (const char* host : {"evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example",
                           "xlocal.example", "home.arpa.evil.example"}) {
    EXPECT_FALSE(local.allows_host(to(host))) << host;
    EXPECT_TRUE(AccessRules({}, {}, {"*"}).allows_host(to(host))) << "any name was allowed";
    EXPECT_TRUE(AccessRules({"key"}, {}, {}).allows_host(to(host))) << "such a page has no key";
  }
  const AccessRules named({}, {"https://chat.example"}, {"forge"});
  for (const char* host : {"chat.example", "forge", "FORGE:8080"}) {
    EXPECT_TRUE(named.allows_host(to(host))) << host;
  }
  for (const char* host : {"evil.example", "forge.evil.example", "forge.", "xhome.arpa"}) {
    EXPECT_FALSE(named.allows_host(to(host))) << host;
  }
  EXPECT_FALSE(machine_name().empty());
}

/// A file that only its owner may read.
std::string secret(const TemporaryFolder& folder, const std::string& text) {
  std::string path = folder.write("keys", text);
  std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  return path;
}

TEST(AccessRules, ReadKeysFromAFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_key_file(secret(folder, "# comment\n\none\r\ntwo \n")), (std::vector<ApiKey>{"one", "two"}));
  EXPECT_EQ(read_key_file(secret(folder, "one max-priority=10\na b\tmax-priority=0 \nmax-priority=3\n")),
            (std::vector<ApiKey>{{"one", 10}, {"a b", 0}, "max-priority=3"}));
  EXPECT_THROW(read_key_file(secret(folder, "one max-priority=-1\n")), Error);
  EXPECT_THROW(read_key_file(secret(folder, "# nothing\n")), Error);
  EXPECT_THROW(read_key_file((folder.path() / "absent").string()), Error);
}

TEST(AccessRules, TakeNoKeysFromAFileOfOthers) {
  using std::filesystem::perms;
  const TemporaryFolder folder;
  const std::string path = secret(folder, "one\n");
  for (const perms more : {perms::others_read, perms::others_write, perms::group_write}) {
    std::filesystem::permissions(path, perms::owner_read | more);
    EXPECT_THAT(test::error_of([&] { read_key_file(path); }),
                testing::StartsWith(path + ": others may read or change the file"));
  }
  std::filesystem::permissions(path, perms::owner_read | perms::group_read);
  EXPECT_EQ(read_key_file(path).size(), 1u) << "of the group that the service runs in";
}

TEST(RequestLog, OfPromptsIsItsOwnersAlone) {
  using std::filesystem::perms;
  const TemporaryFolder folder;
  const auto mode_of = [&](const char* name, bool requests) {
    const std::string path = (folder.path() / name).string();
    RequestLog({.requests = requests, .file = path}).event("begun");
    return std::filesystem::status(path).permissions();
  };
  EXPECT_EQ(mode_of("prompts", true), perms::owner_read | perms::owner_write);
  EXPECT_NE(mode_of("usual", false) & perms::group_read, perms::none);
}

std::string problem_of(const std::string& body) {
  try {
    static_cast<void>(parse_body(body));
    return "";
  } catch (const ApiError& error) {
    return error.message;
  }
}

TEST(ParseBody, GivesWhatTheLibraryGives) {
  for (const char* text : {R"({})", R"({"a": [1, -2, 3.5, true, null, "x", {}, []], "b": {"c": {"d": [[], [{}]]}}})",
                           R"({"a": 1, "b": 2, "a": {"x": 1}, "c": 3, "b": 4, "a": 5})", R"({"": {"": 1, "": 2}})"}) {
    EXPECT_EQ(parse_body(text).dump(), Json::parse(text).dump());
  }
}

TEST(ParseBody, GoesAsDeepAsItMayAndNoDeeper) {
  const auto nested = [](std::int32_t levels, const std::string& begin, const std::string& end) {
    std::string text = "0";
    for (std::int32_t i = 0; i < levels; ++i) {
      text.insert(0, begin);
      text += end;
    }
    return "{\"a\": " + text + "}";
  };
  for (const auto& [begin, end] : {std::pair("[", "]"), std::pair("{\"b\":", "}")}) {
    Document document(parse_body(nested(max_json_depth, begin, end)));
    const Json copy = document.root;  // goes in the library's own way
    EXPECT_EQ(copy, document.root);
    clear(document.root);
    EXPECT_TRUE(document.root.empty());
    EXPECT_THROW(static_cast<void>(parse_body(nested(max_json_depth + 1, begin, end))), ApiError);
  }
}

TEST(ParseBody, RefusesWithAReason) {
  EXPECT_NE(problem_of("{\"a\": 1} x").find("not valid JSON: parse error at line 1, column 10"), std::string::npos);
  EXPECT_EQ(problem_of("{\"a\": 1e999}"), "the body is not valid JSON: it holds a number that is too large");
  EXPECT_EQ(problem_of("[1]"), "the body is a JSON array, an object is expected");
  EXPECT_LT(problem_of("{\"a\": \"" + std::string(1'000'000, 'x')).size(), 400u) << "what was read last is cut";
  const auto nested = [](int depth) {
    const auto count = static_cast<std::size_t>(depth);
    return "{\"a\": " + std::string(count, '[') + std::string(count, ']') + "}";
  };
  EXPECT_EQ(problem_of(nested(max_json_depth)), "");
  EXPECT_NE(problem_of(nested(max_json_depth + 1)).find("nested deeper than 96 levels"), std::string::npos);
  EXPECT_NE(problem_of(nested(1'000'000)).find("nested deeper than 96 levels"), std::string::npos);
}

// Each of these takes minutes where a value or key is compared with all before it.
TEST(ParseBodyScale, TakesTimeAsItsSizeGrows) {
  std::string objects = "{\"a\": [{}";
  std::string keys = "{\"a\": 1";
  std::string same = keys;
  for (int i = 0; i < 1'000'000; ++i) {
    objects += ",{}";
    keys += ",\"" + std::to_string(i) + "\":1";
    same += ",\"a\":1";
  }
  EXPECT_EQ(parse_body(objects + "]}")["a"].size(), 1'000'001u);
  const Json many = parse_body(keys + "}");
  EXPECT_EQ(many.size(), 1'000'001u);
  Fields fields(many);
  fields.finish();
  EXPECT_EQ(fields.unknown().count, 1'000'001u);
  EXPECT_EQ(parse_body(same + "}").size(), 1u);
}

TEST(Fields, TellWhatNobodyAskedFor) {
  const Json object = {{"a", 1}, {"b", nullptr}, {"harmless", {}}, {"other", 2}, {"inner", {{"x", 1}, {"y", 1}}}};
  Fields fields(object);
  EXPECT_EQ(fields.integer("a", 0, 5), 1);
  EXPECT_FALSE(fields.has("b"));
  fields.ignore({"harmless"});
  Fields inner = fields.inner(*fields.object("inner"), "inner.");
  EXPECT_TRUE(inner.has("x"));
  inner.finish();
  fields.finish();
  EXPECT_EQ(fields.unknown().names, (std::vector<std::string>{"inner.y", "other"}));
  EXPECT_EQ(fields.unknown().count, 2u);
}

TEST(Fields, NamesOfUnknownOnesFitIntoAHeader) {
  EXPECT_EQ(list_of_names({.names = {"a.b-c_d", "x[0]"}, .count = 2}), "a.b-c_d, x[0]");
  EXPECT_EQ(list_of_names({.names = {"a\r\nb: c", "\xe2\x80\xae", "%41"}, .count = 3}), "a%0D%0Ab%3A%20c, %E2%80%AE, %2541");
  EXPECT_EQ(list_of_names({.names = {"a"}, .count = 2}), "a, ...");
  const UnknownFields many{.names = std::vector<std::string>(32, std::string(64, '\n')), .count = 1'000'000};
  EXPECT_LE(list_of_names(many).size(), 1100u);
  EXPECT_TRUE(list_of_names(many).ends_with(", ..."));
}

TEST(Fields, TakeWholeNumbersInAnyForm) {
  const Json object =
      Json::parse(R"({"a": 3, "b": 3.0, "c": 3.5, "d": 1e300, "e": 9223372036854775807, "f": 9223372036854775808})");
  Fields fields(object);
  EXPECT_EQ(fields.integer("a", 0, 5), 3);
  EXPECT_EQ(fields.integer("b", 0, 5), 3);
  EXPECT_THROW(fields.integer("c", 0, 5), ApiError);
  EXPECT_THROW(fields.integer("d", 0, INT64_MAX), ApiError);
  EXPECT_EQ(fields.integer("e", 0, INT64_MAX), INT64_MAX);
  EXPECT_THROW(fields.integer("f", 0, INT64_MAX), ApiError);
}

TEST(PendingLogprobs, GoOutWithTheirText) {
  PendingLogprobs pending;
  for (int token = 0; token < 4; ++token) {
    pending.add({token, -1.0f, {}}, 2);
  }
  EXPECT_EQ(pending.take(1, false).size(), 0u);
  EXPECT_EQ(pending.take(5, false).size(), 2u);
  const auto rest = pending.take(5, true);  // the third began before the cut, the fourth is behind it
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].token, 2);
}

TEST(EmbeddingText, Base64HoldsTheFloats) {
  EXPECT_EQ(base64_floats(std::vector<float>{1.0f}), "AACAPw==");
  EXPECT_EQ(base64_floats(std::vector<float>{1.0f, -2.0f}), "AACAPwAAAMA=");
  EXPECT_EQ(base64_floats(std::vector<float>{0.0f, 0.0f, 0.5f}), "AAAAAAAAAAAAAAA/");
}

TEST(EmbeddingText, VectorsHaveLengthOne) {
  EXPECT_EQ(normalised({3.0f, 4.0f}, 2), (std::vector<float>{0.6f, 0.8f}));
  EXPECT_EQ(normalised({3.0f, 4.0f}, 1), (std::vector<float>{1.0f}));
  EXPECT_EQ(normalised({0.0f, 0.0f}, 2), (std::vector<float>{0.0f, 0.0f}));
}

TEST(Exposition, WritesPrometheusText) {
  Exposition out(Exposition::Labels{{"model_name", "a\"b\\c"}});
  Histogram histogram({0.1, 1.0});
  for (const double value : {0.05, 0.1, 0.5, 5.0}) {
    histogram.observe(value);
  }
  out.gauge("g", "help", 0.25);
  out.counter("c", "help", 3);
  out.histogram("h", "help", histogram);
  EXPECT_EQ(
      out.text(),
      "# HELP rocmforge:g help\n# TYPE rocmforge:g gauge\nrocmforge:g{model_name=\"a\\\"b\\\\c\"} 0.25\n"
      "# HELP rocmforge:c_total help\n# TYPE rocmforge:c_total counter\nrocmforge:c_total{model_name=\"a\\\"b\\\\c\"} 3\n"
      "# HELP rocmforge:h help\n# TYPE rocmforge:h histogram\n"
      "rocmforge:h_bucket{model_name=\"a\\\"b\\\\c\",le=\"0.1\"} 2\n"
      "rocmforge:h_bucket{model_name=\"a\\\"b\\\\c\",le=\"1\"} 3\n"
      "rocmforge:h_bucket{model_name=\"a\\\"b\\\\c\",le=\"+Inf\"} 4\n"
      "rocmforge:h_sum{model_name=\"a\\\"b\\\\c\"} 5.65\n"
      "rocmforge:h_count{model_name=\"a\\\"b\\\\c\"} 4\n");
}

TEST(RequestLog, WritesTextOrJson) {
  const TemporaryFolder folder;
  const auto lines = [&](bool json) {
    const std::string file = folder.write(json ? "json" : "text", "");
    RequestLog log({.json = json, .file = file});
    log.request({{"id", "1"}, {"path", "/a b\n"}, {"seconds", 0.5}});
    std::ifstream in(file);
    std::string line;
    std::getline(in, line);
    return line;
  };
  EXPECT_TRUE(lines(false).ends_with(" info request id=1 path=\"/a b\\n\" seconds=0.5")) << lines(false);
  EXPECT_EQ(Json::parse(lines(true))["path"], "/a b\n");
}

TEST(RequestLog, AFullDiskLosesLinesAndNothingElse) {
  RequestLog log({.file = "/dev/full"});
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    log.event("lost");
  }
  testing::internal::GetCapturedStderr();
  EXPECT_THROW(RequestLog({.file = "/dev/null/log"}), Error);
}

}  // namespace
}  // namespace rocmforge
