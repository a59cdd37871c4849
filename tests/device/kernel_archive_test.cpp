#include "device/kernel_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "archive_bytes.h"
#include "base/error.h"
#include "device/embedded_kernels.h"
#include "device/kernel_library.h"
#include "error_of.h"
#include "paths.h"
#include "temporary_folder.h"

namespace rocmforge {
namespace {

using test::ArchiveBytes;
using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string elf(std::size_t size_bytes, char filling = 'c') {
  return "\x7f"
         "ELF" +
         std::string(size_bytes - 4, filling);
}

std::string text_of(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

class Archive : public testing::Test {
 protected:
  Archive() {
    bytes_.stamp = kernel_stamp();
    bytes_.sections["gfx1030"].objects = {{"matvec", elf(200)}};
    bytes_.sections["gfx1100"].objects = {{"elementwise", elf(64, 'e')}, {"matvec", elf(70, 'm')}};
  }
  /// Written to a file and read as users name it.
  [[nodiscard]] KernelLibrary library() const { return written(bytes_.text()); }
  [[nodiscard]] KernelLibrary written(std::string_view text) const {
    folder_.write("k.archive", text);
    return KernelLibrary::from_folder(path());
  }
  /// The error of reading the index, or else of decoding gfx1100, without the path at its start.
  [[nodiscard]] std::string refusal(std::string_view text) const {
    const std::string error = error_of([&] { (void)written(text).objects("gfx1100"); });
    EXPECT_THAT(error, StartsWith(path().string() + ": "));
    EXPECT_EQ(error.find('\n'), std::string::npos);
    return error.substr(std::min(error.size(), path().string().size() + 2));
  }
  [[nodiscard]] std::string refusal() const { return refusal(bytes_.text()); }
  [[nodiscard]] std::filesystem::path path() const { return folder_.path() / "k.archive"; }
  ArchiveBytes::Section& section() { return bytes_.sections["gfx1100"]; }

  ArchiveBytes bytes_;
  TemporaryFolder folder_;
};

TEST_F(Archive, holds_the_objects_of_each_architecture) {
  const KernelLibrary read = library();
  EXPECT_THAT(read.architectures(), ElementsAre("gfx1030", "gfx1100"));
  EXPECT_THAT(read.object_names("gfx1100"), ElementsAre("elementwise", "matvec"));
  const KernelLibrary::Objects& objects = read.objects("gfx1100");
  ASSERT_EQ(objects.size(), 2);
  EXPECT_EQ(text_of(objects.at("elementwise")), elf(64, 'e'));
  EXPECT_EQ(text_of(objects.at("matvec")), elf(70, 'm'));
  for (const auto& [name, code] : objects) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(code.data()) % 64, 0) << name;
  }
  EXPECT_EQ(&read.objects("gfx1100"), &objects) << "decoded again";
  EXPECT_EQ(error_of([&] { (void)read.object_names("gfx1201"); }),
            "no kernels for gfx1201: there are some for gfx1030, gfx1100");
}

TEST_F(Archive, copies_share_what_was_decoded_and_keep_it) {
  auto read = std::make_unique<KernelLibrary>(library());
  const KernelLibrary copy = *read;
  std::span<const std::byte> first;
  std::span<const std::byte> second;
  std::thread other([&] { first = copy.objects("gfx1030").at("matvec"); });
  second = read->objects("gfx1030").at("matvec");
  other.join();
  EXPECT_EQ(first.data(), second.data());
  read.reset();
  EXPECT_EQ(text_of(first), elf(200));
  EXPECT_EQ(copy.objects("gfx1100").size(), 2);
}

TEST_F(Archive, only_the_section_in_use_is_decoded) {
  section().stored = "no xz stream";
  const KernelLibrary read = library();
  EXPECT_EQ(read.objects("gfx1030").size(), 1);
  EXPECT_THAT(read.object_names("gfx1100"), ElementsAre("elementwise", "matvec"));
  EXPECT_EQ(error_of([&] { (void)read.objects("gfx1100"); }), path().string() + ": gfx1100: damaged: not an xz stream");
}

TEST_F(Archive, loose_objects_come_first) {
  folder_.write("kernels.archive", bytes_.text());
  folder_.write("gfx1100/matvec.hsaco", elf(10));
  const KernelLibrary read = KernelLibrary::from_folder(folder_.path());
  EXPECT_THAT(read.architectures(), ElementsAre("gfx1030", "gfx1100"));
  EXPECT_EQ(read.objects("gfx1100").size(), 1);
  EXPECT_EQ(text_of(read.objects("gfx1030").at("matvec")), elf(200));
}

TEST_F(Archive, lies_beside_an_installed_program_or_library) {
  folder_.write("share/rocmforge/kernels.archive", bytes_.text());
  const std::filesystem::path archive = folder_.path() / "share/rocmforge/kernels.archive";
  for (const char* file : {"bin/rocmforge", "lib/librocmforge.so", "lib/x86_64-linux-gnu/librocmforge.so"}) {
    EXPECT_EQ(kernel_archive_beside(folder_.path() / file), archive) << file;
  }
  EXPECT_EQ(kernel_archive_beside(folder_.path() / "a/b/c/librocmforge.so"), "");
  EXPECT_EQ(kernel_archive_beside("/rocmforge"), "");
  EXPECT_EQ(kernel_archive_beside(""), "");
}

TEST_F(Archive, of_other_kernel_sources_is_refused) {
  bytes_.stamp = "0123456789abcdef";
  EXPECT_EQ(refusal(),
            "made from other kernel sources than this program (0123456789abcdef, not " + std::string(kernel_stamp()) + ")");
}

TEST_F(Archive, that_is_none_is_refused) {
  EXPECT_EQ(refusal(""), "not an archive of GPU kernels (it does not begin with RFKERNL1)");
  EXPECT_EQ(refusal("RFKERN"), "not an archive of GPU kernels (it does not begin with RFKERNL1)");
  EXPECT_EQ(refusal("RFKERNL2" + bytes_.text().substr(8)),
            "not an archive of GPU kernels (it does not begin with RFKERNL1)");
}

/// Wherever the archive is cut, the error is one line that names the file, and nothing is read after its end.
TEST_F(Archive, cut_short_is_refused) {
  const std::string whole = bytes_.text();
  for (std::size_t size_bytes = 8; size_bytes < whole.size(); ++size_bytes) {
    ASSERT_THAT(refusal(std::string_view(whole).substr(0, size_bytes)), HasSubstr("cut short")) << size_bytes;
  }
  ASSERT_EQ(error_of([&] { (void)written(whole).objects("gfx1100"); }), "no error");
}

TEST_F(Archive, with_an_index_that_lies_about_its_own_size_is_refused) {
  bytes_.index_bytes = 0xffffffff;
  EXPECT_THAT(refusal(), StartsWith("cut short: the file has "));
  bytes_.index_bytes = 40;
  EXPECT_EQ(refusal(), "gfx1030: damaged index: it ends within an entry");
  bytes_.index_bytes.reset();
  bytes_.section_count = 0xffffffff;
  EXPECT_EQ(refusal(), "damaged index: it ends within an entry");
  bytes_.section_count = 1;
  EXPECT_THAT(refusal(), HasSubstr("bytes follow its last entry"));
  bytes_.section_count.reset();
  bytes_.behind_index = "more";
  EXPECT_EQ(refusal(), "damaged index: 4 bytes follow its last entry");
}

TEST_F(Archive, with_sizes_that_overflow_is_refused) {
  const ArchiveBytes::Section right = section();
  section().stored_offset = ~std::uint64_t{0};
  EXPECT_THAT(refusal(), StartsWith("gfx1100: cut short: its stream has "));
  section().stored_offset = 8;
  section().stored_bytes = ~std::uint64_t{0} - 7;  // the sum is 0
  EXPECT_THAT(refusal(), StartsWith("gfx1100: cut short: its stream has 18446744073709551608 bytes from offset 8 on"));
  section() = right;
  section().stream_bytes = ~std::uint64_t{0};
  EXPECT_EQ(refusal(),
            "gfx1100: the index says that its stream decodes to 18446744073709551615 bytes; at most 134217728 are allowed");
  section().stream_bytes = largest_kernel_stream_bytes + 1;
  EXPECT_THAT(refusal(), HasSubstr("at most 134217728 are allowed"));
  section().stream_bytes = 64;
  EXPECT_EQ(refusal(), "gfx1100: damaged index: matvec has 70 bytes, more than its stream has left");
  section().stream_bytes = 160;
  EXPECT_EQ(refusal(), "gfx1100: damaged index: the stream ends within an object's padding");
  section().stream_bytes.reset();
  for (const std::uint64_t offset : {std::uint64_t{32}, std::uint64_t{256}, ~std::uint64_t{63}}) {
    section().offset = offset;
    EXPECT_EQ(refusal(), "gfx1100: damaged index: its offset is " + std::to_string(offset) + " in a stream of 192 bytes");
  }
  section().offset = 128;
  EXPECT_EQ(refusal(), "gfx1100: damaged index: matvec has 70 bytes, more than its stream has left");
}

TEST_F(Archive, without_objects_in_a_section_is_refused) {
  section().objects.clear();
  EXPECT_EQ(refusal(), "gfx1100: damaged index: it has no objects");
}

TEST_F(Archive, whose_sections_share_a_stream_gives_each_its_own) {
  bytes_.sections["gfx1101"].objects = {{"matvec", elf(65, 'n')}};
  ArchiveBytes::Section& other = bytes_.sections["gfx1101"];
  section().stored = ArchiveBytes::packed(ArchiveBytes::raw_of(section()) + ArchiveBytes::raw_of(other));
  section().stream_bytes = other.stream_bytes = 192 + 128;
  other.offset = 192;
  other.stored = "";
  other.stored_offset = 0;
  other.stored_bytes = section().stored->size();
  other.stored_offset = bytes_.text().size() - section().stored->size();
  const KernelLibrary read = library();
  EXPECT_EQ(text_of(read.objects("gfx1101").at("matvec")), elf(65, 'n'));
  EXPECT_EQ(text_of(read.objects("gfx1100").at("matvec")), elf(70, 'm'));
  EXPECT_EQ(read.objects("gfx1030").size(), 1);
}

TEST_F(Archive, with_names_that_are_no_plain_words_is_refused) {
  const std::string plain = bytes_.text();
  for (const char* odd : {"m\ntvec", "m\x1b[31m", "m/tvec", "m tvec", "m\xc3\xa4vec"}) {
    ArchiveBytes bytes = bytes_;
    bytes.sections["gfx1100"].objects[odd] = elf(10);
    EXPECT_EQ(refusal(bytes.text()), "gfx1100: damaged index: a name of " + std::to_string(std::string_view(odd).size()) +
                                         " bytes does not consist of letters, digits, '.', '_' and '-'");
  }
  bytes_.sections[""] = {};
  EXPECT_EQ(refusal(), "damaged index: a name of 0 bytes does not consist of letters, digits, '.', '_' and '-'");
  std::string twice = plain;
  twice[twice.find("gfx1100") + 3] = '0';  // gfx0100 after gfx1030
  EXPECT_EQ(refusal(twice), "damaged index: gfx0100 follows gfx1030, but names must ascend");
  std::string nul = plain;
  nul[nul.find("matvec") + 2] = '\0';
  EXPECT_EQ(refusal(nul), "gfx1030: damaged index: a name of 6 bytes does not consist of letters, digits, '.', '_' and '-'");
}

TEST_F(Archive, whose_section_decodes_to_more_or_less_is_refused) {
  section().stored = ArchiveBytes::packed(std::string(193, 'x'));
  EXPECT_EQ(refusal(), "gfx1100: its stream decodes to more than the 192 bytes that the index says");
  section().stored = ArchiveBytes::packed(std::string(std::size_t{8} << 20, 'x'));
  EXPECT_EQ(refusal(), "gfx1100: its stream decodes to more than the 192 bytes that the index says");
  section().stored = ArchiveBytes::packed(std::string(191, 'x'));
  EXPECT_EQ(refusal(), "gfx1100: its stream decodes to 191 bytes, but the index says 192");
}

TEST_F(Archive, whose_section_is_damaged_is_refused) {
  const std::string whole = ArchiveBytes::packed(elf(64, 'e') + elf(128, 'm'));
  section().stored = whole;
  EXPECT_EQ(error_of([&] { (void)library().objects("gfx1100"); }), "no error");
  section().stored = "";
  EXPECT_EQ(refusal(), "gfx1100: damaged: its stream ends too early");
  section().stored = whole.substr(0, whole.size() - 1);
  EXPECT_EQ(refusal(), "gfx1100: damaged: its stream ends too early");
  section().stored = whole + "x";
  EXPECT_EQ(refusal(), "gfx1100: damaged: 1 bytes follow the end of its stream");
  std::string flipped = whole;
  flipped[8] ^= 1;  // the sum of the stream's header
  section().stored = flipped;
  EXPECT_EQ(refusal(), "gfx1100: damaged: its stream does not decode");
}

/// A decoder allocates its whole dictionary. The 64 MiB of preset 9 are allowed, and twice that is not.
TEST_F(Archive, whose_section_needs_much_memory_is_refused) {
  const std::string raw = elf(64, 'e') + elf(128, 'm');
  section().stored = ArchiveBytes::packed(raw, 9);
  EXPECT_EQ(error_of([&] { (void)library().objects("gfx1100"); }), "no error");
  lzma_options_lzma options{};
  ASSERT_FALSE(lzma_lzma_preset(&options, 0));
  options.dict_size = std::uint32_t{128} << 20;
  std::array filters{lzma_filter{LZMA_FILTER_LZMA2, &options}, lzma_filter{LZMA_VLI_UNKNOWN, nullptr}};
  std::string stored(lzma_stream_buffer_bound(raw.size()), '\0');
  std::size_t size_bytes = 0;
  ASSERT_EQ(
      lzma_stream_buffer_encode(filters.data(), LZMA_CHECK_CRC32, nullptr, reinterpret_cast<const std::uint8_t*>(raw.data()),
                                raw.size(), reinterpret_cast<std::uint8_t*>(stored.data()), &size_bytes, stored.size()),
      LZMA_OK);
  stored.resize(size_bytes);
  section().stored = stored;
  EXPECT_THAT(refusal(),
              testing::MatchesRegex("gfx1100: its stream needs [0-9]+ bytes of memory to decode; at most 83886080 "
                                    "are allowed"));
}

TEST_F(Archive, whose_objects_are_no_code_objects_is_refused) {
  section().objects["notes"] = "<!doctype html>";
  EXPECT_EQ(refusal(), "gfx1100: notes: not a code object (it does not begin as an ELF file)");
}

/// With any byte changed, reading ends with an error of one line, or with objects of the sizes in the index.
TEST_F(Archive, with_any_byte_changed_is_read_or_refused) {
  const std::string whole = bytes_.text();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(~changed[at]);
    try {
      const KernelLibrary read = written(changed);
      for (const std::string& architecture : read.architectures()) {
        ASSERT_EQ(read.objects(architecture).size(), read.object_names(architecture).size());
      }
    } catch (const Error& error) {
      ASSERT_THAT(error.what(), StartsWith(path().string() + ": ")) << at;
    }
  }
}

/// Written by tools/build/kernel_archive.py: tests/tools/kernel_archive_test.py has the command and what is in it.
TEST(KernelArchive, reads_what_the_script_writes) {
  const MappedFile file(test::test_data("device/golden.archive"));
  const KernelArchive archive(file.bytes(), "golden");
  ASSERT_EQ(archive.sections().size(), 3);
  const KernelArchive::Section& section = archive.sections()[1];
  EXPECT_EQ(section.architecture, "gfx1101");
  EXPECT_EQ(section.stored.data(), archive.sections()[0].stored.data()) << "of one stream";
  ASSERT_EQ(section.objects.size(), 2);
  EXPECT_EQ(section.objects[0].name, "a");
  EXPECT_EQ(section.objects[1].name, "b");
  const std::vector<KernelArchiveLine> lines = section.decode();
  const std::string text = text_of(std::as_bytes(std::span(lines)));
  EXPECT_EQ(text.substr(section.objects[0].offset, section.objects[0].size_bytes), elf(100, 'a'));
  EXPECT_EQ(text.substr(section.objects[1].offset, section.objects[1].size_bytes), elf(64, 'b'));
  EXPECT_EQ(archive.sections().back().architecture, "sm_90a");
}

TEST(KernelArchive, embedded_holds_what_was_compiled_in) {
  const KernelLibrary library = KernelLibrary::embedded();
  EXPECT_EQ(library.architectures().empty(), embedded_kernel_archive().empty());
  for (const std::string& architecture : library.architectures()) {
    EXPECT_EQ(library.objects(architecture).size(), library.object_names(architecture).size());
  }
}

}  // namespace
}  // namespace rocmforge
