#ifndef ROCMFORGE_ROCMFORGE_H
#define ROCMFORGE_ROCMFORGE_H

/* Language models from GGUF files in a C program: the engine of the program `rocmforge` as librocmforge. docs/library.md
 * describes how to use it.
 *
 * Errors. Functions that can fail return a rocmforge_status. After any but ROCMFORGE_OK, rocmforge_last_error() describes
 * the error in one line, like the program. No output argument has been written then.
 *
 * Options. An array of texts "name=value" that ends with NULL, or NULL for none. The names are those of the program's
 * command line without their dashes ("context=4096", "device=cpu", "greedy"); '_' may replace '-' in a name. A flag needs no
 * value, or takes true or false. A list ("stop", "logit-bias", "api-key") takes all its repetitions.
 *
 * Handles. A model, sequence or server is a handle; its free or stop function releases it. A null or released handle is
 * refused with ROCMFORGE_INVALID. If a thread releases a handle during another thread's call with it, that call still runs
 * to its end. Sequences and servers keep their model.
 *
 * Threads. Any thread may call any function, also several for one model: concurrent answers are computed together, step by
 * step. Only one thread at a time may use a sequence. A callback runs in the thread that called the function.
 *
 * Texts are UTF-8 and end with a zero byte. The caller frees a char* that a function returns in an argument with
 * rocmforge_free(). */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rocmforge_status {
  ROCMFORGE_OK = 0,
  ROCMFORGE_INVALID = 1, /* an argument, an option or a handle is wrong */
  ROCMFORGE_FAILED = 2,  /* a file, a device or a request can't be served */
  ROCMFORGE_NO_MEMORY = 3,
  ROCMFORGE_BUSY = 4 /* the limit of running and waiting answers is reached (options parallel and max-waiting) */
} rocmforge_status;

typedef struct rocmforge_model rocmforge_model;
typedef struct rocmforge_sequence rocmforge_sequence;
typedef struct rocmforge_server rocmforge_server;

/* Receives a piece of an answer, `bytes` long and followed by a zero; valid until the callback returns. A result other than
 * 0 ends the answer, which is no error. */
typedef int (*rocmforge_on_piece)(const char* piece, size_t bytes, void* user);

/* "0.1.0" */
const char* rocmforge_version(void);
/* The error of this thread's last failed call, "" if none has failed; valid until its next failed call. */
const char* rocmforge_last_error(void);
/* Frees a char* that a function has returned in an argument; NULL is allowed. */
void rocmforge_free(void* memory);

/* Models. */

/* Loads a GGUF file. `path`: a path, or a name as the program takes it; NULL or "" is the demo model. `options`: those of
 * `rocmforge run`, of which those for sampling, prompts and templates become the defaults of later calls; and alias,
 * pooling, parallel (8 here), max-waiting, kv-tokens (0: one full context), prompt-seconds, request-timeout,
 * no-prefix-cache and strict-fields of `rocmforge serve`. If an option is not given, its environment variable is used, as in
 * the program. */
rocmforge_status rocmforge_model_load(const char* path, const char* const* options, rocmforge_model** model);
/* NULL is allowed. Running answers of the model end first, unless a sequence or a server keeps it. */
rocmforge_status rocmforge_model_free(rocmforge_model* model);

typedef struct rocmforge_model_properties {
  size_t struct_bytes;       /* sizeof(rocmforge_model_properties), set by the caller: fields beyond it are not written */
  int32_t vocab_size;        /* logits of a token */
  int32_t context_length;    /* positions of a sequence, by file and options */
  int32_t embedding_length;  /* values of an embedding */
  int32_t has_tokenizer;     /* 0: the file has none, and no text can be read or written */
  int32_t has_chat_template; /* by the file or the options */
  int32_t bos_token;         /* -1: none */
  int32_t eos_token;         /* -1: none */
  int32_t threads;           /* on the CPU */
  uint64_t parameters;       /* elements of all tensors */
  uint64_t file_bytes;
  char architecture[64]; /* "llama" */
  char device[128];      /* "CPU (avx512, 8 threads)" */
  char path[1024];       /* of the file */
} rocmforge_model_properties;

rocmforge_status rocmforge_model_get_properties(const rocmforge_model* model, rocmforge_model_properties* properties);

/* Text and tokens. */

enum {
  ROCMFORGE_NO_SPECIAL = 1,   /* tokenize: add no BOS or EOS. detokenize: leave control tokens out */
  ROCMFORGE_PARSE_SPECIAL = 2 /* tokenize: control tokens written in the text become their ids */
};

/* Converts `text` of `text_bytes` bytes to token ids. Writes at most `capacity` ids to `tokens`, and the number of all ids
 * to `count`. */
rocmforge_status rocmforge_tokenize(const rocmforge_model* model, const char* text, size_t text_bytes, int flags,
                                    int32_t* tokens, size_t capacity, size_t* count);
/* The text of `count` tokens, to be freed with rocmforge_free; `text_bytes` may be NULL. */
rocmforge_status rocmforge_detokenize(const rocmforge_model* model, const int32_t* tokens, size_t count, int flags,
                                      char** text, size_t* text_bytes);

/* Answers. */

/* Answers a prompt as `rocmforge run` does. If the model has a chat template, the prompt is a user's message; otherwise, or
 * with the option raw, it is text to continue, and control tokens that are written in it count as such. `options`: those of
 * `rocmforge run` for sampling, prompts and templates, which override those of the model. `on_piece` gets the answer as it
 * is generated, in whole characters; it may be NULL. `result`, which may be NULL, becomes a JSON object with the members
 * text, finish_reason ("stop", "length", "context" or "cancelled"), shifted, prompt_tokens, cached_tokens, generated_tokens,
 * drafted_tokens, accepted_tokens, prompt_seconds and decode_seconds. */
rocmforge_status rocmforge_generate(rocmforge_model* model, const char* prompt, const char* const* options,
                                    rocmforge_on_piece on_piece, void* user, char** result);
/* The same for a prompt in tokens, which is used unchanged. */
rocmforge_status rocmforge_generate_tokens(rocmforge_model* model, const int32_t* tokens, size_t count,
                                           const char* const* options, rocmforge_on_piece on_piece, void* user,
                                           char** result);

/* Answers a conversation as the server does at /v1/chat/completions. `request`: JSON, an array of messages or the body of
 * such a request, with tools, response_format and the other members that docs/server-fields.md lists. `options`: those of
 * rocmforge_generate except raw, context-shift and another template; they become members of the request, unless it has these
 * itself. Without `on_piece`, `result` becomes the answer's JSON ("chat.completion"). With it the answer is streamed: each
 * piece is the JSON of a "chat.completion.chunk", and `result` becomes NULL. */
rocmforge_status rocmforge_chat(rocmforge_model* model, const char* request, const char* const* options,
                                rocmforge_on_piece on_piece, void* user, char** result);

/* Any request that the server answers, without a server: `method` "GET", "POST" or "DELETE", `path` "/v1/completions" and
 * the like, `body` JSON or NULL. `http_status` gets the status, `result` the body of the answer; both may be NULL. A status
 * of 400 and more is no failure of the call. `on_piece` gets the body of a streamed answer as an HTTP client reads it. */
rocmforge_status rocmforge_request(rocmforge_model* model, const char* method, const char* path, const char* body,
                                   rocmforge_on_piece on_piece, void* user, int* http_status, char** result);

/* The embeddings of `count` texts, pooled (option pooling) and of length 1: `embeddings` [count, embedding_length]. */
rocmforge_status rocmforge_embed(rocmforge_model* model, const char* const* texts, size_t count, float* embeddings);

/* Logits, for callers that sample tokens themselves. */

/* The logits of the token after `count` > 0 tokens, as the model computes them: `logits` [vocab_size]. Tokens that are in
 * the prefix cache are not computed again. */
rocmforge_status rocmforge_logits(rocmforge_model* model, const int32_t* tokens, size_t count, float* logits);

/* A text that grows token by token. `options`: seed, logit-bias and what `rocmforge run` lists under sampling, for
 * rocmforge_sequence_sample. Between two calls the pages of the text stay in the model's prefix cache: full pages are not
 * computed again unless they were evicted. */
rocmforge_status rocmforge_sequence_new(rocmforge_model* model, const char* const* options, rocmforge_sequence** sequence);
rocmforge_status rocmforge_sequence_free(rocmforge_sequence* sequence);
/* Appends `count` > 0 tokens and computes them; `logits` [vocab_size] of the token after them, or NULL. A call that fails
 * does not change the sequence. */
rocmforge_status rocmforge_sequence_append(rocmforge_sequence* sequence, const int32_t* tokens, size_t count, float* logits);
/* Samples the next token with the program's sampler, from the logits of the last append, and does not append it. -1 if every
 * token is forbidden. */
rocmforge_status rocmforge_sequence_sample(rocmforge_sequence* sequence, int32_t* token);
/* Removes all but the first `count` tokens; an append must come before the next sample. */
rocmforge_status rocmforge_sequence_truncate(rocmforge_sequence* sequence, size_t count);
rocmforge_status rocmforge_sequence_length(const rocmforge_sequence* sequence, size_t* count);

/* Servers. */

/* Serves the model over HTTP as `rocmforge serve` does, from threads of its own, until it is stopped. `options`: host, port
 * (0: a free one), and those of `rocmforge serve` for connections, keys, limits, pages and logs. Its requests and those of
 * this process share the model. */
rocmforge_status rocmforge_server_start(rocmforge_model* model, const char* const* options, rocmforge_server** server);
/* "http://127.0.0.1:8080", to be freed with rocmforge_free, and the port; either may be NULL. */
rocmforge_status rocmforge_server_address(const rocmforge_server* server, char** url, int* port);
/* Accepts no more requests, waits up to drain-seconds for running ones, cancels the rest, and releases the handle. */
rocmforge_status rocmforge_server_stop(rocmforge_server* server);

#ifdef __cplusplus
}
#endif

#endif
