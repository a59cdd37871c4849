#ifndef ROCMFORGE_ATTENTION_C_H
#define ROCMFORGE_ATTENTION_C_H

/* Attention on a GPU or the CPU, for callers that have tensors and no model: the plain C interface of
 * librocmforge_attention. rocmforge/attention.h is the same for C++.
 *
 *   out = softmax(scale * q k^T + mask) v        query head h reads KV head h / (q_heads / kv_heads)
 *
 * A function that fails writes one line that describes the failure to `error`: at most `error_bytes` bytes with the final
 * zero. `error` may be NULL. Functions of type int return 0 on success and 1 on failure. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A device with its kernels and scratch memory. Only one thread at a time may call functions with a context. All calls share
 * its scratch memory, so they must use one GPU stream, or the caller must order its streams. A call on the context's own
 * stream (own_stream, or tensors in host memory) waits for an unfinished call on a stream of the caller, and the other way
 * round. */
typedef struct rocmforge_context rocmforge_context;

enum { ROCMFORGE_F32 = 0, ROCMFORGE_F16 = 1, ROCMFORGE_BF16 = 30 };

typedef struct rocmforge_attention_options {
  int32_t dtype;       /* of q, k, v and out */
  int32_t causal;      /* row i sees key j when j <= kv_len - q_len + i */
  float scale;         /* 0 means 1 / sqrt(head_dim) */
  int32_t window;      /* row i sees only its last `window` keys; 0 for no window; needs causal */
  float soft_cap;      /* scores become c * tanh(score / c); 0 for none */
  const float* sinks;  /* [q_heads]: one extra logit per head in softmax's denominator; NULL for none */
  const char* backend; /* "flash", "paged", "composed", "reference"; NULL or "" for the best that supports the call */
  int32_t on_device;   /* data pointers, sinks and mask are addresses of the context's device; 0: of the host, copied */
  void* stream;        /* with on_device: the CUDA or HIP stream of the work; the call does not wait for it */
  int32_t own_stream;  /* not 0: on the context's own stream in place of `stream` */
} rocmforge_attention_options;

/* Dense tensors, contiguous. */
typedef struct rocmforge_dense_attention {
  int32_t batch;
  int32_t q_len;
  int32_t kv_len;
  int32_t q_heads;
  int32_t kv_heads;
  int32_t head_dim;
  const void* q;     /* [batch, q_len, q_heads, head_dim] */
  const void* k;     /* [batch, kv_len, kv_heads, head_dim] */
  const void* v;     /* like k */
  const float* mask; /* [batch, q_len, kv_len], added to the scores, -infinity masks; NULL for none */
  void* out;         /* like q */
} rocmforge_dense_attention;

/* A ragged batch over a paged cache. Sequence s owns the query rows [query_offsets[s], query_offsets[s + 1]), the last of
 * its kv_lengths[s] positions; position p lies in block block_tables[s][p / block_tokens]. The three arrays are host memory
 * whatever `on_device` says. */
typedef struct rocmforge_paged_attention {
  int32_t num_sequences;
  int32_t num_tokens; /* query rows of all sequences */
  int32_t q_heads;
  int32_t kv_heads;
  int32_t head_dim;
  int32_t block_tokens;         /* a power of two, at least 16 */
  int32_t max_blocks;           /* length of a row of block_tables */
  int64_t num_blocks;           /* of the cache */
  const int32_t* query_offsets; /* [num_sequences + 1] */
  const int32_t* kv_lengths;    /* [num_sequences] */
  const int32_t* block_tables;  /* [num_sequences, max_blocks] */
  const void* q;                /* [num_tokens, q_heads, head_dim] */
  const void* cache;            /* [num_blocks, 2 (K, V), kv_heads, block_tokens, head_dim] */
  void* out;                    /* like q */
} rocmforge_paged_attention;

/* `device`: "auto", "cpu", "cuda:0", "hip:1". `kernel_dir`: a folder or archive of code objects in place of the built-in
 * ones, or NULL. The GPU's primary context is used, so that device pointers of other libraries in the process are valid.
 * Returns NULL on failure. */
rocmforge_context* rocmforge_open(const char* device, const char* kernel_dir, char* error, size_t error_bytes);
void rocmforge_close(rocmforge_context* context);

/* "NVIDIA H200 (sm_90)"; lives as long as the context. */
const char* rocmforge_device_name(const rocmforge_context* context);
/* The backend of the last call, "" before the first. */
const char* rocmforge_last_backend(const rocmforge_context* context);

int rocmforge_attention_dense(rocmforge_context* context, const rocmforge_dense_attention* call,
                              const rocmforge_attention_options* options, char* error, size_t error_bytes);
int rocmforge_attention_paged(rocmforge_context* context, const rocmforge_paged_attention* call,
                              const rocmforge_attention_options* options, char* error, size_t error_bytes);
/* Waits for the context's own stream. */
int rocmforge_synchronize(rocmforge_context* context, char* error, size_t error_bytes);

#ifdef __cplusplus
}
#endif

#endif
