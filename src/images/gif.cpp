#include <fmt/format.h>
#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"
#include "images/codec.h"

namespace rocmforge {
namespace {

struct Source {
  std::span<const std::uint8_t> left;
};

int read_bytes(GifFileType* gif, GifByteType* to, int count) {
  auto& source = *static_cast<Source*>(gif->UserData);
  const std::size_t got = std::min(source.left.size(), static_cast<std::size_t>(std::max(count, 0)));
  std::copy_n(source.left.begin(), got, to);
  source.left = source.left.subspan(got);
  return static_cast<int>(got);
}

[[noreturn]] void fail(int code) {
  const char* reason = GifErrorString(code);
  throw Error(reason == nullptr ? "it is broken" : reason);
}

void expect(GifFileType* gif, int result) {
  if (result != GIF_OK) {
    fail(gif->Error);
  }
}

struct Close {
  void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
};
using Gif = std::unique_ptr<GifFileType, Close>;

/// Skips to the first frame. Returns the colour that its control block calls transparent, or -1.
int find_frame(GifFileType* gif) {
  int transparent = NO_TRANSPARENT_COLOR;
  for (GifRecordType type{}; type != IMAGE_DESC_RECORD_TYPE;) {
    expect(gif, DGifGetRecordType(gif, &type));
    if (type == TERMINATE_RECORD_TYPE) {
      throw Error("it has no frame");
    }
    if (type != EXTENSION_RECORD_TYPE) {
      continue;
    }
    int code = 0;
    GifByteType* block = nullptr;
    expect(gif, DGifGetExtension(gif, &code, &block));
    while (block != nullptr) {
      GraphicsControlBlock control;
      if (code == GRAPHICS_EXT_FUNC_CODE && DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK) {
        transparent = control.TransparentColor;
      }
      expect(gif, DGifGetExtensionNext(gif, &block));
    }
  }
  return transparent;
}

/// The rows of a frame in the order of the file.
std::vector<int> rows_of(int height, bool is_interlaced) {
  struct Pass {
    int first, step;
  };
  constexpr std::array passes = {Pass{0, 8}, Pass{4, 8}, Pass{2, 4}, Pass{1, 2}};
  std::vector<int> rows;
  rows.reserve(static_cast<std::size_t>(height));
  for (const Pass& pass : passes) {
    for (int y = is_interlaced ? pass.first : 0; y < height && rows.size() < static_cast<std::size_t>(height);
         y += is_interlaced ? pass.step : 1) {
      rows.push_back(y);
    }
  }
  return rows;
}

void paint(const ColorMapObject& colours, int index, std::uint8_t* rgb) {
  const GifColorType colour = index < colours.ColorCount ? colours.Colors[index] : GifColorType{};
  rgb[0] = colour.Red;
  rgb[1] = colour.Green;
  rgb[2] = colour.Blue;
}

}  // namespace

Image decode_gif(const ImageFile& file) {
  Source source{file.bytes};
  int code = 0;
  const Gif gif(DGifOpen(&source, read_bytes, &code));
  if (gif == nullptr) {
    fail(code);
  }
  const int transparent = find_frame(gif.get());
  expect(gif.get(), DGifGetImageDesc(gif.get()));
  const GifImageDesc& frame = gif->Image;
  // A frame may reach beyond the screen, which then grows.
  Image image =
      new_image(std::max(gif->SWidth, frame.Left + frame.Width), std::max(gif->SHeight, frame.Top + frame.Height), file);
  const ColorMapObject* colours = frame.ColorMap != nullptr ? frame.ColorMap : gif->SColorMap;
  if (colours == nullptr || frame.Width < 1 || frame.Height < 1) {
    throw Error(colours == nullptr ? "it has no colours" : "its frame is empty");
  }
  const std::size_t row_bytes = static_cast<std::size_t>(image.width) * 3;
  for (std::size_t i = 0; i < image.rgb.size(); i += 3) {
    paint(*colours, transparent >= 0 ? transparent : gif->SBackGroundColor, image.rgb.data() + i);
  }
  std::vector<GifPixelType> line(static_cast<std::size_t>(frame.Width));
  for (const int y : rows_of(frame.Height, frame.Interlace)) {
    expect(gif.get(), DGifGetLine(gif.get(), line.data(), frame.Width));
    std::uint8_t* target =
        image.rgb.data() + static_cast<std::size_t>(frame.Top + y) * row_bytes + static_cast<std::size_t>(frame.Left) * 3;
    for (const GifPixelType index : line) {
      paint(*colours, index, target);
      target += 3;
    }
    spend_pixels(file, frame.Width);
  }
  return image;
}

}  // namespace rocmforge
