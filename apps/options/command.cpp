#include "command.h"

#include <algorithm>

#include "base/error.h"
#include "comma_list.h"

namespace rocmforge::app {

std::vector<std::string> Option::all_names() const { return split_at_commas(names); }

std::string Option::main_name() const {
  const std::vector<std::string> all = all_names();
  const auto found = std::ranges::find_if(all, [](const std::string& name) { return name.starts_with("--"); });
  return found != all.end() ? *found : all.front();
}

Option& Command::option(const std::string& wanted) {
  const auto found = std::ranges::find_if(options, [&](const Option& option) {
    const std::vector<std::string> all = option.all_names();
    return std::ranges::find(all, wanted) != all.end();
  });
  check(found != options.end(), "the command has the option that is looked for");
  return *found;
}

void Command::drop(const std::string& unwanted) {
  const Option* found = &option(unwanted);
  options.erase(options.begin() + (found - options.data()));
}

}  // namespace rocmforge::app
