#pragma once

#include <sys/socket.h>

namespace rocmforge::hub {

/// Whether an address belongs to the public internet: not to this machine, its link, a private network, a cloud's service of
/// metadata (169.254.169.254), several receivers, documentation, or a tunnel to IPv4 (IANA's registries of special-purpose
/// addresses).
bool is_public_address(const sockaddr& address);

}  // namespace rocmforge::hub
