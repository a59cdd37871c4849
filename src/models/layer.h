#pragma once

#include <cstdint>
#include <string_view>

#include "ops/kv_layout.h"
#include "ops/registry.h"

namespace rocmforge {

/// Activations of one step in the device's memory, laid out once for the largest batch. Both halves of a layer use
/// `projected` and `gathered`.
struct Buffers {
  float* hidden = nullptr;          ///< [tokens, hidden]: the residual stream
  float* normed = nullptr;          ///< [tokens, hidden]
  float* projected = nullptr;       ///< [tokens, q_dim + 2 kv_dim] or [tokens, 2 ffn]
  float* gathered = nullptr;        ///< [tokens, q_dim] or [tokens, ffn]
  float* logits = nullptr;          ///< [logit rows, vocab]
  void* scratch = nullptr;          ///< of the kernel that runs
  std::int32_t* sampled = nullptr;  ///< [logit rows]
  void* attention_states[2] = {};   ///< of the kernels for several rows and for single rows
};

/// What a layer sees of one step.
struct Step {
  std::int64_t tokens = 0;
  RaggedBatch batch;
  bool any_single = false;   ///< a sequence has one row
  bool any_several = false;  ///< a sequence has more
  bool results = true;       ///< false in the last layer of a step of which nothing but K and V is wanted
  KvLayout layout;
  KvCacheView cache;  ///< this layer's
  Buffers buffers;
  ExecutionContext* context = nullptr;
  std::string_view only{};  ///< run operations of this name alone, for measurements; empty: all

  [[nodiscard]] bool runs(std::string_view operation) const { return only.empty() || only == operation; }
};

/// One block of a model with its weights and kernels, in two halves: after the last layer's first one the rows that nobody
/// wants are dropped.
class Layer {
 public:
  virtual ~Layer() = default;
  /// From Buffers::hidden, keys and values to the cache and attention's output to Buffers::gathered [tokens, q_dim].
  virtual void attend(const Step& step) const = 0;
  /// The rest, each row by itself: updates Buffers::hidden by means of Buffers::gathered.
  virtual void finish(const Step& step) const = 0;
};

}  // namespace rocmforge
