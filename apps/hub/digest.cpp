#include "hub/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "base/error.h"

namespace rocmforge::hub {

constexpr std::size_t sha256_digits = 64;

struct Digest::Context {
  EVP_MD_CTX* state = EVP_MD_CTX_new();
  Context() = default;
  ~Context() { EVP_MD_CTX_free(state); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
};

Digest::Digest(const std::string& expected, std::uint64_t size) : context_(std::make_unique<Context>()) {
  const bool is_git = expected.size() != sha256_digits;
  if (context_->state == nullptr || EVP_DigestInit_ex(context_->state, is_git ? EVP_sha1() : EVP_sha256(), nullptr) != 1) {
    throw Error(fmt::format("OpenSSL computes no {} here", is_git ? "SHA-1" : "SHA-256"));
  }
  if (is_git) {
    const std::string head = fmt::format("blob {}", size);
    add({head.c_str(), head.size() + 1});
  }
}

Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

void Digest::add(std::string_view bytes) {
  if (EVP_DigestUpdate(context_->state, bytes.data(), bytes.size()) != 1) {
    throw Error("OpenSSL can't go on with a checksum");
  }
}

std::string Digest::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int count = 0;
  if (EVP_DigestFinal_ex(context_->state, bytes.data(), &count) != 1) {
    throw Error("OpenSSL can't end a checksum");
  }
  std::string text;
  for (unsigned int i = 0; i < count; ++i) {
    text += fmt::format("{:02x}", bytes[i]);
  }
  return text;
}

std::string Digest::sha256(std::string_view text) {
  Digest digest(std::string(sha256_digits, '0'), text.size());
  digest.add(text);
  return digest.finish();
}

}  // namespace rocmforge::hub
