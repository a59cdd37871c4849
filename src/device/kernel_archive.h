#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rocmforge {

// One file with the GPU code objects of many architectures, written by tools/build/kernel_archive.py. All numbers are
// little-endian:
//   "RFKERNL1"
//   u32 number of bytes of the index, which follows
//   index: name of the stamp (kernel_stamp()), u32 number of sections; for each section, ascending by name:
//     name of the architecture; of the xz stream that contains it: u64 offset in the file, u64 stored bytes, u64 decoded
//     bytes; u64 offset of the section in the decoded stream, u32 number of objects; for each object, ascending by name:
//       name of the object, u64 bytes
//   xz streams: objects one after another, each padded with zeros to a multiple of 64 bytes
// A name is a length in u8, then as many characters of a-z, A-Z, 0-9, '.', '_' and '-'. A few cards of one generation share
// a stream, because their objects differ little: four of them compress to hardly more bytes than one.
inline constexpr std::string_view kernel_archive_magic = "RFKERNL1";
/// Loaders read ELF headers in place, so every object starts at a cache line.
inline constexpr std::size_t kernel_archive_alignment = 64;
/// The limit for the decoded bytes of a stream; the largest stream so far has 26 MB.
inline constexpr std::size_t largest_kernel_stream_bytes = std::size_t{128} << 20;

struct alignas(kernel_archive_alignment) KernelArchiveLine {
  std::byte bytes[kernel_archive_alignment];
};

/// The index of an archive. The bytes that it is read from must outlive it.
class KernelArchive {
 public:
  struct Object {
    std::string name;
    std::size_t offset = 0;  ///< in the section
    std::size_t size_bytes = 0;
  };
  struct Section {
    std::string architecture;
    std::span<const std::byte> stored;  ///< the compressed stream
    std::size_t stream_bytes = 0;       ///< of the decoded stream
    std::size_t offset = 0;             ///< of the section in the decoded stream
    std::size_t size_bytes = 0;         ///< a multiple of kernel_archive_alignment
    std::vector<Object> objects;

    /// Decodes all objects of the section, one after another. Allocates memory for them and for the decoder's dictionary (at
    /// most 64 MiB). Throws Error when the stream is damaged or its length differs from the index.
    [[nodiscard]] std::vector<KernelArchiveLine> decode() const;
  };

  /// Reads the index. Throws Error with the reason when the bytes are not a valid archive or have another stamp.
  KernelArchive(std::span<const std::byte> bytes, std::string_view stamp);

  [[nodiscard]] const std::vector<Section>& sections() const { return sections_; }  ///< ascending by architecture

 private:
  std::vector<Section> sections_;
};

}  // namespace rocmforge
