/* target: a machine as data. Read from targets/NAME.target (embedded into the program; --target NAME or a path), or
 * detected (`host`: the built-in file that fits this machine best, with the caches that the system reports).
 *
 * A target file is lines `key = value`; # starts a comment; a first line `extends = NAME` begins with all that a
 * built-in one says. What fields there are, with type, unit, default and meaning, stands in fields.def alone; a line
 * `instruction = NAME` begins an instruction (instruction.h). Nothing else in the compiler depends on which machine
 * code is made for.
 */
#ifndef EK_TARGET_H
#define EK_TARGET_H
#include "base/base.h"
#include "target/instruction.h"
#define SECTION(title)
#define TEXT(name, key, value, words, about) const char *name;
#define CPUS(name, key, about) const char *name;
#define FLAG(name, value, about) bool name;
#define COUNT(name, value, least, most, unit, about) uint32_t name;
#define POWER(name, value, most, unit, about) uint32_t name;
#define BYTES(name, value, most, about) uint64_t name;
#define REAL(name, value, least, most, unit, about) double name;
typedef struct target {
  const char *name;              /* name of the target */
  const char *like;              /* built-in target that `host` was made of; NULL: it is not host, or of none */
  bool host;                     /* detected for this machine */
  bool here;                     /* this machine runs its code: same architecture, `requires` met */
  VEC(instruction) instructions; /* those that are declared; fixed once the target is read */
#include "target/fields.def"
} target;
target target_defaults(void);                       /* a target whose fields have their defaults; without a name */
const target *target_get(ctx *c, const char *name); /* NULL and a diagnostic listing the known ones; "host" detects */
uint32_t target_lanes(const target *t, etype e);    /* lanes of one register; 1 when there are no vectors */
/* bytes of a way of the first-level data cache: addresses that far apart fall on the same set */
int64_t target_l1_way(const target *t);
uint32_t target_names(ctx *c, const char ***names);
/* the instruction of that name, usable or not; NULL: none is declared */
const instruction *target_instruction(const target *t, const char *name);
/* may the instruction be used, and does it add products of its two operands to elements of `sum`? */
bool instruction_multiplies(const instruction *k, etype sum);
/* a usable instruction that adds products of elements of these two types to elements of `sum`; NULL: there is none */
const instruction *target_products(const target *t, etype sum, etype a, etype b);
/* Does the instruction multiply more in a cycle than the target's multiply-adds of f32? */
bool instruction_beats_fma(const target *t, const instruction *k);
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
/* the flags of both texts, each once: those of x, then those of y that x lacks */
const char *cpu_flags_joined(arena *a, const char *x, const char *y);
/* the first of `flags` that is none of `among`; NULL: all are */
const char *cpu_flag_lacking(arena *a, const char *flags, const char *among);
/* has all of them; else one that it lacks, or does not know */
bool cpu_meets(const char *requires, const char **missing, size_t *n);
#endif
