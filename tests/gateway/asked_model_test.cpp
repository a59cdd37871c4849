#include "gateway/asked_model.h"

#include <gtest/gtest.h>

#include <string>

#include "error_of.h"

namespace rocmforge {
namespace {

TEST(AskedModel, IsTheLastMemberOfTheOutermostObject) {
  const AskedModel asked = read_asked_model(
      R"( {"messages":[{"model":"x","content":"a \"model\": \\"}, "}", ["]"]], "model" : "a","keep_alive":"5m", "model":"b\u0021"} )");
  EXPECT_EQ(asked.name, "b!");
  EXPECT_EQ(asked.keep_alive, "5m");
}

TEST(AskedModel, MayBeCalledNameAndHaveNumbers) {
  EXPECT_EQ(read_asked_model(R"({"name":"a","keep_alive":-1})").name, "a");
  EXPECT_EQ(read_asked_model(R"({"name":"a","keep_alive":-1})").keep_alive, "-1");
  EXPECT_EQ(read_asked_model(R"({"name":"a","model":"b"})").name, "b");
  EXPECT_EQ(read_asked_model("{\"mod\\u0065l\":\"b\"}").name, "b");
}

TEST(AskedModel, MayBeAFieldOfAForm) {
  const std::string type = "multipart/form-data; boundary=e";
  const std::string file = "--e\r\nContent-Disposition: form-data; name=file; filename=a\r\n\r\n{\"model\":\"a\"}\r\n";
  EXPECT_EQ(read_asked_form(type, file + "--e\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nb\r\n--e--").name,
            "b");
  EXPECT_EQ(read_asked_form(type, file + "--e--").name, std::nullopt);
}

TEST(AskedModel, IsAbsentWhereThereIsNone) {
  for (const char* text : {"", "{", "{}", "[]", R"(["model","a"])", R"({"model":5})", R"({"model":["a"]})", R"({"model")",
                           R"({"model":)", R"({"model":"a)", R"("model":"a")", R"({"a":{"model":"b"}})", R"({"model":null})",
                           "{\"model\":\"\xff\"}", R"({"model":}{"model":"a"})", R"(}{"model":"a"})"}) {
    EXPECT_EQ(read_asked_model(text).name, std::nullopt) << text;
  }
}

TEST(AskedModel, IsReadOnceHoweverDeepTheTextIs) {
  constexpr std::size_t levels = 4 << 20;
  const std::string deep = R"({"a":)" + std::string(levels, '[') + std::string(levels, ']') + R"(,"model":"b"})";
  EXPECT_EQ(read_asked_model(deep).name, "b");
  EXPECT_EQ(read_asked_model(std::string(levels, '{')).name, std::nullopt);
  EXPECT_EQ(read_asked_model(R"({"model":")" + std::string(levels, 'x') + "\"}").name, std::nullopt);
}

TEST(KeepAlive, IsSecondsOrNumbersWithUnits) {
  using std::chrono::milliseconds;
  EXPECT_EQ(read_keep_alive("0"), milliseconds(0));
  EXPECT_EQ(read_keep_alive("90"), milliseconds(90'000));
  EXPECT_EQ(read_keep_alive("1.5"), milliseconds(1'500));
  EXPECT_EQ(read_keep_alive("5m"), milliseconds(300'000));
  EXPECT_EQ(read_keep_alive("1h30m"), milliseconds(5'400'000));
  EXPECT_EQ(read_keep_alive("250ms"), milliseconds(250));
  EXPECT_EQ(read_keep_alive("99999999999999999h"), milliseconds(1'000'000'000'000));
  EXPECT_EQ(read_keep_alive("-1"), std::nullopt);
  EXPECT_EQ(read_keep_alive("-1m"), std::nullopt);
}

TEST(KeepAlive, RefusesOtherTexts) {
  for (const char* text : {"", "-", "m", "5x", "5 m", "1m5", "soon", "0x5", "1e3", "1..2", "inf", "+5"}) {
    EXPECT_NE(test::error_of([&] { static_cast<void>(read_keep_alive(text)); }).find("is no time to stay loaded"),
              std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace rocmforge
