#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace rocmforge {

namespace {
[[noreturn]] void fail_with_errno(const std::filesystem::path& path, const char* action) {
  const int code = errno;
  throw Error(std::string(action) + ": " + std::strerror(code)).in(path.string());
}

const char* kind_of(mode_t mode) {
  return S_ISDIR(mode)    ? "a folder"
         : S_ISFIFO(mode) ? "a FIFO (named pipe)"
         : S_ISSOCK(mode) ? "a socket"
         : S_ISCHR(mode)  ? "a character device"
         : S_ISBLK(mode)  ? "a block device"
                          : "no file";
}

void check_is_file(const std::filesystem::path& path, const struct stat& status) {
  if (!S_ISREG(status.st_mode)) {
    throw Error(std::string("not a regular file but ") + kind_of(status.st_mode)).in(path.string());
  }
}
}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    check_is_file(path, status);  // opening a device may change it
  }
  // A FIFO that takes the file's place is opened without waiting for its writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    fail_with_errno(path, "cannot open");
  }
  struct Closer {
    int descriptor;
    ~Closer() { ::close(descriptor); }
  } closer{descriptor};

  if (::fstat(descriptor, &status) != 0) {
    fail_with_errno(path, "cannot read its size");
  }
  check_is_file(path, status);
  if (status.st_size == 0) {
    return;  // mmap refuses a length of zero; an empty file is an empty span
  }
  void* address = ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (address == MAP_FAILED) {
    fail_with_errno(path, "cannot map into memory");
  }
  data_ = static_cast<const std::byte*>(address);
  size_bytes_ = static_cast<std::size_t>(status.st_size);
}

MappedFile MappedFile::copy_of(const std::filesystem::path& path) {
  const MappedFile file(path);
  MappedFile copy;
  if (file.size_bytes_ == 0) {
    return copy;
  }
  void* address = ::mmap(nullptr, file.size_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    fail_with_errno(path, "cannot copy into memory");
  }
  copy.data_ = static_cast<const std::byte*>(address);
  copy.size_bytes_ = file.size_bytes_;
  std::memcpy(address, file.data_, file.size_bytes_);
  return copy;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    ::munmap(const_cast<std::byte*>(data_), size_bytes_);
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_bytes_(std::exchange(other.size_bytes_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

void read_ahead(std::span<const std::byte> range) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(range.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(range.data() + range.size());
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED);
}

void MappedFile::release(std::span<const std::byte> range) const {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(range.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(range.data() + range.size()) / page * page;
  if (begin < end) {
    ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
}

}  // namespace rocmforge
