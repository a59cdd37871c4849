#pragma once

#include <optional>
#include <string>
#include <vector>

#include "chat/conversation.h"
#include "command.h"

namespace rocmforge::app {

/// What an answer may call.
struct OfferedTools {
  std::optional<std::vector<Tool>> tools{};
  ToolSelection selection{};
};

/// The tools of a conversation in the terminal. Their user runs them.
class ToolFlags {
 public:
  /// Adds them to a command that has the options of templates.
  void add_to(Command& command);
  /// Reads the file. Throws UsageError that names the file and the member that is wrong.
  [[nodiscard]] OfferedTools read() const;

 private:
  [[nodiscard]] std::vector<Tool> read_file() const;

  std::string file_;
  std::string choice_;
};

}  // namespace rocmforge::app
