#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rocmforge {

/// The bytes of a base64 text, in the usual alphabet or that of URLs, with or without "=" at the end. White space between
/// digits is skipped, as mail and command lines break lines. Empty for other characters, and for an end that no bytes have.
std::optional<std::string> decode_base64(std::string_view code);

}  // namespace rocmforge
