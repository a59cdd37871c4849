#pragma once

namespace rocmforge::test {

/// Whether the tests are built with the address sanitizer, which has guards of its own and makes tests several times slower.
inline constexpr bool address_sanitizer =
#if defined(__SANITIZE_ADDRESS__)
    true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
    true;
#else
    false;
#endif
#else
    false;
#endif

}  // namespace rocmforge::test
