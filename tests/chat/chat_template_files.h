#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "base/error.h"
#include "chat/chat_template.h"
#include "paths.h"

namespace rocmforge::test {

/// A file of tests/golden/chat-templates.
inline std::string read_chat_template_file(const std::string& name) {
  const auto path = std::filesystem::path(test::test_data("golden/chat-templates")) / name;
  std::ifstream stream(path, std::ios::binary);
  check(stream.good(), "missing " + path.string());
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

inline ChatTemplate chat_template_of(const std::string& model) {
  return ChatTemplate(read_chat_template_file(model + ".jinja"), "<s>", "</s>");
}

}  // namespace rocmforge::test
