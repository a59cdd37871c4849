#include "foreign_options.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "comma_list.h"

namespace rocmforge::app {
namespace {

using Kind = ForeignOption::Kind;

constexpr std::string_view by_name = "-hf OWNER/REPO[:QUANT] or -hf OWNER/REPO/FILE.gguf names a model that is downloaded";
constexpr std::string_view by_address =
    "models are downloaded by name (-hf OWNER/REPO:QUANT), not from an address: fetch the file yourself and name it with -m "
    "FILE";
constexpr std::string_view by_layers = "--gpu-layers and --cpu-moe say what the CPU computes beside a GPU";
constexpr std::string_view devices =
    "a model runs on the GPUs of this host that --device names, and the CPU beside them; the first one has the first layers";
constexpr std::string_view fused = "attention is always fused where a kernel can do it; --attention names one";
constexpr std::string_view mapped = "files are always mapped";
constexpr std::string_view own_threads =
    "--threads sets the threads of all work on the CPU; they are not bound to processors";
constexpr std::string_view no_draft =
    "a draft model (--draft-model) runs with the options of the model; --draft-max says how much it drafts";
constexpr std::string_view own_draft = "--draft-ngram, --draft-model and --mtp say what drafts, --draft-max how much";
constexpr std::string_view no_video = "video is not read";
constexpr std::string_view own_encoder =
    "the image encoder is the file beside the model or that of --mmproj, and runs on the model's device";
constexpr std::string_view file_rope = "the model's file says how positions are scaled";
constexpr std::string_view one_batch = "--batch sets the tokens of a step, which is not divided further";
constexpr std::string_view own_cache = "the KV cache has pages that all requests share; --kv-tokens sets its size for serve";
constexpr std::string_view prefixes =
    "serve keeps prompts' beginnings by itself, with --cache-disk FOLDER in files too; --no-prefix-cache turns it off";
constexpr std::string_view own_page = "the page at / is built in; --no-page turns it off";
constexpr std::string_view no_tls = "serve has no TLS: put a proxy before it";
constexpr std::string_view no_agent = "serve runs no tools and no MCP servers: the client runs them";
constexpr std::string_view talks = "rocmforge chat is the conversation, run answers once";
constexpr std::string_view raw_text = "run --raw continues plain text";
constexpr std::string_view reasoning =
    "reasoning is always told apart from the answer; --think on or off says whether there is any";
constexpr std::string_view budget = "a request's field reasoning_budget sets the budget; --think off turns reasoning off";
constexpr std::string_view logs = "serve logs to standard error; --log-file, --log-format and --log-requests change that";
constexpr std::string_view presets =
    "there are no presets of models: -hf NAME names the model and each option is given by itself";
constexpr std::string_view memory_fit =
    "what does not fit into the GPU's memory is placed on the CPU, and the context is the one of --context";
constexpr std::string_view own_host = "what is not said here is decided by --device, --host and --port";

// The names are those of llama-cli and llama-server (llama.cpp's common/arg.cpp of 2026) and of the variables that Ollama's
// server reads (envconfig).
constexpr auto foreign_options = std::to_array<ForeignOption>({
    // The same under another name.
    {"", Kind::same, "--ctx-size", "LLAMA_ARG_CTX_SIZE,OLLAMA_CONTEXT_LENGTH"},
    {"", Kind::same, "--threads", "LLAMA_ARG_THREADS"},
    {"", Kind::same, "--split", "LLAMA_ARG_SPLIT_MODE"},
    {"", Kind::same, "--tensor-split", "LLAMA_ARG_TENSOR_SPLIT"},
    {"", Kind::same, "--mmproj", "LLAMA_ARG_MMPROJ"},
    {"", Kind::same, "--image-max-tokens", "LLAMA_ARG_IMAGE_MAX_TOKENS"},
    {"", Kind::same, "--max-tokens", "LLAMA_ARG_N_PREDICT"},
    {"", Kind::same, "--batch", "LLAMA_ARG_BATCH"},
    {"", Kind::same, "--model", "LLAMA_ARG_MODEL"},
    {"", Kind::same, "--alias", "LLAMA_ARG_ALIAS"},
    {"", Kind::same, "--host", "LLAMA_ARG_HOST,OLLAMA_HOST"},
    {"", Kind::same, "--port", "LLAMA_ARG_PORT"},
    {"", Kind::same, "--api-key", "LLAMA_API_KEY"},
    {"", Kind::same, "--api-key-file", "LLAMA_ARG_API_KEY_FILE"},
    {"", Kind::same, "--parallel", "LLAMA_ARG_N_PARALLEL,OLLAMA_NUM_PARALLEL"},
    {"", Kind::same, "--max-waiting", "OLLAMA_MAX_QUEUE"},
    {"", Kind::same, "--log-file", "LLAMA_ARG_LOG_FILE"},
    {"", Kind::same, "--pooling", "LLAMA_ARG_POOLING"},
    {"", Kind::same, "--top-k", "LLAMA_ARG_TOP_K"},
    {"", Kind::same, "--top-p", "LLAMA_ARG_TOP_P"},
    {"", Kind::same, "--min-p", "LLAMA_ARG_MIN_P"},
    {"", Kind::same, "--repeat-penalty", "LLAMA_ARG_REPEAT_PENALTY"},
    {"", Kind::same, "--presence-penalty", "LLAMA_ARG_PRESENCE_PENALTY"},
    {"", Kind::same, "--frequency-penalty", "LLAMA_ARG_FREQUENCY_PENALTY"},
    {"", Kind::same, "--context-shift", "LLAMA_ARG_CONTEXT_SHIFT"},
    {"", Kind::same, "--chat-template-kwargs", "LLAMA_ARG_CHAT_TEMPLATE_KWARGS"},
    {"-hfr", Kind::same, "--hf-repo", "LLAMA_ARG_HF_REPO"},
    {"-dev", Kind::same, "--device", "LLAMA_ARG_DEVICE"},
    {"-s", Kind::same, "--seed"},
    {"--n-gpu-layers", Kind::same, "--gpu-layers", "LLAMA_ARG_N_GPU_LAYERS"},
    {"", Kind::same, "--override-tensor", "LLAMA_ARG_OVERRIDE_TENSOR"},
    {"", Kind::same, "--cpu-moe", "LLAMA_ARG_CPU_MOE"},
    {"", Kind::same, "--n-cpu-moe", "LLAMA_ARG_N_CPU_MOE"},
    {"-fitt,--fit-target", Kind::same, "--fit-margin", "LLAMA_ARG_FIT_TARGET"},
    {"--temperature", Kind::same, "--temp", "LLAMA_ARG_TEMPERATURE"},
    {"--typical-p", Kind::same, "--typical"},
    {"--system-prompt", Kind::same, "--system"},
    {"-r,--reverse-prompt", Kind::same, "--stop"},
    {"-jf", Kind::same, "--json-schema-file"},
    {"", Kind::same, "--cache-type-k", "LLAMA_ARG_CACHE_TYPE_K"},
    {"", Kind::same, "--cache-type-v", "LLAMA_ARG_CACHE_TYPE_V"},
    {"", Kind::same, "--kv-type", "OLLAMA_KV_CACHE_TYPE"},
    {"--cors-origins", Kind::same, "--cors-origin", "LLAMA_ARG_CORS_ORIGINS,OLLAMA_ORIGINS"},
    {"-to,--timeout", Kind::same, "--request-timeout", "LLAMA_ARG_TIMEOUT"},
    {"--no-ui,--no-webui", Kind::same, "--no-page"},
    {"-rea,--reasoning", Kind::same, "--think", "LLAMA_ARG_REASONING"},
    {"--chat-template", Kind::same, "--chat-format", "LLAMA_ARG_CHAT_TEMPLATE"},
    {"", Kind::same, "--chat-template-file", "LLAMA_ARG_CHAT_TEMPLATE_FILE"},
    {"--no-cache-prompt", Kind::same, "--no-prefix-cache"},
    {"-cram", Kind::same, "--cache-ram", "LLAMA_ARG_CACHE_RAM"},
    {"", Kind::same, "--models-dir", "LLAMA_ARG_MODELS_DIR"},
    {"", Kind::same, "--models-preset", "LLAMA_ARG_MODELS_PRESET"},
    {"", Kind::same, "--models-max", "LLAMA_ARG_MODELS_MAX,OLLAMA_MAX_LOADED_MODELS"},
    {"", Kind::same, "--keep-alive", "OLLAMA_KEEP_ALIVE"},
    {"--sleep-idle-seconds", Kind::same, "--sleep-idle"},
    // What is always so.
    {"--models-autoload", Kind::always, "a model is loaded when a request names it", "LLAMA_ARG_MODELS_AUTOLOAD"},
    {"-fa,--flash-attn", Kind::on, fused, "LLAMA_ARG_FLASH_ATTN,OLLAMA_FLASH_ATTENTION"},
    {"--jinja", Kind::always, "chat templates are always rendered as Jinja", "LLAMA_ARG_JINJA"},
    {"-cb,--cont-batching", Kind::always, "requests are always batched as they come", "LLAMA_ARG_CONT_BATCHING"},
    {"-kvo,--kv-offload", Kind::always, "the KV cache lies where the model runs", "LLAMA_ARG_KV_OFFLOAD"},
    {"-kvu,--kv-unified", Kind::always, own_cache, "LLAMA_ARG_KV_UNIFIED"},
    {"--cache-prompt", Kind::always, prefixes, "LLAMA_ARG_CACHE_PROMPT"},
    {"--repack", Kind::always, "weights are always repacked where that is faster", "LLAMA_ARG_REPACK"},
    {"--op-offload", Kind::always, by_layers},
    {"--warmup,--no-warmup", Kind::always, "a model warms up when it is loaded"},
    {"--perf,--show-timings", Kind::always, "run and chat print their speed at the end",
     "LLAMA_ARG_PERF,LLAMA_ARG_SHOW_TIMINGS"},
    {"--no-display-prompt", Kind::always, "the prompt is not printed"},
    {"-co,--color", Kind::on, "colours are used at a terminal, where NO_COLOR is not set"},
    {"--log-colors", Kind::on, "colours are used at a terminal, where NO_COLOR is not set", "LLAMA_ARG_LOG_COLORS"},
    {"--metrics", Kind::always, "serve always has /metrics", "LLAMA_ARG_ENDPOINT_METRICS"},
    {"--slots", Kind::always, "serve has /slots unless --no-slots is given", "LLAMA_ARG_ENDPOINT_SLOTS"},
    {"--ui,--webui", Kind::always, own_page, "LLAMA_ARG_UI"},
    {"--embedding,--embeddings", Kind::always, "serve always has the routes for embeddings", "LLAMA_ARG_EMBEDDINGS"},
    {"--rerank,--reranking", Kind::always, "serve always has /rerank", "LLAMA_ARG_RERANKING"},
    {"--simple-io", Kind::always, "where there is no terminal, lines are read as they are"},
    {"-mli,--multiline-input", Kind::always, "a line that ends in \\ goes on in chat"},
    {"--offline", Kind::always, "a model is downloaded only where the hub's cache lacks it", "LLAMA_ARG_OFFLINE"},
    {"--mmproj-auto,--mmproj-offload", Kind::always, own_encoder, "LLAMA_ARG_MMPROJ_AUTO,LLAMA_ARG_MMPROJ_OFFLOAD"},
    {"--no-host", Kind::always, by_layers, "LLAMA_ARG_NO_HOST"},
    {"--no-perf,--no-show-timings", Kind::instead, "the speed goes to standard error: 2> /dev/null"},
    {"--no-escape", Kind::always, "a text is always taken as the shell gives it"},
    {"--no-context-shift", Kind::always, "an answer ends at the context's end unless --context-shift is given"},
    {"-no-ag,--no-agent,--no-ui-mcp-proxy,--no-webui-mcp-proxy", Kind::always, no_agent},
    {"--mmap", Kind::always, mapped},
    {"--reasoning-format", Kind::on, reasoning, "LLAMA_ARG_THINK"},
    // What does not exist.
    {"-e,--escape", Kind::instead, "a text is taken as the shell gives it; $'...' holds escapes"},
    {"-cnv,--conversation,-st,--single-turn,--interactive", Kind::instead, talks},
    {"--check-tensors", Kind::instead, "every tensor is checked to lie in its file, its values are not"},
    {"--no-jinja", Kind::instead, "chat templates are always rendered as Jinja; --chat-format names a built-in one"},
    {"-nocb,--no-cont-batching", Kind::instead,
     "requests are always batched as they come; --parallel 1 answers one at a time"},
    {"-nkvo,--no-kv-offload", Kind::instead, "the KV cache lies where the model runs; --kv-type q8_0 makes it smaller"},
    {"-no-kvu,--no-kv-unified,--kv-unified-per-slot", Kind::instead, own_cache, "LLAMA_ARG_KV_UNIFIED_PER_SLOT"},
    {"-nr,--no-repack", Kind::instead, "weights are always repacked where that is faster"},
    {"--no-op-offload", Kind::instead, by_layers},
    {"--display-prompt,--verbose-prompt", Kind::instead, "rocmforge tokenize shows a prompt's tokens"},
    {"--hf,-hff,--hf-file", Kind::instead, by_name, "LLAMA_ARG_HF_FILE"},
    {"-hft,--hf-token", Kind::instead, "HF_TOKEN in the environment is the token"},
    {"-mu,--model-url,-dr,--docker-repo", Kind::instead, by_address, "LLAMA_ARG_MODEL_URL,LLAMA_ARG_DOCKER_REPO"},
    {"--no-mmap,--mlock,-dio,--direct-io,--no-direct-io,-lm,--load-mode,-lzm,--lazy-mode", Kind::instead, mapped,
     "LLAMA_ARG_LOAD_MODE,LLAMA_ARG_LAZY_MODE,LLAMA_ARG_MMAP,LLAMA_ARG_MLOCK"},
    {"-no-cnv,--no-conversation", Kind::instead, raw_text},
    {"-tb,--threads-batch,-C,--cpu-mask,-Cr,--cpu-range,--cpu-strict,--prio,--poll,-Cb,--cpu-mask-batch,-Crb,"
     "--cpu-range-batch,--cpu-strict-batch,--prio-batch,--poll-batch,--numa",
     Kind::instead, own_threads, "LLAMA_ARG_NUMA"},
    {"--threads-http", Kind::instead, "serve has the threads for HTTP that it needs; --max-connections limits connections",
     "LLAMA_ARG_THREADS_HTTP"},
    {"-lcs,--lookup-cache-static,-lcd,--lookup-cache-dynamic", Kind::instead, own_draft},
    {"-ub,--ubatch-size", Kind::instead, one_batch, "LLAMA_ARG_UBATCH"},
    {"--keep", Kind::instead, "--context-shift drops the older half of a full context; the beginning is not kept"},
    {"--swa-full,-ctxcp,--ctx-checkpoints,--swa-checkpoints,-cms,--checkpoint-min-step,--cache-idle-slots,"
     "--no-cache-idle-slots,-dt,--defrag-thold,-sps,--slot-prompt-similarity",
     Kind::instead, own_cache,
     "LLAMA_ARG_SWA_FULL,LLAMA_ARG_CTX_CHECKPOINTS,LLAMA_ARG_CHECKPOINT_MIN_SPACING_NT,"
     "LLAMA_ARG_CACHE_IDLE_SLOTS,LLAMA_ARG_DEFRAG_THOLD"},
    {"--cache-reuse,--prompt-cache,--prompt-cache-all,--prompt-cache-ro", Kind::instead, prefixes, "LLAMA_ARG_CACHE_REUSE"},
    {"-sysf,--system-prompt-file", Kind::instead, "--system \"$(cat FILE)\" is the system message of a file"},
    {"-bf,--binary-file", Kind::instead, "-f FILE reads the prompt of a file"},
    {"-ptc,--print-token-count", Kind::instead, "--json prints the numbers of tokens"},
    {"-sp,--special", Kind::instead, "control tokens are not printed"},
    {"-if,--interactive-first", Kind::instead, talks},
    {"--in-prefix,--in-prefix-bos,--in-suffix", Kind::instead, "the chat template writes what stands around a message"},
    {"--spm-infill", Kind::instead, "/infill uses the order that the model's file asks for"},
    {"--sampling-seq", Kind::same, "--sampler-seq"},
    {"--top-nsigma", Kind::same, "--top-n-sigma"},
    {"--dry-sequence-breaker", Kind::instead, "requests name such texts: the field dry_sequence_breakers"},
    {"-l", Kind::instead, "--logit-bias ID=VALUE adds to a token's logit"},
    {"-bs,--backend-sampling", Kind::instead, "where sampling runs is not chosen", "LLAMA_ARG_BACKEND_SAMPLING"},
    {"--rope-scaling,--rope-scale,--rope-freq-base,--rope-freq-scale,--yarn-orig-ctx,--yarn-ext-factor,--yarn-attn-factor,"
     "--yarn-beta-slow,--yarn-beta-fast,-gan,--grp-attn-n,-gaw,--grp-attn-w,--override-kv",
     Kind::instead, file_rope,
     "LLAMA_ARG_ROPE_SCALING_TYPE,LLAMA_ARG_ROPE_SCALE,LLAMA_ARG_ROPE_FREQ_BASE,LLAMA_ARG_ROPE_FREQ_SCALE,"
     "LLAMA_ARG_YARN_ORIG_CTX,LLAMA_ARG_YARN_EXT_FACTOR,LLAMA_ARG_YARN_ATTN_FACTOR,LLAMA_ARG_YARN_BETA_SLOW,"
     "LLAMA_ARG_YARN_BETA_FAST,LLAMA_ARG_GRP_ATTN_N,LLAMA_ARG_GRP_ATTN_W"},
    {"--video,--video-fps,--video-timestamp-interval,--video-ffmpeg-dir", Kind::instead, no_video,
     "LLAMA_ARG_VIDEO_FPS,LLAMA_ARG_VIDEO_TIMESTAMP_INTERVAL,LLAMA_ARG_VIDEO_FFMPEG_DIR"},
    {"--image-min-tokens,--mtmd-batch-max-tokens", Kind::instead, "--image-max-tokens is the one limit of an image's tokens",
     "LLAMA_ARG_IMAGE_MIN_TOKENS,LLAMA_ARG_MTMD_BATCH_MAX_TOKENS"},
    {"--media-path", Kind::instead, "serve --image-folder names the folder of file:// addresses"},
    {"-mmu,--mmproj-url,--no-mmproj-offload", Kind::instead, own_encoder, "LLAMA_ARG_MMPROJ_URL"},
    {"--rpc,-mg,--main-gpu", Kind::instead, devices, "LLAMA_ARG_RPC,LLAMA_ARG_MAIN_GPU,OLLAMA_SCHED_SPREAD"},
    {"--list-devices", Kind::instead, "rocmforge devices lists them"},
    {"-ncffn,--n-cpu-ffn", Kind::instead, by_layers, "LLAMA_ARG_N_CPU_FFN"},
    {"-fit,--fit,-fitc,--fit-ctx", Kind::instead, memory_fit,
     "LLAMA_ARG_FIT,LLAMA_ARG_FIT_ESTIMATE,LLAMA_ARG_FIT_CTX,OLLAMA_GPU_OVERHEAD"},
    {"--tags", Kind::instead, "a model has one name for clients, --alias", "LLAMA_ARG_TAGS"},
    {"--reuse-port", Kind::instead, "one server listens at a port", "LLAMA_ARG_REUSE_PORT"},
    {"--path,--ui-config,--webui-config,--ui-config-file,--webui-config-file", Kind::instead, own_page,
     "LLAMA_ARG_STATIC_PATH,LLAMA_ARG_UI_CONFIG,LLAMA_ARG_UI_CONFIG_FILE"},
    {"--api-prefix", Kind::instead, "the routes have no prefix: a proxy can add one", "LLAMA_ARG_API_PREFIX"},
    {"--cors-methods,--cors-headers,--cors-credentials,--no-cors-credentials", Kind::instead,
     "--cors-origin ORIGIN lets pages of an origin use the server with all methods and headers",
     "LLAMA_ARG_CORS_METHODS,LLAMA_ARG_CORS_HEADERS,LLAMA_ARG_CORS_CREDENTIALS"},
    {"--ui-mcp-proxy,--webui-mcp-proxy,--tools,--tools-runtime,--mcp-servers-config,"
     "--mcp-servers-json,-ag,--agent",
     Kind::instead, no_agent,
     "LLAMA_ARG_UI_MCP_PROXY,LLAMA_ARG_TOOLS,LLAMA_ARG_TOOLS_RUNTIME,LLAMA_ARG_MCP_SERVERS_CONFIG,LLAMA_ARG_MCP_SERVERS_"
     "JSON,"
     "LLAMA_ARG_AGENT"},
    {"--ssl-key-file,--ssl-cert-file", Kind::instead, no_tls, "LLAMA_ARG_SSL_KEY_FILE,LLAMA_ARG_SSL_CERT_FILE"},
    {"--sse-ping-interval", Kind::instead, "the interval of a stream's comments is fixed", "LLAMA_ARG_SSE_PING_INTERVAL"},
    {"--props", Kind::instead, "/props is read only: the options of serve set the defaults", "LLAMA_ARG_ENDPOINT_PROPS"},
    {"--no-models-autoload", Kind::instead, "a model is loaded when a request names it"},
    {"", Kind::instead, "a request waits for its model as long as --request-timeout says", "OLLAMA_LOAD_TIMEOUT"},
    {"--reasoning-preserve,--no-reasoning-preserve,--reasoning-effort", Kind::instead, reasoning,
     "LLAMA_ARG_REASONING_PRESERVE,LLAMA_ARG_REASONING_EFFORT"},
    {"--reasoning-budget,--reasoning-budget-message", Kind::instead, budget,
     "LLAMA_ARG_THINK_BUDGET,LLAMA_ARG_THINK_BUDGET_MESSAGE"},
    {"--skip-chat-parsing,--no-skip-chat-parsing", Kind::instead,
     "answers are always parsed; /completion gives the plain text", "LLAMA_ARG_SKIP_CHAT_PARSING"},
    {"--prefill-assistant,--no-prefill-assistant", Kind::instead, "a request says whether its last message goes on",
     "LLAMA_ARG_PREFILL_ASSISTANT"},
    {"--log-disable,--log-prefix,--log-timestamps,--log-jsonl,--no-log-jsonl,--log-prompts-dir,-v,--verbose,--log-verbose,-"
     "lv,--verbosity,--log-verbosity,"
     "--no-log-prefix,--no-log-timestamps",
     Kind::instead, logs,
     "LLAMA_ARG_LOG_JSONL,LLAMA_ARG_LOG_PREFIX,LLAMA_ARG_LOG_TIMESTAMPS,LLAMA_ARG_LOG_VERBOSITY,OLLAMA_DEBUG"},
    {"--spec-draft-hf,-hfd,-hfrd,--hf-repo-draft,--spec-draft-threads,-td,--threads-draft,--spec-draft-threads-batch,-tbd,"
     "--threads-batch-draft,--spec-draft-cpu-mask,-Cd,--cpu-mask-draft,--spec-draft-cpu-range,-Crd,--cpu-range-draft,"
     "--spec-draft-cpu-strict,--cpu-strict-draft,--spec-draft-prio,--prio-draft,--spec-draft-poll,--poll-draft,"
     "--spec-draft-cpu-mask-batch,-Cbd,--cpu-mask-batch-draft,--spec-draft-cpu-range-batch,-Crbd,--cpu-range-batch-draft,"
     "--spec-draft-cpu-strict-batch,--cpu-strict-batch-draft,--spec-draft-prio-batch,--prio-batch-draft,"
     "--spec-draft-poll-batch,--poll-batch-draft,--spec-draft-type-k,-ctkd,--cache-type-k-draft,--spec-draft-type-v,-ctvd,"
     "--cache-type-v-draft,--spec-draft-override-tensor,-otd,--override-tensor-draft,--spec-draft-cpu-moe,-cmoed,"
     "--cpu-moe-draft,--spec-draft-n-cpu-moe,--spec-draft-ncmoe,-ncmoed,--n-cpu-moe-draft,--spec-synth-len,"
     "--spec-synth-rates,--spec-draft-p-split,--draft-p-split,--spec-draft-p-min,"
     "--draft-p-min,--spec-draft-backend-sampling,--no-spec-draft-backend-sampling,--spec-draft-device,-devd,--device-draft,"
     "--spec-draft-ngl,-ngld,--gpu-layers-draft,--n-gpu-layers-draft",
     Kind::instead, no_draft,
     "LLAMA_ARG_SPEC_DRAFT_HF_REPO,LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_K,LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_V,"
     "LLAMA_ARG_SPEC_DRAFT_CPU_MOE,LLAMA_ARG_SPEC_DRAFT_N_CPU_MOE,LLAMA_ARG_SPEC_SYNTH_LEN,LLAMA_ARG_SPEC_SYNTH_RATES,LLAMA_"
     "ARG_SPEC_DRAFT_P_SPLIT,LLAMA_ARG_SPEC_DRAFT_P_MIN,"
     "LLAMA_ARG_SPEC_DRAFT_BACKEND_SAMPLING,LLAMA_ARG_N_GPU_LAYERS_DRAFT"},
    {"--spec-type,--spec-default,--spec-ngram-mod-n-min,--spec-ngram-mod-n-max,--spec-ngram-simple-size-m,"
     "--spec-ngram-simple-min-hits,--spec-ngram-map-k-size-n,--spec-ngram-map-k-size-m,--spec-ngram-map-k-min-hits,"
     "--spec-ngram-map-k4v-size-n,--spec-ngram-map-k4v-size-m,--spec-ngram-map-k4v-min-hits,--spec-ngram-size-m,"
     "--spec-ngram-min-hits",
     Kind::instead, own_draft, "LLAMA_ARG_SPEC_TYPE"},
    {"", Kind::same, "--draft-model", "LLAMA_ARG_SPEC_DRAFT_MODEL"},
    {"", Kind::same, "--draft-max", "LLAMA_ARG_SPEC_DRAFT_N_MAX,LLAMA_ARG_DRAFT_MAX"},
    {"", Kind::same, "--draft-min", "LLAMA_ARG_SPEC_DRAFT_N_MIN,LLAMA_ARG_DRAFT_MIN"},
    {"--embd-gemma-default,--fim-qwen-1.5b-default,--fim-qwen-3b-default,--fim-qwen-7b-default,--fim-qwen-7b-spec,"
     "--fim-qwen-14b-spec,--fim-qwen-30b-default,--gpt-oss-20b-default,--gpt-oss-120b-default,--vision-gemma-4b-default,"
     "--vision-gemma-12b-default",
     Kind::instead, presets},
    {"-cl,--cache-list", Kind::instead, "rocmforge models lists the models"},
    {"--completion-bash", Kind::instead, "completions are installed with the program"},
    {"--server-base", Kind::instead, "rocmforge chat runs the model itself; any client talks to serve"},
    {"--embd-normalize", Kind::instead, "a request for embeddings says how they are normalised"},
    {"--usage", Kind::instead, "--help describes a command"},
    {"-o,--output,--output-file", Kind::instead, "the answer goes to standard output: > FILE"},
    // Ollama's variables that are no options.
    {"", Kind::instead, "models lie in the hub's cache and in the folders that rocmforge models lists",
     "OLLAMA_MODELS,OLLAMA_NOPRUNE"},
    {"", Kind::instead, own_host,
     "OLLAMA_LLM_LIBRARY,OLLAMA_INTEL_GPU,OLLAMA_VULKAN,OLLAMA_NEW_ENGINE,OLLAMA_NEW_ESTIMATES"},
    {"", Kind::instead, prefixes, "OLLAMA_MULTIUSER_CACHE"},
    {"", Kind::instead, "chat keeps the lines typed for as long as it runs", "OLLAMA_NOHISTORY"},
    {"", Kind::instead, "temporary files lie in TMPDIR", "OLLAMA_TMPDIR"},
    {"", Kind::instead, "there are no remote models", "OLLAMA_REMOTES,OLLAMA_AUTH,OLLAMA_NO_CLOUD"},
});

/// "" has none.
std::vector<std::string> words_of(std::string_view list) {
  return list.empty() ? std::vector<std::string>() : split_at_commas(list);
}

bool holds(std::string_view list, std::string_view word) {
  const std::vector<std::string> all = words_of(list);
  return std::ranges::find(all, word) != all.end();
}

}  // namespace

std::vector<std::string> ForeignOption::all_names() const { return words_of(names); }

const ForeignOption* find_foreign_option(std::string_view name) {
  const auto found = std::ranges::find_if(foreign_options, [&](const ForeignOption& one) { return holds(one.names, name); });
  return found == foreign_options.end() ? nullptr : &*found;
}

const ForeignOption* find_foreign_variable(std::string_view name) {
  const auto found =
      std::ranges::find_if(foreign_options, [&](const ForeignOption& one) { return holds(one.variables, name); });
  return found == foreign_options.end() ? nullptr : &*found;
}

std::vector<ForeignVariable> foreign_variables() {
  std::vector<ForeignVariable> found;
  for (const ForeignOption& option : foreign_options) {
    for (const std::string& name : words_of(option.variables)) {
      if (const char* value = std::getenv(name.c_str()); value != nullptr && *value != '\0') {
        found.push_back({name, value, &option});
      }
    }
  }
  std::ranges::stable_sort(found, {}, [](const ForeignVariable& one) { return one.name.starts_with("OLLAMA"); });
  return found;
}

}  // namespace rocmforge::app
