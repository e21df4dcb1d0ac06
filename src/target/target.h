/* target: a machine as data. Read from targets/NAME.target (embedded into the program; --target NAME or a path), or
 * detected (`host`: detects the CPU and picks the file whose requirements it meets, then fills in
 * cache sizes from the system).
 *
 * A target file is lines `key = value`: triple, cpu, features (LLVM's spelling), vector_bits, vector_registers, native
 * float and integer types, fma, masks (per-lane masked access is cheap), gather, l1, l2, l3 (bytes), l1_ways, line,
 * cores, requires (CPU flags that `host` detection needs), peak_fma_per_cycle, emitter (llvm or c).
 */
#ifndef EK_TARGET_H
#define EK_TARGET_H
#include "base/base.h"
typedef struct target {
  const char *name;          /* name of the target */
  const char *triple;        /* LLVM's triple */
  const char *cpu;           /* LLVM's name of the processor */
  const char *features;      /* LLVM's features */
  const char *emitter;       /* row of the table of emitters; NULL: the usual ones */
  const char *required;      /* flags that its code may use */
  uint32_t vector_bits;      /* bits of a vector register; 0: there are no vectors */
  uint32_t vector_registers; /* number of vector registers */
  uint32_t fma_per_cycle;    /* vector multiply-adds that a core does in a cycle */
  bool fma;                  /* has fused multiply-adds */
  bool masks;                /* per-lane masked access is cheap */
  bool gather;               /* gathers are cheap */
  bool f16c;                 /* converts f16 by instructions */
  bool bf16dot;              /* multiplies pairs of bf16 */
  bool host;                 /* detected for this machine */
  bool here;                 /* this machine runs its code: same architecture, `requires` met */
  uint64_t l1;               /* bytes of the first-level data cache */
  uint64_t l2;               /* bytes of the second-level cache; 0: not known */
  uint64_t l3;               /* bytes of the third-level cache; 0: not known */
  uint64_t line;             /* bytes of a cache line */
  uint32_t l1_ways;          /* ways of the first-level data cache */
} target;
const target *target_get(ctx *c, const char *name); /* NULL and a diagnostic listing the known ones; "host" detects */
uint32_t target_lanes(const target *t, etype e);    /* lanes of one register; 1 when there are no vectors */
uint32_t target_names(ctx *c, const char ***names);

/* ---- the processor that this runs on (cpu.c). Flags are names of instruction sets, such as avx2, with spaces
 * between ---- */
const char *cpu_flags(arena *a); /* all instruction sets that it has and that are known here */
/* differs between processors for which `host` may give different code */
const char *cpu_identity(arena *a);
/* bits that its floating-point units work on at once: wider instructions take several cycles. 0: not known */
uint32_t cpu_datapath(void);
/* has all of them; else one that it lacks, or does not know */
bool cpu_meets(const char *requires, const char **missing, size_t *n);
#endif
