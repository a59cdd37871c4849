#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace rocmforge {

/// The file of a folder of prompts that has its secret.
inline constexpr std::string_view salt_secret_file = "salts.secret";

/// A secret that is mixed into the salts of requests, 64 hex digits: with the salts of others known, a client could choose
/// tokens whose keys in the prefix cache collide with theirs, and so find out what they have asked.
std::string random_salt_secret();

/// The secret of a folder of prompts, so that later processes find what is in its files with the same salts. The first
/// process that uses the folder makes it, in a file for this user alone. Throws Error naming the file where it can't be made
/// or read, is not this user's alone, or is damaged.
std::string salt_secret_of(const std::filesystem::path& folder);

}  // namespace rocmforge
