// Malformed files: each must give one Error of one line that says what is wrong and where. Every case prints a row of a
// Markdown table (case | message).
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>

#include "base/error.h"
#include "error_of.h"
#include "linear_growth.h"
#include "weights/gguf_builder.h"
#include "weights/gguf_file.h"

namespace rocmforge {
namespace {

using test::error_of;

constexpr auto f32 = static_cast<std::uint32_t>(DType::f32);
constexpr std::uint64_t huge = std::uint64_t{1} << 60;

struct Malformed {
  std::string name;
  std::vector<std::byte> bytes;
  std::string message;
};

/// One pair "k" with a value of these bytes, whatever they are.
std::vector<std::byte> with_value(std::uint32_t type, const Bytes& value) {
  return GgufBuilder().pair("k", static_cast<GgufType>(type), value).build();
}

Bytes array_of(GgufType element, std::uint64_t count) { return Bytes().put(static_cast<std::uint32_t>(element)).put(count); }

Bytes nested_arrays(int depth) {
  Bytes value;
  for (int i = 0; i < depth; ++i) {
    value.raw(array_of(GgufType::array, 1).bytes());
  }
  return value.raw(array_of(GgufType::u8, 0).bytes());
}

std::vector<std::byte> with_alignment(std::uint32_t alignment) {
  return GgufBuilder().scalar("general.alignment", GgufType::u32, alignment).tensor("t", {1}, DType::f32, 4).build();
}

std::vector<std::byte> with_entry(const std::vector<std::int64_t>& dims, std::uint32_t type, std::uint64_t offset = 0,
                                  std::size_t data_bytes = 64) {
  GgufBuilder builder;
  builder.entry("t", dims, type, offset);
  builder.data_bytes = data_bytes;
  return builder.build();
}

std::vector<std::byte> with_version(std::uint32_t version) {
  GgufBuilder builder;
  builder.version = version;
  return builder.build();
}

std::vector<Malformed> malformed_preambles() {
  GgufBuilder bad_magic;
  bad_magic.magic = "GGML";
  GgufBuilder many_tensors;
  many_tensors.num_tensors = huge;
  GgufBuilder many_pairs;
  many_pairs.num_pairs = huge;
  return {
      {"empty file", {}, "the file ends inside the magic number: 4 bytes needed, 0 left (at byte 0)"},
      {"bad magic", bad_magic.build(), "not a GGUF file: the first four bytes are not 'GGUF' (at byte 0)"},
      {"version 1", with_version(1),
       "version 1 is too old: convert the file again (versions 2 and 3 are supported) (at byte 4)"},
      {"version 4", with_version(4), "version 4 is unknown (versions 2 and 3 are supported) (at byte 4)"},
      {"big-endian", with_version(0x03000000),
       "version 0x03000000: the file is big-endian, which is not supported (at byte 4)"},
      {"huge tensor count", many_tensors.build(), "1152921504606846976 tensors cannot fit in the 16 bytes left (at byte 8)"},
      {"huge pair count", many_pairs.build(),
       "1152921504606846976 key-value pairs cannot fit in the 8 bytes left (at byte 16)"},
  };
}

std::vector<Malformed> malformed_metadata() {
  GgufBuilder long_key;
  long_key.pairs.put(huge).zeros(64);
  long_key.num_pairs = 1;
  GgufBuilder many_small;  // each count is believable, their sum is not
  for (int i = 0; i < 3; ++i) {
    many_small.pair(fmt::format("k{}", i), GgufType::array, array_of(GgufType::boolean, 6 << 20).zeros(6 << 20));
  }
  return {
      {"empty key", GgufBuilder().string("", "x").build(), "key 1 of 1 has 0 bytes, not 1 to 65535 (at byte 24)"},
      {"key over 64 KiB", GgufBuilder().string(std::string(65536, 'k'), "x").build(),
       "key 1 of 1 has 65536 bytes, not 1 to 65535 (at byte 24)"},
      {"huge key length", long_key.build(),
       "key 1 of 1: a key claims 1152921504606846976 bytes, 64 are left (limit 1073741824) (at byte 24)"},
      {"duplicate key", GgufBuilder().string("k", "x").string("k", "y").build(), "key 'k' occurs twice (at byte 46)"},
      {"unknown value type", with_value(13, Bytes().zeros(16)), "key 'k': value type 13 is unknown (at byte 33)"},
      {"bad boolean", with_value(7, Bytes().put(std::uint8_t{2})), "key 'k': a boolean is 2, not 0 or 1 (at byte 37)"},
      {"bad boolean in an array", with_value(9, array_of(GgufType::boolean, 2).put(std::uint8_t{1}).put(std::uint8_t{255})),
       "key 'k': a boolean is 255, not 0 or 1 (at byte 50)"},
      {"huge string", with_value(8, Bytes().put(huge).zeros(19)),
       "key 'k': a string claims 1152921504606846976 bytes, 19 are left (limit 1073741824) (at byte 37)"},
      {"array bomb of u8", with_value(9, array_of(GgufType::u8, huge).zeros(15)),
       "key 'k': an array of u8 claims 1152921504606846976 elements, 15 bytes are left (at byte 37)"},
      {"array bomb of strings", with_value(9, array_of(GgufType::string, huge).zeros(15)),
       "key 'k': an array of string claims 1152921504606846976 elements, 15 bytes are left (at byte 37)"},
      {"array length that overflows in bytes", with_value(9, array_of(GgufType::u64, (huge << 1) + 1).zeros(15)),
       "key 'k': an array of u64 claims 2305843009213693953 elements, 15 bytes are left (at byte 37)"},
      {"unknown element type", with_value(9, Bytes().put(std::uint32_t{77}).put(std::uint64_t{0}).zeros(15)),
       "key 'k': array element type 77 is unknown (at byte 37)"},
      {"arrays nested too deep", with_value(9, nested_arrays(8).zeros(12)),
       "key 'k': arrays are nested more than 8 deep (at byte 133)"},
      {"more array elements than any model has", many_small.build(),
       "key 'k2': an array of 6291456 elements: all arrays of a file may have 16777216 (at byte 12583002)"},
      {"control characters in a key",
       GgufBuilder().pair("a\nb\x1b", GgufType::boolean, Bytes().put(std::uint8_t{9})).build(),
       "key 'a\\nb\\x1b': a boolean is 9, not 0 or 1 (at byte 40)"},
      {"alignment 0", with_alignment(0), "key 'general.alignment': is 0, not a power of two from 8 to 1073741824"},
      {"alignment 3", with_alignment(3), "key 'general.alignment': is 3, not a power of two from 8 to 1073741824"},
      {"alignment 2^31", with_alignment(1u << 31),
       "key 'general.alignment': is 2147483648, not a power of two from 8 to 1073741824"},
      {"alignment past the end", with_alignment(1u << 30),
       "tensor 't': offset 0 and 4 bytes end past the data section, which has 0 bytes (at byte 82)"},
      {"alignment of a wrong type", GgufBuilder().string("general.alignment", "32").build(),
       "key 'general.alignment': is a string, an integer was expected"},
  };
}

std::vector<Malformed> malformed_tensors() {
  const auto two = [](std::uint64_t first, std::uint64_t second, std::string_view second_name) {
    GgufBuilder builder;
    builder.entry("a", {16}, f32, first).entry(second_name, {16}, f32, second);
    builder.data_bytes = 128;
    return builder.build();
  };
  constexpr std::int64_t most = std::int64_t{1} << 62;
  return {
      {"empty tensor name", GgufBuilder().tensor("", {1}, DType::f32, 4).build(),
       "tensor 1 of 1: its name has 0 bytes, not 1 to 64 (at byte 24)"},
      {"tensor name over 64 bytes", GgufBuilder().tensor(std::string(65, 'n'), {1}, DType::f32, 4).build(),
       "tensor 1 of 1: its name has 65 bytes, not 1 to 64 (at byte 24)"},
      {"five dimensions", with_entry({1, 1, 1, 1, 1}, f32),
       "tensor 't': 5 dimensions, at most 4 are supported (at byte 33)"},
      {"negative dimension", with_entry({-32, 2}, f32), "tensor 't': dimension 0 is -32 (at byte 37)"},
      {"dimension 0", with_entry({32, 0}, f32), "tensor 't': dimension 1 is 0 (at byte 45)"},
      {"element count overflows", with_entry({most, 4}, f32),
       "tensor 't': the number of elements does not fit in 64 bits (at byte 33)"},
      {"byte size overflows", with_entry({most}, f32), "tensor 't': its size in bytes does not fit in 64 bits (at byte 33)"},
      {"rows of broken blocks", with_entry({300, 2}, static_cast<std::uint32_t>(DType::q4_k)),
       "tensor 't': rows of 300 elements do not divide into Q4_K blocks of 256 (at byte 33)"},
      {"unknown type", with_entry({32}, 99), "tensor 't': type 99 is unknown (at byte 45)"},
      {"removed type", with_entry({32}, 31), "tensor 't': type 31 (Q4_0_4_4) was removed from the format (at byte 45)"},
      {"misaligned offset", with_entry({1}, f32, 4),
       "tensor 't': offset 4 is not a multiple of the alignment 32 (at byte 49)"},
      {"offset past the end", with_entry({1}, f32, 1 << 20),
       "tensor 't': offset 1048576 and 4 bytes end past the data section, which has 64 bytes (at byte 49)"},
      {"offset that wraps around", with_entry({16}, f32, std::uint64_t{0} - 32),
       "tensor 't': offset 18446744073709551584 and 64 bytes end past the data section, which has 64 bytes (at byte 49)"},
      {"size past the end (truncated download)", with_entry({32}, f32),
       "tensor 't': offset 0 and 128 bytes end past the data section, which has 64 bytes (at byte 49)"},
      {"overlapping tensors", two(0, 32, "b"),
       "tensor 'b': offset 32 lies inside tensor 'a', which takes 64 bytes from offset 0 (at byte 82)"},
      {"overlap against the order of entries", two(32, 0, "b"),
       "tensor 'a': offset 32 lies inside tensor 'b', which takes 64 bytes from offset 0 (at byte 49)"},
      {"duplicate tensor name", two(0, 64, "a"), "tensor 'a': occurs twice"},
      {"part of a split set in memory",
       GgufBuilder()
           .scalar("split.no", GgufType::u16, std::uint16_t{0})
           .scalar("split.count", GgufType::u16, std::uint16_t{3})
           .build(),
       "one part of 3: a split file can only be opened from a folder"},
  };
}

void check_all(const std::vector<Malformed>& cases) {
  for (const Malformed& entry : cases) {
    const std::string message = error_of([&] { (void)GgufFile::from_memory(entry.bytes, "bad.gguf"); });
    EXPECT_EQ(message, "bad.gguf: " + entry.message) << entry.name;
    EXPECT_EQ(message.find('\n'), std::string::npos) << entry.name;
    std::cout << "| " << entry.name << " | `" << message << "` |\n";
  }
}

TEST(MalformedGguf, Preamble) { check_all(malformed_preambles()); }
TEST(MalformedGguf, Metadata) { check_all(malformed_metadata()); }
TEST(MalformedGguf, Tensors) { check_all(malformed_tensors()); }

/// A small valid file with a bit of everything.
GgufBuilder small_valid_file() {
  GgufBuilder builder;
  builder.string("general.architecture", "llama")
      .scalar("llama.block_count", GgufType::u32, std::uint32_t{2})
      .scalar("flag", GgufType::boolean, std::uint8_t{1})
      .array<std::string>("tokens", GgufType::string, {"a", "bc", ""})
      .array<float>("scores", GgufType::f32, {0.0f, -1.0f, -2.0f})
      .tensor("token_embd.weight", {32, 3}, DType::q8_0, 102)
      .tensor("output_norm.weight", {32}, DType::f32, 128);
  return builder;
}

// A file cut at any byte is an Error: nothing but the padding after the last tensor may be missing.
TEST(MalformedGguf, CutAtEveryByte) {
  const auto whole = small_valid_file().build();
  ASSERT_NO_THROW((void)GgufFile::from_memory(whole));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    const std::string message = error_of([&] { (void)GgufFile::from_memory(cut, "cut.gguf"); });
    EXPECT_TRUE(message.starts_with("cut.gguf: ")) << "cut to " << length << " bytes: " << message;
  }
}

// One changed byte must give a file or an Error, and reading a surviving file must stay inside it.
TEST(MalformedGguf, EveryByteChanged) {
  const auto whole = small_valid_file().build();
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      auto changed = whole;
      changed[at] ^= static_cast<std::byte>(flip);
      try {
        const auto file = GgufFile::from_memory(changed);
        for (const GgufTensor& tensor : file.tensors()) {
          const auto* data = static_cast<const std::byte*>(tensor.tensor.data);
          ASSERT_GE(data, changed.data());
          ASSERT_LE(data + tensor.tensor.bytes(), changed.data() + changed.size());
        }
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 500);
}

TEST(MalformedGguf, CutInsideEachSection) {
  const GgufBuilder builder = small_valid_file();
  const auto whole = builder.build();
  const std::size_t header = builder.header().size();
  const std::vector<std::tuple<std::string, std::size_t, std::string>> cuts{
      {"cut in the counts", 20, "2 tensors cannot fit in the 4 bytes left (at byte 8)"},
      {"cut in the first pair", 66, "5 key-value pairs cannot fit in the 42 bytes left (at byte 16)"},
      {"cut in a key", 92, "key 2 of 5: a key claims 17 bytes, 15 are left (limit 1073741824) (at byte 69)"},
      {"cut in an integer", 100,
       "key 'llama.block_count': the file ends inside a value: 4 bytes needed, 2 left (at byte 98)"},
      {"cut in an array's strings", 174,
       "key 'tokens': the file ends inside a string of an array: 8 bytes needed, 6 left (at byte 168)"},
      {"cut in the tensor entries", header - 3,
       "tensor 'output_norm.weight': the file ends inside the offset: 8 bytes needed, 5 left (at byte 317)"},
      {"cut in the padding", header + 1,
       "tensor 'token_embd.weight': offset 0 and 102 bytes end past the data section, which has 0 bytes (at byte 267)"},
      {"cut in the tensor data", whole.size() - 1,
       "tensor 'output_norm.weight': offset 128 and 128 bytes end past the data section, which has 255 bytes (at byte 317)"},
  };
  for (const auto& [name, length, expected] : cuts) {
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    const std::string message = error_of([&] { (void)GgufFile::from_memory(cut, "cut.gguf"); });
    EXPECT_EQ(message, "cut.gguf: " + expected) << name;
    std::cout << "| " << name << " | `" << message << "` |\n";
  }
}

// Checks for duplicates and overlaps must not compare all pairs: 200,000 entries would take minutes.
TEST(MalformedGguf, ManyEntriesTakeNoQuadraticTime) {
  const auto file_of = [](std::size_t entries) {
    GgufBuilder builder;
    for (std::size_t i = 0; i < entries; ++i) {
      builder.scalar(fmt::format("key{}", i), GgufType::u8, std::uint8_t{0});
      builder.tensor(fmt::format("t{}", i), {1}, DType::i8, 1);
    }
    return builder.build();
  };
  constexpr std::size_t entries = 64 * 1024;
  const auto large = file_of(entries);
  EXPECT_EQ(GgufFile::from_memory(large).tensors().size(), entries);
  const auto load = [](const std::vector<std::byte>& bytes) { (void)GgufFile::from_memory(bytes); };
  EXPECT_LT(test::growth_of_time(load, file_of(entries / test::growth_of_input), large), test::most_linear_growth);
}

class SplitGguf : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static GgufBuilder part(int number, int count, std::string_view tensor) {
    GgufBuilder builder;
    builder.scalar("split.no", GgufType::u16, static_cast<std::uint16_t>(number))
        .scalar("split.count", GgufType::u16, static_cast<std::uint16_t>(count))
        .scalar("split.tensors.count", GgufType::i32, std::int32_t{3});
    if (number == 0) {
      builder.string("general.architecture", "llama");
    }
    builder.tensor(tensor, {8}, DType::f32, 32);
    return builder;
  }
  std::filesystem::path write(const std::string& name, const GgufBuilder& builder) {
    const auto bytes = builder.build();
    std::ofstream(folder_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return folder_ / name;
  }
  std::filesystem::path write_set() {
    write("m-00002-of-00003.gguf", part(1, 3, "b"));
    write("m-00003-of-00003.gguf", part(2, 3, "c"));
    return write("m-00001-of-00003.gguf", part(0, 3, "a"));
  }
  /// The message of opening `path`, the folder's name left out, as a row of the table too.
  std::string refused(const std::string& name, const std::filesystem::path& path) {
    std::string message = error_of([&] { const GgufFile file(path); });
    const std::string folder = folder_.string() + "/";
    for (auto at = message.find(folder); at != std::string::npos; at = message.find(folder)) {
      message.erase(at, folder.size());
    }
    std::cout << "| " << name << " | `" << message << "` |\n";
    return message;
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() /
      fmt::format("rocmforge_{}_{}", ::testing::UnitTest::GetInstance()->current_test_info()->name(), ::getpid());
};

TEST_F(SplitGguf, OpensFromTheFirstPart) {
  const GgufFile file(write_set());
  EXPECT_EQ(file.num_shards(), 3);
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.tensor("c").shard, 2);
  EXPECT_EQ(file.string("general.architecture"), "llama");
  EXPECT_EQ(file.integer("split.no"), 0);
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    bytes += entry.file_size();
  }
  EXPECT_EQ(file.file_bytes(), bytes);
  file.release(file.tensor("b"));
}

TEST_F(SplitGguf, RefusesBrokenSets) {
  const auto first = write_set();
  EXPECT_EQ(refused("opened from part 2", folder_ / "m-00002-of-00003.gguf"),
            "m-00002-of-00003.gguf: this is part 2 of 3: open the first part, 'm-00001-of-00003.gguf'");
  EXPECT_EQ(refused("first part renamed", write("renamed.gguf", part(0, 3, "a"))),
            "renamed.gguf: this is part 1 of 3, so its name must end in '-00001-of-00003.gguf'");
  EXPECT_EQ(refused("part number beyond the count", write("x-00004-of-00003.gguf", part(3, 3, "a"))),
            "x-00004-of-00003.gguf: keys 'split.no' and 'split.count': there can't be a part 4 of 3");

  write("m-00002-of-00003.gguf", part(2, 3, "b"));
  EXPECT_EQ(refused("wrong split.no", first),
            "m-00002-of-00003.gguf: key 'split.no': is 2, but this is part 2 of 3, which has 1");
  write("m-00002-of-00003.gguf", part(1, 4, "b"));
  EXPECT_EQ(refused("wrong split.count", first),
            "m-00002-of-00003.gguf: key 'split.count': is 4, but the first part says 3");
  write("m-00002-of-00003.gguf", part(1, 3, "a"));
  EXPECT_EQ(refused("tensor in two parts", first), "m-00002-of-00003.gguf: tensor 'a': also in part 1");
  GgufBuilder extra = part(1, 3, "b");
  write("m-00002-of-00003.gguf", extra.tensor("d", {8}, DType::f32, 32));
  EXPECT_EQ(refused("wrong total of tensors", first),
            "m-00001-of-00003.gguf: key 'split.tensors.count': is 3, but the 3 parts have 4 tensors");
  write("m-00002-of-00003.gguf", GgufBuilder());
  EXPECT_EQ(refused("part without split keys", first),
            "m-00002-of-00003.gguf: key 'split.no': is 0, but this is part 2 of 3, which has 1");
  std::filesystem::resize_file(folder_ / "m-00002-of-00003.gguf", 10);
  EXPECT_EQ(refused("truncated part", first),
            "m-00002-of-00003.gguf: the file ends inside the number of tensors: 8 bytes needed, 2 left (at byte 8)");
  std::filesystem::remove(folder_ / "m-00002-of-00003.gguf");
  EXPECT_EQ(refused("missing part", first), "m-00002-of-00003.gguf: cannot open: No such file or directory");
  EXPECT_EQ(refused("a folder", folder_ / ""), ": not a regular file but a folder");
}

}  // namespace
}  // namespace rocmforge
