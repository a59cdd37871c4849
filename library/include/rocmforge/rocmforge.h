#ifndef ROCMFORGE_ROCMFORGE_H
#define ROCMFORGE_ROCMFORGE_H

/* Language models from GGUF files in a C program: the engine of the program `rocmforge` as librocmforge. docs/library.md
 * tells how to use it.
 *
 * Errors. What can fail returns a rocmforge_status. Behind any but ROCMFORGE_OK, rocmforge_last_error() says in one line
 * what was wrong, in the words of the program. Nothing that a function gives out has been written then.
 *
 * Options. An array of texts "name=value" that ends with NULL, or NULL for none. The names are those of the program's
 * command line without their dashes ("context=4096", "device=cpu", "greedy"); '_' is as good as '-' within one. A flag needs
 * no value, or takes true or false. A list ("stop", "logit-bias", "api-key") takes all its repetitions.
 *
 * Handles. A model, sequence or server is a handle that its free function gives back. A null handle and one that was given
 * back are refused with ROCMFORGE_INVALID. A call that uses a handle while another thread gives it back ends as it would
 * have. Sequences and servers keep their model.
 *
 * Threads. Any thread may call any function, also several for one model: answers under way at once are computed together,
 * step by step. A sequence is for one thread at a time. A callback runs in the thread of the function that was given it.
 *
 * Texts are UTF-8 and end with a zero. A char* that is given out is the caller's, who gives it back to rocmforge_free(). */

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
  ROCMFORGE_BUSY = 4 /* as many answers are under way as may be (options parallel and max-waiting) */
} rocmforge_status;

typedef struct rocmforge_model rocmforge_model;
typedef struct rocmforge_sequence rocmforge_sequence;
typedef struct rocmforge_server rocmforge_server;

/* A piece of an answer, `bytes` long and followed by a zero; valid until the callback returns. Any value but 0 ends the
 * answer here, which is no error. */
typedef int (*rocmforge_on_piece)(const char* piece, size_t bytes, void* user);

/* "0.1.0" */
const char* rocmforge_version(void);
/* What was wrong in this thread's last call that failed, "" before any; valid until its next call that fails. */
const char* rocmforge_last_error(void);
/* Gives back what a function has given out as char*; NULL is fine. */
void rocmforge_free(void* memory);

/* Models. */

/* Opens a GGUF file and makes it ready: a path, or a name as the program takes it; NULL or "" is the demo model. `options`:
 * those of `rocmforge run`, where those of sampling, prompts and templates become what holds where a call says nothing; and
 * alias, pooling, parallel (8 here), max-waiting, kv-tokens (0: one full context), prompt-seconds, request-timeout,
 * no-prefix-cache and strict-fields of `rocmforge serve`. Where an option is not given, its environment variable counts as
 * it does there. */
rocmforge_status rocmforge_model_load(const char* path, const char* const* options, rocmforge_model** model);
/* NULL is fine. What is under way for the model ends first, unless a sequence or a server keeps it. */
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

/* `text` of `text_bytes` bytes as token ids. Writes at most `capacity` of them to `tokens`, and to `count` how many there
 * are. */
rocmforge_status rocmforge_tokenize(const rocmforge_model* model, const char* text, size_t text_bytes, int flags,
                                    int32_t* tokens, size_t capacity, size_t* count);
/* The text of `count` tokens, to be given back; `text_bytes` may be NULL. */
rocmforge_status rocmforge_detokenize(const rocmforge_model* model, const int32_t* tokens, size_t count, int flags,
                                      char** text, size_t* text_bytes);

/* Answers. */

/* Answers a prompt as `rocmforge run` does: the prompt is a user's message where the model has a chat template, and text to
 * go on with where it has none or option raw is given. `options`: those of `rocmforge run` for sampling, prompts and
 * templates, over what the model was loaded with. `on_piece` gets the answer as it comes, in whole characters; it may be
 * NULL. `result`, which may be NULL, becomes a JSON object with the members text, finish_reason ("stop", "length", "context"
 * or "cancelled"), shifted, prompt_tokens, cached_tokens, generated_tokens, prompt_seconds and decode_seconds. */
rocmforge_status rocmforge_generate(rocmforge_model* model, const char* prompt, const char* const* options,
                                    rocmforge_on_piece on_piece, void* user, char** result);
/* The same behind the tokens of a prompt, as they are. */
rocmforge_status rocmforge_generate_tokens(rocmforge_model* model, const int32_t* tokens, size_t count,
                                           const char* const* options, rocmforge_on_piece on_piece, void* user,
                                           char** result);

/* Answers a conversation as the server does at /v1/chat/completions. `request`: JSON, an array of messages or the body of
 * such a request, with tools, response_format and all else that docs/server.md lists. `options`: those of rocmforge_generate
 * but for raw, context-shift and another template; they become members that the request does not have itself. Without
 * `on_piece` `result` becomes the answer's JSON ("chat.completion"); with it the answer is streamed, each piece the JSON of
 * a "chat.completion.chunk", and `result` NULL. */
rocmforge_status rocmforge_chat(rocmforge_model* model, const char* request, const char* const* options,
                                rocmforge_on_piece on_piece, void* user, char** result);

/* Any request that the server answers, without a server: `method` "GET", "POST" or "DELETE", `path` "/v1/completions" and
 * the like, `body` JSON or NULL. `http_status` gets the status, `result` the body of the answer; both may be NULL. A status
 * of 400 and more is no failure of the call. The body of a streamed answer goes to `on_piece` as a client would read it. */
rocmforge_status rocmforge_request(rocmforge_model* model, const char* method, const char* path, const char* body,
                                   rocmforge_on_piece on_piece, void* user, int* http_status, char** result);

/* The embeddings of `count` texts, pooled (option pooling) and of length 1: `embeddings` [count, embedding_length]. */
rocmforge_status rocmforge_embed(rocmforge_model* model, const char* const* texts, size_t count, float* embeddings);

/* Logits, for those who draw tokens themselves. */

/* The logits of the token behind `count` > 0 tokens, as the model gives them: `logits` [vocab_size]. What the prefix cache
 * still knows of the tokens is not computed again. */
rocmforge_status rocmforge_logits(rocmforge_model* model, const int32_t* tokens, size_t count, float* logits);

/* A text that grows token by token. `options`: seed, logit-bias and what `rocmforge run` lists under sampling, for
 * rocmforge_sequence_sample. Pages of the text lie in the model's prefix cache between two calls: whole ones are not
 * computed again while there is room for them. */
rocmforge_status rocmforge_sequence_new(rocmforge_model* model, const char* const* options, rocmforge_sequence** sequence);
rocmforge_status rocmforge_sequence_free(rocmforge_sequence* sequence);
/* Adds `count` > 0 tokens and computes them; `logits` [vocab_size] of the token behind them, or NULL. What fails leaves the
 * sequence as it was. */
rocmforge_status rocmforge_sequence_append(rocmforge_sequence* sequence, const int32_t* tokens, size_t count, float* logits);
/* Draws the token behind the sequence with the program's sampler, from the logits of the last append; it is not added. -1
 * where every token is forbidden. */
rocmforge_status rocmforge_sequence_sample(rocmforge_sequence* sequence, int32_t* token);
/* Takes away all but the first `count` tokens; the next call must be an append. */
rocmforge_status rocmforge_sequence_truncate(rocmforge_sequence* sequence, size_t count);
rocmforge_status rocmforge_sequence_length(const rocmforge_sequence* sequence, size_t* count);

/* Servers. */

/* Serves the model over HTTP as `rocmforge serve` does, from threads of its own, until it is stopped. `options`: host, port
 * (0: a free one), and those of `rocmforge serve` for connections, keys, limits, pages and logs. Its requests and those of
 * this process share the model. */
rocmforge_status rocmforge_server_start(rocmforge_model* model, const char* const* options, rocmforge_server** server);
/* "http://127.0.0.1:8080", to be given back, and the port; either may be NULL. */
rocmforge_status rocmforge_server_address(const rocmforge_server* server, char** url, int* port);
/* Takes no more requests, gives running ones the time of option drain-seconds, and gives the handle back. */
rocmforge_status rocmforge_server_stop(rocmforge_server* server);

#ifdef __cplusplus
}
#endif

#endif
