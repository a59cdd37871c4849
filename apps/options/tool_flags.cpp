#include "tool_flags.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "base/json_document.h"
#include "read_text.h"
#include "server/api/api_error.h"
#include "server/api/conversation_fields.h"
#include "usage_error.h"

namespace rocmforge::app {

void ToolFlags::add_to(Command& command) {
  const std::string group = "Tools";
  command.options.push_back({.names = "--tools-file",
                             .target = &file_,
                             .meaning = "Tools that the answer may call: a JSON array, as `tools` in chat completions",
                             .value = "FILE",
                             .group = group});
  command.options.push_back({.names = "--tool-choice",
                             .target = &choice_,
                             .meaning = "auto, none, required (the answer is a call), or the name of the tool to call",
                             .value = "CHOICE",
                             .group = group});
}

std::vector<Tool> ToolFlags::read_file() const {
  JsonDocument document = read_json(read_text(file_));
  if (!document.problem.empty()) {
    throw UsageError(fmt::format("{}: not valid JSON: {}", file_, document.problem));
  }
  Document request(Json{{"tools", std::move(document.value)}});
  try {
    Fields fields(request.root);
    std::optional<std::vector<Tool>> tools = read_tools(fields);
    if (const UnknownFields& unknown = fields.unknown(); unknown.count > 0) {
      throw UsageError(fmt::format("{}: {} is neither a function nor a custom tool", file_, unknown.names.front()));
    }
    if (!tools || tools->empty()) {
      throw UsageError(fmt::format("{}: there is no tool in it", file_));
    }
    return *std::move(tools);
  } catch (const ApiError& error) {
    throw UsageError(fmt::format("{}: {}", file_, error.message));
  }
}

OfferedTools ToolFlags::read() const {
  OfferedTools offered;
  if (file_.empty()) {
    if (!choice_.empty()) {
      throw UsageError("--tool-choice needs --tools-file");
    }
    return offered;
  }
  offered.tools = read_file();
  if (choice_.empty() || choice_ == "auto") {
    return offered;
  }
  offered.selection.none = choice_ == "none";
  offered.selection.choice.is_required = choice_ != "none";
  if (choice_ != "none" && choice_ != "required") {
    if (std::ranges::find(*offered.tools, choice_, &Tool::name) == offered.tools->end()) {
      throw UsageError(fmt::format("--tool-choice: {} has no tool '{}'", file_, choice_));
    }
    offered.selection.choice.name = choice_;
  }
  return offered;
}

}  // namespace rocmforge::app
