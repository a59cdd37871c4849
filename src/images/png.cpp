#include <png.h>

#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/error.h"
#include "images/codec.h"

namespace rocmforge {
namespace {

/// libpng's reader of bytes in memory. Its errors become Error at the border to libpng (guarded()).
class PngReader {
 public:
  explicit PngReader(const ImageFile& file) : file_(file) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, [](png_structp, png_const_charp) {});
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw Error("libpng does not start");
    }
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  Image read() {
    guarded([](PngReader& reader) { reader.read_header(); });
    Image image = new_image(png_get_image_width(png_, info_), png_get_image_height(png_, info_), file_);
    row_bytes_ = static_cast<std::size_t>(image.width) * 3;
    guarded([](PngReader& reader) { reader.start(); });
    if (png_get_rowbytes(png_, info_) != row_bytes_) {
      throw Error("its colours are of an unknown kind");
    }
    for (int pass = 0; pass < passes_; ++pass) {
      for (int y = 0; y < image.height; ++y) {
        row_ = image.rgb.data() + static_cast<std::size_t>(y) * row_bytes_;
        guarded([](PngReader& reader) { png_read_row(reader.png_, reader.row_, nullptr); });
        spend_pixels(file_, image.width);
      }
    }
    return image;
  }

 private:
  /// Runs `body`, which holds no object with a destructor, and throws what libpng reports.
  void guarded(void (*body)(PngReader&)) {
    if (setjmp(jump_) == 0) {  // NOLINT
      body(*this);
      return;
    }
    throw Error(std::string(message_.data()));
  }

  static void on_error(png_structp png, png_const_charp message) {
    auto& reader = *static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(reader.message_.data(), message, reader.message_.size() - 1);
    std::longjmp(reader.jump_, 1);  // NOLINT
  }

  static void on_read(png_structp png, png_bytep to, std::size_t count) {
    auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
    if (count > reader.file_.bytes.size() - reader.offset_) {
      png_error(png, "the file ends early");
    }
    std::memcpy(to, reader.file_.bytes.data() + reader.offset_, count);
    reader.offset_ += count;
  }

  void read_header() {
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // new_image() has a clearer line
    png_set_chunk_malloc_max(png_, std::size_t{1} << 20);
    // Texts, profiles and all else that doesn't change pixels is skipped, not unpacked.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_read_fn(png_, this, on_read);
    png_read_info(png_, info_);
  }

  void start() {
    png_set_palette_to_rgb(png_);
    png_set_expand_gray_1_2_4_to_8(png_);
    png_set_strip_16(png_);
    png_set_strip_alpha(png_);
    png_set_gray_to_rgb(png_);
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
  }

  const ImageFile& file_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::size_t offset_ = 0;
  std::size_t row_bytes_ = 0;
  int passes_ = 1;
  std::uint8_t* row_ = nullptr;
  std::jmp_buf jump_{};
  std::array<char, 128> message_{};
};

}  // namespace

Image decode_png(const ImageFile& file) { return PngReader(file).read(); }

}  // namespace rocmforge
