// Forms of parts, as browsers and clients send files.
#include "server/api/multipart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/api/api_error.h"

namespace rocmforge {
namespace {

using testing::HasSubstr;

constexpr const char* form_type = "multipart/form-data; boundary=b1";

std::string form_part(const std::string& head, const std::string& content, const std::string& boundary = "b1") {
  return "--" + boundary + "\r\n" + head + "\r\n\r\n" + content + "\r\n";
}
std::string form_field(const std::string& name, const std::string& content) {
  return form_part("Content-Disposition: form-data; name=\"" + name + "\"", content);
}

std::string form_refusal(const std::string& content_type, const std::string& body) {
  try {
    static_cast<void>(read_form(content_type, body, nullptr));
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    return error.message;
  }
  return "no error";
}

TEST(Multipart, PartsHaveNamesAndAnyBytes) {
  const std::string bytes("a\0\r\n--b\r\n\r\n--b2", 15);
  const std::string body =
      form_field("model", "m") +
      form_part("content-type: audio/wav\r\ncontent-disposition: form-data; filename=\"a;\\\".wav\"; name=file", bytes) +
      form_field("", "") + "--b1--\r\n";
  const std::vector<FormPart> parts = read_form(form_type, body, nullptr);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].name, "model");
  EXPECT_EQ(parts[0].content, "m");
  EXPECT_FALSE(parts[0].is_file);
  EXPECT_EQ(parts[1].name, "file");
  EXPECT_EQ(parts[1].content, bytes);
  EXPECT_TRUE(parts[1].is_file);
  EXPECT_EQ(parts[2].name, "");
  EXPECT_EQ(parts[2].content, "");
}

TEST(Multipart, TheTypeNamesTheBoundary) {
  const std::string body = form_part("Content-Disposition: form-data; name=a", "1", "x y") + "--x y--";
  EXPECT_EQ(read_form("Multipart/Form-Data; charset=utf-8; Boundary=\"x y\"", body, nullptr).size(), 1u);
  EXPECT_EQ(read_form("multipart/form-data ;boundary=e", "--e--", nullptr).size(), 0u);
  EXPECT_FALSE(is_form("multipart/mixed; boundary=b1"));
  EXPECT_EQ(form_refusal("application/json", "{}"), "the body must be of the type multipart/form-data");
  EXPECT_EQ(form_refusal("", body), "the body must be of the type multipart/form-data");
  for (const std::string& boundary : {std::string("multipart/form-data"), std::string("multipart/form-data; boundary="),
                                      "multipart/form-data; boundary=" + std::string(71, 'b')}) {
    EXPECT_THAT(form_refusal(boundary, body), HasSubstr("names no boundary of 1 to 70 characters"));
  }
}

TEST(Multipart, ABrokenBodyIsRefused) {
  EXPECT_THAT(form_refusal(form_type, ""), HasSubstr("does not begin with the boundary"));
  EXPECT_THAT(form_refusal(form_type, "--b1"), HasSubstr("a boundary does not end its line"));
  EXPECT_THAT(form_refusal(form_type, "--b1\r\n"), HasSubstr("it has no end"));
  EXPECT_THAT(form_refusal(form_type, form_field("a", "1")), HasSubstr("it has no end"));
  EXPECT_THAT(form_refusal(form_type, form_field("a", "1") + "--b2--"), HasSubstr("it has no end"));
  EXPECT_THAT(form_refusal(form_type, "--b1\r\nname=a\r\n--b1--"), HasSubstr("the head of a part has no end"));
  EXPECT_THAT(form_refusal(form_type, form_part("A: " + std::string(9000, 'a'), "1") + "--b1--"),
              HasSubstr("the head of a part has no end"));
  EXPECT_THAT(form_refusal(form_type, form_part("Content-Type: text/plain", "1") + "--b1--"),
              HasSubstr("a part has no name"));
  std::string many;
  for (int i = 0; i < 65; ++i) {
    many += form_field("a", "1");
  }
  EXPECT_THAT(form_refusal(form_type, many + "--b1--"), HasSubstr("more than 64 parts"));
}

TEST(Multipart, ReadingIsCounted) {
  WorkBudget budget(1000, "reading the request");
  const std::string body = form_field("a", std::string(10'000, 'x')) + "--b1--";
  EXPECT_THROW(static_cast<void>(read_form(form_type, body, &budget)), Error);
}

}  // namespace
}  // namespace rocmforge
