#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace rocmforge::hub {

/// A checksum of bytes that come one after another, by OpenSSL's library.
class Digest {
 public:
  /// Of a content of `size` bytes, in the form that `expected` has (RemoteFile::sum). Throws Error when the library refuses.
  Digest(const std::string& expected, std::uint64_t size);
  ~Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;

  void add(std::string_view bytes);
  /// Of what was added so far, in hexadecimal; nothing may be added behind.
  std::string finish();

  static std::string sha256(std::string_view text);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace rocmforge::hub
