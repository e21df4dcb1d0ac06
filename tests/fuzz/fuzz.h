/* fuzz: what the libFuzzer targets share (fuzz.c).
 *
 * A target hands each input to one reader and, when it is accepted, to all that stands behind it. The verdict:
 * the input is accepted, or refused with a message and a code other than `internal`; anything else aborts with
 * the message, which libFuzzer reports with the input. Every case works in a context of its own that holds at
 * most CASE_BYTES.
 */
#ifndef EK_TESTS_FUZZ_H
#define EK_TESTS_FUZZ_H
#include "base/base.h"
#include "driver/pipeline.h"

enum { CASE_BYTES = 1 << 30 };

/* ---- what a target defines; entry.c calls it ------------------------------------------------- */
void fuzz_one(const uint8_t *p, size_t n);
/* changes p in place; gives the new length */
size_t fuzz_change(uint8_t *p, size_t n, size_t cap, unsigned seed);

/* ---- for targets ----------------------------------------------------------------------------- */

/* Runs fn(c, env) in a frame of a fresh context and judges what came out. accepted: what fn returned (false when it
 * unwound). excused: internal errors with this text are no finding (the verifiers of inner levels call every error
 * internal, in texts too); "" is all of them, NULL none. With EK_FUZZ_SAY set, what is refused is said on stderr. */
bool fuzz_case(bool (*fn)(ctx *c, void *env), void *env, const char *excused);
/* The path of a file with these bytes, for readers that want one. Good until the next call. */
const char *fuzz_file(const uint8_t *p, size_t n);

/* ---- behind a reader ------------------------------------------------------------------------- */
/* A library of those built-in definitions that the graph uses, and what they use: the whole takes long to read, and
 * is the same in every case. */
oplib *fuzz_library(ctx *c, const graph *g);
const char *fuzz_operator(uint32_t i); /* a name from the library; any i */
uint32_t fuzz_operators(void);
/* The target to plan for, by what the case's bytes are: one of targets/, whatever this machine is. */
const char *fuzz_target(const uint8_t *p, size_t n);
/* Lowers, optimises and plans p, whose graph is there, with the verifiers on. True when it came to the end. */
bool fuzz_plan(ctx *c, pipeline *p);
/* The same from a module. */
bool fuzz_schedule(ctx *c, emodule *m, const char *target, const char *schedules); /* schedules: NULL: none are given */
/* Compiles and runs the model (an ONNX file or graph text) in a child process: at most RUN_SECONDS of compiling
 * (else: abort) and of running (else: fine, sizes decide how long a model runs), at most RUN_BYTES of working
 * memory. */
enum { COMPILE_SECONDS = 60, RUN_SECONDS = 3, RUN_BYTES = 64 << 20 };
void fuzz_run(const uint8_t *p, size_t n);

/* ---- random numbers and texts ---------------------------------------------------------------- */
typedef struct dice {
  uint64_t s;
} dice;
uint64_t roll(dice *d, uint64_t below); /* 0 when below is 0 */
int64_t odd_number(dice *d);            /* mostly small or at the edge of some width */
/* Changes a text by words, numbers, signs and lines; sometimes by bytes. */
size_t mutate_text(uint8_t *p, size_t n, size_t cap, unsigned seed);
size_t mutate_bytes(uint8_t *p, size_t n, size_t cap, dice *d);
size_t LLVMFuzzerMutate(uint8_t *p, size_t n, size_t cap);
#endif
