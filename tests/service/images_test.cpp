#include "service/images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "apps/program.h"
#include "base/error.h"
#include "error_of.h"
#include "paths.h"
#include "service/image_files.h"
#include "service/service_error.h"
#include "service/service_testing.h"
#include "service/turn.h"

namespace rocmforge {
namespace {

std::vector<Image> read_images(const Conversation& conversation, const ImageSources& sources, Reading& reading) {
  ImageAllowance allowance;
  return rocmforge::read_images(conversation.images(), sources, allowance, reading);
}

using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;

std::string file_of(const std::string& name) {
  std::ifstream file(test::test_data("golden/images/" + name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string code;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      code += i + k <= bytes.size() ? digits[bits >> (18 - 6 * k) & 63] : '=';
    }
  }
  return code;
}

ImagePart image_in(const std::string& file) {
  return {.url = "data:image/png;base64," + base64(file_of(file)), .field = "f"};
}

Conversation with_images(std::vector<Part> parts) {
  return {.messages = {{.role = Role::user, .content = std::move(parts)}}};
}

/// A byte tokenizer with a control token and a token that any text may name.
std::shared_ptr<const Tokenizer> tokenizer_with_marks() {
  Vocabulary vocabulary = byte_tokenizer()->vocabulary();
  for (const auto& [text, type] : {std::pair("<image>", TokenType::control), std::pair("<open>", TokenType::user_defined)}) {
    vocabulary.tokens.push_back(text);
    vocabulary.types.push_back(type);
    vocabulary.scores.push_back(0.0f);
  }
  return Tokenizer::create(std::move(vocabulary));
}

constexpr const char* chat_template =
    "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content %}{{ '<image>' if p.type == 'image' else p.text }}{% endfor %}{% endif %}|{% endfor %}";

std::shared_ptr<ModelInstance> model_that_sees(Models& models, ServiceOptions options = named("eye")) {
  FakeEngine fake = make_fake_engine({.max_batch_tokens = 64, .max_sequences = 4, .kv_tokens = 4096}, tokenizer_with_marks(),
                                     FakeModel::Kind::attention, 256);
  options.chat_template = chat_template;
  options.images = ImageInput{.placeholder = "<image>"};
  return models.add(std::move(fake.engine), options);
}

Turn turn_of(Conversation conversation, ModelInstance& model, std::shared_ptr<RequestMemory> memory = nullptr) {
  Reading reading(200'000'000, std::move(memory), "c");
  return make_turn({.conversation = std::move(conversation)}, model, reading);
}

TEST(TurnImages, StandWhereTheTemplateMarksThem) {
  Models models;
  const auto model = model_that_sees(models);
  const Turn turn =
      turn_of(with_images({TextPart{"ab"}, image_in("rgb.png"), TextPart{"<image>"}, image_in("photo.jpg")}), *model);
  ASSERT_EQ(turn.images.size(), 2u);
  const std::int32_t mark = model->facts().text().find("<image>");
  std::vector<std::int32_t> places;
  for (std::size_t i = 0; i < turn.request.prompt.size(); ++i) {
    if (turn.request.prompt[i] == mark) {
      places.push_back(static_cast<std::int32_t>(i));
    }
  }
  EXPECT_THAT(places, ElementsAre(turn.images[0].position, turn.images[1].position)) << "a user's text named a mark";
  EXPECT_EQ(turn.images[0].image.width, 37);
  EXPECT_EQ(turn.images[1].image.rgb.size(), 37u * 23 * 3);
}

TEST(TurnImages, AreRefusedByModelsThatReadTextAlone) {
  Models models;
  ServiceOptions options = named("blind");
  options.chat_template = chat_template;
  const auto model = models.add(scripted_engine(saying("a")), options);
  try {
    turn_of(with_images({image_in("rgb.png")}), *model);
    FAIL() << "no error";
  } catch (const ServiceError& error) {
    EXPECT_EQ(error.kind, ServiceError::Kind::unsupported);
    EXPECT_EQ(error.message, "the model reads text alone and can't see images");
    EXPECT_EQ(error.field, "f");
  }
}

TEST(TurnImages, MemoryIsCounted) {
  Models models;
  const auto model = model_that_sees(models);
  const auto enough = std::make_shared<RequestMemory>(std::int64_t{64} << 20, 100);
  EXPECT_EQ(turn_of(with_images({image_in("rgb.png")}), *model, enough).images.size(), 1u);
  const auto little = std::make_shared<RequestMemory>(16 * 1024, 100);
  EXPECT_THROW(turn_of(with_images({image_in("tall.jpg")}), *model, little), ServiceError);
}

/// The message for an image that can't be read.
std::string refusal(ImagePart part, const ImageSources& sources = {}) {
  Reading reading(200'000'000, nullptr, "c");
  part.field = "messages[0].content[0].image_url";
  try {
    read_images(with_images({std::move(part)}), sources, reading);
  } catch (const ServiceError& error) {
    EXPECT_EQ(error.kind, ServiceError::Kind::invalid);
    EXPECT_EQ(error.field, "messages[0].content[0].image_url");
    EXPECT_TRUE(error.message.starts_with(error.field + ": ")) << error.message;
    return error.message.substr(error.field.size() + 2);
  }
  return "no error";
}

TEST(ReadImages, WhatIsNoImageIsRefusedInOneLine) {
  EXPECT_EQ(refusal({.url = "data:image/png;base64,A*"}), "the base64 text is broken");
  EXPECT_EQ(refusal({.url = "data:image/png,AAAA"}), "the data: URL is not in base64");
  EXPECT_THAT(refusal({.url = "data:image/png;base64,AAAA"}), HasSubstr("the image is of an unknown format; read are PNG"));
  EXPECT_EQ(refusal({.url = "data:;base64,"}), "the image has no bytes");
  EXPECT_EQ(refusal({.url = "ftp://a/b"}), "'ftp://a/b' is no data: URL in base64, nor an address");
  EXPECT_EQ(refusal({.url = "https://a/b.png"}),
            "addresses are not fetched here: --allow-image-urls allows it; or send the image itself in a data: URL");
  EXPECT_EQ(refusal({.url = "file:///etc/passwd"}), "files are not read here: --image-folder allows those of one folder");
}

TEST(ReadImages, AnAddressIsFetchedWhereThatIsAllowed) {
  ImageSources sources;
  sources.fetch = [](const std::string& url, std::size_t) -> std::string {
    if (url != "https://a/b.png") {
      throw Error("a: no such host");
    }
    return file_of("rgb.png");
  };
  EXPECT_EQ(refusal({.url = "https://a/b.png"}, sources), "no error");
  EXPECT_EQ(refusal({.url = "http://c/b.png"}, sources), "a: no such host");
}

TEST(ReadImages, MoreThanARequestMayHaveAreRefused) {
  Reading reading(200'000'000, nullptr, "c");
  const Conversation conversation = with_images(std::vector<Part>(most_images + 1, image_in("one.png")));
  EXPECT_EQ(error_of([&] { read_images(conversation, {}, reading); }), "the request has 65 images, at most 64 are read");
}

TEST(ReadImages, WorkOfARequestIsLimited) {
  Reading reading(100, nullptr, "c");
  EXPECT_NE(error_of([&] { read_images(with_images({image_in("rgb.png")}), {}, reading); }), "no error");
  Reading stopped(200'000'000, nullptr, "c");
  stopped.budget.stop();
  EXPECT_THROW(read_images(with_images({image_in("rgb.png")}), {}, stopped), Interrupted);
}

TEST(ImageFiles, AreReadBelowTheFolderAlone) {
  const TemporaryFolder outside, folder;
  const auto path = [](const TemporaryFolder& of, const std::string& name) { return (of.path() / name).string(); };
  const std::string image = file_of("rgb.png");
  std::ofstream(path(folder, "a b.png"), std::ios::binary) << image;
  std::ofstream(path(outside, "secret.png"), std::ios::binary) << image;
  std::filesystem::create_symlink(path(outside, "secret.png"), path(folder, "link.png"));
  ::mkfifo(path(folder, "pipe.png").c_str(), 0600);
  const std::string root = folder.path();
  const auto read = [&](const std::string& url) { return error_of([&] { read_image_file(url, root, 10'000); }); };
  EXPECT_EQ(read_image_file(url_of_file(path(folder, "a b.png")), root, 10'000), image);
  EXPECT_EQ(read_image_file("file://localhost" + root + "/a%20b.png", root, 10'000), image);
  const std::string none = "there is no such file in the folder of images";
  EXPECT_EQ(read(url_of_file(path(folder, "missing.png"))), none);
  EXPECT_EQ(read(url_of_file(path(outside, "secret.png"))), none);
  EXPECT_EQ(read(url_of_file(path(folder, "link.png"))), none);
  EXPECT_EQ(read("file://" + root + "/../" + outside.path().filename().string() + "/secret.png"), none);
  EXPECT_EQ(error_of([&] { read_image_file(url_of_file(path(folder, "missing.png")), "/", 10); }), "there is no such file");
  EXPECT_EQ(read("file://" + root), none);
  EXPECT_EQ(read(url_of_file(path(folder, "pipe.png"))), "the file can't be read, or is no regular file");
  EXPECT_THAT(read("file://host/a.png"), HasSubstr("is no file:// URL with a whole path"));
  EXPECT_THAT(read("file:///a%00b"), HasSubstr("is no file:// URL with a whole path"));
  EXPECT_THAT(error_of([&] { read_image_file(url_of_file(path(folder, "a b.png")), root, 10); }), HasSubstr("10 are read"));
}

TEST(PlacesOfImages, AreAsManyAsImages) {
  const auto tokenizer = tokenizer_with_marks();
  const auto places = [&](std::vector<ChatSegment> segments, const std::string& mark, std::size_t count) {
    const std::vector<std::int32_t> ids = encode_chat(*tokenizer, segments);
    return places_of_images(count, {.placeholder = mark}, *tokenizer, segments, ids, "messages");
  };
  EXPECT_EQ(places({{"a<image>b<image>", true}}, "<image>", 2).size(), 2u);
  EXPECT_EQ(error_of([&] { places({{"a<image>", true}}, "<image>", 2); }), "the chat template writes 1 marks for 2 images");
  EXPECT_EQ(places({{"a<image>", true}, {"<image>", false}}, "<image>", 1).size(), 1u);
  EXPECT_EQ(error_of([&] {
              places({{"a<open>", true}, {"<open>", false}}, "<open>", 1);
            }),
            "a text of the conversation holds '<open>', which stands for an image");
  EXPECT_EQ(error_of([&] {
              places({{"a", true}}, "<none>", 1);
            }),
            "the model's vocabulary has no token '<none>', which stands for an image");
}

}  // namespace
}  // namespace rocmforge
