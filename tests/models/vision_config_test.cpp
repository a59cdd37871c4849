#include "models/vision/vision_config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "models/error_text.h"
#include "models/model_file.h"
#include "models/vision/image_patches.h"
#include "models/vision/image_tiles.h"
#include "models/vision_golden.h"

namespace rocmforge::testing {
namespace {

/// The error of reading the encoder `name` after `change`, for the text model of the same name.
template <class Change>
std::string refused(const std::string& name, Change&& change) {
  ModelFile model = ModelFile::golden("vision/mmproj-" + name);
  change(model);
  const OpenModel open(model);
  const GgufFile text{vision_path(name + ".gguf")};
  return error_text([&] { static_cast<void>(VisionConfig::from_gguf(open.file, ModelConfig::from_gguf(text))); });
}

TEST(VisionConfig, WhatCantBeComputedIsRefused) {
  const auto set = [](const std::string& key, const GgufValue& value) {
    return [=](ModelFile& model) { model.set(key, value); };
  };
  EXPECT_EQ(refused("qwen3vl", set("clip.projector_type", std::string("ldp"))),
            "tiny.gguf: the projector 'ldp' is not supported, those supported are qwen3vl_merger, gemma4v, gemma4uv, "
            "gemma3, pixtral, "
            "qwen2.5vl_merger, qwen2.5o, qwen2vl_merger, internvl, idefics3, glm4v, lfm2");
  EXPECT_EQ(refused("qwen3vl", set("general.architecture", std::string("llama"))),
            "tiny.gguf: this is no image encoder (mmproj) but a model of architecture 'llama'");
  EXPECT_EQ(refused("qwen3vl", set("clip.has_vision_encoder", false)), "tiny.gguf: has no image encoder");
  EXPECT_EQ(refused("qwen3vl", set("clip.use_gelu", false)),
            "tiny.gguf: key 'clip.use_gelu' is not true, the layers of this projector have GELU");
  EXPECT_EQ(refused("qwen3vl", set("clip.vision.projection_dim", std::uint64_t{48})),
            "tiny.gguf: key 'clip.vision.projection_dim' is 48, the model has rows of 32: this encoder is another model's");
  EXPECT_EQ(
      refused("qwen3vl", [](ModelFile& model) { model.remove("clip.vision.is_deepstack_layers"); }),
      "tiny.gguf: key 'clip.vision.is_deepstack_layers' names 0 layers, the model takes the states of 2: this encoder is "
      "another model's");
  EXPECT_EQ(refused("gemma3", set("clip.vision.patch_size", std::uint64_t{7})),
            "tiny.gguf: key 'clip.vision.image_size' is 64, patches of 7 pixels do not fill it");
  EXPECT_EQ(refused("gemma3", set("clip.vision.projector.scale_factor", std::uint64_t{3})),
            "tiny.gguf: key 'clip.vision.image_size' is 64: 8 patches a side can't be merged by 3");
  EXPECT_EQ(refused("gemma3", set("clip.vision.attention.head_count", std::uint64_t{5})),
            "tiny.gguf: key 'clip.vision.attention.head_count' is 5, which does not divide embedding_length 32");
  EXPECT_EQ(refused("gemma3", [](ModelFile& model) { model.remove("clip.vision.image_std"); }),
            "tiny.gguf: key 'clip.vision.image_std' must have three positive numbers, one for each channel");
  EXPECT_EQ(refused("qwen25vl", set("clip.use_silu", false)),
            "tiny.gguf: key 'clip.use_silu' is not true, the layers of this projector have SiLU");
  EXPECT_EQ(refused("qwen25vl", [](ModelFile& model) { model.remove("clip.vision.n_wa_pattern"); }),
            "tiny.gguf: key 'clip.vision.n_wa_pattern' is missing");
  EXPECT_EQ(refused("gemma4", [](ModelFile& model) { model.remove_weight("v.position_embd.weight"); }),
            "tiny.gguf: tensor 'v.position_embd.weight' has no positions for columns and rows");
  EXPECT_EQ(refused("pixtral", set("clip.use_silu", false)),
            "tiny.gguf: key 'clip.use_silu' and 'clip.use_gelu' must say which of both the layers have");
  EXPECT_EQ(refused("lfm2", set("clip.vision.preproc_tile_size", std::uint64_t{40})),
            "tiny.gguf: key 'clip.vision.preproc_tile_size' is 40, no multiple of 32 up to 2048");
  EXPECT_EQ(refused("lfm2", set("clip.vision.projector.scale_factor", std::uint64_t{1} << 30)),
            "tiny.gguf: key 'clip.vision.projector.scale_factor' is 1073741824");
  EXPECT_EQ(refused("lfm2", [](ModelFile& model) { model.remove_weight("mm.1.weight"); }),
            "tiny.gguf: tensor 'mm.1.weight' is no linear layer");
}

TEST(VisionConfig, QwenOmniHasTheImageEncoderOfQwen25) {
  ModelFile model = ModelFile::golden("vision/mmproj-qwen25vl");
  const OpenModel same(model);
  model.set("clip.projector_type", std::string("qwen2.5o"));
  const OpenModel omni(model);
  const ModelConfig text = ModelConfig::from_gguf(GgufFile(vision_path("qwen25vl.gguf")));
  const VisionConfig expected = VisionConfig::from_gguf(same.file, text);
  const VisionConfig config = VisionConfig::from_gguf(omni.file, text);
  EXPECT_EQ(config.projector, Projector::joined);
  EXPECT_EQ(config.window, expected.window);
  EXPECT_EQ(config.window_pattern, expected.window_pattern);
  EXPECT_EQ(config.max_tokens, expected.max_tokens);
  EXPECT_EQ(config.marks.placeholder, expected.marks.placeholder);
}

TEST(VisionConfig, LimitsAreTheFilesOrThoseOfTheCaller) {
  const auto limits = [](const auto& change, std::int32_t wanted) {
    ModelFile model = ModelFile::golden("vision/mmproj-qwen3vl");
    change(model);
    const OpenModel open(model);
    const GgufFile text{vision_path("qwen3vl.gguf")};
    const VisionConfig config = VisionConfig::from_gguf(open.file, ModelConfig::from_gguf(text), wanted);
    return std::pair(config.min_tokens, config.max_tokens);
  };
  const auto as_it_is = [](ModelFile&) {};
  const auto in_pixels = [](ModelFile& model) {  // a token is 16 x 16
    model.set("clip.vision.image_min_pixels", std::uint64_t{20 * 256});
    model.set("clip.vision.image_max_pixels", std::uint64_t{300 * 256});
  };
  EXPECT_EQ(limits(as_it_is, 0), std::pair(8, 4096));
  EXPECT_EQ(limits(as_it_is, 100), std::pair(8, 100));
  EXPECT_EQ(limits(as_it_is, 4), std::pair(4, 4));
  EXPECT_EQ(limits(in_pixels, 0), std::pair(20, 300));
  EXPECT_EQ(limits(in_pixels, 1000), std::pair(20, 300));
}

/// Pixtral: the longest side is limited, so that a square has no more rows than are wanted, line ends included.
TEST(VisionConfig, ALimitShortensTheLongestSide) {
  const GgufFile file{vision_path("mmproj-pixtral.gguf")};
  const ModelConfig text = ModelConfig::from_gguf(GgufFile{vision_path("pixtral.gguf")});
  const auto limits = [&](std::int32_t wanted) {
    const VisionConfig config = VisionConfig::from_gguf(file, text, wanted);
    return std::pair(config.longest_side, config.max_tokens);
  };
  EXPECT_EQ(limits(0), std::pair(48, 3 * 3 + 2));
  EXPECT_EQ(limits(11), std::pair(48, 3 * 3 + 2));
  EXPECT_EQ(limits(10), std::pair(32, 2 * 2 + 1));
  EXPECT_EQ(limits(1), std::pair(16, 1));
}

/// transformers' smart_resize for 200 sizes (tools/goldens/vision_golden.py).
TEST(ImageSides, AreThoseOfTheReferenceImplementation) {
  std::ifstream file(vision_path("sides.txt"));
  VisionConfig config;
  config.merge = 2;
  int lines = 0;
  std::int32_t width = 0;
  std::int32_t height = 0;
  ImageSides expected;
  while (file >> config.patch_size >> config.min_tokens >> config.max_tokens >> width >> height >> expected.width >>
         expected.height) {
    const ImageSides sides = sides_for(config, width, height);
    EXPECT_EQ(sides.width, expected.width) << width << " x " << height;
    EXPECT_EQ(sides.height, expected.height) << width << " x " << height;
    ++lines;
  }
  EXPECT_EQ(lines, 200);
}

/// transformers' choice for Pixtral, for 100 sizes.
TEST(ImageSides, AreReducedToTheLongestAndRoundedUp) {
  std::ifstream file(vision_path("longest-sides.txt"));
  VisionConfig config;
  int lines = 0;
  std::int32_t width = 0;
  std::int32_t height = 0;
  ImageSides expected;
  while (file >> config.patch_size >> config.longest_side >> width >> height >> expected.width >> expected.height) {
    const ImageSides sides = sides_for(config, width, height);
    EXPECT_EQ(sides.width, expected.width) << width << " x " << height;
    EXPECT_EQ(sides.height, expected.height) << width << " x " << height;
    ++lines;
  }
  EXPECT_EQ(lines, 100);
}

/// transformers' choice for Gemma 4.
TEST(ImageSides, FillTheLimit) {
  std::ifstream file(vision_path("filled-sides.txt"));
  VisionConfig config;
  config.fills = true;
  int lines = 0;
  std::int32_t width = 0;
  std::int32_t height = 0;
  ImageSides expected;
  while (file >> config.patch_size >> config.merge >> config.max_tokens >> width >> height >> expected.width >>
         expected.height) {
    const ImageSides sides = sides_for(config, width, height);
    EXPECT_EQ(sides.width, expected.width) << width << " x " << height;
    EXPECT_EQ(sides.height, expected.height) << width << " x " << height;
    ++lines;
  }
  EXPECT_GE(lines, 90);
}

/// transformers' order for 30 images.
TEST(SquareWindows, HaveTheOrderOfTheReferenceImplementation) {
  std::ifstream file(vision_path("windows.txt"));
  std::int32_t columns = 0;
  std::int32_t lines = 0;
  int images = 0;
  for (; file >> columns >> lines; ++images) {
    const std::vector<SquareWindow> windows = windows_of(columns, lines, 4);
    EXPECT_EQ(std::ssize(windows), ((columns + 3) / 4) * ((lines + 3) / 4));
    const std::vector<PatchPlace> squares = squares_of(windows);
    ASSERT_EQ(std::ssize(squares), columns * lines);
    for (const PatchPlace& square : squares) {
      std::int32_t expected = 0;
      file >> expected;
      ASSERT_EQ(square.row * columns + square.column, expected) << columns << " x " << lines;
    }
  }
  EXPECT_EQ(images, 30);
}

/// transformers' choice for InternVL.
TEST(ImageTiles, OfTheNearestProportionsAreThoseOfTheReferenceImplementation) {
  std::ifstream file(vision_path("tile-grids.txt"));
  VisionConfig config;
  int lines = 0;
  std::int32_t width = 0;
  std::int32_t height = 0;
  TileCounts expected;
  while (file >> config.image_size >> config.least_tiles >> config.most_tiles >> width >> height >> expected.columns >>
         expected.lines) {
    const TileCounts grid = grid_of_nearest_ratio(config, width, height);
    EXPECT_EQ(grid.columns, expected.columns) << width << " x " << height;
    EXPECT_EQ(grid.lines, expected.lines) << width << " x " << height;
    ++lines;
  }
  EXPECT_EQ(lines, 100);
}

/// transformers' choice for Idefics 3.
TEST(ImageTiles, OfMultiplesAreThoseOfTheReferenceImplementation) {
  std::ifstream file(vision_path("tile-multiples.txt"));
  VisionConfig config;
  int lines = 0;
  std::int32_t width = 0;
  std::int32_t height = 0;
  MultipleSides expected;
  while (file >> config.image_size >> config.longest_side >> width >> height >> expected.first.width >>
         expected.first.height >> expected.grid.columns >> expected.grid.lines) {
    const MultipleSides sides = sides_of_multiples(config, width, height);
    EXPECT_EQ(sides.first.width, expected.first.width) << width << " x " << height;
    EXPECT_EQ(sides.first.height, expected.first.height) << width << " x " << height;
    EXPECT_EQ(sides.grid.columns, expected.grid.columns) << width << " x " << height;
    EXPECT_EQ(sides.grid.lines, expected.grid.lines) << width << " x " << height;
    ++lines;
  }
  EXPECT_EQ(lines, 100);
}

/// An image of 6 x 4 pixels of different values, in tiles of 2 x 2.
TEST(ImageTiles, AreCutLineByLine) {
  VisionConfig config;
  config.image_size = 2;
  config.fixed_size = true;
  config.tile_grid = TileGrid::nearest_ratio;
  config.most_tiles = 6;
  Image image{.width = 6, .height = 4, .rgb = {}};
  for (int i = 0; i < 3 * 6 * 4; ++i) {
    image.rgb.push_back(static_cast<std::uint8_t>(3 * i));
  }
  const TiledImage tiled = tiles_of(config, image);
  ASSERT_EQ(tiled.tiles.size(), 7u);
  for (int tile = 0; tile < 6; ++tile) {
    const Image& part = tiled.tiles[static_cast<std::size_t>(tile)].image;
    ASSERT_EQ(part.rgb.size(), 12u);
    for (int value = 0; value < 12; ++value) {
      const int line = tile / 3 * 2 + value / 6;
      const int at = 3 * (line * 6 + tile % 3 * 2) + value % 6;
      EXPECT_EQ(part.rgb[static_cast<std::size_t>(value)], 3 * at) << tile;
    }
  }
  EXPECT_EQ(tiled.tiles.back().image.rgb, resize(image, 2, 2, config.filter).rgb) << "the whole image is behind them";
}

TEST(ImageTiles, OfIdefics3SayWhereTheyAre) {
  VisionConfig config;
  config.image_size = 2;
  config.longest_side = 4;
  config.fixed_size = true;
  config.tile_grid = TileGrid::multiples;
  config.marks.after = "<fake>";
  const auto texts = [&](int width, int height) {
    std::string all;
    for (const ImageTile& tile :
         tiles_of(config,
                  {.width = width, .height = height, .rgb = std::vector<std::uint8_t>(std::size_t{3} * width * height)})
             .tiles) {
      all += tile.before + "#";
    }
    return all;
  };
  EXPECT_EQ(texts(8, 8),
            "<fake><row_1_col_1>#<fake><row_1_col_2>#\n<fake><row_2_col_1>#<fake><row_2_col_2>#\n\n<fake><global-img>#");
  config.longest_side = 2;
  EXPECT_EQ(texts(8, 8), "<fake><global-img>#");
}

/// LFM2-VL: an image of more than twice the pixels of max_tokens is cut, others are not.
TEST(ImageTiles, OfLargeImagesSayWhereTheyAre) {
  VisionConfig config;
  config.patch_size = 1;
  config.merge = 2;
  config.tile_side = 4;
  config.min_tokens = 1;
  config.max_tokens = 4;
  config.keeps_a_square = true;
  config.tile_grid = TileGrid::of_large;
  config.least_tiles = 2;
  config.most_tiles = 6;
  const auto texts = [&](int width, int height) {
    std::string all;
    for (const ImageTile& tile :
         tiles_of(config,
                  {.width = width, .height = height, .rgb = std::vector<std::uint8_t>(std::size_t{3} * width * height)})
             .tiles) {
      all += fmt::format("{}{}x{} ", tile.before, tile.image.width, tile.image.height);
    }
    return all;
  };
  EXPECT_EQ(texts(8, 4), "4x2 ");
  EXPECT_EQ(texts(4, 1), "4x2 ") << "a side has at least a square";
  EXPECT_EQ(texts(12, 4), "<|img_row_1_col_1|>4x4 <|img_row_1_col_2|>4x4 <|img_row_1_col_3|>4x4 <|img_thumbnail|>6x2 ");
  EXPECT_EQ(texts(8, 8),
            "<|img_row_1_col_1|>4x4 <|img_row_1_col_2|>4x4 <|img_row_2_col_1|>4x4 <|img_row_2_col_2|>4x4 "
            "<|img_thumbnail|>4x4 ");
}

/// With the whole image behind them: 4 rows each.
TEST(VisionConfig, ALimitLeavesFewerTiles) {
  const auto tiles = [](const std::string& name, std::int32_t wanted) {
    ModelFile model = ModelFile::golden("vision/mmproj-" + name);
    model.set("clip.vision.preproc_max_tiles", std::uint64_t{12});
    model.set("clip.vision.preproc_image_size", std::uint64_t{64});
    const OpenModel open(model);
    const GgufFile text{vision_path(name + ".gguf")};
    const VisionConfig config = VisionConfig::from_gguf(open.file, ModelConfig::from_gguf(text), wanted);
    return name == "internvl" ? config.most_tiles : config.longest_side;
  };
  EXPECT_EQ(tiles("internvl", 0), 12);
  EXPECT_EQ(tiles("internvl", 24), 5);
  EXPECT_EQ(tiles("internvl", 4), 1);
  EXPECT_EQ(tiles("idefics3", 0), 64);
  EXPECT_EQ(tiles("idefics3", 40), 48);
  EXPECT_EQ(tiles("idefics3", 4), 16);
}

/// LFM2-VL: a tile has one row here, the whole image two.
TEST(VisionConfig, ALimitLeavesLargeImagesWhole) {
  const GgufFile file{vision_path("mmproj-lfm2.gguf")};
  const ModelConfig text = ModelConfig::from_gguf(GgufFile{vision_path("lfm2.gguf")});
  const auto tiles = [&](std::int32_t wanted) {
    const VisionConfig config = VisionConfig::from_gguf(file, text, wanted);
    return config.tile_grid == TileGrid::none ? 0 : config.most_tiles;
  };
  EXPECT_EQ(tiles(0), 4);
  EXPECT_EQ(tiles(5), 3);
  EXPECT_EQ(tiles(4), 2);
  EXPECT_EQ(tiles(3), 0);
  EXPECT_EQ(tiles(1), 0);
}

TEST(ImageSides, OfAnImageThatIsAlmostALineAreRefused) {
  VisionConfig config;
  config.patch_size = 16;
  config.merge = 2;
  config.min_tokens = 8;
  config.max_tokens = 1024;
  EXPECT_EQ(error_text([&] { sides_for(config, 65535, 1); }),
            "an image of 65535 x 1 pixels has sides that differ more than 200 times");
  EXPECT_NO_THROW(sides_for(config, 20000, 100));
  config.max_tokens = 8;
  EXPECT_EQ(error_text([&] { sides_for(config, 20000, 100); }),
            "an image of 20000 x 100 pixels takes 40 tokens, at most 8 are possible");
}

}  // namespace
}  // namespace rocmforge::testing
