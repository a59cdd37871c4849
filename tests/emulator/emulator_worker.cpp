#include "emulator/emulator_worker.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "paths.h"

namespace rocmforge {

namespace {

constexpr int memory_file_of_worker = 3;

std::string system_error() { return std::strerror(errno); }

/// The checkout that TINYGRAD names. Throws Error when there is none.
void require_tinygrad() {
  const char* folder = std::getenv("TINYGRAD");
  if (folder == nullptr || *folder == '\0') {
    throw Error(
        "tests on an emulated GPU are skipped: TINYGRAD names no checkout of tinygrad (a git clone of "
        "https://github.com/tinygrad/tinygrad; the packages on PyPI lack the emulator)");
  }
  if (!std::filesystem::exists(std::filesystem::path(folder) / "test/mockgpu/amd/emu.py")) {
    throw Error(
        fmt::format("tests on an emulated GPU are skipped: {} has no test/mockgpu/amd/emu.py (TINYGRAD must name a git "
                    "clone of tinygrad; the packages on PyPI lack the emulator)",
                    folder));
  }
}

/// Instructions that were compiled once are kept for all builds of this source tree.
std::string cache_folder() { return test::source_path("build/emulator"); }

pid_t start(std::span<const std::string> command, int socket, int memory_file) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, memory_file, memory_file_of_worker);
  pid_t process = -1;
  const int code = posix_spawnp(&process, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (code != 0) {
    throw Error(fmt::format("cannot start {}: {}", command[0], std::strerror(code)));
  }
  return process;
}

}  // namespace

EmulatorWorker::EmulatorWorker(std::string architecture, int memory_file, std::uintptr_t memory_address,
                               std::size_t memory_bytes)
    : architecture_(std::move(architecture)) {
  require_tinygrad();
  std::array<int, 2> sockets{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) {
    throw Error("socketpair: " + system_error());
  }
  socket_ = sockets[0];
  const std::array<std::string, 8> command{ROCMFORGE_PYTHON,
                                           test::source_path("tools/cost/amd_emulator.py"),
                                           architecture_,
                                           std::to_string(memory_file_of_worker),
                                           std::to_string(memory_address),
                                           std::to_string(memory_bytes),
                                           cache_folder(),
                                           ROCMFORGE_EMULATOR_COMPILER};
  try {
    process_ = start(command, sockets[1], memory_file);
    close(std::exchange(sockets[1], -1));
    receive_answer();
  } catch (Error& error) {
    if (sockets[1] >= 0) {
      close(sockets[1]);
    }
    close(socket_);
    if (process_ > 0) {
      waitpid(process_, nullptr, 0);
    }
    throw std::move(error).in("the emulator of " + architecture_);
  }
}

EmulatorWorker::~EmulatorWorker() {
  close(socket_);
  if (process_ > 0) {
    waitpid(process_, nullptr, 0);  // it ends when its pipe is closed
  }
}

std::vector<std::byte> EmulatorWorker::ask(Request request, std::span<const std::byte> payload) {
  const std::array<std::uint32_t, 2> header{static_cast<std::uint32_t>(request), static_cast<std::uint32_t>(payload.size())};
  send_bytes(std::as_bytes(std::span(header)));
  send_bytes(payload);
  return receive_answer();
}

std::vector<std::byte> EmulatorWorker::receive_answer() {
  std::array<std::uint32_t, 2> header{};
  receive_bytes(std::as_writable_bytes(std::span(header)));
  std::vector<std::byte> payload(header[1]);
  receive_bytes(payload);
  if (header[0] != 0) {
    throw Error(std::string(reinterpret_cast<const char*>(payload.data()), payload.size()));
  }
  return payload;
}

void EmulatorWorker::send_bytes(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      throw_ended();
    }
  }
}

void EmulatorWorker::receive_bytes(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = recv(socket_, bytes.data(), bytes.size(), 0);
    if (count > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    } else if (count == 0 || errno != EINTR) {
      throw_ended();
    }
  }
}

void EmulatorWorker::throw_ended() {
  int status = 0;
  if (process_ > 0 && waitpid(std::exchange(process_, -1), &status, 0) > 0) {
    throw Error(WIFSIGNALED(status) ? fmt::format("the emulator was ended by signal {}", WTERMSIG(status))
                                    : fmt::format("the emulator ended with status {}", WEXITSTATUS(status)));
  }
  throw Error("the emulator has ended");
}

}  // namespace rocmforge
