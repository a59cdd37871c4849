#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rocmforge {

// One file with the GPU code objects of many architectures, written by tools/kernel_archive.py. All numbers are
// little-endian:
//   "RFKERNL1"
//   u32 bytes of the index, which follows
//   index: name of the stamp (kernel_stamp()), u32 sections; for each section, ascending by name:
//     name of the architecture; of the xz stream that holds it u64 offset in the file, u64 stored bytes, u64 raw bytes;
//     u64 offset in the decoded stream, u32 objects; for each object, ascending by name:
//       name of the object, u64 bytes
//   xz streams, of objects one after another, each padded with zeros to a multiple of 64 bytes
// A name is u8 bytes and as many of a-z, A-Z, 0-9, '.', '_' and '-'. A few cards of one generation share a stream: their
// objects differ little, and four take hardly more room than one.

inline constexpr std::string_view kernel_archive_magic = "RFKERNL1";
/// Loaders read ELF headers in place, so every object begins on a cache line.
inline constexpr std::size_t kernel_archive_alignment = 64;
/// Raw bytes of a stream at most; the largest so far has 26 MB.
inline constexpr std::size_t largest_kernel_stream_bytes = std::size_t{128} << 20;

struct alignas(kernel_archive_alignment) KernelArchiveLine {
  std::byte bytes[kernel_archive_alignment];
};

/// The index of an archive. What it is read from must outlive it.
class KernelArchive {
 public:
  struct Object {
    std::string name;
    std::size_t offset = 0;  ///< in the section
    std::size_t size_bytes = 0;
  };
  struct Section {
    std::string architecture;
    std::span<const std::byte> stored;  ///< the stream
    std::size_t stream_bytes = 0;       ///< decoded
    std::size_t offset = 0;             ///< of the section in the decoded stream
    std::size_t size_bytes = 0;         ///< a multiple of kernel_archive_alignment
    std::vector<Object> objects;

    /// All its objects one after another. Takes memory for them and for the decoder's dictionary (at most 64 MiB). Throws
    /// Error when the stream is damaged or holds more or less than it says.
    [[nodiscard]] std::vector<KernelArchiveLine> decode() const;
  };

  /// Throws Error that says what is wrong with the bytes, or that they were made with another stamp.
  KernelArchive(std::span<const std::byte> bytes, std::string_view stamp);

  [[nodiscard]] const std::vector<Section>& sections() const { return sections_; }  ///< ascending by architecture

 private:
  std::vector<Section> sections_;
};

}  // namespace rocmforge
