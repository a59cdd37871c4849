#pragma once

#include <string_view>
#include <vector>

namespace rocmforge {

/// A file of the web page.
struct PageFile {
  std::string_view name;  ///< "index.html"
  std::string_view bytes;
};

/// The files of src/server/page, which the build embeds in the program.
std::vector<PageFile> page_files();

}  // namespace rocmforge
