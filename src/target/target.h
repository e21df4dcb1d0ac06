/* target: a machine as data. Read from targets/NAME.target (embedded into the program; --target NAME or a path), or
 * detected (`host`: the built-in file that fits this machine best, with the caches that the system reports).
 *
 * A target file is lines `key = value`; # starts a comment; a first line `extends = NAME` begins with all that a
 * built-in one says. What fields there are, with type, unit, default and meaning, stands in fields.def alone. Nothing
 * else in the compiler depends on which machine code is made for.
 */
#ifndef EK_TARGET_H
#define EK_TARGET_H
#include "base/base.h"
#define SECTION(title)
#define TEXT(name, key, value, words, about) const char *name;
#define CPUS(name, key, about) const char *name;
#define FLAG(name, value, about) bool name;
#define COUNT(name, value, least, most, unit, about) uint32_t name;
#define POWER(name, value, most, unit, about) uint32_t name;
#define BYTES(name, value, most, about) uint64_t name;
#define REAL(name, value, least, most, unit, about) double name;
typedef struct target {
  const char *name; /* name of the target */
  const char *like; /* built-in target that `host` was made of; NULL: it is not host, or of none */
  bool host;        /* detected for this machine */
  bool here;        /* this machine runs its code: same architecture, `requires` met */
#include "target/fields.def"
} target;
target target_defaults(void);                       /* a target whose fields have their defaults; without a name */
const target *target_get(ctx *c, const char *name); /* NULL and a diagnostic listing the known ones; "host" detects */
uint32_t target_lanes(const target *t, etype e);    /* lanes of one register; 1 when there are no vectors */
/* bytes of a way of the first-level data cache: addresses that far apart fall on the same set */
int64_t target_l1_way(const target *t);
uint32_t target_names(ctx *c, const char ***names);
void target_print(const target *t, sbuf *b); /* all fields, as a target file that reads back equal */
void target_fields(sbuf *b);                 /* a page about all fields, in Markdown: docs/targets.md */

/* ---- the processor that this runs on (cpu.c). Flags are names of instruction sets, such as avx2, with spaces
 * between ---- */
const char *cpu_flags(arena *a); /* all instruction sets that it has and that are known here */
/* differs between processors for which `host` may give different code */
const char *cpu_identity(arena *a);
/* bits that its floating-point units work on at once: wider instructions take several cycles. 0: not known */
uint32_t cpu_datapath(void);
/* Is this one of the processors that a target file names (fields.def)? *good: the text is of that form. */
bool cpu_is(const char *processors, bool *good);
/* has all of them; else one that it lacks, or does not know */
bool cpu_meets(const char *requires, const char **missing, size_t *n);
#endif
