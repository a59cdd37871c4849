#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace rocmforge {

/// A file mapped read-only into memory. It is unmapped when the object is destroyed. Move-only.
class MappedFile {
 public:
  MappedFile() = default;
  /// Throws Error (with the path and the system's reason) when the file can't be opened or mapped.
  explicit MappedFile(const std::filesystem::path& path);
  /// The content of a file in memory that belongs to no path. Throws Error like the constructor.
  static MappedFile copy_of(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_bytes_}; }

  /// Tells the system that a range will not be read again soon. Its pages may leave memory; a later read maps them again.
  void release(std::span<const std::byte> range) const;

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
};

/// Tells the system that a range of a mapped file will be read soon, and does not wait for the disk. Other memory may be
/// given too, to no effect.
void read_ahead(std::span<const std::byte> range);

}  // namespace rocmforge
