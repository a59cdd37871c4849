#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rocmforge {

/// The bytes of the regular file that a file:// URL names, if it lies below `folder`, also after symbolic links. Throws
/// Error with one line, which does not tell whether a file outside of it exists.
std::string read_image_file(std::string_view url, const std::string& folder, std::size_t most_bytes);

/// "file:///home/a%20b.png" for "/home/a b.png".
std::string url_of_file(std::string_view path);

}  // namespace rocmforge
