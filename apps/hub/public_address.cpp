#include "hub/public_address.h"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace rocmforge::hub {
namespace {

struct Block4 {
  std::uint32_t first;
  int bits;
};

constexpr std::uint32_t ip(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d = 0) {
  return a << 24 | b << 16 | c << 8 | d;
}

constexpr std::array special_blocks = {
    Block4{ip(0, 0, 0), 8},      Block4{ip(10, 0, 0), 8},     Block4{ip(100, 64, 0), 10}, Block4{ip(127, 0, 0), 8},
    Block4{ip(169, 254, 0), 16}, Block4{ip(172, 16, 0), 12},  Block4{ip(192, 0, 0), 24},  Block4{ip(192, 0, 2), 24},
    Block4{ip(192, 88, 99), 24}, Block4{ip(192, 168, 0), 16}, Block4{ip(198, 18, 0), 15}, Block4{ip(198, 51, 100), 24},
    Block4{ip(203, 0, 113), 24}, Block4{ip(224, 0, 0), 3},
};

bool is_public4(std::uint32_t address) {
  return std::ranges::none_of(special_blocks,
                              [address](const Block4& block) { return (address ^ block.first) >> (32 - block.bits) == 0; });
}

/// Global unicast (2000::/3) without Teredo, documentation and other protocols (2001::/23, 2001:db8::/32, 3fff::/20) and
/// 6to4 (2002::/16).
bool is_public6(const std::array<std::uint8_t, 16>& address) {
  const auto word = [&](std::size_t i) { return static_cast<unsigned>(address[2 * i] << 8 | address[2 * i + 1]); };
  const unsigned first = word(0), second = word(1);
  const bool is_special =
      (first == 0x2001 && (second < 0x200 || second == 0xdb8)) || first == 0x2002 || (first == 0x3fff && second < 0x1000);
  return first >> 13 == 1 && !is_special;
}

}  // namespace

bool is_public_address(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    sockaddr_in of_four{};
    std::memcpy(&of_four, &address, sizeof(of_four));
    return is_public4(ntohl(of_four.sin_addr.s_addr));
  }
  if (address.sa_family == AF_INET6) {
    sockaddr_in6 of_six{};
    std::memcpy(&of_six, &address, sizeof(of_six));
    std::array<std::uint8_t, 16> bytes{};
    std::copy_n(std::begin(of_six.sin6_addr.s6_addr), bytes.size(), bytes.begin());
    return is_public6(bytes);
  }
  return false;
}

}  // namespace rocmforge::hub
