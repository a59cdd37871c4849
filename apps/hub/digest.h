#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace rocmforge::hub {

/// A checksum that is computed piece by piece, with OpenSSL's library.
class Digest {
 public:
  /// For a content of `size` bytes, with the algorithm of `expected` (RemoteFile::sum). Throws Error if the library fails.
  Digest(const std::string& expected, std::uint64_t size);
  ~Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;

  void add(std::string_view bytes);
  /// The checksum of the added bytes in hexadecimal. Nothing may be added afterwards.
  std::string finish();

  static std::string sha256(std::string_view text);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace rocmforge::hub
