#include "service/sounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "audio/decode.h"
#include "base/base64.h"

namespace rocmforge {
namespace {

std::vector<float> read_sound(const SoundPart& part, const ImageSources& sources, int most_seconds, Reading& reading) {
  SoundLimits limits;
  limits.seconds = std::min(limits.seconds, most_seconds);
  const std::string read = part.bytes ? "" : bytes_of_url(part.url, sources, limits.bytes, reading);
  const std::string& bytes = part.bytes ? *part.bytes : read;
  const SoundCost cost{.budget = &reading.budget, .hold = [&reading](std::int64_t more) { reading.hold(more); }};
  return decode_sound({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, limits, cost);
}

}  // namespace

std::vector<std::vector<float>> read_sounds(std::span<const SoundPart* const> parts, const ImageSources& sources,
                                            ImageAllowance& allowance, Reading& reading) {
  if (parts.size() > allowance.sounds) {
    const std::size_t all = most_sounds - allowance.sounds + parts.size();
    throw ServiceError(ServiceError::Kind::invalid,
                       fmt::format("the request has {} recordings, at most {} are read", all, most_sounds),
                       parts[allowance.sounds]->field);
  }
  allowance.sounds -= parts.size();
  std::vector<std::vector<float>> sounds;
  for (const SoundPart* part : parts) {
    const std::int64_t before = reading.held();
    sounds.push_back(
        with_image_field(part->field, [&] { return read_sound(*part, sources, allowance.sound_seconds, reading); }));
    allowance.sound_seconds -= static_cast<int>((std::ssize(sounds.back()) + encoder_rate - 1) / encoder_rate);
    reading.keep(before + std::ssize(sounds.back()) * static_cast<std::int64_t>(sizeof(float)));
    reading.release();
  }
  return sounds;
}

bool begins_as_sound(std::string_view base64) {
  constexpr std::size_t digits = 64;
  base64.remove_prefix(base64.starts_with("data:") ? base64.find(',') + 1 : 0);
  const std::string bytes = decode_base64(base64.substr(0, digits)).value_or("");
  return sound_format_of({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}).has_value();
}

}  // namespace rocmforge
