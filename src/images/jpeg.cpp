#include <cstdio>  // jpeglib.h needs it
// jpeglib.h does not include what it uses.
#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "base/error.h"
#include "images/codec.h"

namespace rocmforge {
namespace {

/// libjpeg's reader of bytes in memory. Its errors become Error at the border to libjpeg (guarded()).
class JpegReader {
 public:
  explicit JpegReader(const ImageFile& file) : file_(file) {
    jpeg_.err = jpeg_std_error(&errors_);
    errors_.error_exit = on_error;
    errors_.emit_message = on_message;
    progress_.progress_monitor = on_progress;
    jpeg_.client_data = this;
    guarded([](JpegReader& reader) { jpeg_create_decompress(&reader.jpeg_); });
  }
  ~JpegReader() { jpeg_destroy_decompress(&jpeg_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  Image read() {
    guarded([](JpegReader& reader) { reader.read_header(); });
    Image image = new_image(jpeg_.image_width, jpeg_.image_height, file_, bytes_beside());
    is_cmyk_ = jpeg_.num_components == 4;
    guarded([](JpegReader& reader) { reader.start(); });
    const std::size_t row_bytes = static_cast<std::size_t>(image.width) * 3;
    std::vector<std::uint8_t> inks(is_cmyk_ ? static_cast<std::size_t>(image.width) * 4 : 0);
    for (int y = 0; y < image.height; ++y) {
      std::uint8_t* target = image.rgb.data() + static_cast<std::size_t>(y) * row_bytes;
      row_ = is_cmyk_ ? inks.data() : target;
      guarded([](JpegReader& reader) { jpeg_read_scanlines(&reader.jpeg_, &reader.row_, 1); });
      for (std::size_t i = 0; i < inks.size(); i += 4) {
        mix(inks.data() + i, target + i / 4 * 3);
      }
      spend_pixels(file_, image.width);
    }
    return image;
  }

 private:
  /// Runs `body`, which holds no object with a destructor, and throws what libjpeg or the budget reports.
  void guarded(void (*body)(JpegReader&)) {
    if (setjmp(jump_) == 0) {  // NOLINT
      body(*this);
      return;
    }
    if (stopped_ != nullptr) {
      std::rethrow_exception(stopped_);
    }
    throw Error(std::string(message_.data()));
  }

  static JpegReader& reader_of(j_common_ptr jpeg) { return *static_cast<JpegReader*>(jpeg->client_data); }

  static void on_error(j_common_ptr jpeg) {
    JpegReader& reader = reader_of(jpeg);
    jpeg->err->format_message(jpeg, reader.message_.data());
    std::longjmp(reader.jump_, 1);  // NOLINT
  }

  /// Damage inside is painted over, as everybody does; a missing end is an error.
  static void on_message(j_common_ptr jpeg, int level) {
    if (level < 0 && (jpeg->err->msg_code == JWRN_JPEG_EOF || jpeg->err->msg_code == JWRN_HIT_MARKER)) {
      on_error(jpeg);
    }
  }

  /// Called once or more for each scan.
  static void on_progress(j_common_ptr jpeg) {
    JpegReader& reader = reader_of(jpeg);
    const auto pixels = static_cast<std::int64_t>(reader.jpeg_.image_width) * reader.jpeg_.image_height;
    const std::int64_t scans = reader.jpeg_.input_scan_number;
    if (scans > most_scans || scans * pixels > reader.file_.limits.painted_pixels) {
      std::snprintf(reader.message_.data(), reader.message_.size(), "it has too many scans");
      std::longjmp(reader.jump_, 1);  // NOLINT
    }
    if (scans != reader.scan_) {
      reader.scan_ = scans;
      reader.spend_scan(pixels);
      if (reader.stopped_ != nullptr) {
        std::longjmp(reader.jump_, 1);  // NOLINT
      }
    }
  }

  void spend_scan(std::int64_t pixels) noexcept {
    try {
      spend_pixels(file_, pixels);
    } catch (...) {
      stopped_ = std::current_exception();
    }
  }

  /// Of each pixel: with several scans the coefficients of all are kept, two bytes for each of three or four channels.
  [[nodiscard]] int bytes_beside() { return jpeg_has_multiple_scans(&jpeg_) != 0 ? 2 * jpeg_.num_components : 0; }

  void read_header() {
    jpeg_.progress = &progress_;
    jpeg_.mem->max_memory_to_use = static_cast<long>(file_.limits.decoder_bytes);              // NOLINT: libjpeg's type
    jpeg_mem_src(&jpeg_, file_.bytes.data(), static_cast<unsigned long>(file_.bytes.size()));  // NOLINT
    jpeg_read_header(&jpeg_, TRUE);
  }

  void start() {
    jpeg_.out_color_space = is_cmyk_ ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&jpeg_);
  }

  /// Cyan, magenta, yellow and black, where Adobe's files hold what is left of the paper's white. As Pillow's "CMYK" to
  /// "RGB".
  void mix(const std::uint8_t* inks, std::uint8_t* rgb) const {
    const int flip = jpeg_.saw_Adobe_marker != 0 ? 255 : 0;
    const int left = 255 - (inks[3] ^ flip);
    for (int c = 0; c < 3; ++c) {
      const int product = (inks[c] ^ flip) * left + 128;
      rgb[c] = static_cast<std::uint8_t>(std::clamp(left - ((product + (product >> 8)) >> 8), 0, 255));
    }
  }

  static constexpr std::int64_t most_scans = 100;

  const ImageFile& file_;
  jpeg_decompress_struct jpeg_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  bool is_cmyk_ = false;
  std::uint8_t* row_ = nullptr;
  std::int64_t scan_ = 0;
  std::exception_ptr stopped_;
  std::jmp_buf jump_{};
  std::array<char, JMSG_LENGTH_MAX> message_{};
};

}  // namespace

Image decode_jpeg(const ImageFile& file) { return JpegReader(file).read(); }

}  // namespace rocmforge
