#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rocmforge {

/// The process that runs code objects, tools/cost/amd_emulator.py, which documents the requests. It maps the same memory at
/// the same address.
class EmulatorWorker {
 public:
  enum class Request : std::uint32_t { allow = 1, forbid = 2, load = 3, launch = 4, unload = 5 };

  /// Starts it and waits until it is ready. Throws Error with its reason when it isn't.
  EmulatorWorker(std::string architecture, int memory_file, std::uintptr_t memory_address, std::size_t memory_bytes);
  ~EmulatorWorker();
  EmulatorWorker(const EmulatorWorker&) = delete;
  EmulatorWorker& operator=(const EmulatorWorker&) = delete;

  /// Sends the payload and waits for the answer's. Throws Error with the worker's words, or with how it ended.
  std::vector<std::byte> ask(Request request, std::span<const std::byte> payload);

 private:
  std::vector<std::byte> receive_answer();
  void send_bytes(std::span<const std::byte> bytes);
  void receive_bytes(std::span<std::byte> bytes);
  [[noreturn]] void throw_ended();

  std::string architecture_;
  int socket_ = -1;
  pid_t process_ = -1;
};

}  // namespace rocmforge
