#include "service/prefix_hash.h"

#include <fmt/format.h>

#include <cstddef>
#include <span>
#include <vector>

#include "schedule/pages/prefix_cache.h"

namespace rocmforge {
namespace {

/// As many tokens as begin a conversation without telling its turns apart.
constexpr std::size_t hashed_tokens = 64;

}  // namespace

std::string prefix_hash(const Request& request) {
  if (request.prompt.size() < hashed_tokens) {
    return {};
  }
  const std::vector<std::int32_t> salt(request.cache_salt.begin(), request.cache_salt.end());
  const std::uint64_t parent = PrefixCache::hash_block(0, salt);
  return fmt::format("{:016x}", PrefixCache::hash_block(parent, std::span(request.prompt).first(hashed_tokens)));
}

}  // namespace rocmforge
