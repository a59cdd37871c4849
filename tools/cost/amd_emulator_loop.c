/* The inner loop of amd_emulator.py: runs the waves of one kernel launch over a table of decoded instructions.
 *
 * Most instructions are functions that the caller had compiled. Matrix products and plain loads and stores are done here: with
 * every kind of operand, at any address, and with shared memory checked. Memory that no buffer covers is unmapped, so that a
 * stray access is a signal, which becomes an answer.
 *
 * What a wave stores is late: others see it once the wave has waited for it (s_waitcnt and its kin, which is what fences and
 * barriers become), and what nobody waited for when the launch ends. So a missing fence or barrier shows. The waves of a
 * work-group of CDNA share a cache, where a barrier suffices. Atomics are never late, nor are loads.
 *
 * Work-groups run one after another, and of each the waves one after another up to the next barrier. With a seed (`random`) up to
 * RESIDENT work-groups run at a time: a wave is drawn, runs for a number of instructions that is drawn too, and some of its stores
 * may become visible. An eighth of the waves is drawn seldom.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <xmmintrin.h>

enum Kind {
  UNKNOWN, CALL, CALL_BARRIER, SKIP, WMMA_RDNA3, WMMA_RDNA4, MFMA_16X16X16, MEMORY, LDS_CHECKED_CALL, READ_PC, WAIT, BPERMUTE,
  WMMA_RDNA4_BYTES, MFMA_16X16X32_BYTES, PERMUTE_ROWS, JUMP
};
enum Counter { OF_STORES = 1, OF_SHARED = 2 };
enum { MOST_STORES = 63 }; /* the counter's six bits: a wave with so many stores on their way waits with the next one */
enum MemoryFlags { STORE = 1, SHARED = 2, SIGNED = 4, LOW_HALF = 8, HIGH_HALF = 16, TWO_ADDRESSES = 32 };
enum Answer { FINISHED, NEEDS_DECODING, MEMORY_FAULT, SHARED_FAULT, TOO_LONG, BAD_PC };
enum { SGPRS = 260, EXEC = 126, PC = 256, SCRATCH_STRIDE = 259, HARDWARE_REGISTERS = 244, MAX_WAVES = 64, RESIDENT = 4 };
enum Stop { FAILED, AT_BARRIER, ENDED, PREEMPTED };

typedef void (*Function)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

typedef struct {
  Function function;
  uint8_t operands[6]; /* which of the buffers each parameter is: sgpr, vgpr, memory, lds, scratch, accumulators */
  uint8_t kind;
  uint8_t size;          /* bytes */
  int32_t offset[2];     /* memory: bytes; the second of two addresses */
  uint16_t destination;  /* vector register; what memory is loaded to or stored from; scalar register of READ_PC and JUMP */
  uint16_t source[3];    /* operand codes: 256 and above are vector registers. Memory: address register, scalar base (124 and
                            above: none), register of the second store */
  uint8_t accumulators;  /* bit 0: source 0, bit 1: source 1, bit 2: source 2 and the destination live in accumulators */
  uint8_t bytes;         /* memory: of one lane at one address */
  uint8_t flags;         /* memory */
  uint8_t bfloat;        /* products: the elements' format */
  uint8_t counter;       /* that the instruction raises */
  uint8_t left[2];       /* WAIT: how many stores and accesses to shared memory may be on their way; 255: any number */
} Instruction;

/* Up to four bytes on their way to memory; `issue`: which of the counter's instructions stores them. */
typedef struct {
  uint8_t* to;
  uint32_t value;
  uint32_t bytes;
  uint64_t issue;
} Store;

typedef struct {
  Store* stores; /* the oldest first */
  uint64_t first, end, capacity;
  uint64_t issued;
  uint8_t *low, *high; /* all of them lie in [low, high) */
} Stores;

typedef struct {
  uint32_t sgpr[SGPRS + 252];
  uint32_t vgpr[257 * 64];
  uint32_t accumulators[257 * 64];
  Stores stores, shared; /* that are on their way */
} Wave;

typedef struct {
  uint32_t grid[3], block[3];
  uint64_t code, code_bytes, entry;
  Instruction* instructions; /* one for each four bytes of code */
  uint32_t user_sgprs[16], user_sgpr_count;
  uint32_t resources; /* the descriptor's second word */
  uint32_t wave_size, ids_in_ttmp, flush_denormals, one_cache, vgprs;
  uint32_t lds_bytes, scratch_bytes;
  uint64_t max_instructions; /* of one wave */
  /* answers */
  uint64_t pc, fault_address;
  uint32_t group[3];
  uint64_t executed;
  /* state */
  uint32_t started, next_group; /* whether a wave of `place` is to go on; number of the work-group that starts next */
  uint32_t place, wave;
  uint64_t left;   /* instructions until another wave is drawn */
  uint64_t random; /* 0: nothing is drawn */
} Launch;

/* A place for a work-group. */
typedef struct {
  Wave* waves[MAX_WAVES];
  enum { READY, WAITS, DONE } states[MAX_WAVES];
  uint64_t count[MAX_WAVES]; /* of instructions */
  uint8_t slow[MAX_WAVES];
  uint32_t id[3], number, round;
  uint32_t running; /* waves that have not ended; 0: no work-group is here */
  uint8_t* scratch;
  uint64_t scratch_capacity;
  uint8_t* lds; /* lanes that are switched off read and rewrite any 32-bit address: the whole range is reserved */
} Group;

static Group groups[RESIDENT];
static Stores unwaited; /* of waves that have ended */
static const uint64_t lds_reserved = (1ull << 32) + (1 << 20);
static sigjmp_buf escape;
static volatile sig_atomic_t may_escape;
static void* fault_address;

static void on_fault(int number, siginfo_t* info, void* context) {
  (void)context;
  if (!may_escape) {
    signal(number, SIG_DFL);
    return;
  }
  fault_address = info->si_addr;
  siglongjmp(escape, 1);
}

/* `places`: for how many work-groups. */
int prepare(uint32_t places) {
  struct sigaction action = {0};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, 0);
  sigaction(SIGBUS, &action, 0);
  for (uint32_t i = 0; i < places; ++i) {
    groups[i].lds = mmap(0, lds_reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (groups[i].lds == MAP_FAILED) return 0;
  }
  return 1;
}

/* A number below `bound`. */
static uint64_t draw(Launch* l, uint64_t bound) {
  l->random ^= l->random << 13;
  l->random ^= l->random >> 7;
  l->random ^= l->random << 17;
  return (l->random >> 11) % bound;
}

static void add_store(Stores* all, Store store) {
  if (all->first == all->end) {
    all->first = all->end = 0;
    all->low = all->high = store.to;
  }
  if (all->end == all->capacity) all->stores = realloc(all->stores, (all->capacity = all->capacity * 2 + 256) * sizeof(Store));
  all->stores[all->end++] = store;
  if (store.to < all->low) all->low = store.to;
  if (store.to + store.bytes > all->high) all->high = store.to + store.bytes;
}

/* Waits until at most `left` of the counter's instructions are on their way. */
static void wait_for(Stores* all, uint64_t left) {
  for (; all->first < all->end && all->stores[all->first].issue + left <= all->issued; ++all->first) {
    __atomic_thread_fence(__ATOMIC_RELEASE);
    memcpy(all->stores[all->first].to, &all->stores[all->first].value, all->stores[all->first].bytes);
  }
}

/* What the wave itself reads of [from, from + bytes): its own stores are in order. */
static void read_own(const Stores* all, const uint8_t* from, uint32_t bytes, void* value) {
  if (all->first == all->end || from >= all->high || from + bytes <= all->low) return;
  for (uint64_t i = all->first; i < all->end; ++i) {
    const Store* store = &all->stores[i];
    for (uint32_t j = 0; j < store->bytes; ++j)
      if (store->to + j >= from && store->to + j < from + bytes)
        ((uint8_t*)value)[store->to + j - from] = ((const uint8_t*)&store->value)[j];
  }
}

/* A wave ends with stores for which nothing waited. */
static void leave(Wave* w) {
  for (; w->stores.first < w->stores.end; ++w->stores.first) {
    Store store = w->stores.stores[w->stores.first];
    store.issue = 0;
    add_store(&unwaited, store);
  }
}

/* Some of the oldest stores become visible though nothing waits for them. */
static void show_some(Launch* l, Stores* all) {
  if (all->first < all->end) wait_for(all, draw(l, all->issued - all->stores[all->first].issue + 2));
}

static void start_wave(const Launch* l, Group* g, uint32_t index) {
  static const uint32_t floats[9] = {0x3f000000, 0xbf000000, 0x3f800000, 0xbf800000, 0x40000000,
                                     0xc0000000, 0x40800000, 0xc0800000, 0x3e22f983};
  const uint32_t threads = l->block[0] * l->block[1] * l->block[2], first = index * l->wave_size;
  const uint32_t lanes = threads - first < l->wave_size ? threads - first : l->wave_size;
  const uint32_t* group = g->id;
  if (!g->waves[index]) {
    g->waves[index] = aligned_alloc(64, (sizeof(Wave) + 63) & ~63ul);
    memset(g->waves[index], 0, sizeof(Wave));
  }
  Wave* w = g->waves[index];
  w->stores.first = w->stores.end = w->stores.issued = 0;
  w->shared.first = w->shared.end = w->shared.issued = 0;
  uint32_t* s = w->sgpr;
  memset(s, 0, sizeof w->sgpr);
  for (int i = 0; i <= 64; ++i) s[128 + i] = i;
  for (int i = 0; i < 16; ++i) s[193 + i] = (uint32_t)-(i + 1);
  memcpy(s + 240, floats, sizeof floats);
  const uint64_t exec = lanes == 64 ? ~0ull : (1ull << lanes) - 1;
  s[EXEC] = (uint32_t)exec;
  if (l->wave_size == 64) s[EXEC + 1] = (uint32_t)(exec >> 32);
  s[PC] = (uint32_t)l->entry;
  s[PC + 1] = (uint32_t)(l->entry >> 32);
  memcpy(s, l->user_sgprs, 4 * l->user_sgpr_count);
  if (l->ids_in_ttmp) {
    s[108 + 7] = group[1] | group[2] << 16;
    s[108 + 9] = group[0];
  } else {
    uint32_t at = l->resources >> 1 & 31;
    for (int i = 0; i < 3; ++i)
      if (l->resources >> (7 + i) & 1) s[at++] = group[i];
  }
  s[SCRATCH_STRIDE] = l->scratch_bytes;
  s[HARDWARE_REGISTERS + 4] = (index & 15) | (index & 3) << 4;
  /* Registers and accumulators start as a NaN that no kernel may see. */
  for (uint32_t i = 0; i < l->vgprs * l->wave_size; ++i) w->vgpr[i] = 0x7fc0dead;
  if (l->wave_size == 64) memcpy(w->accumulators, w->vgpr, 4ul * l->vgprs * l->wave_size);
  for (uint32_t lane = 0; lane < l->wave_size; ++lane) {
    const uint32_t thread = first + lane, plane = l->block[0] * l->block[1];
    w->vgpr[lane] = lane < lanes ? thread / plane << 20 | thread / l->block[0] % l->block[1] << 10 | thread % l->block[0] : 0;
  }
}

static uint32_t waves_of(const Launch* l) {
  return (l->block[0] * l->block[1] * l->block[2] + l->wave_size - 1) / l->wave_size;
}

static void start_group(Launch* l, Group* g) {
  const uint32_t at = l->next_group++, count = waves_of(l);
  g->id[0] = at % l->grid[0];
  g->id[1] = at / l->grid[0] % l->grid[1];
  g->id[2] = at / l->grid[0] / l->grid[1];
  for (uint32_t i = 0; i < count; ++i) {
    start_wave(l, g, i);
    g->states[i] = READY;
    g->count[i] = 0;
    g->slow[i] = l->random && draw(l, 8) == 0;
  }
  memset(g->lds, 0xff, l->lds_bytes + 64);
  const uint64_t wanted = (uint64_t)l->scratch_bytes * l->wave_size * count;
  if (wanted > g->scratch_capacity) {
    free(g->scratch);
    g->scratch = malloc(g->scratch_capacity = wanted);
  }
  if (wanted) memset(g->scratch, 0xff, wanted);
  g->number = at;
  g->round = 0;
  g->running = count;
}

static uint32_t scalar(const Wave* w, uint32_t code) { return w->sgpr[code]; }

static float as_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

static float half_to_float(uint32_t bits) {
  const uint32_t sign = (bits & 0x8000) << 16, exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
  if (exponent == 31) return as_float(sign | 0x7f800000 | mantissa << 13);
  if (exponent) return as_float(sign | (exponent + 112) << 23 | mantissa << 13);
  const float small = (float)mantissa * 0x1p-24f;
  return sign ? -small : small;
}

static float element(const uint32_t* registers, uint32_t wave_size, uint32_t first, uint32_t lane, uint32_t index, int bfloat) {
  const uint32_t word = registers[(first + index / 2) * wave_size + lane], bits = index & 1 ? word >> 16 : word & 0xffff;
  return bfloat ? as_float(bits << 16) : half_to_float(bits);
}

/* D = A * B + C, 16 x 16 x 16. Where element (row or column i, k) of A and B and element (m, n) of C and D live is the
 * instruction set's: AMD's RDNA3, RDNA4 and CDNA3 manuals. */
static void matrix_product(Wave* w, const Instruction* in, uint32_t wave_size) {
  float a[16][16], b[16][16], d[16][16];
  const uint32_t* files[3];
  for (int i = 0; i < 3; ++i) files[i] = in->accumulators >> i & 1 ? w->accumulators : w->vgpr;
  for (uint32_t i = 0; i < 16; ++i)
    for (uint32_t k = 0; k < 16; ++k) {
      uint32_t lane, index;
      if (in->kind == WMMA_RDNA3) {
        lane = i, index = k;
      } else if (in->kind == WMMA_RDNA4) {
        lane = i + 16 * (k >> 3), index = k & 7;
      } else {
        lane = i + 16 * (k >> 2), index = k & 3;
      }
      a[i][k] = element(files[0], wave_size, in->source[0] - 256, lane, index, in->bfloat);
      b[i][k] = element(files[1], wave_size, in->source[1] - 256, lane, index, in->bfloat);
    }
  for (uint32_t pass = 0; pass < 2; ++pass)
    for (uint32_t m = 0; m < 16; ++m)
      for (uint32_t n = 0; n < 16; ++n) {
        uint32_t lane, reg;
        if (in->kind == WMMA_RDNA3) {
          lane = n + 16 * (m & 1), reg = m >> 1;
        } else if (in->kind == WMMA_RDNA4) {
          lane = n + 16 * (m >> 3), reg = m & 7;
        } else {
          lane = n + 16 * (m >> 2), reg = m & 3;
        }
        if (pass == 0) {
          float sum = as_float(in->source[2] < 256 ? scalar(w, in->source[2])
                                                   : files[2][(in->source[2] - 256 + reg) * wave_size + lane]);
          for (uint32_t k = 0; k < 16; ++k) sum = __builtin_fmaf(a[m][k], b[n][k], sum);
          d[m][n] = sum;
        } else {
          uint32_t* file = in->accumulators & 4 ? w->accumulators : w->vgpr;
          memcpy(&file[(in->destination + reg) * wave_size + lane], &d[m][n], 4);
        }
      }
}

/* The same for signed bytes, K = 16 and 32: a lane has eight neighbouring ones of a row or column. The sums are exact. */
static void byte_product(Wave* w, const Instruction* in, uint32_t wave_size) {
  const uint32_t slices = wave_size / 16, rows = 16 / slices;
  const uint32_t* files[3];
  uint32_t d[16][16];
  for (int i = 0; i < 3; ++i) files[i] = in->accumulators >> i & 1 ? w->accumulators : w->vgpr;
  for (uint32_t m = 0; m < 16; ++m)
    for (uint32_t n = 0; n < 16; ++n) {
      uint32_t sum = in->source[2] < 256 ? scalar(w, in->source[2])
                                         : files[2][(in->source[2] - 256 + m % rows) * wave_size + n + 16 * (m / rows)];
      for (uint32_t slice = 0; slice < slices; ++slice)
        for (uint32_t i = 0; i < 8; ++i) {
          const uint32_t a = files[0][(in->source[0] - 256 + i / 4) * wave_size + m + 16 * slice] >> i % 4 * 8;
          const uint32_t b = files[1][(in->source[1] - 256 + i / 4) * wave_size + n + 16 * slice] >> i % 4 * 8;
          sum += (uint32_t)((int32_t)(int8_t)a * (int8_t)b);
        }
      d[m][n] = sum;
    }
  uint32_t* file = in->accumulators & 4 ? w->accumulators : w->vgpr;
  for (uint32_t m = 0; m < 16; ++m)
    for (uint32_t n = 0; n < 16; ++n) file[(in->destination + m % rows) * wave_size + n + 16 * (m / rows)] = d[m][n];
}

static int active(const Wave* w, uint32_t lane) { return w->sgpr[EXEC + lane / 32] >> (lane & 31) & 1; }

static uint64_t lane_address(const Wave* w, const Instruction* in, uint32_t wave_size, uint32_t lane, int second) {
  const uint32_t low = w->vgpr[in->source[0] * wave_size + lane];
  if (in->flags & SHARED) return low + (uint32_t)in->offset[second];
  const uint64_t base = in->source[1] < 124 ? w->sgpr[in->source[1]] | (uint64_t)w->sgpr[in->source[1] + 1] << 32
                                            : (uint64_t)w->vgpr[(in->source[0] + 1) * wave_size + lane] << 32;
  return base + low + (int64_t)in->offset[second];
}

/* Loads of fewer than four bytes fill the register, or one half of it. */
static uint32_t widened(const Instruction* in, uint32_t value, uint32_t before) {
  if (in->flags & SIGNED) value = in->bytes == 1 ? (uint32_t)(int8_t)value : (uint32_t)(int16_t)value;
  if (in->flags & LOW_HALF) return (before & 0xffff0000) | (value & 0xffff);
  if (in->flags & HIGH_HALF) return (before & 0xffff) | value << 16;
  return value;
}

/* Whether every address lies in shared memory; *where is the last one looked at. */
static int access_memory(const Launch* l, const Group* g, Wave* w, const Instruction* in, uint64_t* where) {
  uint32_t* file = in->accumulators ? w->accumulators : w->vgpr;
  const int addresses = in->flags & TWO_ADDRESSES ? 2 : 1;
  const uint32_t words = (in->bytes + 3) / 4, size = l->wave_size, part = in->bytes < 4 ? in->bytes : 4;
  Stores* late = in->flags & SHARED ? &w->shared : &w->stores;
  for (uint32_t lane = 0; lane < size; ++lane) {
    if (!active(w, lane)) continue;
    uint8_t* at[2];
    for (int i = 0; i < addresses; ++i) {
      *where = lane_address(w, in, size, lane, i);
      at[i] = (uint8_t*)*where;
      if (!(in->flags & SHARED)) continue;
      if (*where + in->bytes > l->lds_bytes) return 0;
      at[i] = g->lds + *where;
    }
    for (int i = 0; i < addresses; ++i) {
      const uint32_t first = in->flags & STORE ? (i ? in->source[2] : in->destination) : in->destination + i * words;
      /* Stores show their words from the first to the last. Read the other way, eight bytes that another GPU writes are never torn. */
      for (uint32_t left = words; left > 0; --left) {
        const uint32_t word = in->flags & STORE ? words - left : left - 1;
        uint32_t* reg = &file[(first + word) * size + lane];
        if (in->flags & STORE) {
          *(volatile uint8_t*)(at[i] + 4 * word); /* the instruction that strays is at fault, not the one that waits */
          add_store(late, (Store){at[i] + 4 * word, in->flags & HIGH_HALF ? *reg >> 16 : *reg, part, late->issued});
        } else {
          uint32_t value = 0;
          memcpy(&value, at[i] + 4 * word, part);
          __atomic_thread_fence(__ATOMIC_ACQUIRE);
          read_own(late, at[i] + 4 * word, part, &value);
          *reg = in->bytes < 4 ? widened(in, value, *reg) : value;
        }
      }
    }
  }
  return 1;
}

static int shared_access_fits(const Launch* l, const Wave* w, const Instruction* in, uint64_t* where) {
  for (uint32_t lane = 0; lane < l->wave_size; ++lane) {
    if (!active(w, lane)) continue;
    *where = lane_address(w, in, l->wave_size, lane, 0);
    if (*where + in->bytes > l->lds_bytes || *where % in->bytes) return 0;
  }
  return 1;
}

/* Each lane gets a register of the lane that its address names: 0 where that lane is switched off. Addresses of lanes that are
 * switched off themselves may be anything. */
static void backward_permute(Wave* w, const Instruction* in, uint32_t size) {
  uint32_t values[64];
  for (uint32_t lane = 0; lane < size; ++lane) {
    const uint32_t from = (w->vgpr[in->source[0] * size + lane] + (uint32_t)in->offset[0]) / 4 % size;
    values[lane] = active(w, from) ? w->vgpr[in->source[1] * size + from] : 0;
  }
  for (uint32_t lane = 0; lane < size; ++lane)
    if (active(w, lane)) w->vgpr[in->destination * size + lane] = values[lane];
}

/* v_permlanex16: a lane gets the value of that lane of the row of 16 beside its own which the selectors name. */
static void permute_rows(Wave* w, const Instruction* in, uint32_t wave_size) {
  uint32_t from[64], selector[2];
  for (int i = 0; i < 2; ++i)
    selector[i] = in->source[1 + i] == 255 ? (uint32_t)in->offset[0] : scalar(w, in->source[1 + i]);
  memcpy(from, &w->vgpr[(in->source[0] - 256) * wave_size], wave_size * sizeof(uint32_t));
  for (uint32_t lane = 0; lane < wave_size; ++lane) {
    const uint32_t other = ((lane & ~15u) ^ 16) + (selector[lane >> 3 & 1] >> (lane & 7) * 4 & 15);
    if (active(w, lane) && active(w, other)) w->vgpr[in->destination * wave_size + lane] = from[other];
  }
}

/* Until the wave waits at a barrier, ends, has run as long as it may, or something is the matter (FAILED, with the answer). */
static enum Stop run_wave(Launch* l, Group* g, uint32_t index, int* answer) {
  Wave* w = g->waves[index];
  const uint64_t buffers[6] = {(uint64_t)w->sgpr, (uint64_t)w->vgpr, 0, (uint64_t)g->lds,
                               (uint64_t)(g->scratch + (uint64_t)l->scratch_bytes * l->wave_size * index), (uint64_t)w->accumulators};
  for (;;) {
    const uint64_t pc = w->sgpr[PC] | (uint64_t)w->sgpr[PC + 1] << 32;
    if (pc == ~0ull) return ENDED;
    if (l->random && l->left == 0) return PREEMPTED;
    l->pc = pc;
    if (pc - l->code >= l->code_bytes || pc % 4) return *answer = BAD_PC, FAILED;
    const Instruction* in = &l->instructions[(pc - l->code) / 4];
    if (in->kind == UNKNOWN) return *answer = NEEDS_DECODING, FAILED;
    if (++g->count[index] > l->max_instructions) return *answer = TOO_LONG, FAILED;
    ++l->executed;
    --l->left;
    if (in->counter & OF_STORES) {
      ++w->stores.issued;
      wait_for(&w->stores, MOST_STORES);
    }
    if (in->counter & OF_SHARED) ++w->shared.issued;
    switch (in->kind) {
      case LDS_CHECKED_CALL:
        wait_for(&w->shared, 0); /* its own stores come before */
        if (!shared_access_fits(l, w, in, &l->fault_address)) return *answer = SHARED_FAULT, FAILED;
        /* fall through */
      case CALL:
      case CALL_BARRIER:
        in->function(buffers[in->operands[0]], buffers[in->operands[1]], buffers[in->operands[2]], buffers[in->operands[3]],
                     buffers[in->operands[4]], buffers[in->operands[5]]);
        if (in->kind == CALL_BARRIER) {
          if (l->one_cache) wait_for(&w->stores, 0);
          return AT_BARRIER;
        }
        continue;
      case WAIT:
        if (in->left[0] != 255) wait_for(&w->stores, in->left[0]);
        if (in->left[1] != 255) wait_for(&w->shared, in->left[1]);
        break;
      case WMMA_RDNA3:
      case WMMA_RDNA4:
      case MFMA_16X16X16:
        matrix_product(w, in, l->wave_size);
        break;
      case WMMA_RDNA4_BYTES:
      case MFMA_16X16X32_BYTES:
        byte_product(w, in, l->wave_size);
        break;
      case MEMORY:
        if (!access_memory(l, g, w, in, &l->fault_address)) return *answer = SHARED_FAULT, FAILED;
        break;
      case BPERMUTE:
        backward_permute(w, in, l->wave_size);
        break;
      case PERMUTE_ROWS:
        permute_rows(w, in, l->wave_size);
        break;
      case READ_PC:
        w->sgpr[in->destination] = (uint32_t)(pc + in->size);
        w->sgpr[in->destination + 1] = (uint32_t)((pc + in->size) >> 32);
        break;
      case JUMP:
        w->sgpr[PC] = w->sgpr[in->destination];
        w->sgpr[PC + 1] = w->sgpr[in->destination + 1];
        continue;
      default:
        break;
    }
    const uint64_t next = pc + in->size;
    w->sgpr[PC] = (uint32_t)next;
    w->sgpr[PC + 1] = (uint32_t)(next >> 32);
  }
}

/* The wave that runs next. Every other work-group and phase runs its waves from the last to the first: a missing barrier shows. */
static void pick_in_order(Launch* l) {
  const Group* g = &groups[l->place = 0];
  const uint32_t count = waves_of(l);
  const int backwards = (g->number + 1 + g->round) & 1;
  for (uint32_t i = 0; i < count; ++i) {
    l->wave = backwards ? count - 1 - i : i;
    if (g->states[l->wave] == READY) return;
  }
}

static void pick_at_random(Launch* l) {
  const uint32_t count = waves_of(l);
  const Group* g;
  do {
    g = &groups[l->place = (uint32_t)draw(l, RESIDENT)];
    l->wave = (uint32_t)draw(l, count);
  } while (!g->running || g->states[l->wave] != READY || (g->slow[l->wave] && draw(l, 64)));
  static const uint64_t longest[4] = {16, 128, 1024, 1 << 16};
  l->left = 1 + draw(l, longest[draw(l, 4)]);
}

/* Starts work-groups where there are places. Whether one runs. */
static int fill_places(Launch* l) {
  const uint32_t all = l->grid[0] * l->grid[1] * l->grid[2];
  int some = 0;
  for (uint32_t i = 0; i < (l->random ? RESIDENT : 1); ++i) {
    if (!groups[i].running && l->next_group < all) start_group(l, &groups[i]);
    some |= groups[i].running != 0;
  }
  return some;
}

/* The picked wave has stopped. Behind a barrier that it was the last to reach all go on. */
static void settle(Launch* l, Group* g, enum Stop stopped) {
  Wave* w = g->waves[l->wave];
  if (l->random) show_some(l, &w->stores), show_some(l, &w->shared);
  if (stopped == PREEMPTED) return;
  g->states[l->wave] = stopped == ENDED ? DONE : WAITS;
  if (stopped == ENDED) {
    leave(w);
    --g->running;
  }
  const uint32_t count = waves_of(l);
  for (uint32_t i = 0; i < count; ++i)
    if (g->states[i] == READY) return;
  for (uint32_t i = 0; i < count; ++i)
    if (g->states[i] == WAITS) g->states[i] = READY;
  ++g->round;
}

static int run_all(Launch* l) {
  int answer = FINISHED;
  while (l->started || fill_places(l)) {
    if (!l->started) (l->random ? pick_at_random : pick_in_order)(l);
    Group* g = &groups[l->place];
    memcpy(l->group, g->id, sizeof l->group);
    l->started = 1;
    const enum Stop stopped = run_wave(l, g, l->wave, &answer);
    if (stopped == FAILED) return answer;
    l->started = 0;
    settle(l, g, stopped);
  }
  return FINISHED;
}

static void forget_all(void) {
  unwaited.first = unwaited.end = 0;
  for (int i = 0; i < RESIDENT; ++i) groups[i].running = 0;
}

/* Goes on until the launch has finished or an instruction has to be decoded. */
int run(Launch* l) {
  const uint32_t mode = _mm_getcsr();
  if (sigsetjmp(escape, 1)) {
    may_escape = 0;
    forget_all();
    _mm_setcsr(mode);
    l->fault_address = (uint64_t)fault_address;
    return MEMORY_FAULT;
  }
  may_escape = 1;
  if (l->flush_denormals) _mm_setcsr(mode | 0x8040);
  const int answer = run_all(l);
  may_escape = 0;
  _mm_setcsr(mode);
  if (answer == FINISHED) wait_for(&unwaited, 0);
  if (answer != NEEDS_DECODING) forget_all();
  for (int i = 0; answer == FINISHED && i < RESIDENT; ++i)
    if (groups[i].lds) madvise(groups[i].lds + (1 << 20), lds_reserved - (1 << 20), MADV_DONTNEED);
  return answer;
}
