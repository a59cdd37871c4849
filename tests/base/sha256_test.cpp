#include "base/sha256.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rocmforge {
namespace {

std::string hex(std::size_t count, char value) {
  const std::vector<std::uint8_t> bytes(count, static_cast<std::uint8_t>(value));
  std::string text;
  for (const std::uint32_t word : sha256(bytes)) {
    for (int shift = 28; shift >= 0; shift -= 4) {
      text += "0123456789abcdef"[word >> shift & 15];
    }
  }
  return text;
}

/// What Python's hashlib gives, around the lengths where the padding takes one block more.
TEST(Sha256, IsThatOfOthers) {
  EXPECT_EQ(hex(0, 'a'), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(55, 'a'), "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  EXPECT_EQ(hex(56, 'a'), "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
  EXPECT_EQ(hex(64, 'a'), "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
  EXPECT_EQ(hex(1000, 'a'), "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3");
}

}  // namespace
}  // namespace rocmforge
