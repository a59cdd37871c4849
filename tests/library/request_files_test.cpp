// The refusals of tests/server/requests, asked through the C library with the demo model: they are the server's.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "paths.h"
#include "rocmforge/rocmforge.h"
#include "server/request_file.h"

namespace rocmforge {
namespace {

class LibraryModel {
 public:
  explicit LibraryModel(const std::string& chat_template) {
    const std::string file = testing::TempDir() + "rocmforge_request_files.jinja";
    std::ofstream(file) << chat_template;
    const std::string use_template = "chat-template-file=" + file;
    const char* options[] = {"device=cpu", "threads=2", "context=512", use_template.c_str(), nullptr};
    EXPECT_EQ(rocmforge_model_load(test::source_path("models/forge-demo.gguf").c_str(), options, &model_), ROCMFORGE_OK)
        << rocmforge_last_error();
  }
  ~LibraryModel() { rocmforge_model_free(model_); }
  LibraryModel(const LibraryModel&) = delete;
  LibraryModel& operator=(const LibraryModel&) = delete;

  std::string request(const RequestBlock& block, int& status) {
    char* result = nullptr;
    EXPECT_EQ(rocmforge_request(model_, block.method.c_str(), block.path.c_str(), block.body.c_str(), nullptr, nullptr,
                                &status, &result),
              ROCMFORGE_OK)
        << rocmforge_last_error();
    std::string text = result != nullptr ? result : "";
    rocmforge_free(result);
    return text;
  }

 private:
  rocmforge_model* model_ = nullptr;
};

class LibraryRequestFiles : public testing::TestWithParam<std::string> {};

TEST_P(LibraryRequestFiles, AreAnsweredAsTheySay) {
  const std::string file = test::test_data("server/requests/" + GetParam() + ".test");
  for (const RequestSection& section : read_request_file(file)) {
    LibraryModel model(section.chat_template);
    for (const RequestBlock& block : section.blocks) {
      const ExpectedAnswer& expected = block.expected.front();
      SCOPED_TRACE(file + ":" + std::to_string(block.line));
      int status = 0;
      const std::string body = model.request(block, status);
      ASSERT_EQ(status, expected.status) << body;
      if (!expected.field.empty()) {
        EXPECT_EQ(wrong_refusal(Json::parse(body), expected.field), "") << body;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Refusals, LibraryRequestFiles,
                         testing::Values("chat_refusals", "responses_refusals", "anthropic_refusals", "ollama_refusals",
                                         "completion_refusals"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace rocmforge
