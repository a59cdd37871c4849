#pragma once

#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "rocmforge/attention_c.h"

/// Attention for callers that have tensors and no model; see attention_c.h for shapes and meanings.
namespace rocmforge::attention {

/// What went wrong, in one line.
class AttentionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using Options = rocmforge_attention_options;
using DenseCall = rocmforge_dense_attention;
using PagedCall = rocmforge_paged_attention;

/// A device with its kernels and scratch memory. Move-only. Every call throws AttentionError.
class Context {
 public:
  explicit Context(const std::string& device = "auto", const std::string& kernel_dir = "") {
    Message message;
    context_.reset(rocmforge_open(device.c_str(), kernel_dir.empty() ? nullptr : kernel_dir.c_str(), message.text.data(),
                                  message.text.size()));
    message.check(context_ == nullptr);
  }

  [[nodiscard]] std::string device_name() const { return rocmforge_device_name(context_.get()); }
  [[nodiscard]] std::string last_backend() const { return rocmforge_last_backend(context_.get()); }

  void run(const DenseCall& call, const Options& options) {
    Message message;
    message.check(rocmforge_attention_dense(context_.get(), &call, &options, message.text.data(), message.text.size()) != 0);
  }
  void run(const PagedCall& call, const Options& options) {
    Message message;
    message.check(rocmforge_attention_paged(context_.get(), &call, &options, message.text.data(), message.text.size()) != 0);
  }
  void synchronize() {
    Message message;
    message.check(rocmforge_synchronize(context_.get(), message.text.data(), message.text.size()) != 0);
  }

 private:
  struct Message {
    std::array<char, 1024> text{};
    void check(bool failed) const {
      if (failed) {
        throw AttentionError(text.data());
      }
    }
  };
  struct Close {
    void operator()(rocmforge_context* context) const { rocmforge_close(context); }
  };
  std::unique_ptr<rocmforge_context, Close> context_;
};

}  // namespace rocmforge::attention
