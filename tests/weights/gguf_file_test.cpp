#include "weights/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "linear_growth.h"
#include "weights/gguf_builder.h"

namespace rocmforge {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;
using ::testing::ThrowsMessage;

GgufBuilder all_value_types() {
  GgufBuilder file;
  file.scalar("u8", GgufType::u8, std::uint8_t{200})
      .scalar("i8", GgufType::i8, std::int8_t{-100})
      .scalar("u16", GgufType::u16, std::uint16_t{60000})
      .scalar("i16", GgufType::i16, std::int16_t{-30000})
      .scalar("u32", GgufType::u32, std::uint32_t{4000000000u})
      .scalar("i32", GgufType::i32, std::int32_t{-2000000000})
      .scalar("u64", GgufType::u64, std::uint64_t{1} << 40)
      .scalar("u64 large", GgufType::u64, std::numeric_limits<std::uint64_t>::max())
      .scalar("i64", GgufType::i64, -(std::int64_t{1} << 40))
      .scalar("f32", GgufType::f32, 0.5f)
      .scalar("f64", GgufType::f64, 0.1)
      .scalar("bool", GgufType::boolean, std::uint8_t{1})
      .string("string", "caf\xc3\xa9")
      .string("empty", "");
  return file;
}

TEST(GgufFile, ReadsEveryScalarType) {
  const auto bytes = all_value_types().build();
  const auto file = GgufFile::from_memory(bytes);
  EXPECT_EQ(file.integer("u8"), 200);
  EXPECT_EQ(file.integer("i8"), -100);
  EXPECT_EQ(file.integer("u16"), 60000);
  EXPECT_EQ(file.integer("i16"), -30000);
  EXPECT_EQ(file.integer("u32"), 4000000000);
  EXPECT_EQ(file.integer("i32"), -2000000000);
  EXPECT_EQ(file.integer("u64"), std::int64_t{1} << 40);
  EXPECT_EQ(file.integer("i64"), -(std::int64_t{1} << 40));
  EXPECT_EQ(file.number("f32"), 0.5);
  EXPECT_EQ(file.number("f64"), 0.1);
  EXPECT_EQ(file.number("i8"), -100.0);
  EXPECT_TRUE(file.boolean("bool", false));
  EXPECT_EQ(file.string("string"), "caf\xc3\xa9");
  EXPECT_EQ(file.string("empty"), "");
  EXPECT_EQ(file.metadata().front().first, "u8");
  EXPECT_EQ(file.metadata().back().first, "empty");
  EXPECT_EQ(file.num_shards(), 1);
  EXPECT_EQ(file.file_bytes(), bytes.size());
}

TEST(GgufFile, FallsBackOnlyForAbsentKeys) {
  const auto bytes = all_value_types().build();
  const auto file = GgufFile::from_memory(bytes, "model.gguf");
  EXPECT_EQ(file.integer("none", 7), 7);
  EXPECT_EQ(file.integer("u8", 7), 200);
  EXPECT_EQ(file.number("none", 2.5), 2.5);
  EXPECT_EQ(file.string("none", "text"), "text");
  EXPECT_TRUE(file.boolean("none", true));
  EXPECT_EQ(file.strings("none"), nullptr);
  EXPECT_EQ(file.integers("none"), std::nullopt);
  EXPECT_EQ(file.numbers("none"), std::nullopt);
  const auto message_of = [](auto&& action) {
    try {
      action();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message_of([&] { (void)file.integer("none"); }), "model.gguf: key 'none' is missing");
  EXPECT_EQ(message_of([&] { (void)file.integer("string", 7); }),
            "model.gguf: key 'string' is a string, an integer was expected");
  EXPECT_EQ(message_of([&] { (void)file.integer("u64 large"); }),
            "model.gguf: key 'u64 large' is 18446744073709551615, over the largest signed 64-bit integer");
  EXPECT_EQ(message_of([&] { (void)file.number("bool", 1.0); }),
            "model.gguf: key 'bool' is a boolean, a number was expected");
  EXPECT_EQ(message_of([&] { (void)file.string("f32"); }), "model.gguf: key 'f32' is a float, a string was expected");
  EXPECT_EQ(message_of([&] { (void)file.boolean("u8", true); }),
            "model.gguf: key 'u8' is an integer, a boolean was expected");
  EXPECT_EQ(message_of([&] { (void)file.strings("string"); }),
            "model.gguf: key 'string' is a string, an array of strings was expected");
  EXPECT_EQ(message_of([&] { (void)file.tensor("output.weight"); }), "model.gguf: tensor 'output.weight' is missing");
}

TEST(GgufFile, ReadsArraysOfEveryElementType) {
  GgufBuilder builder;
  builder.array<std::uint8_t>("u8", GgufType::u8, {0, 255})
      .array<std::int8_t>("i8", GgufType::i8, {-128, 127})
      .array<std::uint16_t>("u16", GgufType::u16, {1, 65535})
      .array<std::int16_t>("i16", GgufType::i16, {-32768, 5})
      .array<std::uint32_t>("u32", GgufType::u32, {1, 4000000000u})
      .array<std::int32_t>("i32", GgufType::i32, {-5, 5})
      .array<std::uint64_t>("u64", GgufType::u64, {1, 2})
      .array<std::int64_t>("i64", GgufType::i64, {-1, 2})
      .array<float>("f32", GgufType::f32, {0.5f, -2.0f})
      .array<double>("f64", GgufType::f64, {0.1, 1e300})
      .array<std::uint8_t>("bool", GgufType::boolean, {1, 0, 1})
      .array<std::string>("strings", GgufType::string, {"", "two", std::string("nul\0", 4)})
      .array<float>("none", GgufType::f32, {})
      .scalar("scalar", GgufType::i16, std::int16_t{-4});
  const auto bytes = builder.build();
  const auto file = GgufFile::from_memory(bytes);
  EXPECT_THAT(file.integers("u8"), Optional(ElementsAre(0, 255)));
  EXPECT_THAT(file.integers("i8"), Optional(ElementsAre(-128, 127)));
  EXPECT_THAT(file.integers("u16"), Optional(ElementsAre(1, 65535)));
  EXPECT_THAT(file.integers("i16"), Optional(ElementsAre(-32768, 5)));
  EXPECT_THAT(file.integers("u32"), Optional(ElementsAre(1, 4000000000)));
  EXPECT_THAT(file.integers("i32"), Optional(ElementsAre(-5, 5)));
  EXPECT_THAT(file.integers("u64"), Optional(ElementsAre(1, 2)));
  EXPECT_THAT(file.integers("i64"), Optional(ElementsAre(-1, 2)));
  EXPECT_THAT(file.numbers("f32"), Optional(ElementsAre(0.5, -2.0)));
  EXPECT_THAT(file.numbers("f64"), Optional(ElementsAre(0.1, 1e300)));
  EXPECT_THAT(file.integers("bool"), Optional(ElementsAre(1, 0, 1)));
  EXPECT_THAT(*file.strings("strings"), ElementsAre("", "two", std::string("nul\0", 4)));
  EXPECT_THAT(file.numbers("none"), Optional(ElementsAre()));
  EXPECT_THAT(file.integers("scalar"), Optional(ElementsAre(-4)));
  EXPECT_THAT(file.numbers("i32"), Optional(ElementsAre(-5.0, 5.0)));
  EXPECT_THAT([&] { (void)file.integers("f32"); },
              ThrowsMessage<Error>(HasSubstr("is an array of f32, an array of integers")));
  EXPECT_THAT([&] { (void)file.numbers("bool"); },
              ThrowsMessage<Error>(HasSubstr("is an array of bool, an array of numbers")));
}

TEST(GgufFile, ReadsNestedArrays) {
  Bytes inner;
  inner.put(static_cast<std::uint32_t>(GgufType::u16)).put(std::uint64_t{2}).put(std::uint16_t{3}).put(std::uint16_t{4});
  Bytes outer;
  outer.put(static_cast<std::uint32_t>(GgufType::array)).put(std::uint64_t{2}).raw(inner.bytes()).raw(inner.bytes());
  const auto bytes = GgufBuilder().pair("nested", GgufType::array, outer).string("after", "x").build();
  const auto file = GgufFile::from_memory(bytes);
  const auto& array = std::get<GgufArray>(*file.find("nested"));
  EXPECT_EQ(array.size(), 2u);
  const auto& second = std::get<std::vector<GgufArray>>(array.elements)[1];
  EXPECT_EQ(second.element_type, GgufType::u16);
  EXPECT_THAT(std::get<std::vector<std::uint64_t>>(second.elements), ElementsAre(3, 4));
  EXPECT_EQ(file.string("after"), "x");
}

// Offsets count from the aligned start of the data section, dimensions are listed innermost first.
TEST(GgufFile, PlacesTensorsFromTheDataSection) {
  for (const std::size_t alignment : {8u, 32u, 256u}) {
    GgufBuilder builder;
    builder.alignment = alignment;
    builder.scalar("general.alignment", GgufType::u32, static_cast<std::uint32_t>(alignment));
    builder.tensor("a", {64, 3}, DType::f32, 64 * 3 * 4).tensor("experts", {256, 5, 2}, DType::q6_k, 2100);
    builder.tensor("scalar", {}, DType::f32, 4);
    auto bytes = builder.build();
    const std::size_t data_start = bytes.size() - builder.data_bytes;
    for (std::size_t i = data_start; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>((i - data_start) / 256 + 1);
    }
    const auto file = GgufFile::from_memory(bytes);
    ASSERT_EQ(file.tensors().size(), 3u);
    const GgufTensor& a = file.tensor("a");
    EXPECT_EQ(a.tensor.shape, (Shape{3, 64}));
    EXPECT_EQ(a.tensor.data, bytes.data() + data_start);
    EXPECT_EQ(a.file_offset, data_start);
    const GgufTensor& experts = file.tensor("experts");
    EXPECT_EQ(experts.tensor.shape, (Shape{2, 5, 256}));
    EXPECT_EQ(experts.tensor.dtype, DType::q6_k);
    EXPECT_EQ(experts.tensor.bytes(), 2100u);
    EXPECT_EQ(*experts.tensor.as<std::byte>(), std::byte{4});  // the fourth 256 bytes of the data section
    EXPECT_EQ(file.tensor("scalar").tensor.shape, Shape{});
    EXPECT_EQ(file.find_tensor("b"), nullptr);
  }
}

TEST(GgufFile, KnowsTheSizeOfEveryType) {
  for (const DTypeInfo& type : all_dtypes()) {
    GgufBuilder builder;
    builder.tensor("t", {2 * type.block_elems, 3}, type.type, static_cast<std::size_t>(6 * type.block_bytes));
    const auto bytes = builder.build();
    const auto file = GgufFile::from_memory(bytes);
    EXPECT_EQ(file.tensor("t").tensor.bytes(), static_cast<std::size_t>(6 * type.block_bytes)) << type.name;
  }
}

TEST(GgufFile, AcceptsVersion2AndFilesWithoutTensors) {
  GgufBuilder builder = all_value_types();
  builder.version = 2;
  const auto bytes = builder.header().bytes();  // a vocabulary file may end without padding
  EXPECT_EQ(GgufFile::from_memory(bytes).version(), 2u);
}

TEST(GgufFile, MapsAFileAndReleasesItsPages) {
  const auto path = std::filesystem::temp_directory_path() / ("rocmforge_" + std::to_string(::getpid()) + ".gguf");
  GgufBuilder builder;
  builder.tensor("weight", {4096, 4}, DType::f32, 65536);
  auto bytes = builder.build();
  bytes.back() = std::byte{0x3f};
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  const GgufFile file(path);
  const GgufTensor& weight = file.tensor("weight");
  EXPECT_EQ(weight.tensor.as<float>()[16383], 0.5f);
  file.release(weight);
  EXPECT_EQ(weight.tensor.as<float>()[16383], 0.5f);
  EXPECT_EQ(file.path(), path);
  std::filesystem::remove(path);
}

TEST(GgufFile, LoadsALargeVocabularyInLinearTime) {
  const auto tokens = [](std::size_t count) {
    std::vector<std::string> list(count);
    for (std::size_t i = 0; i < count; ++i) {
      list[i] = "token number " + std::to_string(i);
    }
    return list;
  };
  const auto file_of = [](const std::vector<std::string>& list) {
    return GgufBuilder().array("tokenizer.ggml.tokens", GgufType::string, list).build();
  };
  constexpr std::size_t count = 128 * 1024;
  const auto large = file_of(tokens(count));
  EXPECT_EQ(*GgufFile::from_memory(large).strings("tokenizer.ggml.tokens"), tokens(count));
  const auto load = [](const std::vector<std::byte>& bytes) { (void)GgufFile::from_memory(bytes); };
  EXPECT_LT(test::growth_of_time(load, file_of(tokens(count / test::growth_of_input)), large), test::most_linear_growth);
}

}  // namespace
}  // namespace rocmforge
