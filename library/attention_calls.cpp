#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "attention_library.h"

struct rocmforge_context {
  rocmforge::AttentionLibrary library;
};

namespace {

void require(const void* pointer, std::string_view name) {
  if (pointer == nullptr) {
    throw rocmforge::Error(fmt::format("{} is null", name));
  }
}

void write_error(const char* message, char* error, std::size_t error_bytes) {
  if (error != nullptr && error_bytes > 0) {
    const std::size_t length = std::min(std::strlen(message), error_bytes - 1);
    std::memcpy(error, message, length);
    error[length] = '\0';
  }
}

/// Runs `body` and returns 0. If it throws, writes the message to `error` and returns 1.
template <class Body>
int guarded(char* error, std::size_t error_bytes, const Body& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& exception) {
    write_error(exception.what(), error, error_bytes);
  } catch (...) {
    write_error("unknown error", error, error_bytes);
  }
  return 1;
}

template <class Call>
int run_call(rocmforge_context* context, const Call* call, const rocmforge_attention_options* options, char* error,
             std::size_t error_bytes) {
  return guarded(error, error_bytes, [&] {
    require(context, "context");
    require(call, "call");
    require(options, "options");
    context->library.run(*call, *options);
  });
}

}  // namespace

extern "C" {

rocmforge_context* rocmforge_open(const char* device, const char* kernel_dir, char* error, size_t error_bytes) {
  rocmforge_context* context = nullptr;
  guarded(error, error_bytes, [&] {
    const auto kernels =
        kernel_dir != nullptr ? rocmforge::KernelLibrary::from_folder(kernel_dir) : rocmforge::KernelLibrary::installed();
    auto opened = rocmforge::open_device(device != nullptr ? device : "auto", kernels);
    context = new rocmforge_context{rocmforge::AttentionLibrary(std::move(opened))};
  });
  return context;
}

void rocmforge_close(rocmforge_context* context) { delete context; }

const char* rocmforge_device_name(const rocmforge_context* context) { return context->library.device_name().c_str(); }

const char* rocmforge_last_backend(const rocmforge_context* context) { return context->library.last_backend().c_str(); }

int rocmforge_attention_dense(rocmforge_context* context, const rocmforge_dense_attention* call,
                              const rocmforge_attention_options* options, char* error, size_t error_bytes) {
  return run_call(context, call, options, error, error_bytes);
}

int rocmforge_attention_paged(rocmforge_context* context, const rocmforge_paged_attention* call,
                              const rocmforge_attention_options* options, char* error, size_t error_bytes) {
  return run_call(context, call, options, error, error_bytes);
}

int rocmforge_synchronize(rocmforge_context* context, char* error, size_t error_bytes) {
  return guarded(error, error_bytes, [&] {
    require(context, "context");
    context->library.synchronize();
  });
}
}
